"""One request on its way through the broker. Every handler gets a `Call` and answers it, now or later."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from broker.requests.causes import CloseCause
from broker.requests.login import Login, PeerBroker
from broker.requests.throttling import Mute, Reservation
from contracts.cluster import ClusterResponse
from contracts.cluster import encode as encode_message
from contracts.names import owner_of
from contracts.tracing import TraceContext
from traffic.turns import Turn
from wire.build import throttled
from wire.codec import RequestHeader, framed_response


class ReplyFile(Protocol):
    """A slice of a log segment that is part of a reply; `fd` stays valid while the slice is referenced."""

    @property
    def fd(self) -> int:
        """The open file."""

    @property
    def position(self) -> int:
        """Where in the file the slice begins."""

    @property
    def size_bytes(self) -> int:
        """How long it is."""


ReplyPart = bytes | bytearray | memoryview | ReplyFile


class Ready(NamedTuple):
    """A reply; `parts` None: the request has none (acks=0)."""

    parts: list[ReplyPart] | None
    mute: Mute | None


class Trace(Protocol):
    """The spans of a request that is traced (`broker.requests.tracing`)."""

    def handled(self) -> None:
        """The handler returned without an answer: followers, data or a group are waited for."""

    def answered(self) -> None:
        """The answer has left."""

    def cut(self, cause: CloseCause) -> None:
        """The connection ended before."""


class Channel(Protocol):
    """What a call needs of the connection it came by."""

    connection_id: int
    is_closed: bool
    login: Login
    turn: Turn | None
    """Its place in the order of the loop."""
    traced: TraceContext | None
    """Whose child the next request is, if a gateway has said so."""

    def request_throttle_ms(self) -> int:
        """How long the instance waits for what it owes in request time, as an answer says it."""

    def told_throttle(self, api_key: int, throttle_time_ms: int) -> None:
        """An answer tells the client to slow down."""

    def authenticated(self, authorization_id: str) -> None:
        """The peer proved the secret and may have told who it is or whom it speaks for."""

    def hold_frame(self, call: "Call") -> memoryview:
        """Keep the bytes of the call's request until its reply."""

    def release(self, call: "Call") -> None:
        """Only the call's reply is outstanding: go on with the next request."""

    def reply(self, call: "Call", reply: Ready) -> None:
        """Send the reply in its turn; then leave the connection unread while its mute says so."""

    def close(self, cause: CloseCause) -> None:
        """Close the connection."""


class Call:
    """A request. One is handled at a time per connection, so it may be answered from any later callback.

    `request` is a kio entity, or for rows of the table with `raw=True` the frame itself (a memoryview that
    is valid only until `handle` returns; the body begins at `header.body_at`).
    """

    __slots__ = (
        "began_ns",
        "channel",
        "debt",
        "done",
        "handled_ns",
        "header",
        "received_at_ms",
        "request",
        "reservation",
        "trace",
    )

    def __init__(self, header: RequestHeader, request: Any, channel: Channel, received_at_ms: int) -> None:
        self.header = header
        self.request = request
        self.channel = channel
        self.received_at_ms = received_at_ms
        """Monotonic."""
        self.began_ns = 0
        """When its frame was here whole."""
        self.handled_ns = 0
        """When its handler returned; 0 before."""
        self.done = False
        self.reservation: Reservation | None = None
        """The frame is charged already: it is the first of its kind on its connection."""
        self.debt: Callable[[], tuple[int, Mute | None]] | None = None
        """Asked when the request is answered: throttle_time_ms, and what then keeps the channel unread."""
        self.trace: Trace | None = None
        """Its spans, where it is one of the sampled."""

    @property
    def api_version(self) -> int:
        """The version the client speaks."""
        return self.header.api_version

    @property
    def client_id(self) -> str | None:
        """From the request's header."""
        return self.header.client_id

    @property
    def client_host(self) -> str:
        """The client's IP address; behind a gateway that of the gateway's client."""
        return self.channel.login.client_host

    @property
    def connection_id(self) -> int:
        """Unique for the life of the process."""
        return self.channel.connection_id

    @property
    def may_operate(self) -> bool:
        """Whether an operator or a broker asks, not a client through a gateway."""
        login = self.channel.login
        return login.is_open and not login.speaks_for_client

    @property
    def instance_id(self) -> str | None:
        """The instance for whose client a gateway asks: listings show nothing of others'. None: who may see
        all, and filters."""
        payer = self.channel.login.payer
        return None if payer is None else payer.instance_id

    def shows(self, physical: str) -> bool:
        """Whether a name may stand in a listing that answers this call."""
        instance_id = self.instance_id
        return instance_id is None or owner_of(physical) == instance_id

    @property
    def peer_broker(self) -> PeerBroker | None:
        """The broker of this cluster that asks, if one does."""
        return self.channel.login.peer_broker

    @property
    def is_gone(self) -> bool:
        """Whether the connection is closed: an answer would reach nobody."""
        return self.channel.is_closed

    def reply(self, entity: Any, *, mute: Mute | None = None) -> None:
        """Answer with a kio response, then leave the connection unread while `mute` says so."""
        throttle_time_ms = self.channel.request_throttle_ms()
        if self.debt is not None:
            owed_ms, mute = self.debt()
            throttle_time_ms = max(throttle_time_ms, owed_ms)
        if throttle_time_ms:
            self.channel.told_throttle(self.header.api_key, throttle_time_ms)
            entity = throttled(entity, throttle_time_ms)
        self.reply_parts([framed_response(entity, self.header.correlation_id)], mute=mute)

    def reply_message(self, message: ClusterResponse) -> None:
        """Answer with one of our own messages between brokers."""
        self.reply_body(encode_message(message))

    def reply_body(self, body: bytes, *, mute: Mute | None = None) -> None:
        """Answer with a body that is not Kafka's behind a response header v0."""
        head = (4 + len(body)).to_bytes(4, "big") + self.header.correlation_id.to_bytes(4, "big", signed=True)
        self.reply_parts([head + body], mute=mute)

    def reply_parts(self, parts: list[ReplyPart], *, mute: Mute | None = None) -> None:
        """Answer with a whole frame, length prefix and header included, in parts."""
        assert not self.done, "a call is answered once"
        self.done = True
        self.channel.reply(self, Ready(parts, mute))

    def reply_nothing(self, *, mute: Mute | None = None) -> None:
        """The request has no answer (Produce with acks=0)."""
        assert not self.done, "a call is answered once"
        self.done = True
        self.channel.reply(self, Ready(None, mute))

    def hold_frame(self) -> memoryview:
        """The request's frame, from now on valid until the call is answered or released; it stays accounted
        for as receive memory. Only for rows with `raw=True`, from within `handle`."""
        return self.channel.hold_frame(self)

    def release(self) -> None:
        """What was asked is done, only the reply has to wait: the connection's next request is handled
        meanwhile, and replies keep the order of requests. The request's frame is gone then."""
        self.channel.release(self)

    def close(self, cause: CloseCause) -> None:
        """Close the connection instead of answering."""
        self.done = True
        self.channel.close(cause)
