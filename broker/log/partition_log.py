"""One partition's log: append, read, look up; with retention, rolling and flushing from its bases.

Single-threaded. Invariants: `log_start_offset <= high_watermark <= log_end_offset`; the high watermark
never moves back; everything below `recovery_point` is on the disk; leader epochs never decrease along the
log.

Appending costs one header check, one CRC-32C, one producer lookup and one write call per batch, never per
record.
"""

from collections.abc import Iterable, Sequence

from broker.log.batch_numbers import number_batches
from broker.log.damage import Damage, DamageKind, hole_at
from broker.log.damage_check import is_readable
from broker.log.errors import OffsetOutOfRange, RecordsDamaged
from broker.log.log_compaction import CompactedLog
from broker.log.payload import SAMPLE_EVERY, Look, check_payload, is_right, look_at
from broker.log.results import AppendOrigin, AppendResult, LogSlice, TimestampOffset
from broker.log.time_lookup import TimeSearch, find_here, time_search
from broker.log.validation import (
    LOG_APPEND_TIME,
    check_client_records,
    check_fetched_records,
    check_own_records,
)
from wire.batch import CODEC_MASK, NO_TIMESTAMP, BatchHeader, WritableBuffer, stamp_log_append_time
from wire.control import marker_at
from wire.record_lengths import WALKED_HERE_MAX


class PartitionLog(CompactedLog):
    """A partition, as handlers use it."""

    def append(
        self,
        records: WritableBuffer,
        *,
        now_ms: int,
        leader_epoch: int,
        origin: AppendOrigin,
        verification: int | None = None,
        is_looked: bool = False,
    ) -> AppendResult:
        """Check the records, number them in place and put them at the end of the log.

        A transactional batch needs a transaction that is open here, or the guard of `begin_verification`.

        With origin REPLICATION offsets and epochs stay as the leader wrote them, offsets may have gaps (its
        log may be compacted), a batch that is cut off at the end is left out, and `leader_epoch` is the one
        that the records were fetched in: no batch may be newer.
        Raises: AppendRefused, StorageFailed; nothing is in the log then, and the log goes on as before.
        """
        self._check_usable()
        if origin is AppendOrigin.REPLICATION:
            return self._append_fetched(records, now_ms, leader_epoch)
        if origin is AppendOrigin.CLIENT:
            is_compacted = self.config.is_compacted
            walks = not (is_looked or is_compacted)
            header = check_client_records(records, self.config, now_ms, walks=walks)
            is_compressed = header.attributes & CODEC_MASK
            if is_compressed or is_compacted:
                look = None if is_looked else self._look(header)
                if look is not None:
                    check_payload(records, header, look)
                if is_compressed:
                    self._until_sample = (self._until_sample or SAMPLE_EVERY) - 1
            if header.producer_id >= 0:
                repeated = self._producers.check(header, verification)
                if repeated is not None:
                    time_ms = repeated.timestamp_ms if self._stamps_time else NO_TIMESTAMP
                    return self._result(repeated.base_offset, repeated.last_offset, time_ms, 0)
            if self._stamps_time:
                header = stamp_log_append_time(records, 0, header, now_ms)
            batches: Sequence[tuple[int, BatchHeader]] = ((0, header),)
        else:
            batches = check_own_records(records)
            self._check_own_producers(records, batches, verification)
        base_offset = self.log_end_offset
        batches = number_batches(records, batches, base_offset, leader_epoch)
        self._write(records, batches, now_ms)
        time_ms = now_ms if origin is AppendOrigin.CLIENT and self._stamps_time else NO_TIMESTAMP
        return self._result(base_offset, self.log_end_offset - 1, time_ms, len(records))

    def look_here(self, records: WritableBuffer, now_ms: int, *, are_many: bool) -> Look | bool:
        """What has to be asked elsewhere about a client's records before they are appended; else whether they
        need no look any more, because they had it or none is due. `are_many`: not compressed, and too many
        for `check_lengths` on an event loop. Raises: AppendRefused."""
        if self._until_sample and not (are_many or self.config.is_compacted):
            return True
        header = check_client_records(records, self.config, now_ms)
        look = self._look(header)
        return True if look is None else is_right(records, header, look) or look

    def _look(self, header: BatchHeader) -> Look | None:
        """Whether every record is looked at: of compacted topics, of one compressed batch in many (a client
        that was refused is looked at again), and of so many that going along them takes long."""
        is_due = not self._until_sample if header.codec else header.record_count > WALKED_HERE_MAX
        return look_at(header, self.config) if is_due or self.config.is_compacted else None

    def _check_own_producers(
        self, records: WritableBuffer, batches: Sequence[tuple[int, BatchHeader]], verification: int | None
    ) -> None:
        for at, header in batches:
            if header.producer_id < 0:
                continue
            if not header.is_control:
                self._producers.check_own(header, verification)
                continue
            marker = marker_at(records, at, header)
            if marker is not None:
                self._producers.check_marker(header, marker)

    def _append_fetched(self, records: WritableBuffer, now_ms: int, leader_epoch: int) -> AppendResult:
        batches = check_fetched_records(
            records,
            log_end_offset=self.log_end_offset,
            latest_epoch=self._epochs.latest,
            leader_epoch=leader_epoch,
        )
        at, last = batches[-1]
        with memoryview(records) as view, view[: at + last.size_bytes] as whole:
            self._write(whole, batches, now_ms)
        return self._result(batches[0][1].base_offset, last.last_offset, NO_TIMESTAMP, at + last.size_bytes)

    @property
    def _stamps_time(self) -> bool:
        return self.config.message_timestamp_type == LOG_APPEND_TIME

    def _result(self, base_offset: int, last_offset: int, time_ms: int, appended_bytes: int) -> AppendResult:
        flush_due = last_offset >= self.recovery_point and (
            self.log_end_offset - self.recovery_point >= self.config.flush_messages
        )
        return AppendResult(
            base_offset, last_offset, time_ms, self.log_start_offset, appended_bytes, flush_due
        )

    def _write(
        self, records: WritableBuffer, batches: Sequence[tuple[int, BatchHeader]], now_ms: int
    ) -> None:
        last = batches[-1][1]
        newest_ms = last.max_timestamp_ms
        if len(batches) > 1:
            newest_ms = max(header.max_timestamp_ms for _, header in batches)
        try:
            self._roll_if_full(len(records), batches[0][1].base_offset, last.last_offset, newest_ms, now_ms)
            self._segments.write(records)
        except OSError as error:
            raise self._storage_failed(error) from error
        self._note(records, batches, now_ms)
        self._bytes_since_snapshot += len(records)

    def read(self, offset: int, max_bytes: int, *, up_to: int, min_one_batch: bool) -> LogSlice | None:
        """Whole batches from the one that contains `offset` on, of one segment, the last perhaps cut off.

        Nothing at or behind `up_to` (the high watermark, read once per request) is in it. None when there
        is nothing yet, or when the first batch is larger than `max_bytes` and not asked for by
        `min_one_batch`. Raises: OffsetOutOfRange, RecordsDamaged, StorageFailed.
        """
        if offset < self.log_start_offset or offset > self.log_end_offset:
            raise OffsetOutOfRange(offset, self.log_start_offset, self.log_end_offset)
        if offset >= up_to or offset == self.log_end_offset or (max_bytes <= 0 and not min_one_batch):
            return None
        try:
            if self._tail is not None and self._tail[0] == offset and up_to >= self.log_end_offset:
                _, position, size_bytes = self._tail
                if size_bytes > max_bytes and not min_one_batch:
                    return None
                handle = self._segments.active.handle()
                return LogSlice(handle, position, size_bytes, size_bytes, offset)
            return self._find_slice(offset, max_bytes, up_to, min_one_batch)
        except OSError as error:
            raise self._storage_failed(error) from error

    def _find_slice(self, offset: int, max_bytes: int, up_to: int, min_one_batch: bool) -> LogSlice | None:
        if self.damage:
            if hole_at(self.damage, offset) is not None:
                raise RecordsDamaged(f"{self.topic}-{self.partition}", offset)
            up_to = min([up_to, *(each[0] for each in self.damage if each[0] > offset and each[2].is_hole)])
        found = self._segments.find(offset)
        if found is None:
            return None
        number, position, header = found
        if self._find_damage(number, position, header, offset):
            return self._find_slice(offset, max_bytes, up_to, min_one_batch)
        if header is None:
            raise RecordsDamaged(f"{self.topic}-{self.partition}", offset)
        handle = self._segments[number].handle()
        end = self._segments.end_position(number, up_to, self.log_end_offset)
        first_bytes = header.size_bytes
        size_bytes = min(max_bytes, end - position)
        if position + first_bytes > end or (size_bytes < first_bytes and not min_one_batch):
            return None
        return LogSlice(handle, position, max(size_bytes, first_bytes), first_bytes, header.base_offset)

    def _find_damage(self, number: int, position: int, header: BatchHeader | None, offset: int) -> bool:
        """Whether a look-up of `offset` has met damage that was not known: a segment that has become shorter,
        or cannot be followed beyond `position`. Then it is known, and told. Raises: OSError."""
        segment = self._segments[number]
        on_disk_bytes = segment.handle().size_bytes
        is_short = on_disk_bytes < segment.size_bytes
        if header is not None and not is_short:
            return False
        first = offset if header is None else header.base_offset
        for _, whole in segment.headers_until(position, on_disk_bytes):
            first = whole.next_offset
        kind = DamageKind.SHORT if is_short else DamageKind.CONTENT
        is_news = self.note_damage(
            [Damage(first, self._segments.next_base(number, self.log_end_offset), kind)]
        )
        if is_news:
            self._owner.log_damaged(self)
        return is_news

    def read_bytes(self, offset: int, max_bytes: int, *, up_to: int, min_one_batch: bool) -> bytes:
        """What `read` finds, as bytes; empty where it finds nothing. Raises: OffsetOutOfRange,
        StorageFailed."""
        found = self.read(offset, max_bytes, up_to=up_to, min_one_batch=min_one_batch)
        try:
            return b"" if found is None else found.read()
        except OSError as error:
            raise self._storage_failed(error) from error

    def offset_for_timestamp(
        self, timestamp_ms: int, *, up_to: int | None = None
    ) -> TimestampOffset | TimeSearch | None:
        """The first record at or after a time, below `up_to` (default: the high watermark); where finding it
        may be much work, what has to be searched elsewhere. Raises: StorageFailed."""
        limit = self.high_watermark if up_to is None else up_to
        try:
            return find_here(time_search(self._segments, timestamp_ms, self.log_start_offset, limit))
        except OSError as error:
            raise self._storage_failed(error) from error

    def recall_damage(self, known: Iterable[Damage]) -> None:
        """What was known of its damage before a restart, unless its files were put back since. Raises:
        OSError."""
        self.note_damage(
            each
            for each in known
            if each.kind is not DamageKind.CONTENT or not is_readable(self._segments, each)
        )

    def segment_starts(self) -> list[tuple[int, int]]:
        """(base offset, time of the latest record) of every segment, oldest first. Raises: StorageFailed."""
        try:
            return [(segment.base_offset, segment.age_timestamp_ms) for segment in self._segments]
        except OSError as error:
            raise self._storage_failed(error) from error

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(largest known epoch <= `epoch`, where it ended), (-1, -1) when unknown (OffsetForLeaderEpoch)."""
        return self._epochs.end_offset_for(epoch, self.log_end_offset)

    def epoch_of(self, offset: int) -> int:
        """The leader epoch that `offset` was written in, -1 when unknown (ListOffsets)."""
        return self._epochs.epoch_of(offset)

    def begin_epoch(self, epoch: int) -> None:
        """We lead from here on in `epoch`: where older ones ended is known although nothing was appended."""
        if self._epochs.assign(epoch, self.log_end_offset):
            self._epochs_dirty = True
            self._mark_dirty()
