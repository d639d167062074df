"""Records of source batches written into batches for the target, each with where it came from. Pure.

A record: length varint, attributes i8, timestamp delta varlong, offset delta varint, key, value, header count
varint, headers. Key, value and headers are copied as they are; lengths, deltas and the header count are
written anew and one header is added. This runs once per record: varints of one and two bytes are read in
place and nothing is decoded that is not needed.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from wire.batch import HEADER_SIZE, BatchHeader
from wire.varint import read_varint, write_varint

LINEAGE_HEADER: Final = b"mirror.source"
"""Value: `<cluster id>/<topic id>/<partition>/<offset>`. A record mirrored twice has two, in order."""
_ROOM_BYTES: Final = 4096
"""For a batch's header, and for records that do not compress."""


_SMALL_COUNT: Final = 32_768
"""More than the records of any batch, each of which has its lineage."""
Span = tuple[int, int, int, int, int]
"""Of a record: where its key's length and its header count are, its end, timestamp and offset delta."""


def _varint(value: int) -> bytes:
    out = bytearray()
    write_varint(out, value)
    return bytes(out)


_SMALL: Final = [_varint(value) for value in range(_SMALL_COUNT)]
_NAME: Final = _varint(len(LINEAGE_HEADER)) + LINEAGE_HEADER


class Draft(NamedTuple):
    """A batch for the target, but for what its producer adds."""

    buffer: bytearray
    """Room for a header, and the records, not compressed."""
    record_count: int
    codec: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    first_offset: int
    """Of the source."""


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
        self._parts: list[bytes] = [bytes(HEADER_SIZE)]
        self._count = 0
        self._size_bytes = 0
        self._base_timestamp_ms = 0
        self._max_timestamp_ms = 0
        self._first_offset = -1

    def add(self, header: BatchHeader, data: bytes, at: int, end: int, from_offset: int) -> Iterator[Draft]:
        """Take the records at `at`..`end`, decompressed, from a source offset on. Gives full batches.

        Raises: ValueError where the bytes are not records.
        """
        if header.codec != self._codec:
            yield from self.cut()
            self._codec = header.codec
        base_offset, base_timestamp_ms = header.base_offset, header.base_timestamp_ms
        spans = walk(data, at, end)
        if base_offset < from_offset:
            spans = [span for span in spans if base_offset + span[4] >= from_offset]
        with_headers = any(headers_at != behind - 1 for _, headers_at, behind, _, _ in spans)
        if with_headers and data.find(LINEAGE_HEADER, at, end) >= 0:
            read = len(spans)
            spans = [span for span in spans if not self._is_from_target(data, span[1], span[2])]
            self.filtered += read - len(spans)
        if header.is_log_append_time:
            base_timestamp_ms = header.max_timestamp_ms
            spans = [(*span[:3], 0, span[4]) for span in spans]
        done = 0
        while done < len(spans):
            if not self._count:
                self._base_timestamp_ms = self._max_timestamp_ms = base_timestamp_ms + spans[done][3]
                self._first_offset = base_offset + spans[done][4]
            taken = self._take(data, base_offset, base_timestamp_ms - self._base_timestamp_ms, spans[done:])
            done += taken
            if done < len(spans):
                yield self._draft()

    def _take(self, data: bytes, base_offset: int, shift_ms: int, spans: list[Span]) -> int:
        """Write records until the batch is full; returns how many, one at least if it was empty."""
        parts, count, size_bytes, bytes_max = self._parts, self._count, self._size_bytes, self._bytes_max
        from_count, largest_ms = count, 0
        small = _SMALL
        prefix, digits_end = b"", 0
        for key_at, headers_at, end, delta_ms, offset_delta in spans:
            offset = base_offset + offset_delta
            if offset >= digits_end:
                prefix, digits_end = self._lineage_field(offset)
            if headers_at == end - 1:
                tail = b"\2%b%d" % (prefix, offset)
            else:
                headers, at = read_varint(data, headers_at)
                tail = b"%b%b%b%d" % (_varint(headers + 1), data[at:end], prefix, offset)
            delta_ms += shift_ms
            if delta_ms > largest_ms:
                largest_ms = delta_ms
            timestamp = small[delta_ms] if 0 <= delta_ms < _SMALL_COUNT else _varint(delta_ms)
            head = b"\0%b%b" % (timestamp, small[count])
            length = len(head) + headers_at - key_at + len(tail)
            if size_bytes + length > bytes_max and count:
                break
            parts += (
                small[length] if length < _SMALL_COUNT else _varint(length),
                head,
                data[key_at:headers_at],
                tail,
            )
            size_bytes += length + 3
            count += 1
        self._count, self._size_bytes = count, size_bytes
        self._max_timestamp_ms = max(self._max_timestamp_ms, self._base_timestamp_ms + largest_ms)
        return count - from_count

    def _lineage_field(self, offset: int) -> tuple[bytes, int]:
        """The added header in front of the offset's digits, and up to which offset it holds."""
        digits = len(str(offset))
        return _NAME + _varint(len(self._lineage) + digits) + self._lineage, 10**digits

    def cut(self) -> Iterator[Draft]:
        """What has been collected, as a batch of its own."""
        if self._count:
            yield self._draft()

    def _draft(self) -> Draft:
        draft = Draft(
            bytearray().join(self._parts),
            self._count,
            self._codec,
            self._base_timestamp_ms,
            self._max_timestamp_ms,
            self._first_offset,
        )
        self._clear()
        return draft

    def _is_from_target(self, data: bytes, at: int, end: int) -> bool:
        return any(value.startswith(self._target) for value in lineage_of(data, at, end))


def walk(data: bytes, at: int, size: int) -> list[Span]:  # noqa: C901 - one varint after the other, in place
    """Where the parts of each record at `at`..`size` are.

    Raises: ValueError where the bytes are not records.
    """
    spans: list[Span] = []
    try:
        while at < size:
            length = data[at]
            at += 1
            if length >= 0x80:
                second = data[at]
                if second < 0x80:
                    length = length & 0x7F | second << 7
                    at += 1
                else:
                    length, at = _longer(data, at)
            end = at + (length >> 1)
            delta_ms = data[at + 1]
            at += 2
            if delta_ms >= 0x80:
                delta_ms, at = _longer(data, at)
            offset_delta = data[at]
            at += 1
            if offset_delta >= 0x80:
                second = data[at]
                if second < 0x80:
                    offset_delta = offset_delta & 0x7F | second << 7
                    at += 1
                else:
                    offset_delta, at = _longer(data, at)
            key_at = at
            size_key = data[at]
            at += 1
            if size_key >= 0x80:
                size_key, at = _longer(data, at)
            if size_key != 1:
                at += size_key >> 1
            size_value = data[at]
            at += 1
            if size_value >= 0x80:
                second = data[at]
                if second < 0x80:
                    size_value = size_value & 0x7F | second << 7
                    at += 1
                else:
                    size_value, at = _longer(data, at)
            if size_value != 1:
                at += size_value >> 1
            if not at < end <= size:
                raise ValueError(f"a record ends at {end} of {size}, its value at {at}")
            spans.append((key_at, at, end, delta_ms >> 1 ^ -(delta_ms & 1), offset_delta >> 1))
            at = end
    except IndexError as error:
        raise ValueError("the records are cut off") from error
    return spans


def _longer(data: bytes, at: int) -> tuple[int, int]:
    """A varint of several bytes whose second is at `at`, still in zigzag form, and the position behind it."""
    second = data[at]
    if second < 0x80:
        return data[at - 1] & 0x7F | second << 7, at + 1
    value, at = read_varint(data, at - 1)
    return value << 1 ^ value >> 63, at


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
