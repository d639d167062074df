"""The background ticks of a broker: flush, roll and retain, checkpoint, measure, purge."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from broker.log.errors import LogError

if TYPE_CHECKING:
    from broker.app import Broker

_MEASURE_S: Final = 1.0
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
            ("measure", self._measure),
            ("purge", self._purge),
        ]

    def purge_instance(self, instance_id: str) -> None:
        """Delete everything of an instance in the background."""
        self._purges.put_nowait(instance_id)

    async def _flush(self) -> None:
        while True:
            await asyncio.sleep(self._broker.config.flush_interval_ms / 1000)
            self._broker.flusher.flush_dirty()

    async def _retain(self) -> None:
        broker = self._broker
        while True:
            await asyncio.sleep(broker.config.retention_check_interval_ms / 1000)
            freed = 0
            done = 0
            for topic in list(broker.topics):
                if topic.is_internal:
                    continue
                for log in topic.partitions:
                    try:
                        log.roll_if_due(broker.epoch_ms())
                        freed += log.apply_retention(broker.epoch_ms())
                        log.expire_producers(broker.epoch_ms())
                    except LogError as error:
                        broker.storage_failed("retention failed", error)
                    done += 1
                    if done % _LOGS_PER_TURN == 0:
                        await asyncio.sleep(0)
            if freed:
                broker.measure_logs()

    async def _checkpoint(self) -> None:
        while True:
            await asyncio.sleep(self._broker.config.checkpoint_interval_ms / 1000)
            job = self._broker.logs.checkpoint()
            await self._broker.flusher.run(job.run)

    async def _measure(self) -> None:
        while True:
            await asyncio.sleep(_MEASURE_S)
            self._broker.measure_logs()

    async def _purge(self) -> None:
        broker = self._broker
        while True:
            instance_id = await self._purges.get()
            for topic in [each for each in broker.topics if each.instance_id == instance_id]:
                try:
                    broker.topics.delete(topic)
                except OSError as error:
                    broker.storage_failed("a deleted instance's topic cannot be purged", error)
                await asyncio.sleep(0)
            broker.coordination.purge_instance(instance_id)
