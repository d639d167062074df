"""The background ticks of a broker: flush, roll and retain, checkpoint, compact, measure."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from broker.config import BrokerConfig
from broker.control.held import HeldInstances
from broker.control.traffic_leaders import TrafficLeaders
from broker.log.errors import StorageFailed
from broker.monitoring.damage_report import log_damage
from broker.records.fetching import Fetches
from broker.storage.flusher import Flusher
from broker.storage.manager import LogManager
from broker.upkeep.compacting import Compacting

_MEASURE_S: Final = 1.0
_REMOVE_S: Final = 0.2
_READABLE_CHECKS: Final = 10
"""Records whose timestamps are old already can be read for so many checks of retention: as long as Kafka's
own takes to come by."""
_LOGS_PER_TURN: Final = 50
"""Retention lets clients have their turn after so many logs."""


class Maintained(Protocol):
    """What the ticks of a broker look after."""

    config: BrokerConfig
    epoch_ms: Callable[[], int]
    fetches: Fetches
    flusher: Flusher
    held: HeldInstances
    leaders: TrafficLeaders
    logs: LogManager

    def storage_failed(self, what: str, error: Exception) -> None: ...


class Maintenance:
    """Supervised loops; each does one thing."""

    def __init__(self, deps: Maintained) -> None:
        self._deps = deps

    def tasks(self) -> list[tuple[str, Callable[[], Awaitable[None]]]]:
        """Name and loop of each task."""
        return [
            ("flush", self._flush),
            ("retention", self._retain),
            ("checkpoint", self._checkpoint),
            ("remove", self._remove),
            ("compact", self._compact),
            ("measure", self._measure),
        ]

    async def _flush(self) -> None:
        interval_ms = self._deps.config.flush_interval_ms
        while True:
            await asyncio.sleep(interval_ms / 1000)
            await self._deps.flusher.flush_dirty(interval_ms)

    async def _retain(self) -> None:
        deps = self._deps
        interval_ms = deps.config.retention_check_interval_ms
        while True:
            await asyncio.sleep(interval_ms / 1000)
            steps = deps.logs.retain(deps.epoch_ms(), deps.held.owns, _READABLE_CHECKS * interval_ms)
            for number, (log, outcome) in enumerate(steps, 1):
                if isinstance(outcome, StorageFailed):
                    deps.storage_failed("retention failed", outcome)
                elif outcome:
                    deps.fetches.log_start_moved(log.topic, log.partition)
                if number % _LOGS_PER_TURN == 0:
                    await asyncio.sleep(0)
            deps.logs.expire_producers(deps.epoch_ms())
            self._take_damage()
            deps.leaders.measure_all()

    def _take_damage(self) -> None:
        """What reads and `portico log scrub` have found since."""
        deps = self._deps
        try:
            news = deps.logs.take_damage()
        except OSError as error:
            deps.storage_failed("what a scrub found cannot be read", error)
            return
        for log in news:
            log_damage(log.topic, log.partition, log.damage)
            deps.fetches.moved((log.topic, log.partition))

    async def _checkpoint(self) -> None:
        deps = self._deps
        while True:
            await asyncio.sleep(deps.config.checkpoint_interval_ms / 1000)
            job = deps.logs.begin_checkpoint()
            if job is None:
                continue
            await deps.flusher.run(job.run)
            try:
                deps.logs.complete_checkpoint(job)
            except StorageFailed as error:
                deps.storage_failed("checkpoints cannot be written", error)

    async def _remove(self) -> None:
        """Free the space of what was deleted."""
        deps = self._deps
        while True:
            await asyncio.sleep(_REMOVE_S)
            job = deps.logs.begin_removal()
            if job is None:
                continue
            await deps.flusher.run(job.run)
            for error in job.errors:
                deps.storage_failed("a deleted log cannot be removed", error)

    async def _compact(self) -> None:
        deps = self._deps
        await asyncio.sleep(deps.held.all_kept_for_ms / 1000)
        await Compacting(deps.logs, deps.epoch_ms, deps.storage_failed).run()

    async def _measure(self) -> None:
        while True:
            await asyncio.sleep(_MEASURE_S)
            self._deps.leaders.measure_all()
