"""What of a log is not on the disk yet, and the jobs that bring it there."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from broker.log.files import FileHandle
from broker.log.leader_epochs import LeaderEpochs
from broker.log.log_config import LogConfig
from broker.log.log_owner import OwnedLog
from broker.log.log_producers import LogProducers
from broker.log.offsets import LogOffsets
from broker.log.results import FlushJob
from broker.log.segment import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from broker.log.segment_list import SegmentList
from broker.log.standing import LogStanding


@dataclass(slots=True, eq=False, repr=False)
class Durability:
    """What changes a log tells it so. Invariant: everything below the recovery point is on the disk."""

    config: LogConfig
    standing: LogStanding
    offsets: LogOffsets
    segments: SegmentList
    producers: LogProducers
    epochs: LeaderEpochs
    owned: OwnedLog[object]
    is_sealed: bool
    """Whether closing has nothing to write."""
    _is_dirty: bool = False
    _is_directory_dirty: bool = False
    _since_ms: int = 0
    _first_flush: list[Callable[[], None]] = field(default_factory=list)
    _directories: list[Path] = field(default_factory=list)

    # What there is to flush

    def changed(self, now_ms: int = 0) -> None:
        """There is something to flush, `flush.ms` after `now_ms`."""
        if not self._is_dirty:
            self._is_dirty = True
            self._since_ms = now_ms
            self.owned.dirty()

    def records_changed(self, now_ms: int = 0) -> None:
        """Closing has something to write as well."""
        self.is_sealed = False
        if not self._is_dirty:
            self.changed(now_ms)

    def directory_changed(self, now_ms: int = 0) -> None:
        """Files came or went."""
        self._is_directory_dirty = True
        self.changed(now_ms)

    def settle(self) -> None:
        """Once the log is in its place: what recovery found is to be flushed like anything else."""
        if self.offsets.recovery_point < self.offsets.log_end_offset or self.epochs.is_dirty:
            self.changed()

    def sync_with_first_flush(self, write: Callable[[], None], directory: Path) -> None:
        """What must be durable when a new partition's records are: a file, and the directory it stands in."""
        self._first_flush.append(write)
        self._directories.append(directory)
        self.directory_changed()

    # Flushing

    def is_due(self, now_ms: int) -> bool:
        """Whether `flush.ms` or `flush.messages` asks for a flush by `now_ms`."""
        return self._is_dirty and (now_ms - self._since_ms >= self.config.flush_ms or self.are_many_unflushed)

    @property
    def are_many_unflushed(self) -> bool:
        """Whether `flush.messages` is reached."""
        offsets = self.offsets
        return offsets.log_end_offset - offsets.recovery_point >= self.config.flush_messages

    def begin_flush(self) -> FlushJob | None:
        """What makes everything appended so far durable; None when it is. Run the job, then `complete_flush`.

        Raises: StorageFailed when the index files cannot be written; try again later.
        """
        if not self._is_dirty or self.standing.failure is not None:
            return None
        end = self.offsets.log_end_offset
        with self.standing.guarded():
            handles = self._files_to_sync()
            self.producers.write_snapshot_if_due(end)
        actions, self._first_flush = self._first_flush, []
        for write in (self.epochs.take_write(), self.segments.sealed.take_write()):
            if write is not None:
                actions.append(write)
        directories, self._directories = self._directories, []
        if self._is_directory_dirty:
            directories.append(self.segments.directory)
        self._is_dirty = self._is_directory_dirty = False
        return FlushJob(end, self.offsets.lineage, handles, actions, directories, self.segments.files.sync)

    def _files_to_sync(self) -> list[FileHandle]:
        """Raises: OSError."""
        handles = []
        for segment in self.segments.since(self.offsets.recovery_point):
            if segment.size_bytes == 0:
                continue
            segment.write_indexes()
            handles.append(segment.handle())
            if segment is not self.segments.active:
                handles += segment.index_handles()
            aborted = segment.aborted_file.take_handle()
            if aborted is not None:
                handles.append(aborted)
                self._is_directory_dirty = True  # its file may be new
        return handles

    def complete_flush(self, job: FlushJob) -> None:
        """Move the recovery point. Raises: StorageFailed when the disk refused.

        After a failed fdatasync the kernel may have dropped the pages, so the log takes no more appends
        until a restart has looked at what is really there; anything else is tried again with the next
        flush.
        """
        if job.error is None:
            # What another job failed to sync is not durable because this one succeeded.
            self.standing.check_usable()
            self.offsets.flushed(job.up_to_offset, job.lineage)
            return
        self._first_flush, self._directories = job.actions, job.directories
        self.changed()
        if job.data_refused:
            self.standing.failure = f"fdatasync failed: {job.error.strerror or job.error}"
        raise self.standing.refused(job.error) from job.error

    def flush(self) -> None:
        """Make everything appended durable, here and now. Raises: StorageFailed."""
        job = self.begin_flush()
        if job is not None:
            job.run()
            self.complete_flush(job)

    def begin_close(self) -> FlushJob | None:
        """Finish the files for a clean shutdown; None when they are. Run the job, then `complete_flush`.

        Raises: StorageFailed; the directory then needs recovery.
        """
        if self.is_sealed:
            return self.begin_flush()
        self.standing.check_usable()
        active = self.segments.active
        with self.standing.guarded():
            active.seal()
            snapshot = self.producers.close(self.offsets.log_end_offset)
            self.changed()
            job = self.begin_flush()
            assert job is not None
            synced = (active.path(INDEX_SUFFIX), active.path(TIME_INDEX_SUFFIX), snapshot)
            job.handles += [FileHandle(path) for path in synced]
        self.is_sealed = True
        return job
