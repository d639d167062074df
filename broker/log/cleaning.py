"""Compacting files: a map of the latest offset per key, then new segments without what is superseded.

Nothing here knows a log that lives: segments in, segments with the suffix `.cleaned` out. It can run
anywhere, and should run in a process of its own, for it computes for as long as there are bytes.
Source: Kafka Cleaner, MemoryRecords.filterTo; KIP-534 (delete horizon).
"""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec
from crc32c import crc32c

from broker.log.batch_scan import is_whole
from broker.log.cleaned_segment import CleanedSegment, remove_cleaned
from broker.log.cleaned_transactions import CleanedTransactions
from broker.log.compaction import SealedSegment, group_segments
from broker.log.segment import LOG_SUFFIX, offset_file_name
from broker.log.txn_index import AbortedTransaction
from wire.batch import CODEC_NONE, DELETE_HORIZON_BIT, HEADER_SIZE, BatchHeader, Buffer, parse_header
from wire.compression import PayloadUnreadable, decompress
from wire.control import marker_at
from wire.record_runs import Runs, find_runs, note_latest
from wire.retained_batch import empty_batch, retained_batch

_READ_BYTES: Final = 4 * 1024 * 1024
_CRC_FROM: Final = 21
_KEY_OVERHEAD_BYTES: Final = 33 + 28
"""A bytes object and an offset, besides the map itself."""


class LastOfProducer(msgspec.Struct, frozen=True):
    """Where a producer that the log remembers wrote last: that batch stays, if only empty, because its
    sequence and epoch are remembered by it."""

    data_offset: int
    """Last offset of its last data batch, -1 when a marker is all there is."""
    epoch: int


class CleaningTask(msgspec.Struct, frozen=True):
    """What to compact: all `segments`, by the keys of `first_dirty`..`up_to`."""

    directory: str
    segments: list[SealedSegment]
    first_dirty: int
    up_to: int
    aborted: list[AbortedTransaction]
    producers: dict[int, LastOfProducer]
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    index_bytes: int
    index_interval_bytes: int
    map_bytes_max: int

    def path(self, segment: SealedSegment) -> Path:
        return Path(self.directory) / offset_file_name(segment.base_offset, LOG_SUFFIX)


class CleanedGroup(msgspec.Struct, frozen=True):
    """A segment that was written, and those that it replaces: the first has its base offset."""

    replaced: list[int]
    size_bytes: int


class CleaningResult(msgspec.Struct):
    """What came out. `cleaned_to` is where the next compaction begins."""

    cleaned_to: int
    groups: list[CleanedGroup]
    read_bytes: int = 0
    """Bytes read of the segments; the dirty ones were read twice."""
    written_bytes: int = 0
    records_kept: int = 0
    records_dropped: int = 0


class LogDamaged(Exception):  # noqa: N818 - states what is so
    """A batch is corrupt or unreadable: the log cannot be compacted."""


class CleaningStopped(Exception):  # noqa: N818 - states what is so
    """Nobody waits for the result any more."""


def clean(task: CleaningTask, should_stop: Callable[[], bool] = lambda: False) -> CleaningResult:
    """Write the `.cleaned` files. Nothing of them is left when it raises.

    Raises: LogDamaged, CleaningStopped, OSError.
    """
    cleaning = _Cleaning(task, should_stop)
    try:
        return cleaning.run()
    except BaseException:
        for base_offset in cleaning.begun:
            remove_cleaned(Path(task.directory), base_offset)
        raise


class _Cleaning:
    def __init__(self, task: CleaningTask, should_stop: Callable[[], bool]) -> None:
        self._task = task
        self._should_stop = should_stop
        self._latest: dict[bytes, int] = {}
        self._up_to = task.first_dirty
        self._transactions = CleanedTransactions(task.aborted)
        self._result = CleaningResult(task.first_dirty, [])
        self.begun: list[int] = []

    def run(self) -> CleaningResult:
        self._up_to = self._map_latest()
        task, result = self._task, self._result
        segments = [segment for segment in task.segments if segment.base_offset < self._up_to]
        for group in group_segments(segments, segment_bytes=task.segment_bytes, index_bytes=task.index_bytes):
            result.groups.append(self._clean_group(group))
        result.cleaned_to = self._up_to
        return result

    def _map_latest(self) -> int:
        """Note the latest offset of each key; where the map, or what may be compacted, ends."""
        task, latest = self._task, self._latest
        transactions = CleanedTransactions(task.aborted)
        key_bytes = 0
        for segment in task.segments:
            if segment.next_offset <= task.first_dirty or segment.base_offset >= task.up_to:
                continue
            for data, at, header in self._batches(segment):
                if header.last_offset < task.first_dirty:
                    continue
                if header.next_offset > task.up_to:
                    return header.base_offset
                if header.is_control:
                    transactions.may_drop_marker(header, marker_at(data, at, header))
                    continue
                if transactions.is_aborted(header):
                    continue
                known = len(latest)
                try:
                    payload, start, end = _payload(data, at, header)
                    note_latest(payload, start, end, header.base_offset, task.first_dirty, latest)
                except (ValueError, PayloadUnreadable) as error:
                    raise _damaged(segment, header, error) from error
                key_bytes += (len(latest) - known) * (_KEY_OVERHEAD_BYTES + 32)
                if key_bytes + sys.getsizeof(latest) > task.map_bytes_max:
                    return header.next_offset
        return task.up_to

    def _clean_group(self, group: list[SealedSegment]) -> CleanedGroup:
        task = self._task
        directory, base_offset = Path(task.directory), group[0].base_offset
        cleaned = CleanedSegment(directory, base_offset, task.index_interval_bytes)
        self.begun.append(base_offset)
        try:
            for segment in group:
                self._clean_segment(segment, cleaned)
            modified_ns = task.path(group[-1]).stat().st_mtime_ns
            cleaned.finish(self._transactions.take_still_aborted(), modified_ns)
        finally:
            cleaned.close()
        self._result.written_bytes += cleaned.size_bytes
        return CleanedGroup([segment.base_offset for segment in group], cleaned.size_bytes)

    def _clean_segment(self, segment: SealedSegment, cleaned: CleanedSegment) -> None:
        for data, at, header in self._batches(segment):
            try:
                kept = self._clean_batch(data, at, header)
            except (ValueError, PayloadUnreadable) as error:
                raise _damaged(segment, header, error) from error
            if kept is not None:
                cleaned.add(*kept)
        self._result.read_bytes += segment.size_bytes

    def _clean_batch(self, data: bytes, at: int, header: BatchHeader) -> tuple[BatchHeader, Buffer] | None:
        """The batch as it is, with fewer records, or without any; None when it goes."""
        horizon_ms = header.base_timestamp_ms if header.attributes & DELETE_HORIZON_BIT else None
        is_due = horizon_ms is not None and horizon_ms <= self._task.now_ms
        if header.is_control:
            stays = not self._transactions.may_drop_marker(header, marker_at(data, at, header))
            goes = is_due or header.record_count == 0
        else:
            stays, goes = False, self._transactions.is_aborted(header)
        if stays or header.base_offset >= self._up_to:
            return self._keep(header, memoryview(data)[at : at + header.size_bytes], header.record_count, 0)
        if goes:
            return self._without_records(header)
        payload, start, end = _payload(data, at, header)
        if header.is_control:
            runs = Runs([(start, end)], header.record_count, 0, keeps_tombstone=True)
        else:
            runs = find_runs(
                payload, start, end, header.base_offset, self._up_to, self._latest, drop_tombstones=is_due
            )
        if runs.kept + runs.dropped != header.record_count:
            raise ValueError(f"{runs.kept + runs.dropped} records, its header says {header.record_count}")
        if runs.kept == 0:
            return self._without_records(header)
        gets_horizon = runs.keeps_tombstone and horizon_ms is None
        if runs.dropped == 0 and not gets_horizon:
            return self._keep(header, memoryview(data)[at : at + header.size_bytes], runs.kept, 0)
        new_horizon_ms = self._task.now_ms + self._task.delete_retention_ms if gets_horizon else None
        kept, batch = retained_batch(header, payload, runs, delete_horizon_ms=new_horizon_ms)
        return self._keep(kept, batch, runs.kept, runs.dropped)

    def _without_records(self, header: BatchHeader) -> tuple[BatchHeader, Buffer] | None:
        """Empty where its header is needed: for its producer, or because followers would not reach the
        log's end without it."""
        if self._is_last_of_producer(header) or header.next_offset == self._task.up_to:
            return self._keep(*empty_batch(header), 0, header.record_count)
        self._result.records_dropped += header.record_count
        return None

    def _keep(
        self, header: BatchHeader, batch: Buffer, kept: int, dropped: int
    ) -> tuple[BatchHeader, Buffer]:
        self._result.records_kept += kept
        self._result.records_dropped += dropped
        return header, batch

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        last = self._task.producers.get(header.producer_id)
        if last is None or header.producer_id < 0:
            return False
        if last.data_offset >= 0:
            return last.data_offset == header.last_offset
        return header.is_control and last.epoch == header.producer_epoch

    def _batches(self, segment: SealedSegment) -> Iterator[tuple[bytes, int, BatchHeader]]:
        """(bytes, position in them, header) of the segment's batches, each whole and with its CRC checked."""
        fd = os.open(self._task.path(segment), os.O_RDONLY | os.O_CLOEXEC)
        try:
            position, end, next_offset = 0, segment.size_bytes, segment.base_offset
            want = _READ_BYTES
            while position < end:
                if self._should_stop():
                    raise CleaningStopped
                asked = min(want, end - position)
                data = os.pread(fd, asked, position)
                at, want = 0, _READ_BYTES
                while at + HEADER_SIZE <= len(data):
                    header = parse_header(data, at)
                    size = header.size_bytes
                    if not is_whole(header, end - position - at):
                        raise _damaged(segment, header, "its header is none")
                    if not next_offset <= header.base_offset <= header.last_offset < segment.next_offset:
                        raise _damaged(segment, header, f"it does not follow offset {next_offset}")
                    if at + size > len(data):
                        want = max(want, size)  # larger than what is read at once
                        break
                    if crc32c(memoryview(data)[at + _CRC_FROM : at + size]) != header.crc:
                        raise _damaged(segment, header, "its CRC is wrong")
                    yield data, at, header
                    next_offset = header.next_offset
                    at += size
                if len(data) < asked or (at == 0 and want == _READ_BYTES):
                    raise LogDamaged(f"segment {segment.base_offset} ends within a batch at {position}")
                position += at
        finally:
            os.close(fd)


def _payload(data: bytes, at: int, header: BatchHeader) -> tuple[bytes, int, int]:
    """(bytes, start, end) of the batch's records, decompressed. Raises: PayloadUnreadable."""
    start, end = at + HEADER_SIZE, at + header.size_bytes
    if header.codec == CODEC_NONE:
        return data, start, end
    payload = bytes(decompress(data[start:end], header.codec))
    return payload, 0, len(payload)


def _damaged(segment: SealedSegment, header: BatchHeader, reason: object) -> LogDamaged:
    return LogDamaged(f"segment {segment.base_offset}, batch at offset {header.base_offset}: {reason}")
