"""Compaction of a log while it is used: superseded records go."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from broker.log.cleaning import CleaningResult, CleaningTask, LastOfProducer, LogDamaged
from broker.log.cleaning_job import CleaningJob
from broker.log.compaction import Cleanable, SealedSegment, find_cleanable
from broker.log.durability import Durability
from broker.log.log_config import NEVER, LogConfig
from broker.log.log_producers import LogProducers
from broker.log.offsets import LogOffsets
from broker.log.segment_list import SegmentList
from broker.log.standing import LogStanding

MAP_BYTES_MAX: Final = 64 * 1024 * 1024
"""Size of a compaction's map from keys to offsets; more distinct keys take several rounds."""


@dataclass(slots=True, eq=False, repr=False)
class Compaction:
    """One job at a time; nothing from `last_stable_offset` or the recovery point on is touched."""

    config: LogConfig
    standing: LogStanding
    offsets: LogOffsets
    segments: SegmentList
    producers: LogProducers
    durability: Durability
    last_stable_offset: Callable[[], int]
    cleaned_to: int
    """Where the last compaction ended, -1 before the first."""
    uncleanable: str | None = None
    """Why the log is not compacted any more: damage. A restart tries again."""
    _job: CleaningJob | None = None

    @property
    def is_running(self) -> bool:
        return self._job is not None

    def cleanable(self, now_ms: int) -> Cleanable | None:
        """What could be compacted now; None where nothing can. Raises: StorageFailed."""
        if not self.config.is_compacted or self.standing.failure is not None or len(self.segments) == 1:
            return None
        if self._job is not None or self.uncleanable is not None:
            return None
        with self.standing.guarded():
            return find_cleanable(
                self._sealed_segments(),
                self.config,
                cleaned_to=self.cleaned_to,
                stable_to=min(self.last_stable_offset(), self.offsets.recovery_point),
                now_ms=now_ms,
            )

    def _sealed_segments(self) -> list[SealedSegment]:
        """Raises: OSError."""
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
            for segment, following in pairwise(self.segments)
        ]

    def begin(self, now_ms: int, map_bytes_max: int = MAP_BYTES_MAX) -> CleaningJob | None:
        """A job that compacts; run it, then `complete`. None where there is nothing to compact.

        Raises: StorageFailed.
        """
        cleanable = self.cleanable(now_ms)
        if cleanable is None or cleanable.dirty_bytes == 0:
            return None
        config = self.config
        with self.standing.guarded():
            sealed = [s for s in self._sealed_segments() if s.base_offset < cleanable.up_to]
            aborted = self.segments.aborted(sealed[0].base_offset, sealed[-1].next_offset)
        task = CleaningTask(
            str(self.segments.directory),
            sealed,
            cleanable.first_dirty,
            cleanable.up_to,
            aborted,
            {
                producer_id: LastOfProducer(
                    entry.batches[-1].last_offset if entry.batches else -1, entry.epoch
                )
                for producer_id, entry in self.producers.states.entries.items()
            },
            now_ms,
            config.delete_retention_ms,
            config.segment_bytes,
            config.segment_index_bytes,
            config.index_interval_bytes,
            map_bytes_max,
        )
        self._job = CleaningJob(task)
        return self._job

    def complete(self, job: CleaningJob) -> CleaningResult | None:
        """Put the new segments in the place of the old ones; None when the log changed under the job.

        A log that is damaged is not compacted again before a restart: `uncleanable` says why.
        Raises: StorageFailed.
        """
        if self._job is job:
            self._job = None
        if job.is_cancelled:
            return None
        if isinstance(job.error, LogDamaged):
            self.uncleanable = str(job.error)
            return None
        if job.error is not None:
            raise self.standing.refused(job.error) from job.error
        assert job.result is not None, "the job ran"
        with self.standing.guarded("replacing compacted segments"):
            for group in job.result.groups:
                self.segments.adopt_cleaned(group.replaced, group.size_bytes)
            self.producers.prune_snapshots()
        self.cleaned_to = job.result.cleaned_to
        self.durability.directory_changed(job.task.now_ms)
        return job.result

    def cancel(self) -> None:
        """What a compaction works on goes. Raises: StorageFailed."""
        job, self._job = self._job, None
        if job is not None:
            with self.standing.guarded():
                job.cancel()

    def end_moves_to(self, offset: int) -> None:
        """Before a truncation. Raises: StorageFailed."""
        if self._job is not None and offset < self._job.task.up_to:
            self.cancel()
        self.cleaned_to = min(self.cleaned_to, offset)

    def abandon(self) -> None:
        """The log's files are nobody's any more: what the job has written stays where it is."""
        if self._job is not None:
            self._job.is_cancelled = True
            self._job = None
