"""Compressed records as clients of all kinds write them, within bounds."""

import os

import cramjam
import pytest

from wire.batch import CODEC_GZIP, CODEC_LZ4, CODEC_NONE, CODEC_SNAPPY, CODEC_ZSTD
from wire.compression import PayloadUnreadable, compress, decompress

PLAIN = b"some text, some text, some other text; " * 3000


def xerial(plain: bytes, block_bytes: int = 32 * 1024) -> bytes:
    """The stream that Java's snappy writes: a header, then blocks with their lengths."""
    out = b"\x82SNAPPY\0" + (1).to_bytes(4, "big") + (1).to_bytes(4, "big")
    for at in range(0, len(plain), block_bytes):
        block = bytes(cramjam.snappy.compress_raw(plain[at : at + block_bytes]))
        out += len(block).to_bytes(4, "big") + block
    return out


def java_lz4(plain: bytes) -> bytes:
    """Independent blocks of 64 KiB without checksums, as Kafka's own Lz4BlockOutputStream writes."""
    out = b"\x04\x22\x4d\x18\x60\x40\x82"
    for at in range(0, len(plain), 64 * 1024):
        block = bytes(cramjam.lz4.compress_block(plain[at : at + 64 * 1024], store_size=False))
        out += len(block).to_bytes(4, "little") + block
    return out + bytes(4)


STREAMS = {
    "gzip": (CODEC_GZIP, bytes(cramjam.gzip.compress(PLAIN))),
    "snappy, raw": (CODEC_SNAPPY, bytes(cramjam.snappy.compress_raw(PLAIN))),
    "snappy, xerial": (CODEC_SNAPPY, xerial(PLAIN)),
    "lz4, linked blocks": (CODEC_LZ4, bytes(cramjam.lz4.compress(PLAIN))),
    "lz4, java": (CODEC_LZ4, java_lz4(PLAIN)),
    "zstd": (CODEC_ZSTD, bytes(cramjam.zstd.compress(PLAIN))),
}


@pytest.mark.parametrize("name", STREAMS)
def test_every_writer_is_understood(name: str) -> None:
    codec, stream = STREAMS[name]
    assert bytes(decompress(stream, codec)) == PLAIN


@pytest.mark.parametrize("name", STREAMS)
def test_bombs_are_left_alone(name: str) -> None:
    codec, stream = STREAMS[name]
    with pytest.raises(PayloadUnreadable):
        decompress(stream, codec, len(PLAIN) - 1)


@pytest.mark.parametrize("name", STREAMS)
def test_damage_is_noticed_or_harmless(name: str) -> None:
    codec, stream = STREAMS[name]
    for cut in (0, 1, 7, len(stream) // 2, len(stream) - 5):
        try:
            assert bytes(decompress(stream[:cut], codec)) != PLAIN
        except PayloadUnreadable:
            continue


@pytest.mark.parametrize(
    "plain", [b"", b"x", PLAIN, os.urandom(200_000)], ids=["none", "one", "text", "noise"]
)
@pytest.mark.parametrize("codec", [CODEC_NONE, CODEC_GZIP, CODEC_SNAPPY, CODEC_LZ4, CODEC_ZSTD])
def test_what_we_write_is_read(codec: int, plain: bytes) -> None:
    assert bytes(decompress(compress(plain, codec), codec)) == plain


def test_lz4_is_written_as_the_java_client_does() -> None:
    assert compress(PLAIN, CODEC_LZ4) == java_lz4(PLAIN)
