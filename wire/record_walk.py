"""Whether the bytes behind a batch's header are the records that the header declares. Pure.

A record: length varint, attributes i8, timestamp delta varlong, offset delta varint, key length varint, key,
value length varint, value, header count varint, headers; lengths are zigzag, -1 is null. Three depths, by
what they cost:

* `check_count` compares numbers of the header, whatever the codec.
* `check_lengths` goes from record to record by their lengths: 0.1-0.2 us each, 0.02 us where neighbours are
  equally long, for it is paid by every batch that is not compressed. The first and the last record are looked
  at as a whole.
* `RecordScan` looks at every field of every record, in slices: 0.5 us each.

Source: Kafka LogValidator, DefaultRecordBatch (uncompressedIterator), DefaultRecord.readFrom.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from wire.batch import CODEC_NONE, HEADER_SIZE, BatchError, BatchHeader, Buffer
from wire.varint import read_varint

RECORD_BYTES_MIN: Final = 7
"""A length, five fields of a byte and the attributes."""
_BODY_BYTES_MIN: Final = RECORD_BYTES_MIN - 1
COMPRESSED_COUNT_FREE: Final = 10_000
"""Records that a compressed batch may declare however small it is."""
COMPRESSED_COUNT_PER_BYTE: Final = 16
"""Offset deltas count up, so no codec makes less than about a bit of a record."""
COUNT_MAX: Final = 1_000_000
"""Of a compressed batch: what librdkafka's batch.num.messages can be set to."""
KEYLESS_TOLD_MAX: Final = 100
"""Of the records without a key, so many are named in the answer."""
_LEAP_AFTER: Final = 3
"""So many neighbours of equal length make it worthwhile to look how many more there are."""
_LEAP_MIN: Final = 8
_VARINT_LONG: Final = 0x80
_VARINT_BYTES_MAX: Final = 10
_LENGTH_OF_TWO_BYTES_MAX: Final = (1 << 13) - 1
"""Records of at least 8 KiB have longer ones: they are few in a batch."""


class KeylessRecords(BatchError):  # noqa: N818 - states what is so
    """A compacted topic takes no record without a key. `indexes` are the first of them, in their order."""

    def __init__(self, indexes: tuple[int, ...]) -> None:
        super().__init__(ErrorCode.invalid_record, "a compacted topic does not accept a record without key")
        self.indexes = indexes


def check_count(header: BatchHeader) -> None:
    """Whether so many records can be in so few bytes. Raises: BatchError (INVALID_RECORD; MESSAGE_TOO_LARGE,
    which makes Java's producer split the batch, above `COUNT_MAX`)."""
    count, payload_bytes = header.record_count, header.size_bytes - HEADER_SIZE
    if header.codec == CODEC_NONE:
        if count * RECORD_BYTES_MIN > payload_bytes:
            raise _invalid(f"{count} records cannot be in {payload_bytes} bytes")
        return
    if count > COMPRESSED_COUNT_FREE + COMPRESSED_COUNT_PER_BYTE * payload_bytes:
        raise _invalid(f"{count} records cannot be in {payload_bytes} compressed bytes")
    if count > COUNT_MAX:
        raise BatchError(
            ErrorCode.message_too_large, f"the batch has {count} records, {COUNT_MAX} is the most"
        )


def check_lengths(batch: memoryview, header: BatchHeader) -> None:
    """Whether the records of an uncompressed batch fill it to the byte. Raises: BatchError (INVALID_RECORD).

    `check_count` has passed.
    """
    end, count = header.size_bytes, header.record_count
    try:
        plain_end = _plain_end(batch, HEADER_SIZE)
        if count == 1 and plain_end == end:
            return
        last_at = _last_of_equals(batch, HEADER_SIZE, end, count) or _walk(batch, HEADER_SIZE, end, count)
        if plain_end < 0:
            check_record(batch, HEADER_SIZE, end, 0)
        if count > 1 and _offset_delta(batch, last_at) != count - 1:
            raise ValueError(f"the last of {count} records has another offset delta than {count - 1}")
    except (IndexError, ValueError) as error:
        raise _malformed(error) from error


def _plain_end(data: memoryview, at: int) -> int:
    """Where the record at `at` ends if it has offset delta 0, a small or no key, no headers, and fills its
    length: what most do, told by the shortest way. -1: it is another, or none."""
    try:
        byte = data[at]
        if byte & 1:
            return -1
        if byte < _VARINT_LONG:
            behind = at + 1 + (byte >> 1)
            at += 2
        elif data[at + 1] < _VARINT_LONG:
            behind = at + 2 + ((byte & 0x7F | data[at + 1] << 7) >> 1)
            at += 3
        else:
            size, at = read_varint(data, at)
            behind = at + size
            at += 1
        while data[at] >= _VARINT_LONG:
            at += 1
        key = data[at + 2]
        if data[at + 1] or key >= _VARINT_LONG or (key & 1 and key != 1):
            return -1
        at += 3 + (key >> 1)
        value = data[at]
        if value < _VARINT_LONG:
            at += 1 + (value >> 1) if value == 1 or not value & 1 else 0
        elif data[at + 1] < _VARINT_LONG:
            at += 2 + ((value & 0x7F | data[at + 1] << 7) >> 1) if not value & 1 else 0
        else:
            size, at = read_varint(data, at)
            at += size
        return behind if at + 1 == behind and not data[at] else -1
    except (IndexError, ValueError):
        return -1


def _last_of_equals(data: memoryview, at: int, end: int, count: int) -> int:
    """Where the last of `count` records begins when all are as long as the first, as the records of small
    batches often are; 0: they are not."""
    step, left = divmod(end - at, count)
    first, second = data[at], data[at + 1]
    if left or first & 1:
        return 0
    if first < _VARINT_LONG:
        if step != 1 + (first >> 1):
            return 0
    elif (
        second >= _VARINT_LONG
        or step != 2 + ((first & 0x7F | second << 7) >> 1)
        or step < _BODY_BYTES_MIN + 2
        or data[at + 1 : end : step].tobytes().count(second) != count
    ):
        return 0
    return end - step if data[at:end:step].tobytes().count(first) == count else 0


def _offset_delta(data: memoryview, at: int) -> int:
    while data[at] >= _VARINT_LONG:
        at += 1
    at += 2
    while data[at] >= _VARINT_LONG:
        at += 1
    return read_varint(data, at + 1)[0]


def _walk(data: memoryview, at: int, end: int, count: int) -> int:
    """Where the last of `count` records begins, which end at `end`. Raises: ValueError, IndexError."""
    left = count
    last_at = at
    before = equal = 0
    while left:
        first = data[at]
        if first < _VARINT_LONG:
            size = first >> 1
            step = size + 1
        else:
            second = data[at + 1]
            if second < _VARINT_LONG:
                size = (first & 0x7F | second << 7) >> 1
                step = size + 2
            else:
                size, behind = read_varint(data, at)
                step = behind - at + size
        if first & 1 or size < _BODY_BYTES_MIN:
            raise ValueError("a record's length is negative or too small")
        left -= 1
        last_at = at
        at += step
        if at > end:
            raise ValueError(f"a record ends {at - end} bytes behind the batch")
        if step != before:
            before, equal = step, 0
            continue
        equal += 1
        if equal == _LEAP_AFTER:
            equal = 0
            leap = _equal_ahead(data, at, min(left, (end - at) // step), step)
            if leap:
                left -= leap
                at += leap * step
                last_at = at - step
    if at != end:
        raise ValueError(f"{end - at} bytes follow the last record")
    return last_at


def _equal_ahead(data: memoryview, at: int, count: int, step: int) -> int:
    """How many of the next `count` records have the length of the one that ends at `at`, at least."""
    if count < _LEAP_MIN:
        return 0
    before = at - step
    byte_count = 1 if data[before] < _VARINT_LONG else 2
    for nth in range(byte_count):
        lengths = data[at + nth : at + nth + (count - 1) * step + 1 : step].tobytes()
        count = len(lengths) - len(lengths.lstrip(data[before + nth : before + nth + 1]))
        if not count:
            return 0
    if byte_count == 2 and data[before + 1] >= _VARINT_LONG:
        return 0  # three bytes: a record of 8 KiB is worth a step of its own
    return count


def check_record(data: Buffer, at: int, end: int, offset_delta: int) -> tuple[int, bool]:
    """(where the record that begins at `at` ends, whether it has no key): its fields fill it to the byte.

    Raises: ValueError; IndexError where `data` ends in it.
    """
    size, at = read_varint(data, at)
    behind = at + size
    if size < _BODY_BYTES_MIN or behind > end:
        raise ValueError(f"a record of {size} bytes where {end - at} are left")
    _, at = read_varint(data, at + 1)
    found, at = read_varint(data, at)
    if found != offset_delta:
        raise ValueError(f"a record of offset delta {found} where {offset_delta} is due")
    key_size, at = read_varint(data, at)
    value_size, at = read_varint(data, _behind(key_size, at, behind))
    header_count, at = read_varint(data, _behind(value_size, at, behind))
    if header_count < 0 or header_count > behind - at:
        raise ValueError(f"{header_count} headers")
    for _ in range(header_count):
        name_size, at = read_varint(data, at)
        if name_size < 0:
            raise ValueError("a header without a name")
        header_value_size, at = read_varint(data, _behind(name_size, at, behind))
        at = _behind(header_value_size, at, behind)
    if at != behind:
        raise ValueError(f"the fields of a record end at {at}, its length says {behind}")
    return behind, key_size < 0


def _behind(size: int, at: int, end: int) -> int:
    """Where a nullable field of `size` bytes ends."""
    if size < -1 or size > end - at:
        raise ValueError(f"a field of {size} bytes")
    return at + size if size > 0 else at


class ScanTask(NamedTuple):
    """What the records of one batch have to be."""

    record_count: int
    needs_keys: bool


class RecordScan:
    """Every field of every record of one batch, in slices of as many records as the caller can spare."""

    __slots__ = ("_at", "_end", "_keyless", "_next", "_payload", "_task")

    def __init__(self, payload: Buffer, at: int, end: int, task: ScanTask) -> None:
        self._payload = payload
        self._at = at
        self._end = end
        self._task = task
        self._next = 0
        self._keyless: list[int] = []

    def step(self, records_max: int) -> bool:
        """Look at `records_max` more; whether all were seen.

        Raises: BatchError (INVALID_RECORD), of which KeylessRecords at the end only.
        """
        stop = min(self._next + records_max, self._task.record_count)
        try:
            self._scan(stop)
        except (IndexError, ValueError) as error:
            raise _malformed(error) from error
        if stop < self._task.record_count:
            return False
        if self._at != self._end:
            raise _invalid(f"malformed records: {self._end - self._at} bytes follow the last record")
        if self._keyless:
            raise KeylessRecords(tuple(self._keyless))
        return True

    def _scan(self, stop: int) -> None:
        """Records up to index `stop`. What most records are is told here, in place; anything else, right or
        wrong, is left to `check_record`."""
        data, at, end, index = self._payload, self._at, self._end, self._next
        while index < stop:
            start = at
            byte = data[at]
            if byte < _VARINT_LONG:
                behind = at + 1 + (byte >> 1)
                at += 2
            else:
                behind = at + 2 + ((byte & 0x7F | data[at + 1] << 7) >> 1)
                at += 3
            timestamp_at = at
            while data[at] >= _VARINT_LONG:
                at += 1
            is_plain = (
                at - timestamp_at < _VARINT_BYTES_MAX and behind - start <= _LENGTH_OF_TWO_BYTES_MAX + 2
            )
            delta = data[at + 1]
            at += 2
            if delta >= _VARINT_LONG:
                delta = delta & 0x7F | data[at] << 7
                at += 1
                if delta >= _VARINT_LONG << 7:
                    delta = delta & 0x3FFF | data[at] << 14
                    at += 1
            key = data[at]
            if is_plain and delta == index << 1 and ((key < _VARINT_LONG and not key & 1) or key == 1):
                at += 1 + (key >> 1)
                byte = data[at] if at < end else _VARINT_LONG
                if byte < _VARINT_LONG and (not byte & 1 or byte == 1):
                    at += 1 + (byte >> 1)
                elif byte >= _VARINT_LONG:
                    size, at = read_varint(data, at)
                    at += max(size, 0)
                if at + 1 == behind <= end and not data[at]:
                    at = behind
                    if key == 1:
                        self._note_keyless(index)
                    index += 1
                    continue
            at, has_no_key = check_record(data, start, end, index)
            if has_no_key:
                self._note_keyless(index)
            index += 1
        self._at, self._next = at, index

    def _note_keyless(self, index: int) -> None:
        if self._task.needs_keys and len(self._keyless) < KEYLESS_TOLD_MAX:
            self._keyless.append(index)


def _invalid(message: str) -> BatchError:
    return BatchError(ErrorCode.invalid_record, message)


def _malformed(error: Exception) -> BatchError:
    if isinstance(error, IndexError):
        return _invalid("malformed records: they are cut off")
    return _invalid(f"malformed records: {error}")


def find_timestamp(
    payload: Buffer, header: BatchHeader, timestamp_ms: int, from_offset: int
) -> Iterator[tuple[int, int] | None]:
    """None for each record that is too old or in front of `from_offset`, then (timestamp, offset) of the
    first that is not. Raises: BatchError (INVALID_RECORD)."""
    delta_min, offset_min = timestamp_ms - header.base_timestamp_ms, from_offset - header.base_offset
    at, end = 0, len(payload)
    try:
        for _ in range(header.record_count):
            size, at = read_varint(payload, at)
            behind = at + size
            if size < _BODY_BYTES_MIN or behind > end:
                raise ValueError(f"a record of {size} bytes where {end - at} are left")
            delta, at = read_varint(payload, at + 1)
            if delta >= delta_min:
                offset_delta, _ = read_varint(payload, at)
                if offset_delta >= offset_min:
                    yield header.base_timestamp_ms + delta, header.base_offset + offset_delta
                    return
            yield None
            at = behind
    except (IndexError, ValueError) as error:
        raise _malformed(error) from error
