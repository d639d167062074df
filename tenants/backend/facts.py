"""A cluster as its operators see it: controller, brokers, and the partitions that lack something."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from kio.schema.describe_log_dirs.v1.request import DescribeLogDirsRequest
from kio.schema.metadata.v8.response import MetadataResponse

from runtime.clock import monotonic_ms
from tenants.backend.cluster import Cluster
from tenants.rules.errors import Unavailable

_FRESH_MS: Final = 1_500
_SIZES_FRESH_MS: Final = 10_000
_SIZES_TIMEOUT_S: Final = 2.0


class PartitionState(NamedTuple):
    """One partition, by its physical topic name."""

    topic: str
    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]

    @property
    def is_under_replicated(self) -> bool:
        """Some replica is not in sync."""
        return len(self.isr) < len(self.replicas)


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """What the cluster says of one broker that is registered with it."""

    rack: str | None
    leaders: int
    replicas: int
    in_sync: int
    under_replicated: int
    """Partitions that it leads and that lack replicas in sync: Kafka's UnderReplicatedPartitions."""


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """One look at a cluster."""

    controller_id: int | None
    brokers: dict[int, BrokerFacts]
    """Brokers that are registered; others are dead to the cluster."""
    absent: dict[int, BrokerFacts]
    """Brokers that are not registered, and hold replicas."""
    partitions: tuple[PartitionState, ...]


def facts_of(answer: MetadataResponse) -> ClusterFacts:
    """Count what a broker's metadata say. Pure."""
    partitions = tuple(
        PartitionState(
            topic.name,
            int(one.partition_index),
            int(one.leader_id) if one.leader_id >= 0 else None,
            tuple(map(int, one.replica_nodes)),
            tuple(map(int, one.isr_nodes)),
            tuple(map(int, one.offline_replicas)),
        )
        for topic in answer.topics
        for one in topic.partitions
    )
    leaders = Counter(one.leader for one in partitions)
    lacking = Counter(one.leader for one in partitions if one.is_under_replicated)
    replicas = Counter(node_id for one in partitions for node_id in one.replicas)
    in_sync = Counter(node_id for one in partitions for node_id in one.isr)
    racks = {int(broker.node_id): broker.rack for broker in answer.brokers}

    def facts(node_id: int) -> BrokerFacts:
        return BrokerFacts(
            racks.get(node_id), leaders[node_id], replicas[node_id], in_sync[node_id], lacking[node_id]
        )

    return ClusterFacts(
        controller_id=int(answer.controller_id) if answer.controller_id >= 0 else None,
        brokers={node_id: facts(node_id) for node_id in sorted(racks)},
        absent={node_id: facts(node_id) for node_id in sorted(replicas.keys() - racks.keys())},
        partitions=partitions,
    )


async def log_bytes(cluster: Cluster) -> dict[int, int]:
    """Bytes of all logs on each broker that answers."""

    async def ask(node_id: int) -> tuple[int, int] | None:
        try:
            answer = await cluster.ask(
                DescribeLogDirsRequest(topics=None), node_id, timeout_s=_SIZES_TIMEOUT_S
            )
        except Unavailable:
            return None
        parts = (one for result in answer.results for topic in result.topics for one in topic.partitions)
        return node_id, sum(int(one.partition_size) for one in parts)

    answers = await asyncio.gather(*(ask(node_id) for node_id in cluster.addresses))
    return dict(one for one in answers if one is not None)


class FactsSource:
    """The newest facts of each cluster: however many pages are open, a cluster is asked once."""

    def __init__(self, cluster_of: Callable[[str], Awaitable[Cluster]]) -> None:
        self._cluster_of = cluster_of
        self._turns: dict[str, asyncio.Lock] = {}
        self._facts: dict[str, tuple[int, ClusterFacts]] = {}
        self._sizes: dict[str, tuple[int, dict[int, int]]] = {}

    async def facts(self, cluster_id: str) -> ClusterFacts:
        """Facts of a moment ago. Raises: Unavailable."""
        async with self._turn(cluster_id):
            known = self._facts.get(cluster_id)
            if known is None or monotonic_ms() - known[0] >= _FRESH_MS:
                cluster = await self._cluster_of(cluster_id)
                known = monotonic_ms(), facts_of(await cluster.metadata(None))
                self._facts[cluster_id] = known
            return known[1]

    async def log_bytes(self, cluster_id: str) -> dict[int, int]:
        """Sizes of some seconds ago: the larger question."""
        async with self._turn(cluster_id):
            known = self._sizes.get(cluster_id)
            if known is None or monotonic_ms() - known[0] >= _SIZES_FRESH_MS:
                known = monotonic_ms(), await log_bytes(await self._cluster_of(cluster_id))
                self._sizes[cluster_id] = known
            return known[1]

    def _turn(self, cluster_id: str) -> asyncio.Lock:
        return self._turns.setdefault(cluster_id, asyncio.Lock())
