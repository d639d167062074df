"""One partition's log: append, read, look up, retain, flush.

Single-threaded. Invariants: `log_start_offset <= high_watermark <= log_end_offset`; the high watermark never moves
back; `recovery_point` is synced; leader epochs never decrease along the log.

Appending costs one header check, one CRC-32C, one producer lookup and one write call per batch, never per record.
"""

import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from broker.log.checkpoint_text import format_epochs
from broker.log.config import LogConfig
from broker.log.errors import OffsetOutOfRange, StorageFailed
from broker.log.files import FileHandle, write_atomically
from broker.log.loading import EPOCH_CHECKPOINT, LoadedLog
from broker.log.payload import check_keys
from broker.log.results import AppendOrigin, AppendResult, FlushJob, LogSlice, TimestampOffset
from broker.log.retention import segments_to_delete
from broker.log.segment import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from broker.log.time_lookup import offset_for_timestamp
from broker.log.validation import LOG_APPEND_TIME, check_client_records, check_own_records
from wire.batch import NO_TIMESTAMP, BatchHeader, WritableBuffer, assign_offset, stamp_log_append_time

SNAPSHOT_BYTES: Final = 16 * 1024 * 1024
"""Producer snapshots are written with a flush after so much was appended, and at every roll."""


class PartitionLog:
    """A partition. `on_dirty` is told when there is something to flush that there was not before."""

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
        on_dirty: Callable[["PartitionLog"], None] = lambda _: None,
    ) -> None:
        self.topic: Final = topic
        self.partition: Final = partition
        self.topic_id: Final = topic_id
        self.config = config
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.high_watermark = min(max(high_watermark, loaded.log_start_offset), loaded.log_end_offset)
        self.recovery_point = min(max(recovery_point, 0), loaded.log_end_offset)
        self.recovered_bytes: Final = loaded.recovered_bytes
        self.truncated_bytes: Final = loaded.truncated_bytes
        self.failure: str | None = None
        """Why nothing is appended any more: data that was thought written may be gone. A restart recovers."""
        self._segments = loaded.segments
        self._epochs = loaded.epochs
        self._producers = loaded.producers
        self._snapshots = loaded.snapshots
        self._on_dirty = on_dirty
        self._dirty = False
        self._epochs_dirty = False
        self._bytes_since_snapshot = 0
        self._tail: tuple[int, int, int] | None = None
        """(offset, position, size) of the last batch, in the active segment: what waiting fetches read."""

    def __repr__(self) -> str:
        return f"<PartitionLog {self.topic}-{self.partition} {self.log_start_offset}..{self.log_end_offset}>"

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
        """Without transactions everything committed is stable."""
        return self.high_watermark

    @property
    def leader_epoch(self) -> int:
        """Of the last batch, -1 in an empty log."""
        return self._epochs.latest

    def reconfigure(self, config: LogConfig) -> None:
        self.config = config

    # Appending

    def append(
        self, records: WritableBuffer, *, now_ms: int, leader_epoch: int, origin: AppendOrigin
    ) -> AppendResult:
        """Check the records, number them in place and put them at the end of the log.

        Raises: AppendRefused, StorageFailed; nothing is in the log then, and the log goes on as before.
        """
        self._check_usable()
        if origin is AppendOrigin.CLIENT:
            header = check_client_records(records, self.config, now_ms)
            if self.config.is_compacted:
                check_keys(records, header)
            if header.producer_id >= 0:
                repeated = self._producers.check(header)
                if repeated is not None:
                    time_ms = repeated.timestamp_ms if self._stamps_time else NO_TIMESTAMP
                    return self._result(repeated.base_offset, repeated.last_offset, time_ms, 0)
            if self._stamps_time:
                header = stamp_log_append_time(records, 0, header, now_ms)
            batches: Sequence[tuple[int, BatchHeader]] = ((0, header),)
        else:
            batches = check_own_records(records)
        base_offset = self.log_end_offset
        if origin is AppendOrigin.REPLICATION:
            base_offset = self._check_follows(batches)
        else:
            batches = _number(records, batches, base_offset, leader_epoch)
        self._write(records, batches, now_ms)
        time_ms = now_ms if origin is AppendOrigin.CLIENT and self._stamps_time else NO_TIMESTAMP
        return self._result(base_offset, self.log_end_offset - 1, time_ms, len(records))

    @property
    def _stamps_time(self) -> bool:
        return self.config.message_timestamp_type == LOG_APPEND_TIME

    def _result(self, base_offset: int, last_offset: int, time_ms: int, appended_bytes: int) -> AppendResult:
        flush_due = last_offset >= self.recovery_point and (
            self.log_end_offset - self.recovery_point >= self.config.flush_messages
        )
        return AppendResult(base_offset, last_offset, time_ms, self.log_start_offset, appended_bytes, flush_due)

    def _check_usable(self) -> None:
        if self.failure is not None:
            raise StorageFailed(f"{self.topic}-{self.partition}: {self.failure}")

    def _check_follows(self, batches: Sequence[tuple[int, BatchHeader]]) -> int:
        expected = self.log_end_offset
        for _, header in batches:
            assert header.base_offset >= expected, "replicated batches follow the log's end"
            assert header.partition_leader_epoch >= self._epochs.latest, "leader epochs never decrease"
            expected = header.next_offset
        return batches[0][1].base_offset

    def _write(self, records: WritableBuffer, batches: Sequence[tuple[int, BatchHeader]], now_ms: int) -> None:
        last = batches[-1][1]
        newest_ms = max(header.max_timestamp_ms for _, header in batches)
        try:
            self._roll_if_full(len(records), last.last_offset, newest_ms, now_ms)
            self._segments.write(records)
        except OSError as error:
            raise StorageFailed(f"{self.topic}-{self.partition}: {error.strerror or error}") from error
        segment = self._segments.active
        for _, header in batches:
            position = segment.size_bytes
            segment.note(header, header.last_offset, self.config.index_interval_bytes)
            if header.producer_id >= 0:
                self._producers.record(header, header.base_offset, now_ms)
            if header.partition_leader_epoch > self._epochs.latest:
                self._epochs.assign(header.partition_leader_epoch, header.base_offset)
                self._epochs_dirty = True
            self._tail = (header.base_offset, position, header.size_bytes)
        self.log_end_offset = last.next_offset
        self._bytes_since_snapshot += len(records)
        self._mark_dirty()

    def _mark_dirty(self) -> None:
        if not self._dirty:
            self._dirty = True
            self._on_dirty(self)

    def advance_high_watermark(self, to: int | None = None) -> bool:
        """Raise the high watermark to `to`, or (one replica) to the log end offset; whether it moved."""
        target = self.log_end_offset if to is None else min(to, self.log_end_offset)
        if target <= self.high_watermark:
            return False
        self.high_watermark = target
        return True

    # Rolling

    def _roll_if_full(self, size_bytes: int, last_offset: int, timestamp_ms: int, now_ms: int) -> None:
        active, config = self._segments.active, self.config
        if active.size_bytes == 0 and last_offset - active.base_offset < 2**31:
            return
        fits = active.has_room(size_bytes, last_offset, config.segment_bytes, config.segment_index_bytes)
        if not fits or active.waited_ms(timestamp_ms, now_ms) > config.segment_ms:
            self._roll(now_ms)

    def _roll(self, now_ms: int) -> None:
        """Raises: OSError; the log goes on in its active segment then."""
        self._snapshots.write(self.log_end_offset, self._producers)
        self._segments.roll(self.log_end_offset, now_ms)
        self._bytes_since_snapshot = 0
        self._tail = None
        self._mark_dirty()

    def roll_if_due(self, now_ms: int) -> bool:
        """Close an active segment that is older than `segment.ms` without waiting for the next append.

        Raises: StorageFailed.
        """
        active = self._segments.active
        if active.size_bytes == 0 or active.waited_ms(now_ms, now_ms) <= self.config.segment_ms:
            return False
        try:
            self._roll(now_ms)
        except OSError as error:
            raise StorageFailed(f"{self.topic}-{self.partition}: {error.strerror or error}") from error
        return True
