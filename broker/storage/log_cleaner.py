"""Which log is compacted next, one at a time: the one with the largest share of bytes worth looking at."""

from collections.abc import Mapping
from dataclasses import dataclass

from broker.log.cleaning import CleaningResult
from broker.log.cleaning_job import Cleaner, CleaningJob
from broker.log.partition_log import PartitionLog
from broker.storage.cleaning_process import clean_in_process


@dataclass(slots=True)
class CleaningRound:
    """One log's compaction. `run` belongs on a thread of its own: it takes as long as there are bytes."""

    log: PartitionLog
    job: CleaningJob

    def run(self, cleaner: Cleaner = clean_in_process) -> None:
        """Never raises for what the disk or the log's bytes do."""
        self.job.run(cleaner)


class LogCleaner:
    """Compaction of a broker's logs. Belongs to the loop that owns them; only `run` may block."""

    def __init__(self, logs: Mapping[tuple[str, int], PartitionLog]) -> None:
        self._logs = logs

    def begin(self, now_ms: int) -> CleaningRound | None:
        """The next log to compact, None when none is worth it. Raises: StorageFailed."""
        best: PartitionLog | None = None
        best_ratio = -1.0
        for log in self._logs.values():
            cleanable = log.compaction.cleanable(now_ms)
            if cleanable is None or not cleanable.is_worth_it(log.config):
                continue
            ratio = 1.0 + cleanable.dirty_ratio if cleanable.overdue else cleanable.dirty_ratio
            if ratio > best_ratio:
                best, best_ratio = log, ratio
        job = best.compaction.begin(now_ms) if best is not None else None
        return None if best is None or job is None else CleaningRound(best, job)

    def complete(self, done: CleaningRound) -> CleaningResult | None:
        """Take the outcome over; None when the log changed meanwhile, or is damaged (`uncleanable`).

        Raises: StorageFailed.
        """
        return done.log.compaction.complete(done.job)

    def uncleanable(self) -> dict[tuple[str, int], str]:
        """The logs that are not compacted any more, and why."""
        return {
            key: reason
            for key, log in self._logs.items()
            if (reason := log.compaction.uncleanable) is not None
        }
