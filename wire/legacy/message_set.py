"""Message sets of formats v0 and v1: read what old producers send, write what old consumers read.

    offset i64 | size i32 | crc u32 | magic i8 | attributes i8 | [timestamp i64, v1] | key | value

The CRC-32 covers everything from the magic on; key and value are bytes behind an i32 length, -1 is null.
Attributes: bits 0-2 the codec, bit 3 (v1) the timestamp type. A compressed message holds a message set as its
value, which may not hold compressed messages again. Offsets that a producer writes mean nothing and are not
read.
Source: Kafka LegacyRecord, AbstractLegacyRecordBatch; KIP-31 and KIP-32 (v1).
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple
from zlib import crc32

from kio.schema.errors import ErrorCode

from wire.batch import (
    CODEC_LZ4,
    CODEC_MASK,
    CODEC_NONE,
    LOG_APPEND_TIME_BIT,
    NO_TIMESTAMP,
    BatchError,
    Buffer,
)
from wire.compression import PayloadUnreadable, decompress
from wire.legacy.lz4_frame import with_right_checksum

MAGIC_V0: Final = 0
MAGIC_V1: Final = 1
MAGIC_AT: Final = 16
"""In a message as in a record batch: the one byte by which formats are told apart."""
CODEC_OF_OLD_MAX: Final = CODEC_LZ4
MESSAGES_MAX: Final = 50_000
"""Messages of a partition in a request, more than clients put into a batch: converting costs 5 us each."""

_OVERHEAD: Final = 12
"""Offset and size, which the size does not count."""
_HEAD: Final = struct.Struct(">qiIbb").unpack_from
_HEAD_BYTES: Final = 18
_SIZE_MIN: Final = {MAGIC_V0: 14, MAGIC_V1: 22}
_I64: Final = struct.Struct(">q").unpack_from
_I32: Final = struct.Struct(">i").unpack_from
_PACK_I32: Final = struct.Struct(">i").pack
_NULL: Final = _PACK_I32(-1)
_PACK_HEAD: Final = struct.Struct(">qiI").pack
_PACK_V0: Final = struct.Struct(">bb").pack
_PACK_V1: Final = struct.Struct(">bbq").pack


class Message(NamedTuple):
    """One message. `timestamp_ms` is -1 in format v0, which has none."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None


class MessageSet(NamedTuple):
    """What a producer sent for one partition. `codec` is that of the first compressed message, else none."""

    messages: list[Message]
    codec: int


def read_message_set(data: Buffer) -> MessageSet:
    """All messages of a set, those inside of compressed ones among them.

    Raises: BatchError: CORRUPT_MESSAGE, INVALID_RECORD (a record batch), UNSUPPORTED_COMPRESSION_TYPE,
    INVALID_TIMESTAMP, RECORD_LIST_TOO_LARGE.
    """
    codec = CODEC_NONE
    messages: list[Message] = []
    for magic, attributes, message in _walk(memoryview(data)):
        own_codec = attributes & CODEC_MASK
        if own_codec == CODEC_NONE:
            messages.append(message)
        else:
            codec = codec or own_codec
            messages += _unpacked(magic, own_codec, message.value)
        if len(messages) > MESSAGES_MAX:
            raise BatchError(ErrorCode.record_list_too_large, f"more than {MESSAGES_MAX} messages in one set")
    if not messages:
        raise BatchError(ErrorCode.corrupt_message, "the message set is empty")
    return MessageSet(messages, codec)


def _unpacked(outer_magic: int, codec: int, value: bytes | None) -> Iterator[Message]:
    """The messages inside of a compressed one."""
    if codec > CODEC_OF_OLD_MAX:
        raise BatchError(
            ErrorCode.unsupported_compression_type,
            f"codec {codec} is unknown to message format {outer_magic}",
        )
    if value is None:
        raise BatchError(ErrorCode.corrupt_message, "a compressed message has a null value")
    if codec == CODEC_LZ4 and outer_magic == MAGIC_V0:
        value = with_right_checksum(value)
    try:
        inner = decompress(value, codec)
    except PayloadUnreadable as error:
        raise BatchError(
            ErrorCode.corrupt_message, f"a compressed message cannot be read: {error}"
        ) from error
    for count, (magic, attributes, message) in enumerate(_walk(memoryview(inner)), 1):
        if attributes & CODEC_MASK:
            raise BatchError(ErrorCode.corrupt_message, "a compressed message inside of another")
        if magic != outer_magic:
            raise BatchError(ErrorCode.corrupt_message, f"format {magic} inside of format {outer_magic}")
        if count > MESSAGES_MAX:
            raise BatchError(ErrorCode.record_list_too_large, f"more than {MESSAGES_MAX} messages in one set")
        yield message


def _walk(data: memoryview) -> Iterator[tuple[int, int, Message]]:
    """(magic, attributes, message) of every message; together they fill `data`."""
    at, end = 0, len(data)
    while at < end:
        if end - at < _HEAD_BYTES:
            raise BatchError(ErrorCode.corrupt_message, f"{end - at} bytes are no message")
        _, size, crc, magic, attributes = _HEAD(data, at)
        least = _SIZE_MIN.get(magic)
        if least is None:
            raise _unknown_magic(magic)
        behind = at + _OVERHEAD + size
        if size < least or behind > end:
            raise BatchError(
                ErrorCode.corrupt_message, f"a message of {size} bytes where {end - at} are left"
            )
        if crc32(data[at + MAGIC_AT : behind]) != crc:
            raise BatchError(ErrorCode.corrupt_message, f"a message's CRC-32 is not the stored {crc}")
        yield magic, attributes, _message(data, at + _HEAD_BYTES, behind, magic, attributes)
        at = behind


def _unknown_magic(magic: int) -> BatchError:
    if magic == 2:
        return BatchError(ErrorCode.invalid_record, "record batches need Produce 3 or later")
    return BatchError(ErrorCode.corrupt_message, f"magic {magic} is unknown")


def _message(data: memoryview, at: int, behind: int, magic: int, attributes: int) -> Message:
    """The message whose part behind the attributes begins at `at`."""
    timestamp_ms = NO_TIMESTAMP
    if magic == MAGIC_V1:
        if attributes & LOG_APPEND_TIME_BIT:
            raise BatchError(
                ErrorCode.invalid_timestamp, "producers may not set the timestamp type LogAppendTime"
            )
        (timestamp_ms,) = _I64(data, at)
        at += 8
    key, at = _nullable(data, at, behind - 4)
    value, at = _nullable(data, at, behind)
    if at != behind:
        raise BatchError(ErrorCode.corrupt_message, f"{behind - at} bytes are left in a message")
    return Message(timestamp_ms, key, value)


def _nullable(data: memoryview, at: int, end: int) -> tuple[bytes | None, int]:
    """Bytes behind their length, which end at `end` at the latest; `at` + 4 is within the message."""
    (size,) = _I32(data, at)
    at += 4
    if size == -1:
        return None, at
    if size < 0 or size > end - at:
        raise BatchError(ErrorCode.corrupt_message, f"a key or value of {size} bytes")
    return bytes(data[at : at + size]), at + size


def write_message(
    magic: int,
    offset: int,
    timestamp_ms: int,
    key: bytes | None,
    value: bytes | None,
    *,
    log_append_time: bool = False,
) -> bytes:
    """One uncompressed message. Format v0 leaves the timestamp out."""
    if magic == MAGIC_V1:
        head = _PACK_V1(MAGIC_V1, LOG_APPEND_TIME_BIT if log_append_time else 0, timestamp_ms)
    else:
        head = _PACK_V0(MAGIC_V0, 0)
    covered = b"".join(
        (
            head,
            _NULL if key is None else _PACK_I32(len(key)) + key,
            _NULL if value is None else _PACK_I32(len(value)) + value,
        )
    )
    return _PACK_HEAD(offset, len(covered) + 4, crc32(covered)) + covered
