"""The topics of the system instance: made when the brokers of its cluster are there, and again if removed."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from contracts import topic_policy
from contracts.names import SYSTEM_INSTANCE_ID
from contracts.usage_records import USAGE_TOPIC
from runtime.logs import get_logger
from tenants.backend import topics
from tenants.backend.cluster import Cluster
from tenants.rules.errors import Conflict, Refused
from tenants.rules.model import Instance
from tenants.store import instances
from tenants.store.engine import Store
from tenants.store.shared_session import Office

_log = get_logger(__name__)
_RETRY_S: Final = 1.0
_EVERY_S: Final = 30.0
_SILENT_TRIES: Final = 30
"""Brokers of a stack that starts need a while."""
USAGE_PARTITIONS: Final = 4
USAGE_RETENTION_MS: Final = 7 * 24 * 3600 * 1000


class SystemTopics:
    """The background task."""

    def __init__(self, store: Store, cluster_of: Callable[[str], Awaitable[Cluster]], office: Office) -> None:
        self._store = store
        self._office = office
        self._cluster_of = cluster_of

    async def run(self) -> None:
        """Keep the topics there; for ever."""
        tries = 0
        while True:
            if self._office.since_ms is None:
                await asyncio.sleep(_RETRY_S)
                continue
            try:
                await self.ensure()
            except Refused as error:
                tries += 1
                if tries == _SILENT_TRIES:
                    _log.warning("topic of usage records cannot be made yet", reason=error.detail)
                await asyncio.sleep(_RETRY_S)
            else:
                tries = 0
                await asyncio.sleep(_EVERY_S)

    async def ensure(self) -> None:
        """Make what is missing. Raises: Refused while the cluster cannot."""
        instance = await asyncio.to_thread(self._system)
        cluster = await self._cluster_of(instance.cluster_id)
        if USAGE_TOPIC in await cluster.topics(instance.id):
            return
        written = topic_policy.written_limits(instance.limits, cluster.engine)
        configs = topic_policy.creation_defaults(instance.capacity_bytes, written)
        configs |= {
            "retention.ms": str(USAGE_RETENTION_MS),
            "segment.bytes": str(64 * 1024 * 1024),
            "message.timestamp.type": "LogAppendTime",
        }
        try:
            await topics.create(cluster, instance.id, USAGE_TOPIC, USAGE_PARTITIONS, configs)
        except Conflict:  # it is there, another broker's answer was older
            return
        _log.info("topic of usage records made", partitions=USAGE_PARTITIONS)

    def _system(self) -> Instance:
        with self._store.read() as connection:
            found = instances.by_id(connection, SYSTEM_INSTANCE_ID)
        assert found is not None, "the control plane makes it when it starts"
        return found
