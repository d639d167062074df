"""The records of a batch for somebody who looks at few: fields as views, nothing copied. Pure.

A record that is not wanted costs its length and its offset delta. What producers wrote is not believed: a
record may have as many headers as fit into it, names that are no UTF-8, any time.
Source: Kafka DefaultRecord.readFrom.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from wire.batch import (
    BATCH_LENGTH_MIN,
    HEADER_SIZE,
    BatchError,
    BatchHeader,
    Buffer,
    check_magic,
    parse_header,
)
from wire.record_walk import BODY_BYTES_MIN, malformed
from wire.varint import read_varint

HEADERS_SEEN_MAX: Final = 100
"""Headers of one record that are looked at."""


class RecordView(NamedTuple):
    """One record. Its fields are gone when the payload is."""

    offset: int
    timestamp_ms: int
    key: memoryview | None
    value: memoryview | None
    headers: tuple[tuple[memoryview, memoryview | None], ...]
    """The first ones, names as bytes."""
    header_count: int
    size_bytes: int


def record_views(
    header: BatchHeader, payload: memoryview, from_offset: int, before_offset: int
) -> Iterator[RecordView | None]:
    """The records of a decompressed batch from `from_offset` on and in front of `before_offset`; None of
    every other one in front of them. Raises: BatchError (INVALID_RECORD)."""
    stamped = header.max_timestamp_ms if header.is_log_append_time else None
    at, end = 0, len(payload)
    try:
        for _ in range(header.record_count):
            size, at = read_varint(payload, at)
            behind = at + size
            if size < BODY_BYTES_MIN or behind > end:
                raise ValueError(f"a record of {size} bytes where {end - at} are left")
            timestamp_delta_ms, at = read_varint(payload, at + 1)
            offset_delta, at = read_varint(payload, at)
            offset = header.base_offset + offset_delta
            if offset >= before_offset:
                return
            if offset < from_offset:
                at = behind
                yield None
                continue
            key, at = _nullable(payload, at, behind)
            value, at = _nullable(payload, at, behind)
            header_count, at = read_varint(payload, at)
            headers = _headers(payload, at, behind, header_count)
            timestamp_ms = header.base_timestamp_ms + timestamp_delta_ms if stamped is None else stamped
            yield RecordView(offset, timestamp_ms, key, value, headers, header_count, size)
            at = behind
    except (IndexError, ValueError) as error:
        raise malformed(error) from error


def _headers(
    payload: memoryview, at: int, end: int, count: int
) -> tuple[tuple[memoryview, memoryview | None], ...]:
    if count < 0 or count > end - at:
        raise ValueError(f"{count} headers")
    found = []
    for _ in range(min(count, HEADERS_SEEN_MAX)):
        name, at = _nullable(payload, at, end)
        value, at = _nullable(payload, at, end)
        if name is None:
            raise ValueError("a header without a name")
        found.append((name, value))
    return tuple(found)


def _nullable(payload: memoryview, at: int, end: int) -> tuple[memoryview | None, int]:
    size, at = read_varint(payload, at)
    if size < -1 or size > end - at:
        raise ValueError(f"a field of {size} bytes")
    return (None, at) if size < 0 else (payload[at : at + size], at + size)


def whole_batches(records: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of the batches of an answer; the last one may be cut off, and is left out.

    Raises: BatchError where none of magic 2 begins.
    """
    at = 0
    while at + HEADER_SIZE <= len(records):
        header = parse_header(records, at)
        check_magic(header)
        if header.batch_length < BATCH_LENGTH_MIN:
            raise BatchError(ErrorCode.corrupt_message, f"batch length {header.batch_length} is below 49")
        if at + header.size_bytes > len(records):
            return
        yield at, header
        at += header.size_bytes


def seen_committed(
    batches: Iterable[tuple[int, BatchHeader]], aborted: Iterable[tuple[int, int]]
) -> Iterator[tuple[int, BatchHeader, bool]]:
    """Batches of one answer, and whether a reader of committed records sees what is in each.

    `aborted`: (first offset, producer id) as the answer tells them.
    Source: Kafka CompletedFetch.nextFetchedRecord.
    """
    coming = sorted(aborted, reverse=True)
    ignored: set[int] = set()
    for at, header in batches:
        while coming and coming[-1][0] <= header.last_offset:
            ignored.add(coming.pop()[1])
        if header.is_control:
            ignored.discard(header.producer_id)
        is_ignored = header.is_transactional and header.producer_id in ignored
        yield at, header, not (header.is_control or is_ignored)
