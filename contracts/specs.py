"""What the control plane tells gateways, brokers and masters: instances, clusters, and the feed of both.

Every message carries `version`; a reader refuses a version it does not know. Times are epoch ms.
"""

from enum import StrEnum
from typing import Final

import msgspec

from contracts.acls import Acl
from contracts.client_metrics import ClientReport, LostClient, MetricsSubscription
from contracts.connected import Connected
from contracts.injected_faults import InjectedFault
from contracts.oauth import OauthSpec
from contracts.request_time import PERCENT_US_PER_S, default_request_percent
from contracts.upstream import ClusterTrouble, UpstreamSecurity
from contracts.users import KafkaUser, SecurityProtocol

MESSAGE_VERSION: Final = 1


class InstanceState(StrEnum):
    """What an instance should be. What a gateway has made of it is `ListenerPhase`."""

    ACTIVE = "active"
    SUSPENDED = "suspended"
    DELETED = "deleted"
    """Not served, and kept whole: it may still come back."""
    PURGED = "purged"
    """An order: what is left of it is removed, where `Deletion` allows."""

    @property
    def is_gone(self) -> bool:
        """Whether nobody is served any more, data or not."""
        return self in (InstanceState.DELETED, InstanceState.PURGED)


class FullBehaviour(StrEnum):
    """What a producer sees when its instance is at capacity (quota.md, Safety)."""

    REJECT = "reject"
    STALL = "stall"


class Listener(msgspec.Struct, frozen=True, kw_only=True):
    """One vip:vport of an instance; `node_id` None is the bootstrap listener."""

    node_id: int | None
    bind_host: str
    advertised_host: str
    port: int
    security_protocol: SecurityProtocol = SecurityProtocol.PLAIN


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of an instance beside rates and capacity (design: Gateway)."""

    partitions_max: int = 300
    """Partitions of all its topics; the controller counts. Beyond it POLICY_VIOLATION with the numbers."""
    partitions_default: int = 1
    """Partitions of a topic whose creator gives no number (Kafka's num.partitions): -1 in CreateTopics, or
    made by its first use."""
    connections_max: int = 5_000
    """Over all gateway workers; one more is reset (`connections_max`). Each broker takes as many."""
    connections_per_ip_max: int = 5_000
    """Connections of one client address; one more is reset (`connections_per_ip_max`)."""
    connection_rate_max: int = 2_000
    """New connections per second; one more is reset (`connection_rate_max`)."""
    controller_mutation_rate_max: int = 50
    """Partitions created and deleted per second, and eleven times as many at once (KIP-599): beyond it
    THROTTLING_QUOTA_EXCEEDED, or throttle_time_ms for old clients."""
    message_bytes_max: int = 1_048_588
    """One record batch, Kafka's max.message.bytes: MESSAGE_TOO_LARGE. Topics may have less."""
    request_bytes_max: int = 100 * 1024 * 1024
    """One request, length prefix aside; a larger one ends its connection (`request_too_large`)."""
    retention_ms_max: int = 30 * 24 * 3600 * 1000
    """What `retention.ms` of a topic means at most, whatever it says, -1 included. No error."""
    login_ms_max: int = 0
    """How long a user's login holds; then the client logs in again (KIP-368) or its next request ends the
    connection (`login_expired`). 0: as long as the connection."""


class Deletion(msgspec.Struct, frozen=True, kw_only=True):
    """That somebody deleted an instance, and when. Nothing is ever removed without one (ADR-0015)."""

    deleted_at_ms: int
    purge_after_ms: int
    """The end of its grace; the control plane then orders to purge it. No clock of others decides."""
    lineage: str
    """The feed in which it was deleted. In another one the deletion is a hint, never an order."""
    confirmed: bool = False
    """An operator named this very data and said so: it is removed whatever was known of it."""


class InstanceSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a data-plane process must know of one instance. `revision` orders the feed."""

    revision: int
    instance_id: str
    tenant: str
    name: str
    state: InstanceState
    cluster_id: str
    produce_rate_bytes_per_s: int
    consume_rate_bytes_per_s: int
    capacity_bytes: int
    request_percent: int | None = None
    """Request time bought, in percent of one core over the whole cluster; None: by the byte rates."""
    limits: Limits = Limits()
    full_behaviour: FullBehaviour = FullBehaviour.REJECT
    auto_create_topics: bool = False
    legacy_clients: bool = False
    """Whether Produce 0-2, Fetch 0-3 and ListOffsets 0 are served: clients from before Kafka 0.11."""
    allow_all: bool = False
    whitelist: tuple[str, ...] = ()
    """CIDRs. Empty admits nobody unless `allow_all`."""
    topic_whitelists: dict[str, tuple[str, ...]] = {}
    """Tenant's topic name -> CIDRs; a topic that is absent inherits."""
    listeners: tuple[Listener, ...] = ()
    security_protocols: tuple[SecurityProtocol, ...] = (SecurityProtocol.PLAIN,)
    """How clients may come in."""
    users: tuple[KafkaUser, ...] = ()
    """Who may log in where that is asked for."""
    oauth: OauthSpec | None = None
    """By whose tokens others may."""
    acls: tuple[Acl, ...] = ()
    """What they may do, where that is asked."""
    acls_enforced: bool = False
    """Whether it is asked. Else everybody who is admitted may do everything."""
    injected_faults: tuple[InjectedFault, ...] = ()
    """What the tenant wants its own clients to feel now; those that are over are left out or soon will be."""
    client_metrics: bool = True
    """Whether clients are asked for metrics of their own (KIP-714)."""
    metric_subscriptions: tuple[MetricsSubscription, ...] = ()
    """What the tenant asks of them beside what the console shows, in order of their names."""
    deletion: Deletion | None = None
    """Set in the states `deleted` and `purged`."""
    is_held: bool = False
    """It is about to be served from another cluster: for a moment nobody is, and who comes waits unread."""
    epochs_anew: bool = False
    """It came to a cluster where leader epochs began at 0 again: those that clients know mean nothing."""
    version: int = MESSAGE_VERSION

    @property
    def request_percent_applied(self) -> int:
        """What was bought, or what goes with the bought byte rates."""
        if self.request_percent is not None:
            return self.request_percent
        return default_request_percent(self.produce_rate_bytes_per_s, self.consume_rate_bytes_per_s)

    @property
    def cpu_us_per_s(self) -> int:
        """T of direction `cpu`: us of CPU time per second over the whole cluster."""
        return self.request_percent_applied * PERCENT_US_PER_S


class BrokerAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Where a gateway reaches one broker."""

    node_id: int
    host: str
    port: int


class Engine(StrEnum):
    """What a cluster's brokers are."""

    BUILTIN = "builtin"
    APACHE = "apache"
    """Apache Kafka: it knows no instances, and nobody logs in there for one (ADR-0043)."""


class ClusterSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A backend cluster."""

    revision: int
    cluster_id: str
    brokers: tuple[BrokerAddress, ...] = ()
    engine: Engine = Engine.BUILTIN
    kafka_cluster_id: str | None = None
    """What an Apache Kafka called itself when it was met: another one is a stranger."""
    security: UpstreamSecurity = UpstreamSecurity()
    """How the brokers of an Apache Kafka are reached."""
    is_removed: bool = False
    """Its operators use it no more; no instance is on it."""
    version: int = MESSAGE_VERSION


class ConsumerKind(StrEnum):
    """Who follows the feed."""

    GATEWAY = "gateway"
    BROKER = "broker"
    MASTER = "master"


class ListenerFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A gateway could not serve an instance."""

    instance_id: str
    reason: str


class PurgeRefusal(msgspec.Struct, frozen=True, kw_only=True):
    """A follower knew a deleted instance in another history: it would not obey an order to purge it."""

    instance_id: str
    reason: str


class DamagedLog(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Records of a replica that its broker knows to be lost or damaged: offsets up to `next_offset`,
    exclusive."""

    topic: str
    """Physical."""
    partition: int
    first_offset: int
    next_offset: int
    kind: str
    """How it was noticed (`broker.log.damage`)."""
    replicas: int
    """Replicas of the partition; with one there is nothing to fetch the records from."""


DAMAGED_LOGS_TOLD: Final = 100
"""A broker tells no more ranges than that; its metrics count all."""


class FeedRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST /internal/v1/feed: long poll for revisions after `applied_revision`, which acknowledges them.

    A broker registers its address with `broker`. `applied_revision` 0 asks for everything.
    """

    consumer: str
    """Unique per process: `gateway-0`, `broker-1`, `master`."""
    kind: ConsumerKind
    applied_revision: int
    feed_id: str = ""
    """The feed the applied revision belongs to; another one starts anew."""
    mark: str = ""
    """The mark of the applied revision, as it was told."""
    wait_ms: int = 0
    broker: BrokerAddress | None = None
    cluster_id: str | None = None
    failures: tuple[ListenerFailure, ...] = ()
    purge_refusals: tuple[PurgeRefusal, ...] = ()
    damaged_logs: tuple[DamagedLog, ...] = ()
    """Logs of a broker that are damaged, at most `DAMAGED_LOGS_TOLD`."""
    version: int = MESSAGE_VERSION


class Parent(msgspec.Struct, frozen=True, kw_only=True):
    """Where a lineage began: behind a revision of another one."""

    feed_id: str
    revision: int


class FeedResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Changes since the asked revision, or with `full` everything that is served or waits for its purge.

    What a full answer leaves out is absent, not deleted: it is served no longer, and kept.
    """

    feed_id: str
    """The lineage: one history of revisions, written by one store that never went back."""
    revision: int
    full: bool
    mark: str = ""
    """Drawn with the revision: a store that was restored draws another one under the same number."""
    continues: bool = False
    """Whether the acknowledged position is part of this history. Changes (not `full`) always continue."""
    parent: Parent | None = None
    instances: tuple[InstanceSpec, ...] = ()
    clusters: tuple[ClusterSpec, ...] = ()
    version: int = MESSAGE_VERSION


class RefusedAddress(msgspec.Struct, frozen=True, kw_only=True):
    """A client address that the whitelist turned away."""

    address: str
    at_ms: int


class GatewayInstanceReport(msgspec.Struct, frozen=True, kw_only=True):
    """One gateway worker's view of one instance. `closed` counts grow by cause since `boot_id`."""

    instance_id: str
    connections: int
    closed: dict[str, int] = {}
    refused: tuple[RefusedAddress, ...] = ()
    """New since the last report."""
    clients: tuple[ClientReport, ...] = ()
    """Clients that have told something of themselves since then."""
    lost: tuple[LostClient, ...] = ()
    """Clients whose connections have ended since then, after they had told it."""
    connected: Connected | None = None
    """Who is connected; None: not counted anew since then."""


class GatewayClusterReport(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster that one gateway worker cannot use."""

    cluster_id: str
    trouble: ClusterTrouble
    says: str


class GatewayReport(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """POST /internal/v1/gateway-reports, about every second. What is empty is left out: gateways may be newer
    than the control plane, which refuses fields it does not know."""

    consumer: str
    boot_id: str
    sent_at_ms: int
    instances: tuple[GatewayInstanceReport, ...] = ()
    clusters: tuple[GatewayClusterReport, ...] = ()
    """Only those that cannot be used."""
    version: int = msgspec.field(default_factory=lambda: MESSAGE_VERSION)
    """Told always."""
