"""One session: its two halves, its states, and since when its client has to do something."""

from contracts.users import SecurityProtocol
from gateway.apis import BEFORE_LOGIN
from gateway.causes import DisconnectCause
from gateway.rules.connected import Identity
from gateway.session.conversation import UNNAMED, Certificate, Conversation
from gateway.session.ordering import UNANSWERED_MAX, Exchange, ReplyQueue
from gateway.session.replies import Replies
from gateway.session.requests import Requests
from gateway.session.states import LOGGING_IN, Event, Sides, Upstream
from gateway.session.surroundings import Entrance, Host, Instance, Traces
from gateway.session.timers import Timeouts, Window
from gateway.stops import ConnectionStop
from traffic.engine_time import CONNECT_US
from traffic.relayed import RelayedFlows


class Session:
    """What a host holds per connection. It feeds the halves themselves: one call per chunk."""

    __slots__ = ("_conversation", "_window", "queue", "replies", "requests", "sides")

    def __init__(
        self,
        instance: Instance,
        host: Host,
        address: str,
        node_id: int | None,
        now_ms: int,
        traces: Traces | None = None,
        security_protocol: SecurityProtocol = SecurityProtocol.PLAIN,
        relay: RelayedFlows | None = None,
        certificate: Certificate | None = None,
        *,
        by_name: bool = False,
    ) -> None:
        entrance = Entrance(security_protocol, by_name)
        self._conversation = Conversation(
            instance, host, address, node_id, traces, entrance, now_ms, relay, certificate
        )
        self.queue: ReplyQueue = self._conversation.queue
        self.sides: Sides = self._conversation.sides
        self.requests = Requests(self._conversation)
        self.replies = Replies(self._conversation)
        self._window = Window(now_ms)

    @property
    def relay(self) -> RelayedFlows | None:
        """The instance's account at the broker, where that is not ours."""
        return self._conversation.relay

    @property
    def is_full(self) -> bool:
        """Whether so many requests are unanswered that no more are taken."""
        return len(self.queue) >= UNANSWERED_MAX

    @property
    def identity(self) -> Identity:
        """Who the client is, as far as he has said by now."""
        conversation = self._conversation
        software = "" if conversation.software is UNNAMED else " ".join(conversation.software)
        return Identity(conversation.address, conversation.client_name, conversation.user or "", software)

    def throttled_ms(self, now_ms: int) -> int:
        """For how long the client was told to wait, up to now."""
        throttled = self._conversation.throttled
        return 0 if throttled is None else throttled.total_ms(now_ms)

    def ask(self, exchange: Exchange) -> None:
        """A request of the host's own goes up, behind all that were taken; its `taker` gets the answer."""
        assert exchange.taker is not None
        self.queue.forwarded(exchange)

    # Moves

    def dials(self, login_replies: int, now_ms: int) -> None:
        """The broker is being reached; so many requests of our own go first."""
        self.sides.upstream_moves(Event.DIALS)
        self.replies.login_replies_due = login_replies
        self._window.since_ms = now_ms
        if self.relay is not None:
            self._conversation.host.spends(CONNECT_US)

    def connects(self) -> None:
        """The broker is reached: what waited for that leaves now."""
        logs_in = self.replies.login_replies_due > 0
        self.sides.upstream_moves(Event.CONNECTS_FOR_LOGIN if logs_in else Event.CONNECTS)

    def client_ends(self, now_ms: int) -> None:
        """No more requests; what is under way is finished, which covers acks=0 data still in our hands."""
        self.sides.client_moves(Event.ENDS)
        self._window.since_ms = now_ms

    def upstream_ends(self, now_ms: int) -> None:
        """No more replies; what was replied still goes to the client.

        Raises: ConnectionStop when it was our login that the broker answered like this.
        """
        if self.sides.upstream in LOGGING_IN:
            raise ConnectionStop(DisconnectCause.UPSTREAM_LOGIN_REFUSED)
        self.sides.upstream_moves(Event.ENDS)
        self._window.since_ms = now_ms

    def tells_upstream(self) -> bool:
        """Whether the broker is to be told, now, that our stream has ended: only its own end says that it has
        read what went up. Closing earlier would reset the connection under acks=0 data nobody answers."""
        if self.sides.upstream in (Upstream.OPEN, Upstream.LOGIN):
            self.sides.upstream_moves(Event.IS_TOLD)
            return True
        return False

    @property
    def is_taken(self) -> bool:
        """Whether the broker need not take any more of what went up."""
        return not self._conversation.sent_unanswered or self.sides.upstream in (
            Upstream.ABSENT,
            Upstream.ENDED,
        )

    def closes(self) -> None:
        """The end. Called once."""
        self.sides.client_moves(Event.CLOSES)
        self.sides.upstream_moves(Event.CLOSES)
        self.requests.discard()

    @property
    def login_is_void(self) -> bool:
        """Whether the client has logged in as a user that is gone, or has another password now."""
        login = self._conversation.login
        if login is None or login.login is None:
            return False
        return not self._conversation.instance.logins.holds(login.login)

    # Time

    def window_begins(self, now_ms: int) -> None:
        """The client is read again: time in which it was not is not its own."""
        self._window.begins(self.requests, now_ms)

    def overdue(
        self, timeouts: Timeouts, now_ms: int, *, host_waits: bool, reads_client: bool
    ) -> DisconnectCause | None:
        """Why the connection must be closed now, or None; to be asked every now and then."""
        self.queue.rest()
        login = self._conversation.login
        if login is not None:
            if login.has_expired(now_ms):
                self._conversation.rows = BEFORE_LOGIN
            elif login.is_late(timeouts.login_ms, now_ms, reads_client=reads_client and not host_waits):
                return DisconnectCause.LOGIN_TIMEOUT
        return self._window.overdue(
            self.requests,
            self.sides,
            timeouts,
            now_ms,
            host_waits=host_waits,
            reads_client=reads_client,
            unanswered=len(self.queue),
        )
