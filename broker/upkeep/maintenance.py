"""The background ticks of a broker: flush, roll and retain, checkpoint, measure, purge."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from broker.controller.api import DeletedTopicName
from broker.log.errors import StorageFailed
from broker.metadata.metadata_cache import CachedTopic
from broker.monitoring.damage_report import log_damage
from broker.upkeep.compacting import Compacting
from runtime.logs import get_logger

if TYPE_CHECKING:
    from broker.app import Broker

_log = get_logger(__name__)
_MEASURE_S: Final = 1.0
_REMOVE_S: Final = 0.2
_PURGE_AGAIN_MS: Final = 1_000
"""How soon it is looked again whether all topics of a deleted instance are gone."""
_LOGS_PER_TURN: Final = 50
"""Retention lets clients have their turn after so many logs."""


class Maintenance:
    """Supervised loops; each does one thing."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._purges: asyncio.Queue[str] = asyncio.Queue()

    def tasks(self) -> list[tuple[str, Callable[[], Awaitable[None]]]]:
        """Name and loop of each task."""
        return [
            ("flush", self._flush),
            ("retention", self._retain),
            ("checkpoint", self._checkpoint),
            ("remove", self._remove),
            ("compact", self._compact),
            ("measure", self._measure),
            ("purge", self._purge),
        ]

    def purge_instance(self, instance_id: str) -> None:
        """Delete everything of an instance in the background. Every broker is told; the controller deletes
        topics, each coordinator its groups."""
        self._purges.put_nowait(instance_id)

    async def _flush(self) -> None:
        interval_ms = self._broker.config.flush_interval_ms
        while True:
            await asyncio.sleep(interval_ms / 1000)
            await self._broker.flusher.flush_dirty(interval_ms)

    async def _retain(self) -> None:
        broker = self._broker
        while True:
            await asyncio.sleep(broker.config.retention_check_interval_ms / 1000)
            for number, (log, outcome) in enumerate(
                broker.logs.retain(broker.epoch_ms(), broker.held.owns), 1
            ):
                if isinstance(outcome, StorageFailed):
                    broker.storage_failed("retention failed", outcome)
                elif outcome:
                    broker.fetches.log_start_moved(log.topic, log.partition)
                if number % _LOGS_PER_TURN == 0:
                    await asyncio.sleep(0)
            broker.logs.expire_producers(broker.epoch_ms())
            self._take_damage()
            broker.leaders.measure_all()

    def _take_damage(self) -> None:
        """What reads and `portico log scrub` have found since."""
        broker = self._broker
        try:
            news = broker.logs.take_damage()
        except OSError as error:
            broker.storage_failed("what a scrub found cannot be read", error)
            return
        for log in news:
            log_damage(log.topic, log.partition, log.damage)
            broker.fetches.moved((log.topic, log.partition))

    async def _checkpoint(self) -> None:
        broker = self._broker
        while True:
            await asyncio.sleep(broker.config.checkpoint_interval_ms / 1000)
            job = broker.logs.begin_checkpoint()
            if job is None:
                continue
            await broker.flusher.run(job.run)
            try:
                broker.logs.complete_checkpoint(job)
            except StorageFailed as error:
                broker.storage_failed("checkpoints cannot be written", error)

    async def _remove(self) -> None:
        """Free the space of what was deleted."""
        broker = self._broker
        while True:
            await asyncio.sleep(_REMOVE_S)
            job = broker.logs.begin_removal()
            if job is None:
                continue
            await broker.flusher.run(job.run)
            for error in job.errors:
                broker.storage_failed("a deleted log cannot be removed", error)

    async def _compact(self) -> None:
        broker = self._broker
        await asyncio.sleep(broker.held.all_kept_for_ms / 1000)
        await Compacting(broker.logs, broker.epoch_ms, broker.storage_failed).run()

    async def _measure(self) -> None:
        while True:
            await asyncio.sleep(_MEASURE_S)
            self._broker.leaders.measure_all()

    async def _purge(self) -> None:
        broker = self._broker
        while True:
            instance_id = await self._purges.get()
            broker.groups.purge_instance(instance_id)
            broker.transactions.purge_instance(instance_id)
            topics = broker.metadata.of_instance(instance_id)
            if topics and broker.controller.is_active:
                await self._delete(topics)
            if topics:  # look again whether they are gone: another controller may have to go on
                broker.call_later(_PURGE_AGAIN_MS, partial(self.purge_instance, instance_id))

    async def _delete(self, topics: list[CachedTopic]) -> None:
        names = [DeletedTopicName(topic.name, topic.topic_id) for topic in topics]
        for outcome in await self._broker.controller.delete_topics(names):
            if outcome.verdict.error_code is not ErrorCode.none:
                _log.warning(
                    "a deleted instance's topic is not purged yet",
                    topic=outcome.name,
                    error=outcome.verdict.error_code.name,
                )
