"""Records of source batches written into batches for the target, each with where it came from. Pure.

A record: length varint, attributes i8, timestamp delta varlong, offset delta varint, key, value, header count
varint, headers. Key, value and headers are copied as they are; lengths, deltas and the header count are
written anew and one header is added. This runs once per record: varints of one and two bytes are read in
place and nothing is decoded that is not needed.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from wire.batch import BatchHeader
from wire.varint import read_varint, write_varint

LINEAGE_HEADER: Final = b"mirror.source"
"""Value: `<cluster id>/<topic id>/<partition>/<offset>`. A record mirrored twice has two, in order."""
_ROOM_BYTES: Final = 4096
"""For a batch's header, and for records that do not compress."""


def _varint(value: int) -> bytes:
    out = bytearray()
    write_varint(out, value)
    return bytes(out)


_SMALL: Final = [_varint(value) for value in range(16_384)]
_NAME: Final = _varint(len(LINEAGE_HEADER)) + LINEAGE_HEADER


def _encoded(value: int) -> bytes:
    return _SMALL[value] if 0 <= value < 16_384 else _varint(value)


class Draft(NamedTuple):
    """A batch for the target, but for what its producer adds."""

    records: bytes
    """Not compressed."""
    record_count: int
    codec: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    first_offset: int
    """Of the source."""
    last_offset: int


class Rebatcher:
    """Collects records of one partition, in order, into batches of about `bytes_max`."""

    def __init__(self, lineage: bytes, target_id: str, bytes_max: int) -> None:
        self._lineage = lineage
        self._target = target_id.encode() + b"/"
        self._bytes_max = bytes_max - min(_ROOM_BYTES, bytes_max // 8)
        self.filtered = 0
        self._codec = 0
        self._clear()

    def _clear(self) -> None:
        self._parts: list[bytes] = []
        self._count = 0
        self._size_bytes = 0
        self._base_timestamp_ms = 0
        self._max_timestamp_ms = 0
        self._first_offset = -1
        self._last_offset = -1

    def add(self, header: BatchHeader, payload: bytes, from_offset: int) -> Iterator[Draft]:
        """Take the records of a batch from an offset on; `payload` is decompressed. Gives full batches.

        Raises: ValueError where the bytes are not records.
        """
        if header.codec != self._codec:
            yield from self.cut()
            self._codec = header.codec
        marked = LINEAGE_HEADER in payload
        stamped_ms = header.max_timestamp_ms if header.is_log_append_time else None
        shape = _HeaderShape(self._lineage)
        for key_at, headers_at, end, time_delta_ms, offset_delta in walk(payload):
            offset = header.base_offset + offset_delta
            if offset < from_offset:
                continue
            if marked and self._is_from_target(payload, headers_at, end):
                self.filtered += 1
                continue
            time_ms = header.base_timestamp_ms + time_delta_ms if stamped_ms is None else stamped_ms
            if headers_at == end - 1:
                tail = b"\2" + shape.header(offset)
            else:
                count, at = read_varint(payload, headers_at)
                tail = _varint(count + 1) + payload[at:end] + shape.header(offset)
            size_bytes = headers_at - key_at + len(tail) + 12
            if self._count and self._size_bytes + size_bytes > self._bytes_max:
                yield self._draft()
            self._append(payload[key_at:headers_at], tail, time_ms, offset)

    def _append(self, fields: bytes, tail: bytes, time_ms: int, offset: int) -> None:
        if not self._count:
            self._first_offset = offset
            self._base_timestamp_ms = self._max_timestamp_ms = time_ms
        elif time_ms > self._max_timestamp_ms:
            self._max_timestamp_ms = time_ms
        head = b"\0" + _encoded(time_ms - self._base_timestamp_ms) + _encoded(self._count)
        length = len(head) + len(fields) + len(tail)
        self._parts += (_encoded(length) + head, fields, tail)
        self._size_bytes += length + 3
        self._count += 1
        self._last_offset = offset

    def cut(self) -> Iterator[Draft]:
        """What has been collected, as a batch of its own."""
        if self._count:
            yield self._draft()

    def _draft(self) -> Draft:
        draft = Draft(
            b"".join(self._parts),
            self._count,
            self._codec,
            self._base_timestamp_ms,
            self._max_timestamp_ms,
            self._first_offset,
            self._last_offset,
        )
        self._clear()
        return draft

    def _is_from_target(self, payload: bytes, at: int, end: int) -> bool:
        return any(value.startswith(self._target) for value in lineage_of(payload, at, end))


class _HeaderShape:
    """The added header: only the digits of the offset differ from record to record."""

    def __init__(self, lineage: bytes) -> None:
        self._lineage = lineage
        self._from = self._below = 0
        self._prefix = b""

    def header(self, offset: int) -> bytes:
        """The header of the record at a source offset."""
        if not self._from <= offset < self._below:
            digits = len(str(offset))
            self._from, self._below = (10 ** (digits - 1) if digits > 1 else 0), 10**digits
            self._prefix = _NAME + _varint(len(self._lineage) + digits) + self._lineage
        return self._prefix + b"%d" % offset


def walk(data: bytes) -> Iterator[tuple[int, int, int, int, int]]:
    """(where the key's length is, where the header count is, end, timestamp delta, offset delta) of records.

    Raises: ValueError where the bytes are not records.
    """
    at, size = 0, len(data)
    try:
        while at < size:
            byte = data[at]
            if byte < 0x80:
                at += 2
                end = at - 1 + (byte >> 1)
            elif data[at + 1] < 0x80:
                at += 3
                end = at - 1 + ((byte & 0x7F | data[at - 2] << 7) >> 1)
            else:
                length, at = read_varint(data, at)
                end = at + length
                at += 1
            byte = data[at]
            if byte < 0x80:
                time_delta_ms = (byte >> 1) ^ -(byte & 1)
                at += 1
            else:
                time_delta_ms, at = read_varint(data, at)
            byte = data[at]
            if byte < 0x80:
                offset_delta = byte >> 1
                key_at = at + 1
            else:
                offset_delta, key_at = read_varint(data, at)
            at = _behind(data, _behind(data, key_at))
            if not at < end <= size:
                raise ValueError(f"a record ends at {end} of {size}, its value at {at}")
            yield key_at, at, end, time_delta_ms, offset_delta
            at = end
    except IndexError as error:
        raise ValueError("the records are cut off") from error


def _behind(data: bytes, at: int) -> int:
    """The position behind a key or value, which may be null."""
    byte = data[at]
    if byte < 0x80:
        return at + 1 if byte == 1 else at + 1 + (byte >> 1)
    second = data[at + 1]
    if second < 0x80:
        return at + 2 + ((byte & 0x7F | second << 7) >> 1)
    length, at = read_varint(data, at)
    return at + max(length, 0)


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
