"""Record batches of magic 2: the 61-byte header as a view over received bytes, and a small record codec.

Layout, all big-endian: base offset i64, batch length i32 (bytes behind it), partition leader epoch i32,
magic i8, CRC-32C u32 (over byte 21 to the end), attributes i16, last offset delta i32, base timestamp i64,
max timestamp i64, producer id i64, producer epoch i16, base sequence i32, record count i32, records. The
CRC does not cover the base offset and the leader epoch, so a broker sets both without touching a record.

Nothing here is done per record, except in `build_batch` and `decode_records`; `wire.record_walk` checks them.
Source: Kafka DefaultRecordBatch, DefaultRecord.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from crc32c import crc32c
from kio.schema.errors import ErrorCode

from wire.varint import read_varint, write_varint

HEADER_SIZE: Final = 61
"""Bytes in front of the first record."""
LOG_OVERHEAD: Final = 12
"""Bytes of a batch that its batch length does not count."""
BATCH_LENGTH_MIN: Final = HEADER_SIZE - LOG_OVERHEAD
MAGIC_V2: Final = 2

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
SEQUENCE_MAX: Final = 2**31 - 1

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40
CODEC_NONE: Final = 0
CODEC_GZIP: Final = 1
CODEC_SNAPPY: Final = 2
CODEC_LZ4: Final = 3
CODEC_ZSTD: Final = 4

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_CRC_AT: Final = 17
_CRC_FROM: Final = 21
_MAX_TIMESTAMP_AT: Final = 35
_I64: Final = struct.Struct(">q")
_I32: Final = struct.Struct(">i")
_U32: Final = struct.Struct(">I")
_I16: Final = struct.Struct(">h")

Buffer: TypeAlias = bytes | bytearray | memoryview
WritableBuffer: TypeAlias = bytearray | memoryview


class BatchError(Exception):
    """A batch breaks a rule; `error_code` is what Kafka answers the producer with."""

    def __init__(self, error_code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code
        self.message = message


class BatchHeader(NamedTuple):
    """The fixed part of a batch, in the order of its bytes."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """The whole batch, header included."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; sequences go on with 0 after 2**31 - 1."""
        if self.base_sequence < 0:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & SEQUENCE_MAX

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME_BIT)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)


class Record(NamedTuple):
    """One record. Headers keep their order and may repeat."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def parse_header(buffer: Buffer, at: int = 0) -> BatchHeader:
    """The header at `at`, unchecked but for its presence.

    Raises: BatchError (CORRUPT_MESSAGE) when fewer than 61 bytes are there.
    """
    try:
        return tuple.__new__(BatchHeader, _HEADER.unpack_from(buffer, at))  # _make is a Python call more
    except struct.error:
        raise BatchError(
            ErrorCode.corrupt_message, f"{len(buffer) - at} bytes are no record batch: it has 61 at least"
        ) from None


def iterate_batches(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of every batch; together they must fill the buffer.

    Raises: BatchError for a batch that is cut off, has an impossible length or another magic.
    """
    at = 0
    size = len(buffer)
    while at < size:
        header = parse_header(buffer, at)
        check_magic(header)
        if header.batch_length < BATCH_LENGTH_MIN:
            raise BatchError(ErrorCode.corrupt_message, f"batch length {header.batch_length} is below 49")
        if header.batch_length + LOG_OVERHEAD > size - at:
            raise BatchError(
                ErrorCode.corrupt_message,
                f"a batch of {header.size_bytes} bytes is cut off after {size - at} bytes",
            )
        yield at, header
        at += header.batch_length + LOG_OVERHEAD


def check_magic(header: BatchHeader) -> None:
    """Raises: BatchError for message formats 0 and 1 (INVALID_RECORD) and unknown ones (CORRUPT_MESSAGE)."""
    if header.magic == MAGIC_V2:
        return
    if header.magic in (0, 1):
        raise BatchError(
            ErrorCode.invalid_record,
            f"message format {header.magic} is not served; produce record batches of magic 2",
        )
    raise BatchError(ErrorCode.corrupt_message, f"magic {header.magic} is unknown")


def check_crc(buffer: Buffer, at: int, header: BatchHeader) -> None:
    """Raises: BatchError (CORRUPT_MESSAGE) when the batch's bytes do not match its CRC-32C."""
    with memoryview(buffer) as view, view[at + _CRC_FROM : at + header.size_bytes] as covered:
        computed = crc32c(covered)
    if computed != header.crc:
        raise BatchError(
            ErrorCode.corrupt_message,
            f"record batch is corrupt (stored crc = {header.crc}, computed crc = {computed})",
        )


def check_client_header(header: BatchHeader) -> None:
    """What Kafka demands of a batch that a client wrote (LogValidator.validateBatch).

    Raises: BatchError.
    """
    fault = None
    if header.base_offset != 0:
        fault = f"the base offset of a produced batch must be 0, it is {header.base_offset}"
    elif header.last_offset_delta < 0:
        fault = f"the batch has an invalid offset range: last offset delta {header.last_offset_delta}"
    elif header.record_count <= 0:
        fault = f"the batch reports {header.record_count} records"
    elif header.record_count != header.last_offset_delta + 1:
        fault = f"offset range 0..{header.last_offset_delta} does not match {header.record_count} records"
    elif header.attributes & CONTROL_BIT:
        fault = "clients may not write control records"
    elif header.attributes & DELETE_HORIZON_BIT:
        fault = "clients may not set a delete horizon"
    elif header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
        fault = (
            f"sequence number {header.base_sequence} and epoch {header.producer_epoch} of producer id "
            f"{header.producer_id} must not be negative"
        )
    elif header.attributes & TRANSACTIONAL_BIT and header.producer_id < 0:
        fault = "a transactional batch needs a producer id"
    if fault is not None:
        raise BatchError(ErrorCode.invalid_record, fault)
    if header.attributes & CODEC_MASK > CODEC_ZSTD:
        raise BatchError(
            ErrorCode.unsupported_compression_type, f"compression codec {header.codec} is unknown"
        )


def assign_offset(buffer: WritableBuffer, at: int, base_offset: int, partition_leader_epoch: int) -> None:
    """Set what the CRC does not cover, in place."""
    _I64.pack_into(buffer, at, base_offset)
    _I32.pack_into(buffer, at + LOG_OVERHEAD, partition_leader_epoch)


def stamp_log_append_time(buffer: WritableBuffer, at: int, header: BatchHeader, now_ms: int) -> BatchHeader:
    """Make `now_ms` the time of every record of the batch, in place. Costs a second CRC-32C."""
    attributes = header.attributes | LOG_APPEND_TIME_BIT
    _I16.pack_into(buffer, at + _CRC_FROM, attributes)
    _I64.pack_into(buffer, at + _MAX_TIMESTAMP_AT, now_ms)
    crc = _seal(buffer, at, header.size_bytes)
    return header._replace(attributes=attributes, max_timestamp_ms=now_ms, crc=crc)


def _seal(buffer: WritableBuffer, at: int, size_bytes: int) -> int:
    with memoryview(buffer) as view, view[at + _CRC_FROM : at + size_bytes] as covered:
        crc: int = crc32c(covered)
    _U32.pack_into(buffer, at + _CRC_AT, crc)
    return crc


def build_batch(
    records: list[Record] | tuple[Record, ...],
    *,
    base_offset: int = 0,
    partition_leader_epoch: int = -1,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    attributes: int = 0,
    payload: bytes | None = None,
) -> bytearray:
    """A batch of uncompressed records numbered from `base_offset` on (`Record.offset` is not used).

    `payload` replaces the encoded records: give what `encode_records` made, compressed as `attributes` say.
    """
    assert records, "a batch holds at least one record"
    body = encode_records(records) if payload is None else payload
    buffer = bytearray(HEADER_SIZE + len(body))
    _HEADER.pack_into(
        buffer,
        0,
        base_offset,
        len(buffer) - LOG_OVERHEAD,
        partition_leader_epoch,
        MAGIC_V2,
        0,
        attributes,
        len(records) - 1,
        records[0].timestamp_ms,
        max(record.timestamp_ms for record in records),
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )
    buffer[HEADER_SIZE:] = body
    _seal(buffer, 0, len(buffer))
    return buffer


def seal_batch(header: BatchHeader, payload: bytes) -> tuple[BatchHeader, bytearray]:
    """The batch of this header and these (compressed) records, with the length and the CRC-32C they make."""
    buffer = bytearray(HEADER_SIZE) + payload
    header = header._replace(batch_length=len(buffer) - LOG_OVERHEAD)
    _HEADER.pack_into(buffer, 0, *header)
    return header._replace(crc=_seal(buffer, 0, len(buffer))), buffer


def encode_records(records: list[Record] | tuple[Record, ...]) -> bytes:
    """The records as they stand behind the header, timestamps relative to the first."""
    base_timestamp_ms = records[0].timestamp_ms
    out = bytearray()
    for offset_delta, record in enumerate(records):
        body = bytearray(b"\0")
        write_varint(body, record.timestamp_ms - base_timestamp_ms)
        write_varint(body, offset_delta)
        _write_nullable(body, record.key)
        _write_nullable(body, record.value)
        write_varint(body, len(record.headers))
        for name, value in record.headers:
            _write_nullable(body, name.encode())
            _write_nullable(body, value)
        write_varint(out, len(body))
        out += body
    return bytes(out)


def _write_nullable(out: bytearray, value: bytes | None) -> None:
    if value is None:
        write_varint(out, -1)
        return
    write_varint(out, len(value))
    out += value


def decode_records(header: BatchHeader, payload: Buffer) -> Iterator[Record]:
    """The records of a batch; `payload` is what follows its header, decompressed.

    Raises: BatchError (INVALID_RECORD) where the bytes are not `record_count` records.
    """
    stamped = header.max_timestamp_ms if header.is_log_append_time else None
    at = 0
    try:
        for _ in range(header.record_count):
            length, at = read_varint(payload, at)
            end = at + length
            if length < 0 or end > len(payload):
                raise ValueError(f"a record of {length} bytes")
            at += 1
            timestamp_delta_ms, at = read_varint(payload, at)
            offset_delta, at = read_varint(payload, at)
            key, at = _read_nullable(payload, at, end)
            value, at = _read_nullable(payload, at, end)
            headers, at = _read_headers(payload, at, end)
            if at != end:
                raise ValueError(f"{end - at} bytes are left in a record")
            timestamp_ms = header.base_timestamp_ms + timestamp_delta_ms if stamped is None else stamped
            yield Record(header.base_offset + offset_delta, timestamp_ms, key, value, headers)
    except (ValueError, IndexError) as error:
        raise BatchError(ErrorCode.invalid_record, f"malformed records: {error}") from error
    if at != len(payload):
        raise BatchError(ErrorCode.invalid_record, f"{len(payload) - at} bytes follow the last record")


def _read_headers(payload: Buffer, at: int, end: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    count, at = read_varint(payload, at)
    if count < 0 or count > end - at:
        raise ValueError(f"{count} headers")
    headers = []
    for _ in range(count):
        name, at = _read_nullable(payload, at, end)
        value, at = _read_nullable(payload, at, end)
        if name is None:
            raise ValueError("a header without a name")
        headers.append((name.decode(), value))
    return tuple(headers), at


def _read_nullable(payload: Buffer, at: int, end: int) -> tuple[bytes | None, int]:
    length, at = read_varint(payload, at)
    if length == -1:
        return None, at
    if length < 0 or length > end - at:
        raise ValueError(f"a field of {length} bytes")
    return bytes(payload[at : at + length]), at + length
