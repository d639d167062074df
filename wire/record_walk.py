"""Whether the bytes behind a batch's header are the records that the header declares. Pure.

A record: length varint, attributes i8, timestamp delta varlong, offset delta varint, key length varint, key,
value length varint, value, header count varint, headers; lengths are zigzag, -1 is null. Three depths, by
what they cost:

* `check_count` compares numbers of the header, whatever the codec.
* `wire.record_lengths` goes from record to record by their lengths.
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
BODY_BYTES_MIN: Final = RECORD_BYTES_MIN - 1
COMPRESSED_COUNT_FREE: Final = 10_000
"""Records that a compressed batch may declare however small it is."""
COMPRESSED_COUNT_PER_BYTE: Final = 16
"""Offset deltas count up, so no codec makes less than about a bit of a record."""
COUNT_MAX: Final = 1_000_000
"""Records of a compressed batch: what librdkafka's batch.num.messages can be set to."""
KEYLESS_TOLD_MAX: Final = 100
"""Records without a key that are named in the answer."""
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


def check_record(data: Buffer, at: int, end: int, offset_delta: int) -> tuple[int, bool]:
    """(where the record that begins at `at` ends, whether it has no key): its fields fill it to the byte.

    Raises: ValueError; IndexError where `data` ends in it.
    """
    size, at = read_varint(data, at)
    behind = at + size
    if size < BODY_BYTES_MIN or behind > end:
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
            raise malformed(error) from error
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
                    at = at + size if size >= 0 else start
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


def malformed(error: Exception) -> BatchError:
    """What an IndexError or ValueError on the way says of the batch."""
    if isinstance(error, IndexError):
        return _invalid("malformed records: they are cut off")
    return _invalid(f"malformed records: {error}")


def record_times(
    payload: Buffer, header: BatchHeader, timestamp_ms: int, from_offset: int
) -> Iterator[tuple[int, int] | None]:
    """(timestamp, offset) of each record; None of one that is older than `timestamp_ms` or in front of
    `from_offset`. Raises: BatchError (INVALID_RECORD)."""
    delta_min, offset_min = timestamp_ms - header.base_timestamp_ms, from_offset - header.base_offset
    at, end = 0, len(payload)
    try:
        for _ in range(header.record_count):
            size, at = read_varint(payload, at)
            behind = at + size
            if size < BODY_BYTES_MIN or behind > end:
                raise ValueError(f"a record of {size} bytes where {end - at} are left")
            delta, at = read_varint(payload, at + 1)
            found = None
            if delta >= delta_min:
                offset_delta, _ = read_varint(payload, at)
                if offset_delta >= offset_min:
                    found = header.base_timestamp_ms + delta, header.base_offset + offset_delta
            yield found
            at = behind
    except (IndexError, ValueError) as error:
        raise malformed(error) from error
