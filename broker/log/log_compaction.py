"""A log whose superseded records go."""

from itertools import pairwise
from typing import Final

from broker.log.cleaning import CleaningResult, CleaningTask, LastOfProducer, LogDamaged
from broker.log.cleaning_job import CleaningJob
from broker.log.compaction import Cleanable, SealedSegment, find_cleanable
from broker.log.config import NEVER
from broker.log.log_transactions import TransactionalLog

MAP_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of one compaction's map from keys to offsets; more distinct keys take several rounds."""


class CompactedLog(TransactionalLog):
    """A log that can be compacted while it is used."""

    def cleanable(self, now_ms: int) -> Cleanable | None:
        """What could be compacted now; None where nothing can. Raises: StorageFailed."""
        if not self.config.is_compacted or self.failure is not None or self.segment_count == 1:
            return None
        if self._cleaning is not None or self.uncleanable is not None:
            return None
        try:
            return self._find_cleanable(self._sealed_segments(), now_ms)
        except OSError as error:
            raise self._storage_failed(error) from error

    def _find_cleanable(self, sealed: list[SealedSegment], now_ms: int) -> Cleanable:
        stable_to = min(self.last_stable_offset, self.recovery_point)
        return find_cleanable(
            sealed, self.config, cleaned_to=self.cleaned_to, stable_to=stable_to, now_ms=now_ms
        )

    def _sealed_segments(self) -> list[SealedSegment]:
        segments = list(self._segments)
        lag_matters = self.config.max_compaction_lag_ms < NEVER
        return [
            SealedSegment(
                segment.base_offset,
                following.base_offset,
                segment.size_bytes,
                segment.index_file_bytes(),
                segment.first_timestamp_ms if lag_matters else -1,
                segment.largest_timestamp[0],
            )
            for segment, following in pairwise(segments)
        ]

    def begin_cleaning(self, now_ms: int, map_bytes_max: int = MAP_BYTES_MAX) -> CleaningJob | None:
        """A job that compacts; run it, then `complete_cleaning`. None where there is nothing to compact.

        Raises: StorageFailed.
        """
        cleanable = self.cleanable(now_ms)
        if cleanable is None or cleanable.dirty_bytes == 0:
            return None
        sealed = [s for s in self._sealed_segments() if s.base_offset < cleanable.up_to]
        config = self.config
        task = CleaningTask(
            str(self.directory),
            sealed,
            cleanable.first_dirty,
            cleanable.up_to,
            self.aborted_transactions(sealed[0].base_offset, sealed[-1].next_offset),
            {
                producer_id: LastOfProducer(
                    entry.batches[-1].last_offset if entry.batches else -1, entry.epoch
                )
                for producer_id, entry in self._producers.entries.items()
            },
            now_ms,
            config.delete_retention_ms,
            config.segment_bytes,
            config.segment_index_bytes,
            config.index_interval_bytes,
            map_bytes_max,
        )
        self._cleaning = CleaningJob(task)
        return self._cleaning

    def complete_cleaning(self, job: CleaningJob) -> CleaningResult | None:
        """Put the new segments in the place of the old ones; None when the log changed under the job.

        A log that is damaged is not compacted again before a restart: `uncleanable` says why.
        Raises: StorageFailed.
        """
        if self._cleaning is job:
            self._cleaning = None
        if job.is_cancelled:
            return None
        if isinstance(job.error, LogDamaged):
            self.uncleanable = str(job.error)
            return None
        if job.error is not None:
            raise self._storage_failed(job.error) from job.error
        assert job.result is not None, "the job ran"
        try:
            for group in job.result.groups:
                self.sealed.forget(group.replaced)
                self._segments.adopt_cleaned(group.replaced, group.size_bytes)
                self.sealed.add(group.replaced[0], group.size_bytes)
            self._prune_snapshots()
        except OSError as error:
            self.failure = f"replacing compacted segments failed half way: {error.strerror or error}"
            raise self._storage_failed(error) from error
        self.cleaned_to = job.result.cleaned_to
        self._directory_dirty = True
        self._mark_dirty(job.task.now_ms)
        return job.result
