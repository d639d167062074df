"""From message sets to record batches on append, and back on fetch. Pure.

Up: one batch per message set, compressed with the codec it came in. Down: headers, control batches and the
marks of transactions have no form in the old formats and are left out; messages leave uncompressed, so that
an answer can end behind any of them and an old consumer gets on in a batch that decompresses to more than
it can take at once. (Kafka compresses them again, and refuses zstd.)
Source: Kafka LogValidator.validateMessagesAndAssignOffsets, RecordsUtil.downConvert; KIP-283.
"""

from collections.abc import Generator, Iterator
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from wire.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    BatchError,
    BatchHeader,
    Buffer,
    Record,
    build_batch,
    encode_records,
    parse_header,
)
from wire.compression import PayloadUnreadable, compress, decompress
from wire.legacy.message_set import read_message_set, write_message
from wire.varint import read_varint

RECORDS_DOWN_MAX: Final = 50_000
"""Records of a batch that old consumers can be given: to come to the last one, all have to be passed."""
PAYLOAD_DOWN_MAX: Final = 8 * 1024 * 1024
"""Bytes of such a batch, decompressed."""
RECORDS_PER_STEP: Final = 200
"""Records that are converted, or passed on the way to them, in a step: a millisecond at most."""
_PASSED_PER_STEP: Final = 100
"""Batches."""
_SHORT_BYTES: Final = 16 * 1024
"""A batch of more may take long to decompress, which is a step of its own."""


class Down(NamedTuple):
    """Down-converted messages."""

    messages: bytes
    next_offset: int
    """Everything below it was converted or has no form in the old formats: where to read on when there are no
    messages."""


def record_batch_of(message_set: Buffer) -> bytearray:
    """The one record batch that a Produce request's message set becomes. Raises: BatchError."""
    messages, codec = read_message_set(message_set)
    records = [Record(0, message.timestamp_ms, message.key, message.value) for message in messages]
    payload = compress(encode_records(records), codec) if codec else None
    return build_batch(records, attributes=codec, payload=payload)


def message_set_of(
    batches: memoryview,
    magic: int,
    from_offset: int,
    bytes_max: int,
    *,
    first_bytes_max: int = 0,
    cuts_first: bool = False,
) -> Generator[None, None, Down]:
    """At most `bytes_max` bytes of messages from `from_offset` on; `batches` may end within one.

    The first message may have `first_bytes_max`, whatever `bytes_max` says. A still larger one is cut there
    with `cuts_first`, from which old consumers learn that they have to ask for more, else left for later.
    At each `yield` others may have their turn. Raises: BatchError for records that cannot be read.
    """
    out = bytearray()
    next_offset = from_offset
    for passed, (header, records) in enumerate(_readable(batches, from_offset), 1):
        stamped = header.is_log_append_time
        if passed % _PASSED_PER_STEP == 0 or header.size_bytes > _SHORT_BYTES:
            yield
        for found in _records(header, records, from_offset):
            if found is None:
                yield
                continue
            offset, timestamp_ms, key, value = found
            message = write_message(magic, offset, timestamp_ms, key, value, log_append_time=stamped)
            if len(out) + len(message) > bytes_max:
                if out:
                    return Down(bytes(out), next_offset)
                if len(message) <= first_bytes_max:
                    return Down(message, offset + 1)
                return Down(message[:first_bytes_max] if cuts_first else b"", offset)
            out += message
            next_offset = offset + 1
        next_offset = header.next_offset
    return Down(bytes(out), next_offset)


def _readable(batches: memoryview, from_offset: int) -> Iterator[tuple[BatchHeader, memoryview]]:
    """(header, what follows it) of every whole batch; control batches come with no record."""
    at, end = 0, len(batches)
    while end - at >= HEADER_SIZE:
        header = parse_header(batches, at)
        behind = at + LOG_OVERHEAD + header.batch_length
        if behind > end:
            return
        if header.last_offset >= from_offset:
            if header.is_control:
                header = header._replace(record_count=0)
            yield header, batches[at + HEADER_SIZE : behind]
        at = behind


def _records(
    header: BatchHeader, records: memoryview, from_offset: int
) -> Iterator[tuple[int, int, bytes | None, bytes | None] | None]:
    """(offset, timestamp, key, value) of each record from `from_offset` on; None where a step ends. Raises:
    BatchError."""
    if not header.record_count:
        return
    if header.record_count > RECORDS_DOWN_MAX:
        raise BatchError(ErrorCode.corrupt_message, f"a batch of more than {RECORDS_DOWN_MAX} records")
    try:
        payload = decompress(bytes(records), header.codec, PAYLOAD_DOWN_MAX)
    except PayloadUnreadable as error:
        raise BatchError(ErrorCode.corrupt_message, f"a batch cannot be decompressed: {error}") from error
    stamped = header.max_timestamp_ms if header.is_log_append_time else None
    at = 0
    try:
        for number in range(header.record_count):
            if number % RECORDS_PER_STEP == RECORDS_PER_STEP - 1:
                yield None
            size, at = read_varint(payload, at)
            behind = at + size
            if size < 0 or behind > len(payload):
                raise ValueError(f"a record of {size} bytes")
            timestamp_delta_ms, at = read_varint(payload, at + 1)
            offset_delta, at = read_varint(payload, at)
            offset = header.base_offset + offset_delta
            if offset >= from_offset:
                key, at = _nullable(payload, at, behind)
                value, at = _nullable(payload, at, behind)
                own_ms = header.base_timestamp_ms + timestamp_delta_ms
                yield offset, own_ms if stamped is None else stamped, key, value
            at = behind
    except (ValueError, IndexError) as error:
        raise BatchError(ErrorCode.corrupt_message, f"malformed records: {error}") from error


def _nullable(payload: Buffer, at: int, end: int) -> tuple[bytes | None, int]:
    size, at = read_varint(payload, at)
    if size == -1:
        return None, at
    if size < 0 or size > end - at:
        raise ValueError(f"a field of {size} bytes")
    return bytes(payload[at : at + size]), at + size
