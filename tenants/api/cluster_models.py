"""What operators are shown of clusters. None: the cluster does not answer."""

from datetime import datetime

from pydantic import Field

from contracts.specs import Engine
from tenants.api.models import ViewModel


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


class ClusterView(ViewModel):
    """A cluster in one line."""

    cluster_id: str
    engine: Engine = Field(description="ours, or an Apache Kafka")
    trouble: str | None = Field(description="why it cannot be used now, or only in part; null: nothing")
    lacks: list[str] = Field(description="what instances have elsewhere and not on this engine")
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
