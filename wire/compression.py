"""The codecs of record batches and message sets, with a bound on what comes out.

What decompresses to more than `PAYLOAD_BYTES_MAX` is refused: a megabyte of zeros a thousand times over
must not take a process's memory. Snappy and LZ4 are written as the Java client writes them, since it reads
nothing else: xerial's framing, and frames of independent blocks; every framing is read.
"""

import zlib
from collections.abc import Callable
from typing import Final

import cramjam

from wire.batch import CODEC_GZIP, CODEC_LZ4, CODEC_NONE, CODEC_SNAPPY, CODEC_ZSTD, Buffer

PAYLOAD_BYTES_MAX: Final = 32 * 1024 * 1024
"""What one batch or message set may decompress to, whatever it declares."""
_FIRST_GUESS_BYTES: Final = 64 * 1024
_XERIAL_MAGIC: Final = b"\x82SNAPPY\0"
_XERIAL_VERSIONS: Final = (1).to_bytes(4, "big") * 2
_XERIAL_HEADER_SIZE: Final = 16
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_LZ4_HEAD: Final = b"\x04\x22\x4d\x18\x60\x40\x82"
"""Magic; version 1 with independent blocks; blocks of at most 64 KiB; the checksum of these two bytes."""
_LZ4_BLOCK_BYTES: Final = 64 * 1024
_LZ4_STORED: Final = 0x8000_0000
"""The bit of a block's length that says it is not compressed."""
_TOO_SMALL: Final = "failed to write whole buffer"


class PayloadUnreadable(Exception):  # noqa: N818 - states what is so
    """The bytes do not decompress, or to more than we look at."""


class PayloadTooLarge(PayloadUnreadable):
    """They decompress to more than we look at."""


def decompress(payload: bytes, codec: int, bytes_max: int = PAYLOAD_BYTES_MAX) -> Buffer:
    """Raises: PayloadUnreadable, of which PayloadTooLarge above `bytes_max`."""
    if codec == CODEC_NONE:
        return payload
    if codec == CODEC_GZIP:
        return _gunzip(payload, bytes_max)
    if codec == CODEC_SNAPPY:
        return _unsnappy(payload, bytes_max)
    if codec == CODEC_LZ4:
        return _into_growing(cramjam.lz4.decompress_into, payload, bytes_max)
    if codec == CODEC_ZSTD:
        return _into_growing(cramjam.zstd.decompress_into, payload, bytes_max)
    raise PayloadUnreadable(f"codec {codec}")


def compress(payload: bytes, codec: int) -> bytes:
    """The bytes in one of the codecs, as Kafka's clients read them."""
    if codec == CODEC_NONE:
        return payload
    if codec == CODEC_GZIP:
        stream = zlib.compressobj(wbits=31)
        return stream.compress(payload) + stream.flush()
    if codec == CODEC_SNAPPY:
        return _xerial(payload)
    if codec == CODEC_LZ4:
        return _lz4_frame(payload)
    assert codec == CODEC_ZSTD, codec
    return bytes(cramjam.zstd.compress(payload))


def _gunzip(payload: bytes, bytes_max: int) -> bytes:
    try:
        stream = zlib.decompressobj(wbits=31)
        data = stream.decompress(payload, bytes_max)
    except zlib.error as error:
        raise PayloadUnreadable(f"gzip: {error}") from error
    if not stream.eof:
        if len(data) >= bytes_max:
            raise PayloadTooLarge(f"gzip: more than {bytes_max} bytes")
        raise PayloadUnreadable("gzip: cut off")
    return data


def _unsnappy(payload: bytes, bytes_max: int) -> bytes:
    """Raw snappy, or the blocks of xerial's stream that the Java client writes."""
    if not payload.startswith(_XERIAL_MAGIC):
        return _unsnappy_block(payload, bytes_max)
    out = bytearray()
    at = _XERIAL_HEADER_SIZE
    while at + 4 <= len(payload):
        size = int.from_bytes(payload[at : at + 4], "big")
        at += 4
        if size > len(payload) - at:
            raise PayloadUnreadable("snappy: a block is cut off")
        out += _unsnappy_block(payload[at : at + size], bytes_max - len(out))
        at += size
    return bytes(out)


def _unsnappy_block(block: bytes, bytes_max: int) -> bytes:
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > bytes_max:
            raise PayloadTooLarge(f"snappy: more than {bytes_max} bytes")
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise PayloadUnreadable(f"snappy: {error}") from error


def _xerial(payload: bytes) -> bytes:
    out = bytearray(_XERIAL_MAGIC + _XERIAL_VERSIONS)
    for at in range(0, len(payload), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(payload[at : at + _XERIAL_BLOCK_BYTES]))
        out += len(block).to_bytes(4, "big") + block
    return bytes(out)


def _lz4_frame(payload: bytes) -> bytes:
    out = bytearray(_LZ4_HEAD)
    for at in range(0, len(payload), _LZ4_BLOCK_BYTES):
        plain = payload[at : at + _LZ4_BLOCK_BYTES]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            out += len(block).to_bytes(4, "little") + block
        else:
            out += (len(plain) | _LZ4_STORED).to_bytes(4, "little") + plain
    return bytes(out + bytes(4))


def _into_growing(
    decompress_into: Callable[[bytes, bytearray], int], payload: bytes, bytes_max: int
) -> Buffer:
    """Buffers grow while cramjam says, by text only, that one is too small."""
    size = min(max(8 * len(payload), _FIRST_GUESS_BYTES), bytes_max)
    while True:
        out = bytearray(size)
        try:
            return memoryview(out)[: decompress_into(payload, out)]
        except cramjam.DecompressionError as error:
            if _TOO_SMALL not in str(error):
                raise PayloadUnreadable(str(error)) from error
            if size == bytes_max:
                raise PayloadTooLarge(f"more than {bytes_max} bytes") from error
        size = min(8 * size, bytes_max)
