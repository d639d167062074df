"""One connection without socket, loop, clock or memory: frames, the order of answers, who speaks, patience.

The host reads where it likes, asks `next_frame` where whole frames end, and brings again what is not dealt
with. Answers are given to `answered` as they become ready, and leave in the order of requests (ADR 42).
"""

import struct
from collections.abc import Callable
from typing import Final

from broker.config import BrokerConfig
from broker.net.rules.pending_replies import PendingReplies
from broker.requests.apis import CHARGED
from broker.requests.call import Call, Ready
from broker.requests.causes import CloseCause
from broker.requests.login import Login
from broker.requests.throttling import Mute

FRAME_BYTES_MIN: Final = 8
"""API key, version, correlation id."""
INCOMPLETE: Final = 0
"""No whole frame is here, or none that may be handled."""
FIRST_OF_KIND: Final = -1
"""Before more of the frame is read: ask `admit`."""
_SIZE: Final = struct.Struct(">i")
_API_KEY: Final = struct.Struct(">h")
_KEYED_BYTES: Final = 6
"""Length prefix and API key."""
_PENDING_MAX: Final = 16
"""So many requests of a client may wait for their commit; then its next one is not read."""


class FrameFault(Exception):  # noqa: N818 - a fact about the peer
    """What comes is not read any further: the connection has to be closed."""

    def __init__(self, cause: CloseCause) -> None:
        super().__init__(cause)
        self.cause = cause


class Session:
    """One connection. `call` is the request in flight: nothing is taken meanwhile."""

    __slots__ = (
        "_config",
        "_frame_bytes_always",
        "_frame_ms",
        "awaits_turn",
        "call",
        "idle_ms",
        "is_congested",
        "is_over",
        "login",
        "mute",
        "pending",
        "stalled_ms",
    )

    def __init__(self, config: BrokerConfig, client_host: str) -> None:
        self._config = config
        self.login = Login(client_host, is_open=config.secret is None)
        self._frame_bytes_always = min(config.request_bytes_max, config.request_bytes_max_before_auth)
        """A frame from `FRAME_BYTES_MIN` up to here is read whoever sends it."""
        self.call: Call | None = None
        self.pending = PendingReplies()
        self.mute: Mute | None = None
        self.is_congested = False
        """The peer does not take what it was sent."""
        self.awaits_turn = False
        """It is not the turn of the instance that pays."""
        self.is_over = False
        self.idle_ms = 0
        self._frame_ms = 0
        self.stalled_ms = 0
        """Since when nothing has come of the frame that has begun, although it would have been read."""

    # -- frames --------------------------------------------------------------------------------------------

    @property
    def takes(self) -> bool:
        """Whether the next frame may be handled, and so read."""
        return (
            self.call is None
            and not self.is_congested
            and self.mute is None
            and not self.awaits_turn
            and len(self.pending.calls) < _PENDING_MAX
            and not self.is_over
        )

    @property
    def is_idle(self) -> bool:
        """Whether every request has its reply, and the peer has taken it."""
        return self.call is None and not self.pending and not self.is_congested

    def next_frame(self, view: memoryview, at: int, end: int) -> int:
        """Where the frame ends whose length prefix is at `at`, once it is here whole; else INCOMPLETE or
        FIRST_OF_KIND. Raises: FrameFault, by the length prefix alone."""
        if end - at < 4:
            return INCOMPLETE
        (size,) = _SIZE.unpack_from(view, at)
        login = self.login
        if not FRAME_BYTES_MIN <= size <= self._frame_bytes_always:
            self._check_size(size)
        payer = login.payer
        if payer is not None and end - at >= _KEYED_BYTES:
            (api_key,) = _API_KEY.unpack_from(view, at + 4)
            if api_key != payer.paid_key and api_key in CHARGED:
                return FIRST_OF_KIND
        behind: int = at + 4 + size
        return behind if behind <= end else INCOMPLETE

    def _check_size(self, size: int) -> None:
        config = self._config
        if size < 0:
            raise FrameFault(CloseCause.FRAME_SIZE_NEGATIVE)
        if size < FRAME_BYTES_MIN and not self.login.awaits_token:
            raise FrameFault(CloseCause.FRAME_TOO_SMALL)
        limit = config.request_bytes_max if self.login.is_open else config.request_bytes_max_before_auth
        if size > limit:
            raise FrameFault(CloseCause.FRAME_TOO_LARGE)

    def admit(self, view: memoryview, at: int, now_ms: int) -> None:
        """The head of another kind of frame has come: the first of each waits for what is owed before it."""
        payer = self.login.payer
        assert payer is not None and self.mute is None
        (size,), (api_key,) = _SIZE.unpack_from(view, at), _API_KEY.unpack_from(view, at + 4)
        self.mute = payer.admit(CHARGED[api_key], 4 + size, now_ms)
        if self.mute is None:
            payer.paid_key = api_key

    # -- answers -------------------------------------------------------------------------------------------

    def release(self, call: Call) -> None:
        """Only the reply is outstanding: the next request may be handled, its reply leaves after this one."""
        assert self.call is call, "a call is released once, while it is in flight"
        self.pending.add(call)
        self.call = None

    def answered(self, call: Call, reply: Ready) -> bool:
        """Whether the reply leaves now. Else it waits, and those whose turn has come are `pending.take`."""
        if self.call is call:
            self.call = None
        if not self.pending.calls:
            return True
        self.pending.put(call, reply)
        return False

    def muted_ms(self, now_ms: int) -> int:
        """How long nothing is to be read yet; 0: the mute is over."""
        if self.mute is None:
            return 0
        remaining_ms = self.mute(now_ms)
        if remaining_ms <= 0:
            self.mute = None
        return max(0, remaining_ms)

    # -- time and the end ----------------------------------------------------------------------------------

    def frame_begins(self) -> None:
        """What is here begins with a frame that was not here before."""
        self._frame_ms = self.stalled_ms = 0

    def tick(self, elapsed_ms: int, received: tuple[int, int] | None, *, reads: bool) -> CloseCause | None:
        """Time has passed: why the connection must end now, if it must. `received`: how much of a frame is
        here, and how long it is. A connection that is not read is never slow."""
        config = self._config
        self.idle_ms += elapsed_ms
        if self.is_congested:
            return CloseCause.REPLY_NOT_READ if self.idle_ms > config.connections_max_idle_ms else None
        if not (self.takes and reads):
            self.idle_ms = 0
            return None
        if received is not None:
            self._frame_ms += elapsed_ms
            self.stalled_ms += elapsed_ms
            fault = slow_frame(config, self._frame_ms, self.stalled_ms, *received)
            if fault is not None:
                return fault
        if not self.login.is_open and self.idle_ms > config.auth_timeout_ms:
            return CloseCause.AUTHENTICATION_TIMEOUT
        return CloseCause.IDLE if self.idle_ms > config.connections_max_idle_ms else None

    def ends(self, cause: CloseCause, rest: memoryview, unread_bytes: Callable[[], int], now_ms: int) -> None:
        """The end. `rest` is of a frame that will never be whole: what came of it is charged all the same,
        with what the host has not read yet."""
        self.is_over = True
        for call in (self.call, *self.pending.calls):
            if call is not None and call.trace is not None:
                call.trace.cut(cause)
        payer = self.login.payer
        if payer is None:
            return
        charged = CHARGED.get(_API_KEY.unpack_from(rest, 4)[0]) if len(rest) >= _KEYED_BYTES else None
        if charged is None:
            payer.withdraw(now_ms)
        else:
            payer.cut(charged, len(rest) + unread_bytes(), str(cause), now_ms)


def slow_frame(
    config: BrokerConfig, frame_ms: int, stalled_ms: int, received_bytes: int, frame_bytes: int
) -> CloseCause | None:
    """Whether a frame that does not get complete ends its connection: `frame_ms` since its first byte and
    `stalled_ms` since its last one, while we were reading.

    What has come earns the time for what is missing, at a rate that grows with the frame: so the largest one
    that drips is gone after `frame_progress_timeout_ms` and `frame_time_max_ms`.
    """
    if stalled_ms > config.frame_progress_timeout_ms:
        return CloseCause.FRAME_STALLED
    rate_min = max(config.frame_rate_min_bytes_per_s, frame_bytes * 1000 // config.frame_time_max_ms)
    if frame_ms > config.frame_progress_timeout_ms + received_bytes * 1000 // rate_min:
        return CloseCause.FRAME_TOO_SLOW
    return None
