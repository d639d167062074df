"""Replies leave in request order: the queue of one connection's unanswered requests.

Invariant: the exchange at the head waits for the backend. Local answers behind it wait their turn; one at
the head leaves at once.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

from wire.framing import Buffer

UNANSWERED_MAX: Final = 512
"""Requests of one connection that may wait for replies before we stop reading more."""


class Trace(Protocol):
    """The spans of one request, where it is one of the sampled."""

    def decoded(self, request: object) -> None:
        """The request was decoded: what it names."""

    def forwarded(self, up: list[Buffer], *, takes_traces: bool) -> None:
        """The request follows in `up`: where the broker takes it, whose child it is goes up before."""

    def replied(self) -> None:
        """The broker's reply begins to come, or is here."""

    def answered(self) -> None:
        """The answer was passed on, or there is none."""


class Exchange:
    """One request and what is known of it until its reply has left."""

    __slots__ = (
        "api_key",
        "api_version",
        "began_ns",
        "client_id",
        "correlation_id",
        "engine_us",
        "frame_bytes",
        "handler",
        "head_bytes",
        "notes",
        "reply",
        "taker",
        "trace",
    )

    def __init__(
        self,
        api_key: int,
        api_version: int,
        correlation_id: int,
        began_ns: int = 0,
        trace: Trace | None = None,
    ) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.began_ns = began_ns
        """When the last of the request was here, monotonic."""
        self.client_id: str | None = None
        self.handler: Any = None
        """The API's module when its response wants more than the derived rewrite."""
        self.notes: Any = None
        """What the handler's request half leaves for its response half."""
        self.frame_bytes = 0
        """Size of a decoded request on the client's socket."""
        self.engine_us = 0
        """What it takes of the room at a broker that is not ours (`traffic/engine_room.py`)."""
        self.head_bytes = 0
        """Size of its header as it goes up."""
        self.taker: Callable[[bytes], None] | None = None
        """Takes the broker's answer; nothing of it goes to the client. It was a charge of our own, or an
        injected fault loses the answer."""
        self.reply: bytes | None = None
        """A local answer's whole frame, once it is known."""
        self.trace = trace
        """Its spans, where it is one of the sampled."""


class ReplyQueue:
    """The unanswered requests of one connection, oldest first."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: deque[Exchange] | None = None
        """To be asked, not changed."""

    def __len__(self) -> int:
        return len(self.waiting) if self.waiting is not None else 0

    def forwarded(self, exchange: Exchange) -> None:
        """The backend will answer this one."""
        assert exchange.reply is None
        if self.waiting is None:
            self.waiting = deque()
        self.waiting.append(exchange)

    def answered(self, exchange: Exchange, reply: bytes) -> bytes | None:
        """We answer this one: the frame when it may leave now, None when older requests are unanswered."""
        if not self.waiting:
            return reply
        exchange.reply = reply
        self.waiting.append(exchange)
        return None

    def rest(self) -> None:
        """Nothing may come for a long time: an empty queue takes no memory then."""
        if not self.waiting:
            self.waiting = None

    def head(self) -> Exchange | None:
        """The exchange that the backend's next response belongs to."""
        return self.waiting[0] if self.waiting else None

    def finish_head(self) -> list[Buffer]:
        """The head's response has been passed on: the local answers that may leave behind it."""
        waiting = self.waiting
        assert waiting and waiting[0].reply is None
        waiting.popleft()
        ready: list[Buffer] = []
        while waiting:
            first = waiting[0]
            if first.reply is None:
                break
            ready.append(first.reply)
            waiting.popleft()
        return ready
