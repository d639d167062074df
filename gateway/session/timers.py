"""Which connections are overdue. The data path only counts bytes and frames; windows are looked at here,
about twice a second."""

from dataclasses import dataclass
from typing import Protocol

from gateway.causes import DisconnectCause
from gateway.session.states import Sides, Upstream


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long a peer may take. They run only while we read: back-pressure is never the client's fault."""

    first_byte_ms: int = 10_000
    """From accept to the head of the first request: its length, API, version and correlation id."""
    handshake_ms: int = 30_000
    """From accept to a whole TLS handshake, whoever kept it waiting: clients have given up by then (Kafka's
    `socket.connection.setup.timeout.max.ms`)."""
    login_ms: int = 30_000
    """From accept to a login that has succeeded, where one is asked for."""
    frame_ms: int = 30_000
    """A window in which a started frame must bring `frame_progress_bytes` or end."""
    frame_progress_bytes: int = 1024
    """At least so many bytes of a frame in a window."""
    frame_time_max_ms: int = 90_000
    """What a frame must bring in a window is its part of so much, if that is more: one that drips is gone by
    then, however large it says it is."""
    connect_ms: int = 10_000
    """To a broker. Brokers are near: longer means gone."""
    drain_ms: int = 10_000
    """After one side has closed, for what is still on its way."""
    idle_ms: int = 600_000
    """Without a request and without one unanswered: Kafka's connections.max.idle.ms."""


class Received(Protocol):
    """What the client has sent so far."""

    bytes_in: int
    frame_bytes: int
    frames: int

    @property
    def in_frame(self) -> bool:
        """Whether the client owes us the rest of a frame."""

    @property
    def is_held_back(self) -> bool:
        """Whether an injected fault keeps the next request waiting."""


class Window:
    """Since when a peer has to do something, and what had come by then."""

    __slots__ = ("bytes", "frames", "in_frame", "since_ms")

    def __init__(self, now_ms: int) -> None:
        self.since_ms, self.bytes, self.frames, self.in_frame = now_ms, 0, 0, False

    def begins(self, received: Received, now_ms: int) -> None:
        """Time until now is not the client's."""
        self.since_ms, self.bytes = now_ms, received.bytes_in

    def _marks(self, received: Received, now_ms: int) -> None:
        self.begins(received, now_ms)
        self.frames, self.in_frame = received.frames, received.in_frame

    def overdue(
        self,
        received: Received,
        sides: Sides,
        timeouts: Timeouts,
        now_ms: int,
        *,
        host_waits: bool,
        reads_client: bool,
        unanswered: int,
    ) -> DisconnectCause | None:
        """Why a connection must be closed now, or None. Begins anew when there was progress.

        `host_waits`: something of it waits for its turn; `reads_client`: its client could send now.
        """
        if host_waits or received.is_held_back:
            self.begins(received, now_ms)  # it is ours to go on
            return None
        waited_ms = now_ms - self.since_ms
        if not sides.flows:
            return DisconnectCause.DRAIN_TIMEOUT if waited_ms >= timeouts.drain_ms else None
        if not received.frames:
            return DisconnectCause.FIRST_BYTE_TIMEOUT if waited_ms >= timeouts.first_byte_ms else None
        if sides.upstream is Upstream.DIALLING:
            return DisconnectCause.UPSTREAM_UNREACHABLE if waited_ms >= timeouts.connect_ms else None
        if not reads_client or unanswered:
            self.begins(received, now_ms)
            return None
        if received.in_frame != self.in_frame or received.frames != self.frames:
            self._marks(received, now_ms)
            return None
        if not self.in_frame:
            return DisconnectCause.IDLE_TIMEOUT if waited_ms >= timeouts.idle_ms else None
        share_bytes = received.frame_bytes * timeouts.frame_ms // timeouts.frame_time_max_ms
        if received.bytes_in - self.bytes >= max(timeouts.frame_progress_bytes, share_bytes):
            self._marks(received, now_ms)
            return None
        return DisconnectCause.FRAME_TIMEOUT if waited_ms >= timeouts.frame_ms else None
