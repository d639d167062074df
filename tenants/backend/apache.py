"""Clusters of Apache Kafka: asked like ours, but their brokers know no instances and follow no feed.

Every connection begins with who answers (`runtime.upstream`). A cluster that answers under another name than
before is another one: nothing that it lacks is gone, nothing is written to it, and nothing of it counts as
purged.
"""

import asyncio
from functools import partial
from typing import Final

from kio.schema.metadata.v8.request import MetadataRequestTopic
from kio.schema.metadata.v8.response import MetadataResponseTopic
from kio.schema.types import TopicName

from contracts.names import client_id_at, physical_name
from contracts.specs import ClusterSpec, Engine
from runtime import kafka_listing
from runtime.clock import monotonic_ms
from runtime.kafka_client import KafkaConnection, KafkaUnavailable
from runtime.upstream import Upstream
from tenants.backend.cluster import Cluster, ConnectionPool, metadata_request
from tenants.rules.errors import Unavailable

_SPREAD_MS: Final = 5_000
_LOOK_S: Final = 0.05
LACKS: Final = (
    "request time of coordinators' own threads is reckoned by gateways, brokers do not tell it",
    "transactional ids of purged instances stay until the cluster expires them",
)
"""What instances on our own brokers have, and not yet on an Apache Kafka. Doctor and console tell."""

QUOTAS_NOT_SET: Final = "no client quotas of its own stand behind the rates of instances: {}"
"""Told with the reason why client quotas are not those of the master's leases."""


class ApacheCluster(Cluster):
    """One of them, at the addresses where it was seen."""

    engine = Engine.APACHE
    tells_client_hosts = False

    def __init__(self, pool: ConnectionPool, spec: ClusterSpec, upstream: Upstream | None) -> None:
        super().__init__(pool, spec.brokers, upstream)

    async def topics(
        self, instance_id: str, names: list[str] | None = None
    ) -> dict[str, MetadataResponseTopic]:
        """Those of one instance are looked for by name, so that everybody's need not be read."""
        if names is None:
            names = sorted(await self._names(instance_id, None))
        return await super().topics(instance_id, names)

    async def connect_for(self, instance_id: str, node_id: int, *, timeout_s: float) -> KafkaConnection:
        """Client quotas go by the client id (ADR 44)."""
        payer = client_id_at(instance_id, node_id)
        return await self._open(self.addresses[node_id], client_id=payer, timeout_s=timeout_s)

    async def left_of(self, instance_id: str) -> set[str]:
        """Of every broker's: one that lags behind may not know a topic yet. Raises: Unavailable."""
        await self.metadata(())  # whose brokers these are
        found: set[str] = set()
        for node_id in self.addresses:
            found |= await self._names(instance_id, node_id)
        return found

    async def until_spread(self, instance_id: str, name: str, partitions: int) -> None:
        """Every broker that answers knows, or some seconds have passed: then it will soon."""
        deadline_ms = monotonic_ms() + _SPREAD_MS
        for node_id in self.addresses:
            while not await self._knows(node_id, physical_name(instance_id, name), partitions):
                if monotonic_ms() > deadline_ms:
                    return
                await asyncio.sleep(_LOOK_S)

    async def _knows(self, node_id: int, topic: str, partitions: int) -> bool:
        request = metadata_request((MetadataRequestTopic(name=TopicName(topic)),))
        try:
            answer = await self.ask(request, node_id, timeout_s=_SPREAD_MS / 1000)
        except Unavailable:
            return True  # it is not asked next either
        return sum(len(one.partitions) for one in answer.topics) == partitions

    async def _names(self, instance_id: str, node_id: int | None) -> set[str]:
        try:
            ask, expected = partial(self.ask, node_id=node_id), kafka_listing.PAGE_PARTITIONS
            return set(await kafka_listing.partition_counts(ask, instance_id, expected))
        except KafkaUnavailable as error:
            raise Unavailable(f"the cluster cannot be listed: {error}") from error
