"""From timestamp to offset (ListOffsets).

Which parts of which files have to be walked is known from the indexes; walking them takes as long as their
headers are many and their records have to be opened, which is up to clients. So a search is a generator: each
`yield` says that going on may be much work, and it can be done from the start elsewhere.
Source: Kafka UnifiedLog.fetchOffsetByTimestamp, FileRecords.
"""

import os
from collections.abc import Generator
from typing import Final, NamedTuple, TypeAlias, cast

from broker.log.batch_scan import walk_headers
from broker.log.results import TimestampOffset
from broker.log.segment_list import SegmentList
from wire.batch import CODEC_NONE, DELETE_HORIZON_BIT, HEADER_SIZE, BatchError, BatchHeader
from wire.compression import PayloadUnreadable, decompress
from wire.record_walk import find_timestamp

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


class TimeSearch(NamedTuple):
    """The first record in `log_start_offset`..`up_to` (exclusive) whose timestamp is at least
    `timestamp_ms`, in any of the pieces, which are in the log's order."""

    pieces: list[Piece]
    timestamp_ms: int
    log_start_offset: int
    up_to: int


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
        pieces.append(Piece(str(segment.path()), segment.base_offset, position, segment.size_bytes))
        if segment is not segments.active:
            segments.files.keep_warm(segment)
    return TimeSearch(pieces, timestamp_ms, log_start_offset, up_to)


def find(search: TimeSearch) -> Steps:
    """Look. A batch whose records cannot be looked at answers with its first offset, never with a later one.

    Raises: OSError, also where a file is not what it was when the search began.
    """
    in_vain = 0
    for piece in search.pieces:
        fd = os.open(piece.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            for count, (position, header) in enumerate(walk_headers(fd, piece.position, piece.end), 1):
                if header.base_offset < piece.base_offset:
                    raise OSError(f"{piece.path} has changed")
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


def find_here(search: TimeSearch) -> TimestampOffset | TimeSearch | None:
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
    if header.codec != CODEC_NONE or header.size_bytes > _READ_HERE_MAX:
        yield
    data = os.pread(fd, header.size_bytes - HEADER_SIZE, position + HEADER_SIZE)
    try:
        payload = decompress(data, header.codec)
        records = find_timestamp(payload, header, search.timestamp_ms, search.log_start_offset)
        for looked, found in enumerate(records, 1):
            if found is not None:
                return TimestampOffset(*found)
            if looked % _RECORDS_PER_STEP == 0:
                yield
    except (PayloadUnreadable, BatchError):
        return TimestampOffset(header.base_timestamp_ms, max(header.base_offset, search.log_start_offset))
    return None
