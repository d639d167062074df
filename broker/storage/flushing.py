"""Which logs have something to flush, and the rounds that flush them."""

from collections.abc import Callable, Iterable
from typing import Final

from broker.log.errors import LogError, StorageFailed
from broker.log.partition_log import PartitionLog
from broker.log.results import FlushJob
from broker.storage.jobs import FlushRound

EMPTY_LOGS_PER_FLUSH: Final = 256
"""Thousands of new partitions must not delay the flush of records."""


class Flushing:
    """`is_served` says whether a log is still one of ours: it may be deleted, or its directory fail, while a
    round is under way."""

    def __init__(self, is_served: Callable[[PartitionLog], bool]) -> None:
        self._is_served = is_served
        self._dirty: dict[PartitionLog, None] = {}

    def add(self, log: PartitionLog) -> None:
        self._dirty[log] = None

    def discard(self, log: PartitionLog) -> None:
        self._dirty.pop(log, None)

    def begin(self, now_ms: int) -> FlushRound | None:
        """Those whose `flush.ms` or `flush.messages` is reached by then."""
        due: list[PartitionLog] = []
        empty: list[PartitionLog] = []
        for log in self._dirty:
            if log.durability.is_due(now_ms):
                (empty if log.recovery_point == log.log_end_offset else due).append(log)
        due += empty[:EMPTY_LOGS_PER_FLUSH]
        return self._begin(due, lambda log: log.durability.begin_flush())

    def begin_last(self, logs: Iterable[PartitionLog]) -> FlushRound | None:
        """All of them, with what a clean shutdown leaves."""
        return self._begin(list(logs), PartitionLog.begin_close)

    def _begin(
        self, logs: list[PartitionLog], job_of: Callable[[PartitionLog], FlushJob | None]
    ) -> FlushRound | None:
        round_ = FlushRound([], [])
        for log in logs:
            if not self._is_served(log):
                continue
            self._dirty.pop(log, None)
            try:
                job = job_of(log)
            except StorageFailed as error:
                if self._is_served(log):
                    self._dirty[log] = None
                round_.failures.append(error)
                continue
            if job is not None:
                round_.jobs.append((log, job))
        return round_ if round_.jobs or round_.failures else None

    def complete(self, round_: FlushRound) -> list[LogError]:
        """Move the recovery points; what went wrong."""
        failures = list(round_.failures)
        for log, job in round_.jobs:
            if not self._is_served(log):
                continue
            try:
                log.durability.complete_flush(job)
            except StorageFailed as error:
                failures.append(error)
        return failures
