"""The records of batches as columns: one pass over their lengths, the rest a column at a time. Pure.

A record: length varint, attributes i8, timestamp delta varlong, offset delta varint, key, value, header count
varint, headers. Source: Kafka DefaultRecord.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Column = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
_VARINT_BYTES_MAX: Final = 10


class Records(NamedTuple):
    """Where the parts of each record are, by position in one buffer; and its deltas."""

    key_at: Column
    """Where the key's length stands."""
    headers_at: Column
    """Where the header count stands."""
    end: Column
    timestamp_delta_ms: Column
    offset_delta: Column

    def where(self, chosen: npt.NDArray[Any]) -> "Records":
        """Some of them, by mask or by position."""
        return Records(*(column[chosen] for column in self))


def record_starts(data: bytes, at: int, end: int, shift: int, append: Callable[[int], None]) -> None:
    """Give where each record at `at`..`end` begins, plus `shift`. The only work done record by record.

    Raises: ValueError where they do not end at `end`.
    """
    try:
        while at < end:
            append(at + shift)
            length = data[at]
            at += 1
            if length >= 0x80:
                more = data[at]
                at += 1
                length = length & 0x7F | (more & 0x7F) << 7
                bits = 14
                while more >= 0x80:
                    more = data[at]
                    at += 1
                    length |= (more & 0x7F) << bits
                    bits += 7
            if length & 1:
                raise ValueError("a record has a negative length")
            at += length >> 1
    except IndexError:
        at = end + 1
    if at != end:
        raise ValueError("the records are cut off")


def records_in(data: bytes, at: int, end: int) -> Records:
    """All records at `at`..`end`. Raises: ValueError where the bytes are not records."""
    starts: list[int] = []
    record_starts(data, at, end, 0, starts.append)
    return read_records(
        data, np.array(starts, np.int64), np.array([*starts[1:], end][: len(starts)], np.int64)
    )


def read_records(buffer: bytes | bytearray, starts: Column, ends: Column) -> Records:
    """Records at known places.

    Raises: ValueError where one runs past its end.
    """
    data = np.frombuffer(buffer, np.uint8)
    _, at = read_varints(data, starts, ends)
    timestamp_delta_ms, at = read_varints(data, at + 1, ends)
    offset_delta, key_at = read_varints(data, at, ends)
    value_at = _behind(*read_varints(data, key_at, ends), ends)
    headers_at = _behind(*read_varints(data, value_at, ends), ends)
    return Records(key_at, headers_at, ends, timestamp_delta_ms, offset_delta)


def _behind(sizes: Column, at: Column, ends: Column) -> Column:
    """The positions behind keys or values, in front of something else; a negative size is null."""
    sizes = np.maximum(sizes, 0)
    if (sizes >= ends - at).any():
        raise ValueError("a key or value runs past its record")
    return at + sizes


def read_varints(data: Bytes, at: Column, ends: Column) -> tuple[Column, Column]:
    """Zigzag varints, of up to 64 bits, and where they end.

    Raises: ValueError where one begins or goes on behind its end.
    """
    if (at >= ends).any():
        raise ValueError("a record is cut off")
    byte = data[at]
    raw = (byte & 0x7F).astype(np.uint64)
    behind = at + 1
    (open_rows,) = np.nonzero(byte & 0x80)
    for place in range(1, _VARINT_BYTES_MAX):
        if not len(open_rows):
            break
        position = behind[open_rows]
        if (position >= ends[open_rows]).any():
            raise ValueError("a record is cut off")
        byte = data[position]
        raw[open_rows] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * place)
        behind[open_rows] += 1
        open_rows = open_rows[byte >= 0x80]
    if len(open_rows):
        raise ValueError("a number of more than 64 bits")
    return (raw >> np.uint64(1)).astype(np.int64) ^ -(raw & np.uint64(1)).astype(np.int64), behind


def varints(values: Column) -> pa.BinaryArray:
    """Numbers as zigzag varints, one value each."""
    raw = ((values << 1) ^ (values >> 63)).view(np.uint64)
    sizes = np.ones(len(raw), np.int64)
    for place in range(1, _VARINT_BYTES_MAX):
        longer = raw >= np.uint64(1 << 7 * place)
        if not longer.any():
            break
        sizes += longer
    offsets = np.zeros(len(raw) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    written = np.empty(offsets[-1], np.uint8)
    first = offsets[:-1].astype(np.int64)
    for place in range(int(sizes.max(initial=0))):
        rows = sizes > place
        more = (sizes[rows] > place + 1).astype(np.uint8) << 7
        written[first[rows] + place] = (raw[rows] >> np.uint64(7 * place)).astype(np.uint8) & 0x7F | more
    return pa.BinaryArray.from_buffers(
        pa.binary(), len(raw), [None, pa.py_buffer(offsets), pa.py_buffer(written)]
    )


def slices(buffer: bytes | bytearray, starts: Column, ends: Column) -> pa.BinaryArray:
    """Parts of a buffer, in ascending order and apart from each other, one value each."""
    bounds = np.empty(2 * len(starts) + 1, np.int32)
    bounds[0:-1:2] = starts
    bounds[1::2] = ends
    bounds[-1] = ends[-1] if len(ends) else 0
    every = pa.BinaryArray.from_buffers(
        pa.binary(), 2 * len(starts), [None, pa.py_buffer(bounds), pa.py_buffer(buffer)]
    )
    return every.take(pa.array(np.arange(0, 2 * len(starts), 2)))
