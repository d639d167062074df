"""What both halves of a session know: who talks to whom, what is unanswered, and where the sides are."""

from typing import Final, Protocol
from uuid import UUID

from contracts.acls import ANONYMOUS, USER_PREFIX
from contracts.names import client_id_at
from gateway.apis import BEFORE_LOGIN, SERVED, Row
from gateway.session.fault_marks import FaultMarks
from gateway.session.ordering import ReplyQueue
from gateway.session.states import Sides
from gateway.session.surroundings import Entrance, Host, Instance, Traces
from gateway.session.tenant_login import TenantLogin
from gateway.session.throttled_time import ThrottledTime
from traffic.relayed import Place, RelayedFlows
from wire.edits import client_id_field

UNNAMED: Final = ("unknown", "unknown")
"""Kafka's words for clients that do not say what they are."""


class Certificate(Protocol):
    """What a client shows of itself when it connects."""

    @property
    def user(self) -> str | None:
        """The name in it; None: it has shown none."""


class Conversation:
    """Shared by the halves of one session; each of them alone moves what its bytes mean."""

    __slots__ = (
        "address",
        "certificate",
        "client_id",
        "client_instance_id",
        "client_name",
        "entrance",
        "fault_marks",
        "fetch_sessions",
        "host",
        "instance",
        "login",
        "muted_until_ms",
        "node_id",
        "now_ns",
        "place",
        "queue",
        "relay",
        "rows",
        "sent_unanswered",
        "sides",
        "software",
        "takes_traces",
        "throttled",
        "traces",
    )

    def __init__(
        self,
        instance: Instance,
        host: Host,
        address: str,
        node_id: int | None,
        traces: Traces | None,
        entrance: Entrance,
        now_ms: int,
        relay: RelayedFlows | None,
        certificate: Certificate | None = None,
    ) -> None:
        self.instance = instance
        self.host = host
        self.address = address
        """The client's."""
        self.node_id = node_id
        """Which broker the requests go to; None: whichever."""
        self.traces = traces
        self.entrance = entrance
        asks = entrance.security_protocol.asks_for_login
        self.login = TenantLogin(instance.logins, address, now_ms) if asks else None
        """None: nobody is asked for a password."""
        self.certificate = certificate
        """None: nobody is asked for a certificate."""
        self.rows: dict[tuple[int, int], Row] = SERVED if self.login is None else BEFORE_LOGIN
        """What is served now, by API and version."""
        self.relay = relay
        """The account of what goes to a broker that has none of ours; None: the broker has one."""
        self.place = None if relay is None else Place(relay)
        """The connection's in that account."""
        self.client_id: bytes | None = None
        """The field that requests go up with in place of the client's own."""
        if relay is not None:
            self.client_id = client_id_field(client_id_at(relay.instance_id, relay.node_id))
        self.queue = ReplyQueue()
        self.sides = Sides()
        self.now_ns = 0
        """When the chunk was here that is handled now, monotonic."""
        self.fetch_sessions: set[int] | None = None
        """Fetch session ids the backend gave on this connection: no others go up."""
        self.takes_traces = False
        """Whether the broker has said that it takes `contracts.tracing`."""
        self.sent_unanswered = False
        """Whether acks=0 data went up: nothing ever says that it has arrived."""
        self.fault_marks: FaultMarks | None = None
        self.software = UNNAMED
        """(name, version) of the client, as it calls itself in ApiVersions, cut."""
        self.client_name = ""
        """Its client id, as it said it first in a request that was decoded, cut."""
        self.client_instance_id: UUID | None = None
        """Whose metrics came by this connection (KIP-714)."""
        self.muted_until_ms = 0
        """Until when no request is taken, because the instance creates and deletes too much; 0: as ever."""
        self.throttled: ThrottledTime | None = None
        """None, as most often: no answer told it to wait."""

    @property
    def user(self) -> str | None:
        """As whom the client came in; None: as nobody, or not yet."""
        if self.login is not None and self.login.login is not None:
            return self.login.login.user
        return None if self.certificate is None else self.certificate.user

    @property
    def principal(self) -> str:
        """Who the client is, as ACLs call him."""
        user = self.user
        return ANONYMOUS if user is None else USER_PREFIX + user

    @property
    def now_ms(self) -> int:
        """The time in ms."""
        return self.now_ns // 1_000_000

    def tells_to_wait(self, throttle_ms: int) -> None:
        """An answer leaves with such a throttle_time_ms."""
        if throttle_ms > 0:
            if self.throttled is None:
                self.throttled = ThrottledTime()
            self.throttled.told(throttle_ms, self.host.now_ms())

    def marks(self) -> FaultMarks:
        """What injected faults have left behind here, from now on at least."""
        if self.fault_marks is None:
            self.fault_marks = FaultMarks()
        return self.fault_marks
