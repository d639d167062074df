"""From timestamp to offset, and the record with the largest one (ListOffsets).

Which parts of which files have to be walked is known from the indexes; walking them takes as long as their
headers are many and their records have to be opened, which is up to clients. So a search is a generator: each
`yield` says that going on may be much work, and it can be done from the start elsewhere.
Source: Kafka UnifiedLog.fetchOffsetByTimestamp, FileRecords.
"""

import os
from collections.abc import Generator, Iterator
from typing import Final, NamedTuple, TypeAlias, cast

from broker.log.batch_scan import walk_headers
from broker.log.results import TimestampOffset
from broker.log.segment import Segment
from broker.log.segment_list import SegmentList
from wire.batch import CODEC_NONE, DELETE_HORIZON_BIT, HEADER_SIZE, NO_TIMESTAMP, BatchError, BatchHeader
from wire.compression import PayloadUnreadable, decompress
from wire.record_walk import record_times

_HEADERS_PER_STEP: Final = 500
_RECORDS_PER_STEP: Final = 1_000
_READ_HERE_MAX: Final = 64 * 1024
_OPENED_IN_VAIN_MAX: Final = 16
"""Batches whose header promises a time that no record has. Right ones are at most two: the first, whose start
was deleted, and one that was compacted."""


class Piece(NamedTuple):
    """A part of a segment's `.log` file, from the first byte of a batch on."""

    path: str
    base_offset: int
    position: int
    end: int
    largest_ms: int
    """No record of the segment has a later timestamp."""


class TimeSearch(NamedTuple):
    """The first record in `log_start_offset`..`up_to` (exclusive) whose timestamp is at least
    `timestamp_ms`, in any of the pieces, which are in the log's order."""

    pieces: list[Piece]
    timestamp_ms: int
    log_start_offset: int
    up_to: int


class LatestSearch(NamedTuple):
    """The first of the records in `log_start_offset`..`up_to` (exclusive) that have the largest timestamp.
    The pieces are in the log's order."""

    pieces: list[Piece]
    log_start_offset: int
    up_to: int


Search: TypeAlias = TimeSearch | LatestSearch
Steps: TypeAlias = Generator[None, None, TimestampOffset | None]


def time_search(segments: SegmentList, timestamp_ms: int, log_start_offset: int, up_to: int) -> TimeSearch:
    """Where to look. Raises: OSError."""
    pieces: list[Piece] = []
    for segment in segments:
        if segment.base_offset >= up_to:
            break
        if segment.largest_timestamp[0] < timestamp_ms:
            continue
        if not pieces:
            segment.handle()  # most often the only file: that it can be opened is told to its log
        from_offset = max(segment.time_index.lookup(timestamp_ms), log_start_offset)
        position = segment.index.lookup(from_offset)
        pieces.append(_piece(segment, position))
        if segment is not segments.active:
            segments.files.keep_warm(segment)
    return TimeSearch(pieces, timestamp_ms, log_start_offset, up_to)


def latest_search(segments: SegmentList, log_start_offset: int, up_to: int) -> LatestSearch:
    """Where to look: of segments that are within the bounds with their latest record, at that of the latest;
    of others, which may have one as late, at all batches. Raises: OSError."""
    known_ms = NO_TIMESTAMP
    named: Piece | None = None
    others: list[Piece] = []
    for segment in segments:
        if segment.base_offset >= up_to:
            break
        timestamp_ms, offset = segment.largest_timestamp
        if timestamp_ms <= known_ms:
            continue
        segment.handle()  # that it can be opened is told to its log
        if log_start_offset <= segment.base_offset and offset < up_to:
            known_ms, named = timestamp_ms, _piece(segment, segment.index.lookup(offset))
        else:
            others.append(_piece(segment, segment.index.lookup(max(segment.base_offset, log_start_offset))))
    pieces = [each for each in others if each.largest_ms > known_ms] + ([] if named is None else [named])
    return LatestSearch(sorted(pieces, key=lambda each: each.base_offset), log_start_offset, up_to)


def _piece(segment: Segment, position: int) -> Piece:
    path, end = str(segment.path()), segment.size_bytes
    return Piece(path, segment.base_offset, position, end, segment.largest_timestamp[0])


def find(search: Search) -> Steps:
    """The record, or None. Raises: OSError, also where a file is not what it was when the search began."""
    return _find_latest(search) if isinstance(search, LatestSearch) else _find_first(search)


def _batches(fd: int, piece: Piece) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header). Raises: OSError, also where the file is not what it was when the search began."""
    for position, header in walk_headers(fd, piece.position, piece.end):
        if header.base_offset < piece.base_offset:
            raise OSError(f"{piece.path} has changed")
        yield position, header


def _find_first(search: TimeSearch) -> Steps:
    """A batch whose records cannot be looked at answers with its first offset, never with a later one."""
    in_vain = 0
    for piece in search.pieces:
        fd = os.open(piece.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            for count, (position, header) in enumerate(_batches(fd, piece), 1):
                if header.base_offset >= search.up_to:
                    return None
                if count % _HEADERS_PER_STEP == 0:
                    yield
                if (
                    header.max_timestamp_ms < search.timestamp_ms
                    or header.last_offset < search.log_start_offset
                ):
                    continue
                found = _of_header(header, search, in_vain) or (
                    yield from _of_records(fd, position, header, search)
                )
                if found is not None:
                    return found if found.offset < search.up_to else None
                in_vain += 1
        finally:
            os.close(fd)
    return None


def _find_latest(search: LatestSearch) -> Steps:
    """By headers, then by the records of one batch. The header of one whose start was deleted says too
    much: its records are looked at, too."""
    latest = TimestampOffset(NO_TIMESTAMP, -1)
    batch: tuple[Piece, int, BatchHeader] | None = None
    for piece in search.pieces:
        fd = os.open(piece.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            for count, (position, header) in enumerate(_batches(fd, piece), 1):
                if header.base_offset >= search.up_to or latest.timestamp_ms >= piece.largest_ms:
                    break
                if count % _HEADERS_PER_STEP == 0:
                    yield
                if header.last_offset < search.log_start_offset:
                    continue
                if header.base_offset < search.log_start_offset:
                    latest = (yield from _latest_of(fd, position, header, search)) or latest
                elif header.max_timestamp_ms > latest.timestamp_ms:
                    batch = piece, position, header
                    latest = TimestampOffset(header.max_timestamp_ms, header.base_offset)
        finally:
            os.close(fd)
    if batch is None:
        return latest if latest.offset >= 0 else None
    piece, position, header = batch
    fd = os.open(piece.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return (yield from _latest_of(fd, position, header, search)) or latest
    finally:
        os.close(fd)


def find_here(search: Search) -> TimestampOffset | Search | None:
    """What is found at once; the search itself, where that may be much work. Raises: OSError."""
    steps = find(search)
    try:
        next(steps)
    except StopIteration as end:
        return cast("TimestampOffset | None", end.value)
    steps.close()
    return search


def _of_header(header: BatchHeader, search: TimeSearch, in_vain: int) -> TimestampOffset | None:
    """The answer where it needs no look at records."""
    first_offset = max(header.base_offset, search.log_start_offset)
    if header.is_log_append_time or in_vain >= _OPENED_IN_VAIN_MAX:
        return TimestampOffset(header.max_timestamp_ms, first_offset)
    dated = not header.attributes & DELETE_HORIZON_BIT
    if dated and header.base_timestamp_ms >= search.timestamp_ms and first_offset == header.base_offset:
        return TimestampOffset(header.base_timestamp_ms, first_offset)
    return None


def _of_records(fd: int, position: int, header: BatchHeader, search: TimeSearch) -> Steps:
    """The first that is late enough."""
    try:
        records = yield from _records(fd, position, header, search.timestamp_ms, search.log_start_offset)
        for looked, found in enumerate(records, 1):
            if found is not None:
                return TimestampOffset(*found)
            if looked % _RECORDS_PER_STEP == 0:
                yield
    except (PayloadUnreadable, BatchError):
        return TimestampOffset(header.base_timestamp_ms, max(header.base_offset, search.log_start_offset))
    return None


def _latest_of(fd: int, position: int, header: BatchHeader, search: LatestSearch) -> Steps:
    """The first that is as late as any; None where records cannot be looked at."""
    if header.is_log_append_time:
        return TimestampOffset(header.max_timestamp_ms, max(header.base_offset, search.log_start_offset))
    latest: tuple[int, int] | None = None
    try:
        records = yield from _records(fd, position, header, NO_TIMESTAMP, search.log_start_offset)
        for looked, found in enumerate(records, 1):
            if found is not None and (latest is None or found[0] > latest[0]):
                latest = found
            if looked % _RECORDS_PER_STEP == 0:
                yield
    except (PayloadUnreadable, BatchError):
        return None
    return None if latest is None else TimestampOffset(*latest)


def _records(
    fd: int, position: int, header: BatchHeader, timestamp_ms: int, from_offset: int
) -> Generator[None, None, Iterator[tuple[int, int] | None]]:
    """`record_times` of a batch. Raises: PayloadUnreadable."""
    if header.codec != CODEC_NONE or header.size_bytes > _READ_HERE_MAX:
        yield
    data = os.pread(fd, header.size_bytes - HEADER_SIZE, position + HEADER_SIZE)
    return record_times(decompress(data, header.codec), header, timestamp_ms, from_offset)
