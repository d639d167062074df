"""Records of source batches written into batches for the target, each with where it came from. Pure.

Key, value and headers are copied as they are; lengths, deltas and the header count are written anew and one
header is added. Batches are collected until one of the target's is full, so that small ones, too, are worked
on a column at a time.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.mirror.columns import (
    Column,
    Records,
    read_records,
    read_varints,
    record_starts,
    records_in,
    slices,
    varints,
)
from wire.batch import HEADER_SIZE, BatchHeader
from wire.varint import read_varint, write_varint

LINEAGE_HEADER: Final = b"mirror.source"
"""Value: `<cluster id>/<topic id>/<partition>/<offset>`. A record mirrored twice has two, in order."""
_ROOM_BYTES: Final = 4096
"""For a batch's header, and for records that do not compress."""
_NUMBERS_BYTES_MAX: Final = 40
"""All varints of a record but those inside its key, value and headers, and the digits of an offset."""
_NOTHING_BETWEEN: Final = pa.scalar(b"", pa.binary())


class Draft(NamedTuple):
    """A batch for the target, but for what its producer adds."""

    buffer: bytearray
    """Room for a header, and the records, not compressed."""
    record_count: int
    codec: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    first_offset: int
    """The first offset, at the source."""


class _Source(NamedTuple):
    """A batch that was collected."""

    header: BatchHeader
    data: bytes
    """Its records."""
    record_count: int
    from_offset: int
    """Records below are left out."""


class _Rows(NamedTuple):
    """What has been collected, ready to be written."""

    data: bytes
    records: Records
    timestamps_ms: Column
    offsets: Column

    def where(self, chosen: npt.NDArray[Any]) -> "_Rows":
        return _Rows(self.data, self.records.where(chosen), self.timestamps_ms[chosen], self.offsets[chosen])


class Rebatcher:
    """Collects records of one partition, in order, into batches of about `bytes_max`."""

    def __init__(self, lineage: bytes, target_id: str, bytes_max: int) -> None:
        self._lineage = lineage
        self._target = target_id.encode() + b"/"
        self._bytes_max = bytes_max - min(_ROOM_BYTES, bytes_max // 8)
        self.filtered = 0
        """Records left out, since they came from the target."""
        self._codec = 0
        self._clear()

    def _clear(self) -> None:
        self._sources: list[_Source] = []
        self._starts: list[int] = []
        self._size_bytes = 0

    def add(self, header: BatchHeader, data: bytes, at: int, end: int, from_offset: int) -> Iterator[Draft]:
        """Take the records at `at`..`end`, decompressed, from a source offset on. Gives full batches.

        Raises: ValueError where the bytes are not records.
        """
        if header.codec != self._codec:
            yield from self.cut()
            self._codec = header.codec
        before = len(self._starts)
        try:
            record_starts(data, at, end, self._size_bytes - at, self._starts.append)
        except ValueError as error:
            raise _unreadable(header, error) from error
        self._sources.append(_Source(header, data[at:end], len(self._starts) - before, from_offset))
        self._size_bytes += end - at
        if self._size_bytes >= self._bytes_max:
            yield from self.cut()

    def cut(self) -> Iterator[Draft]:
        """What has been collected. Raises: ValueError where the bytes are not records."""
        if not self._starts:
            return
        rows = self._collected()
        self._clear()
        if not len(rows.offsets):
            return
        records = rows.records
        room = len(LINEAGE_HEADER) + len(self._lineage) + _NUMBERS_BYTES_MAX
        filled = np.cumsum(records.end - records.key_at + room)
        bounds = [0]
        while bounds[-1] < len(filled):
            first = bounds[-1]
            full = filled[first - 1] + self._bytes_max if first else self._bytes_max
            bounds.append(max(first + 1, int(np.searchsorted(filled, full, "right"))))
        for first, behind in pairwise(bounds):
            yield self._draft(rows.where(np.arange(first, behind)))

    def _collected(self) -> _Rows:
        """The records from the offset on that did not come from the target."""
        sources = self._sources
        data = sources[0].data if len(sources) == 1 else b"".join(source.data for source in sources)
        starts = np.array(self._starts, np.int64)
        try:
            records = read_records(data, starts, np.append(starts[1:], len(data)))
        except ValueError:
            for source in sources:
                _check(source)
            raise
        offsets = records.offset_delta + self._of_each([source.header.base_offset for source in sources])
        times_ms = records.timestamp_delta_ms + self._of_each([s.header.base_timestamp_ms for s in sources])
        if any(source.header.is_log_append_time for source in sources):
            appended_ms = [s.header.max_timestamp_ms for s in sources]
            is_appended = self._of_each([s.header.is_log_append_time for s in sources]) == 1
            times_ms = np.where(is_appended, self._of_each(appended_ms), times_ms)
        rows = _Rows(data, records, times_ms, offsets)
        if any(source.header.base_offset < source.from_offset for source in sources):
            rows = rows.where(offsets >= self._of_each([source.from_offset for source in sources]))
        return self._without_returned(rows)

    def _of_each(self, values: list[int]) -> Column:
        """Per record what is so of its batch."""
        return np.repeat(np.array(values, np.int64), [source.record_count for source in self._sources])

    def _without_returned(self, rows: _Rows) -> _Rows:
        headers_at, end = rows.records.headers_at, rows.records.end
        (with_headers,) = np.nonzero(headers_at != end - 1)
        returned = [
            row
            for row in with_headers
            if self._is_from_target(rows.data, int(headers_at[row]), int(end[row]))
        ]
        self.filtered += len(returned)
        return rows.where(np.delete(np.arange(len(end)), returned)) if returned else rows

    def _is_from_target(self, data: bytes, at: int, end: int) -> bool:
        return any(value.startswith(self._target) for value in lineage_of(data, at, end))

    def _draft(self, rows: _Rows) -> Draft:
        """One batch of all rows."""
        count, records = len(rows.offsets), rows.records
        base_ms = int(rows.timestamps_ms[0])
        digits = pc.cast(pc.cast(pa.array(rows.offsets), pa.string()), pa.binary())
        parts = (
            pa.scalar(b"\0"),
            varints(rows.timestamps_ms - base_ms),
            varints(np.arange(count, dtype=np.int64)),
            slices(rows.data, records.key_at, records.headers_at),
            *self._headers_of(rows.data, records),
            pa.scalar(_varint(len(LINEAGE_HEADER)) + LINEAGE_HEADER),
            varints(_sizes(digits) + len(self._lineage)),
            pa.scalar(self._lineage),
            digits,
        )
        lengths = np.broadcast_to(sum(_sizes(part) for part in parts), count)
        written = pc.binary_join_element_wise(varints(lengths), *parts, _NOTHING_BETWEEN).buffers()[2]
        buffer = bytearray(HEADER_SIZE)
        buffer += written
        newest_ms = int(rows.timestamps_ms.max())
        return Draft(buffer, count, self._codec, base_ms, newest_ms, int(rows.offsets[0]))

    @staticmethod
    def _headers_of(data: bytes, records: Records) -> tuple[pa.Scalar | pa.Array, ...]:
        """The header count, one more than it was, and the headers there were."""
        headers_at, end = records.headers_at, records.end
        if (headers_at == end - 1).all():
            return (pa.scalar(_varint(1)),)
        counts, behind = read_varints(np.frombuffer(data, np.uint8), headers_at, end)
        return varints(counts + 1), slices(data, behind, end)


def _sizes(part: pa.Scalar | pa.Array) -> Any:
    """Bytes of each value, or of the one that stands in all records."""
    sizes = pc.binary_length(part)
    return sizes.as_py() if isinstance(part, pa.Scalar) else sizes.to_numpy().astype(np.int64)


def _check(source: _Source) -> None:
    """Raises: ValueError where the bytes of one batch are not records."""
    try:
        records_in(source.data, 0, len(source.data))
    except ValueError as error:
        raise _unreadable(source.header, error) from error


def _unreadable(header: BatchHeader, error: ValueError) -> ValueError:
    return ValueError(f"the batch at offset {header.base_offset} cannot be read: {error}")


def _varint(value: int) -> bytes:
    out = bytearray()
    write_varint(out, value)
    return bytes(out)


def lineage_of(payload: bytes, at: int, end: int) -> Iterator[bytes]:
    """The values of the lineage headers of a record whose header count is at `at`, oldest first.

    Raises: ValueError where the bytes are not headers.
    """
    count, at = read_varint(payload, at)
    for _ in range(count):
        size, at = read_varint(payload, at)
        name_at, at = at, at + max(size, 0)
        length, value_at = read_varint(payload, at)
        if size < 0 or value_at + max(length, 0) > end:
            raise ValueError("headers run past their record")
        at = value_at + max(length, 0)
        if payload[name_at : name_at + size] == LINEAGE_HEADER:
            yield payload[value_at:at]
