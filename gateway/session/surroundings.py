"""What a session asks of its surroundings, by name: the instance it serves, its cluster, its host."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple, Protocol, TypeAlias

from contracts.specs import ClusterSpec, InstanceSpec
from contracts.users import SecurityProtocol
from gateway.kept_answers import KeptAnswers
from gateway.kept_bytes import KeptBytes
from gateway.rules.acls import Authority
from gateway.rules.client_metrics import ClientMetrics
from gateway.rules.injected_faults import ActiveFaults
from gateway.rules.logins import Logins
from gateway.rules.topic_ids import TopicIds
from gateway.rules.whitelist import Whitelist
from gateway.session.ordering import Exchange, Trace
from traffic.turns import Turn
from traffic.verdict import Full
from wire.api_table import Served
from wire.scope import Scope, View

VersionsKey: TypeAlias = tuple[int | None, int, bool, bool, bool]
"""Node, version of the request; whether the instance has old clients, takes metrics, and has epochs anew."""


class Entrance(NamedTuple):
    """How a client came in: it is told of addresses of this kind."""

    security_protocol: SecurityProtocol
    by_name: bool = False
    """At the port that all instances share, by the name in its hello."""


class Instance(Protocol):
    """The instance whose port the client came to. A new revision of its spec changes it in place."""

    held_back_bytes: int
    """Bytes of requests that injected faults keep waiting, as far as they were read."""

    @property
    def spec(self) -> InstanceSpec:
        """Its current spec."""

    @property
    def scope(self) -> Scope:
        """What its names have in front at brokers."""

    @property
    def views(self) -> Mapping[Entrance, View]:
        """The cluster as the tenant sees it, by how the client came in."""

    @property
    def logins(self) -> Logins:
        """Who may log in."""

    @property
    def turn(self) -> Turn:
        """Its place in the host's order."""

    @property
    def request_bytes_max(self) -> int:
        """The longest frame it may send."""

    @property
    def full(self) -> Full | None:
        """What a Produce gets because the instance is at capacity, where its brokers do not know that."""

    @property
    def passes_produce(self) -> bool:
        """Whether a Produce goes up as it comes, but for names."""

    @property
    def topic_whitelists(self) -> Mapping[str, Whitelist]:
        """Whitelists of topics that have one of their own."""

    @property
    def authority(self) -> Authority | None:
        """What its users may do; None: everything."""

    @property
    def tells_clients_apart(self) -> bool:
        """Whether what a client may do with a topic depends on who it is."""

    @property
    def kept_answers(self) -> KeptAnswers:
        """Answers of Metadata that may be given again."""

    @property
    def kept_listings(self) -> KeptBytes:
        """Requests for all of its topics that may go up again, by what they name."""

    @property
    def topic_ids(self) -> TopicIds:
        """Ids that are known to be its own topics'."""

    @property
    def faults(self) -> ActiveFaults | None:
        """What the tenant has injected."""

    @property
    def client_metrics(self) -> ClientMetrics:
        """What its clients tell of themselves."""

    @property
    def requests(self) -> Counter[int]:
        """Requests begun, by API."""

    def has_room(self, size_bytes: int) -> bool:
        """Whether so much is left of the budget for half-received requests."""

    def collect(self, size_bytes: int) -> None:
        """Take from the budget for half-received requests. Raises: ConnectionStop when it is spent."""

    def release(self, size_bytes: int) -> None:
        """Give back to the budget."""


class Cluster(Protocol):
    """What is known of the brokers without asking them."""

    encoded_versions: dict[VersionsKey, bytes]
    """ApiVersions response bodies: every connection asks for one first."""

    @property
    def spec(self) -> ClusterSpec:
        """Which brokers there are."""

    def known_versions(self, node_id: int | None) -> Served | None:
        """What a broker serves, when it has been asked already; for the bootstrap listener, what all do."""


class Mutations(Protocol):
    """The instance's controller mutation quota (KIP-599), whichever of its clients uses it."""

    def wait_ms(self) -> int:
        """How long until it is out of debt; 0: it is not, and whatever is asked for next may be had."""

    def charge(self, partitions: int) -> None:
        """So many are created, or deleted."""

    def give_back(self, partitions: int) -> None:
        """So many were charged, and nothing has come of them."""

    def refuse(self, partitions: int) -> None:
        """Count so many as refused."""


class Host(Protocol):
    """The process around the session, which has the clock and the account."""

    @property
    def cluster(self) -> Cluster:
        """Where the instance lives."""

    def now_ms(self) -> int:
        """The time, monotonic."""

    def turn_is_over(self) -> bool:
        """Whether the instance has used up its turn: others are served before more is handled."""

    def throttle_ms(self, api_key: int) -> int:
        """throttle_time_ms of a reply that leaves now; it counts as told."""

    def waited(self, api_key: int, waited_ns: int) -> None:
        """A request had to wait for the instance's turn."""

    def spends(self, spent_us: int) -> None:
        """Others have so much work for the instance, which is to pay for it like for ours."""

    @property
    def mutations(self) -> Mutations:
        """The rate at which the instance creates and deletes partitions."""

    def answered_here(self, exchange: Exchange) -> None:
        """The answer to a request is made, without a broker."""


class Traces(Protocol):
    """Decides which requests of one connection are traced."""

    def begin(self, frame: memoryview) -> Trace | None:
        """A request begins: `frame` is what is here of it, its head at least. None: it is not traced."""
