"""Deletes everything of an instance whose purge was ordered (ADR-0015)."""

import asyncio
from functools import partial
from typing import Final

from kio.schema.errors import ErrorCode

from broker.controller.api import ControllerApi, DeletedTopicName
from broker.coordinators.groups import GroupCoordinators
from broker.coordinators.transactions import TransactionCoordinators
from broker.metadata.metadata_cache import CachedTopic, MetadataCache
from runtime.logs import get_logger

_log = get_logger(__name__)
_AGAIN_S: Final = 1.0
"""How soon it is looked again whether all topics of a deleted instance are gone."""


class Purging:
    """Every broker is told; the controller deletes topics, each coordinator its groups."""

    def __init__(
        self,
        controller: ControllerApi,
        metadata: MetadataCache,
        groups: GroupCoordinators,
        transactions: TransactionCoordinators,
    ) -> None:
        self._controller = controller
        self._metadata = metadata
        self._groups = groups
        self._transactions = transactions
        self._ordered: asyncio.Queue[str] = asyncio.Queue()

    def order(self, instance_id: str) -> None:
        """Delete everything of an instance in the background."""
        self._ordered.put_nowait(instance_id)

    async def run(self) -> None:
        """For ever."""
        loop = asyncio.get_running_loop()
        while True:
            instance_id = await self._ordered.get()
            self._groups.purge_instance(instance_id)
            self._transactions.purge_instance(instance_id)
            topics = self._metadata.of_instance(instance_id)
            if topics and self._controller.is_active:
                await self._delete(topics)
            if topics:  # look again whether they are gone: another controller may have to go on
                loop.call_later(_AGAIN_S, partial(self.order, instance_id))

    async def _delete(self, topics: list[CachedTopic]) -> None:
        names = [DeletedTopicName(topic.name, topic.topic_id) for topic in topics]
        for outcome in await self._controller.delete_topics(names):
            if outcome.verdict.error_code is not ErrorCode.none:
                _log.warning(
                    "a deleted instance's topic is not purged yet",
                    topic=outcome.name,
                    error=outcome.verdict.error_code.name,
                )
