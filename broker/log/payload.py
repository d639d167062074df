"""Looking at the records inside a batch, for the few questions a header cannot answer. Never on the usual
path.

What decompresses to more than `PAYLOAD_BYTES_MAX` is not looked at: a megabyte of zeros a thousand times
over must not take the broker's memory.
"""

import zlib
from collections.abc import Callable, Iterator
from typing import Final

import cramjam
from kio.schema.errors import ErrorCode

from broker.log.errors import AppendRefused
from wire.batch import (
    CODEC_GZIP,
    CODEC_LZ4,
    CODEC_NONE,
    CODEC_SNAPPY,
    CODEC_ZSTD,
    HEADER_SIZE,
    BatchError,
    BatchHeader,
    Buffer,
    Record,
    decode_records,
)

PAYLOAD_BYTES_MAX: Final = 32 * 1024 * 1024
_FIRST_GUESS_BYTES: Final = 64 * 1024
_XERIAL_MAGIC: Final = b"\x82SNAPPY\0"
_XERIAL_HEADER_SIZE: Final = 16


class PayloadUnreadable(Exception):  # noqa: N818 - states what is so
    """The records do not decompress, or to more than we look at."""


def records_of(batch: Buffer, header: BatchHeader) -> Iterator[Record]:
    """The records of one whole batch. Raises: PayloadUnreadable, BatchError."""
    payload = bytes(batch[HEADER_SIZE : header.size_bytes])
    return decode_records(header, decompress(payload, header.codec))


def check_keys(batch: Buffer, header: BatchHeader) -> None:
    """A compacted topic takes no record without a key. Raises: AppendRefused."""
    try:
        for record in records_of(batch, header):
            if record.key is None:
                raise AppendRefused(
                    ErrorCode.invalid_record, "a compacted topic does not accept a record without key"
                )
    except (PayloadUnreadable, BatchError) as error:
        raise AppendRefused(ErrorCode.invalid_record, f"the records cannot be read: {error}") from error


def decompress(payload: bytes, codec: int) -> Buffer:
    """Raises: PayloadUnreadable."""
    if codec == CODEC_NONE:
        return payload
    if codec == CODEC_GZIP:
        return _gunzip(payload)
    if codec == CODEC_SNAPPY:
        return _unsnappy(payload)
    if codec == CODEC_LZ4:
        return _into_growing(cramjam.lz4.decompress_into, payload)
    if codec == CODEC_ZSTD:
        return _into_growing(cramjam.zstd.decompress_into, payload)
    raise PayloadUnreadable(f"codec {codec}")


def _gunzip(payload: bytes) -> bytes:
    try:
        stream = zlib.decompressobj(wbits=31)
        data = stream.decompress(payload, PAYLOAD_BYTES_MAX)
    except zlib.error as error:
        raise PayloadUnreadable(f"gzip: {error}") from error
    if not stream.eof:
        raise PayloadUnreadable(f"gzip: cut off, or more than {PAYLOAD_BYTES_MAX} bytes")
    return data


def _unsnappy(payload: bytes) -> bytes:
    """Raw snappy, or the blocks of xerial's stream that the Java client writes."""
    if not payload.startswith(_XERIAL_MAGIC):
        return _unsnappy_block(payload, PAYLOAD_BYTES_MAX)
    out = bytearray()
    at = _XERIAL_HEADER_SIZE
    while at + 4 <= len(payload):
        size = int.from_bytes(payload[at : at + 4], "big")
        at += 4
        if size > len(payload) - at:
            raise PayloadUnreadable("snappy: a block is cut off")
        out += _unsnappy_block(payload[at : at + size], PAYLOAD_BYTES_MAX - len(out))
        at += size
    return bytes(out)


def _unsnappy_block(block: bytes, bytes_max: int) -> bytes:
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > bytes_max:
            raise PayloadUnreadable(f"snappy: more than {PAYLOAD_BYTES_MAX} bytes")
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise PayloadUnreadable(f"snappy: {error}") from error


def _into_growing(decompress_into: Callable[[bytes, bytearray], int], payload: bytes) -> Buffer:
    """cramjam tells a buffer that is too small and bad input apart by text only, so both try larger ones."""
    size = min(max(8 * len(payload), _FIRST_GUESS_BYTES), PAYLOAD_BYTES_MAX)
    while True:
        out = bytearray(size)
        try:
            return memoryview(out)[: decompress_into(payload, out)]
        except cramjam.DecompressionError as error:
            if size == PAYLOAD_BYTES_MAX:
                raise PayloadUnreadable(
                    f"{error} (at most {PAYLOAD_BYTES_MAX} bytes are looked at)"
                ) from error
        size = min(8 * size, PAYLOAD_BYTES_MAX)
