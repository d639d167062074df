"""What operators are shown of clusters. None: the cluster does not answer."""

from datetime import datetime
from typing import Literal

from pydantic import ConfigDict, Field

from contracts.specs import Engine
from contracts.upstream import ClusterTrouble
from tenants.api.models import RequestModel, ViewModel
from tenants.api.shapes import NULL, of, where
from tenants.usecases.clusters import BOOTSTRAP_SHAPE


class DamagedLogView(ViewModel):
    """Records of one replica that are lost or damaged."""

    topic: str
    partition: int
    instance_id: str | None
    first_offset: int
    next_offset: int = Field(description="exclusive")
    kind: str = Field(
        description="short, missing: a closed file; content: bytes are not what was written; "
        "end: committed records were gone when the broker started"
    )
    replicas: int = Field(description="of the partition; with more than one the records are fetched anew")


class BrokerView(ViewModel):
    """A broker that registered with the console."""

    cluster_id: str
    node_id: int
    host: str
    port: int
    live: bool = Field(description="whether it follows the console's feed now")
    seen_at: datetime | None
    alive: bool | None = Field(description="whether it is registered with its cluster now")
    report_age_ms: int | None = Field(
        description="since its last report to the quota master; null: there is none, or no master answers",
        examples=[420],
    )
    silent: bool | None = Field(
        description="whether it has not reported for three periods, its connections open or not: it hangs",
        examples=[False],
    )
    produce_bytes_per_s: int | None = Field(
        description="over all instances, as it told last", examples=[1_048_576]
    )
    consume_bytes_per_s: int | None = Field(
        description="over all instances, as it told last", examples=[1_048_576]
    )
    rack: str | None
    is_controller: bool | None
    leaders: int | None = Field(description="partitions that it leads")
    replicas: int | None = Field(description="partitions of which it holds a replica")
    in_sync: int | None = Field(description="of its replicas, those in the ISR")
    under_replicated: int | None = Field(description="partitions it leads that lack replicas in sync")
    log_bytes: int | None = Field(description="size of its logs; a few seconds old")
    damaged_logs: list[DamagedLogView] = Field(
        description="the first of those ranges of records that it knows to be lost or damaged"
    )


class SecurityView(ViewModel):
    """What a cluster asks for. Certificates and passwords are files of each machine that connects."""

    tls: bool = Field(description="whether TLS is spoken")
    has_ca: bool = Field(description="whether ca.pem says whose certificates are trusted, or the system")
    has_certificate: bool = Field(description="whether brokers are shown client.pem")
    mechanism: str | None = Field(
        description="the SASL mechanism; null: no login", examples=["SCRAM-SHA-512"]
    )
    user: str = Field(description="who logs in")


class SecurityOrder(RequestModel):
    """What a cluster asks for: nothing, unless said."""

    model_config = ConfigDict(
        json_schema_extra={
            "if": of("mechanism", mechanism={"not": NULL}),
            "then": of("user", user={"minLength": 1}),
            "else": of(user={"maxLength": 0}),
            "dependentSchemas": {
                name: where(name, True, of("tls", tls={"const": True}))
                for name in ("has_ca", "has_certificate")
            },
        }
    )

    tls: bool = Field(default=False, description="whether TLS is spoken")
    has_ca: bool = Field(default=False, description="whether ca.pem says whose certificates are trusted")
    has_certificate: bool = Field(default=False, description="whether brokers are shown client.pem")
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(
        default=None, description="the SASL mechanism; null: no login"
    )
    user: str = Field(default="", max_length=256, description="who logs in")


class ClusterOrder(RequestModel):
    """PUT /v1/clusters/{name}."""

    bootstrap: str = Field(
        max_length=2000,
        description="some of its brokers",
        examples=["kafka-1:9093"],
        json_schema_extra={"pattern": BOOTSTRAP_SHAPE},
    )
    security: SecurityOrder = SecurityOrder()


class ClusterChange(RequestModel):
    """PATCH /v1/clusters/{name}."""

    drained: bool = Field(description="whether it takes no new instances")


class ClusterView(ViewModel):
    """A cluster in one line."""

    cluster_id: str
    engine: Engine = Field(description="ours, or an Apache Kafka")
    trouble: str | None = Field(description="why it cannot be used now, or only in part; null: nothing")
    cause: ClusterTrouble | None = Field(description="why it cannot be used at all; null: it can")
    answered_at: datetime | None = Field(
        description="when an Apache Kafka answered last; null: it has not since the control plane started"
    )
    lacks: list[str] = Field(description="what instances have elsewhere and not on this engine")
    drained: bool = Field(description="whether it takes no new instances")
    security: SecurityView | None = Field(description="how it is entered; null: its brokers are ours")
    controller_id: int | None
    brokers: int | None = Field(description="brokers that are registered with it")
    partitions: int | None
    under_replicated: int | None
    offline: int | None = Field(description="partitions without a leader")


class BrokerList(ViewModel):
    """GET /v1/brokers."""

    items: list[BrokerView]
    clusters: list[ClusterView]


class ClusterPartitionView(ViewModel):
    """A partition of a cluster, whoever it belongs to."""

    cluster_id: str
    topic: str = Field(
        description="the tenant's name for it, or the cluster's own topic", examples=["orders"]
    )
    partition: int
    instance_id: str | None = Field(description="None: the cluster's own")
    tenant: str | None
    instance: str | None
    leader: int | None
    replicas: list[int]
    isr: list[int]
    offline_replicas: list[int]
    under_replicated: bool


class ClusterPartitionList(ViewModel):
    """GET /v1/cluster/partitions: the first of those that match, and how many do."""

    items: list[ClusterPartitionView]
    total: int
