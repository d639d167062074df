"""What one partition's log is, and how it rolls, flushes and closes. `PartitionLog` adds the rest."""

import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, Protocol

from broker.log.checkpoint_text import format_epochs
from broker.log.cleaning_job import CleaningJob
from broker.log.config import LogConfig
from broker.log.damage import Damage, merged, within
from broker.log.errors import StorageFailed
from broker.log.files import FileHandle, write_atomically
from broker.log.loading import EPOCH_CHECKPOINT, LoadedLog
from broker.log.offset_index import RELATIVE_MAX
from broker.log.producer_loading import aborted_transaction
from broker.log.producer_state import ProducerStates
from broker.log.results import FlushJob
from broker.log.segment import INDEX_SUFFIX, SMALL_SEGMENT_BYTES, TIME_INDEX_SUFFIX
from wire.batch import BatchHeader, Buffer
from wire.control import marker_at

SNAPSHOT_BYTES: Final = 16 * 1024 * 1024
"""Producer snapshots are written with a flush after so much was appended, and at every roll."""
SNAPSHOTS_KEPT: Final = 16
"""Of the newest segments: a truncation that goes further back reads the log instead."""
ROLL_AGE_MIN_MS: Final = 600_000
"""How old a small segment must be by our clock to be closed for its records' timestamps, which clients choose
freely: who makes them leap would get files for every batch. `segment.ms` where that is less."""


class LogOwner(Protocol):
    """The manager, as a log sees it."""

    def log_dirty(self, log: "LogBase") -> None:
        """There is something to flush that there was not before."""

    def log_shrinks(self, log: "LogBase") -> None:
        """Make checkpoints on the disk true of what a truncation will leave. Raises: OSError."""

    def small_segments_max(self, log: "LogBase") -> int:
        """How many segments below `SMALL_SEGMENT_BYTES` the log may have before it rolls by size alone."""

    def log_refused(self, log: "LogBase", error: OSError) -> None:
        """The disk did not do what the log wanted."""

    def log_damaged(self, log: "LogBase") -> None:
        """A read has found damage that was not known."""


class LogBase:
    """State of a partition."""

    def __init__(
        self,
        topic: str,
        partition: int,
        topic_id: uuid.UUID,
        config: LogConfig,
        loaded: LoadedLog,
        *,
        high_watermark: int = 0,
        recovery_point: int = 0,
        cleaned_to: int = -1,
        owner: LogOwner,
    ) -> None:
        self.topic: Final = topic
        self.partition: Final = partition
        self.topic_id: Final = topic_id
        self.config = config
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.high_watermark = min(max(high_watermark, loaded.log_start_offset), loaded.log_end_offset)
        loaded.producers.transactions.committed_to(self.high_watermark)
        self.recovery_point = min(max(recovery_point, 0), loaded.log_end_offset)
        self.recovered_bytes: Final = loaded.recovered_bytes
        self.truncated_bytes: Final = loaded.truncated_bytes
        self.failure: str | None = None
        """Why nothing is appended any more: data that was thought written may be gone. A restart recovers."""
        self.cleaned_to = cleaned_to
        """Where the last compaction ended, -1 before the first."""
        self.uncleanable: str | None = None
        """Why the log is not compacted any more: damage. A restart tries again."""
        self._cleaning: CleaningJob | None = None
        self.damage = loaded.damage
        """Ranges of offsets that are known to be lost or damaged, sorted."""
        self.sealed: Final = loaded.sealed_segments
        self._segments = loaded.segments
        self._epochs = loaded.epochs
        self._producers = loaded.producers
        self._snapshots = loaded.snapshots
        self._owner = owner
        self._dirty = False
        self._dirty_since_ms = 0
        self._epochs_dirty = self._directory_dirty = False
        self._unsealed = not loaded.sealed
        """Whether closing has anything to write."""
        self._first_flush: list[Callable[[], None]] = []
        self._directories: list[Path] = []
        self._bytes_since_snapshot = 0
        self._lineage = 0
        """Grows with every truncation: a flush that began before says nothing of what came after."""
        self._until_sample = 0
        """Compressed batches before one is looked into."""
        self._tail: tuple[int, int, int] | None = None
        """(offset, position, size) of the last batch, in the active segment: what waiting fetches read."""

    def __repr__(self) -> str:
        offsets = f"{self.log_start_offset}..{self.log_end_offset}"
        return f"<{type(self).__name__} {self.topic}-{self.partition} {offsets}>"

    @property
    def directory(self) -> Path:
        return self._segments.directory

    @property
    def size_bytes(self) -> int:
        return self._segments.size_bytes

    @property
    def segment_count(self) -> int:
        return len(self._segments)

    @property
    def last_stable_offset(self) -> int:
        """Everything committed in front of the first transaction that is open, or ended by a marker that is
        not committed. What read_committed consumers read."""
        first_unstable = self._producers.transactions.first_unstable_offset
        if first_unstable is None or first_unstable >= self.high_watermark:
            return self.high_watermark
        return max(first_unstable, self.log_start_offset)

    @property
    def leader_epoch(self) -> int:
        """Of the last batch, -1 in an empty log."""
        return self._epochs.latest

    def reconfigure(self, config: LogConfig) -> None:
        self.config = config

    def _check_usable(self) -> None:
        if self.failure is not None:
            raise StorageFailed(f"{self.topic}-{self.partition}: {self.failure}")

    def _note(self, records: Buffer, batches: Sequence[tuple[int, BatchHeader]], now_ms: int) -> None:
        """Account for batches whose bytes are in the active segment, behind those it knows."""
        segment = self._segments.active
        for at, header in batches:
            position = segment.size_bytes
            segment.note(header, header.last_offset, self.config.index_interval_bytes)
            if header.producer_id >= 0:
                if header.is_control:
                    self._note_marker(records, at, header, now_ms)
                else:
                    self._producers.record(header, header.base_offset, now_ms)
            if header.partition_leader_epoch > self._epochs.latest:
                self._epochs.assign(header.partition_leader_epoch, header.base_offset)
                self._epochs_dirty = True
            self._tail = (header.base_offset, position, header.size_bytes)
        self.log_end_offset = batches[-1][1].next_offset
        self._unsealed = True
        self._mark_dirty(now_ms)

    def _note_marker(self, records: Buffer, at: int, header: BatchHeader, now_ms: int) -> None:
        marker = marker_at(records, at, header)
        if marker is None:
            return
        ended = self._producers.record_marker(header, header.base_offset, now_ms, marker)
        if ended is not None and ended.is_aborted:
            aborted = aborted_transaction(ended, self._producers.transactions)
            self._segments.active.aborted_file.note(aborted)

    def _cancel_cleaning(self) -> None:
        """What a compaction works on goes. Raises: StorageFailed."""
        job, self._cleaning = self._cleaning, None
        if job is not None:
            try:
                job.cancel()
            except OSError as error:
                raise self._storage_failed(error) from error

    def note_damage(self, found: Iterable[Damage]) -> bool:
        """More of the log is known to be damaged; whether that is news."""
        damage = within(merged((*self.damage, *found)), self.log_start_offset, self.log_end_offset)
        is_news, self.damage = damage != self.damage, damage
        self._tail = None
        return is_news

    def _damage_stays(self) -> None:
        """Where the log has a new start or end."""
        if self.damage:
            self.damage = within(self.damage, self.log_start_offset, self.log_end_offset)

    def _storage_failed(self, error: OSError) -> StorageFailed:
        self._owner.log_refused(self, error)
        return StorageFailed(f"{self.topic}-{self.partition}: {error.strerror or error}")

    def _mark_dirty(self, now_ms: int = 0) -> None:
        """There is something to flush, `flush.ms` after `now_ms`."""
        if not self._dirty:
            self._dirty = True
            self._dirty_since_ms = now_ms
            self._owner.log_dirty(self)

    def settle(self) -> None:
        """Once in its place: what recovery found is to be flushed like anything else."""
        if self.recovery_point < self.log_end_offset:
            self._mark_dirty()

    def release_files(self) -> None:
        """Forget the open files, for the directory is about to be renamed; they open again when needed."""
        self._segments.release()

    @property
    def producers(self) -> ProducerStates:
        """What is known of its producers, for whoever bounds them."""
        return self._producers

    def abandon(self) -> None:
        """The partition is deleted: slices being sent go on, nothing else does."""
        self.go_offline("the partition is deleted")

    def go_offline(self, reason: str) -> None:
        """Nothing is appended any more, and nothing written."""
        self.failure = reason
        if self._cleaning is not None:
            self._cleaning.is_cancelled = True
            self._cleaning = None
        self._segments.release()

    def sync_with_first_flush(self, write: Callable[[], None], directory: Path) -> None:
        """What must be durable when a new partition's records are: a file, and the directory it stands in."""
        self._first_flush.append(write)
        self._directories.append(directory)
        self._directory_dirty = True
        self._mark_dirty()

    def advance_high_watermark(self, to: int | None = None) -> bool:
        """Raise the high watermark to `to`, or (one replica) to the log end offset; whether it moved."""
        target = self.log_end_offset if to is None else min(to, self.log_end_offset)
        if target <= self.high_watermark:
            return False
        self.high_watermark = target
        transactions = self._producers.transactions
        if transactions.ended:
            transactions.committed_to(target)
        return True

    # Rolling

    def _roll_if_full(
        self, size_bytes: int, first_offset: int, last_offset: int, timestamp_ms: int, now_ms: int
    ) -> None:
        active, config = self._segments.active, self.config
        if active.size_bytes == 0:
            if last_offset - active.base_offset > RELATIVE_MAX:  # a compacted leader's log has such gaps
                self._segments.replace_empty(first_offset, now_ms)
            return
        fits = active.has_room(size_bytes, last_offset, config.segment_bytes, config.segment_index_bytes)
        if not fits or (
            active.waited_ms(timestamp_ms, now_ms) > config.roll_ms and self._may_roll_by_time(now_ms)
        ):
            self._roll(first_offset, now_ms)

    def _may_roll_by_time(self, now_ms: int) -> bool:
        """Whether a segment whose time has come may be closed: a small one must be of some age, and one of
        few. What waits goes with the next size or the next time that allows it."""
        active = self._segments.active
        if active.size_bytes >= SMALL_SEGMENT_BYTES:
            return True
        age_ms = abs(now_ms - active.created_ms)  # a clock that was set back must not stop it for long
        return age_ms >= min(
            self.config.roll_ms, ROLL_AGE_MIN_MS
        ) and self._segments.small_count < self._owner.small_segments_max(self)

    def _roll(self, base_offset: int, now_ms: int) -> None:
        """Raises: OSError; the log goes on in its active segment then."""
        self._snapshots.write(base_offset, self._producers)
        closed = self._segments.active
        self._segments.roll(base_offset, now_ms)
        self.sealed.add(closed.base_offset, closed.size_bytes)
        self._bytes_since_snapshot = 0
        self._tail = None
        self._directory_dirty = True
        self._mark_dirty()
        self._prune_snapshots()

    def roll_if_due(self, now_ms: int) -> bool:
        """Close an active segment that is older than `segment.ms` without waiting for the next append.

        Raises: StorageFailed.
        """
        active = self._segments.active
        if active.size_bytes == 0 or active.waited_ms(now_ms, now_ms) <= self.config.roll_ms:
            return False
        if not self._may_roll_by_time(now_ms):
            return False
        try:
            self._roll(self.log_end_offset, now_ms)
        except OSError as error:
            raise self._storage_failed(error) from error
        return True

    # Flushing

    def flush_due(self, now_ms: int) -> bool:
        """Whether `flush.ms` or `flush.messages` asks for a flush by `now_ms`."""
        return self._dirty and (
            now_ms - self._dirty_since_ms >= self.config.flush_ms
            or self.log_end_offset - self.recovery_point >= self.config.flush_messages
        )

    def begin_flush(self) -> FlushJob | None:
        """What makes everything appended so far durable; None when it is. Run the job, then `complete_flush`.

        Raises: StorageFailed when the index files cannot be written; try again later.
        """
        if not self._dirty or self.failure is not None:
            return None
        handles = []
        try:
            for segment in self._segments.since(self.recovery_point):
                if segment.size_bytes == 0:
                    continue
                segment.write_indexes()
                handles.append(segment.handle())
                if segment is not self._segments.active:
                    handles += segment.index_handles()
                aborted = segment.aborted_file.take_handle()
                if aborted is not None:
                    handles.append(aborted)
                    self._directory_dirty = True  # its file may be new
            if self._bytes_since_snapshot >= SNAPSHOT_BYTES:
                self._write_snapshot()
        except OSError as error:
            raise self._storage_failed(error) from error
        actions, self._first_flush = self._first_flush, []
        if self._epochs_dirty:
            path, content = self.directory / EPOCH_CHECKPOINT, format_epochs(self._epochs.entries).encode()
            actions.append(lambda: write_atomically(path, content))
        if self.sealed.is_dirty:
            sizes = self.sealed.content()
            actions.append(lambda: self.sealed.write(sizes))
            self.sealed.is_dirty = False
        directories, self._directories = self._directories, []
        if self._directory_dirty:
            directories.append(self.directory)
        self._dirty = self._epochs_dirty = self._directory_dirty = False
        return FlushJob(self.log_end_offset, self._lineage, handles, actions, directories)

    def complete_flush(self, job: FlushJob) -> None:
        """Move the recovery point. Raises: StorageFailed when the disk refused.

        After a failed fdatasync the kernel may have dropped the pages, so the log takes no more appends
        until a restart has looked at what is really there; anything else is tried again with the next
        flush.
        """
        if job.error is None:
            self._check_usable()  # what another job failed to sync is not durable because this one succeeded
            if job.lineage == self._lineage:
                self.recovery_point = max(self.recovery_point, job.up_to_offset)
            return
        self._first_flush, self._directories = job.actions, job.directories
        self._mark_dirty()
        if job.data_refused:
            self.failure = f"fdatasync failed: {job.error.strerror or job.error}"
        raise self._storage_failed(job.error) from job.error

    def flush(self) -> None:
        """Make everything appended durable, here and now. Raises: StorageFailed."""
        job = self.begin_flush()
        if job is not None:
            job.run()
            self.complete_flush(job)

    def _write_snapshot(self) -> None:
        self._snapshots.write(self.log_end_offset, self._producers)
        self._prune_snapshots()
        self._bytes_since_snapshot = 0

    def _prune_snapshots(self) -> None:
        self._snapshots.prune(self._segments.base_offsets()[-SNAPSHOTS_KEPT:])

    def expire_producers(self, now_ms: int) -> int:
        """Forget producers silent for `producer.id.expiration.ms`; how many."""
        return self._producers.expire(now_ms, self.config.producer_id_expiration_ms)

    @property
    def producer_count(self) -> int:
        return len(self._producers.entries)

    def begin_close(self) -> FlushJob | None:
        """Finish the files for a clean shutdown; None when they are. Run the job, then `complete_flush`.

        Raises: StorageFailed; the directory then needs recovery.
        """
        self._cancel_cleaning()
        if not self._unsealed:
            return self.begin_flush()
        self._check_usable()
        active = self._segments.active
        try:
            active.seal()
            if self._snapshots.newest != self.log_end_offset:
                self._write_snapshot()
            self._mark_dirty()
            job = self.begin_flush()
            assert job is not None
            synced = [active.path(INDEX_SUFFIX), active.path(TIME_INDEX_SUFFIX)]
            job.handles += [FileHandle(path) for path in (*synced, self._snapshots.path(self.log_end_offset))]
        except OSError as error:
            raise self._storage_failed(error) from error
        self._unsealed = False
        return job
