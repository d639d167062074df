"""Message sets as old clients write them, and a reader as old as they are."""

from collections.abc import Iterable
from typing import Any
from zlib import crc32

from kafka.record.legacy_records import LegacyRecordBatch
from kafka.record.memory_records import MemoryRecords

from wire.batch import CODEC_GZIP, CODEC_LZ4, CODEC_SNAPPY
from wire.compression import compress
from wire.legacy.message_set import write_message

Row = tuple[int, int, bytes | None, bytes | None]
"""Offset, timestamp, key, value."""
CODECS = {"none": 0, "gzip": CODEC_GZIP, "snappy": CODEC_SNAPPY, "lz4": CODEC_LZ4}


def plain(magic: int, rows: Iterable[Row]) -> bytes:
    """Uncompressed messages."""
    return b"".join(write_message(magic, *row) for row in rows)


def wrapped(magic: int, rows: Iterable[Row], codec: int, **kwargs: Any) -> bytes:
    """One compressed message that holds the others."""
    return wrapper(magic, compress(plain(magic, rows), codec), codec, **kwargs)


def wrapper(magic: int, value: bytes | None, codec: int, *, offset: int = 0, timestamp_ms: int = 0) -> bytes:
    """A message with a codec in its attributes."""
    message = bytearray(write_message(magic, offset, timestamp_ms, None, value))
    message[17] |= codec
    return resealed(message)


def resealed(message: bytearray) -> bytes:
    """The message with a CRC that is right again."""
    message[12:16] = crc32(message[16:]).to_bytes(4, "big")
    return bytes(message)


def read_old(data: bytes) -> list[Row]:
    """What kafka-python's own reader of the old formats makes of the bytes."""
    records = MemoryRecords(data)
    rows: list[Row] = []
    while (batch := records.next_batch()) is not None:
        assert isinstance(batch, LegacyRecordBatch)
        assert batch.validate_crc()
        rows += [(each.offset, each.timestamp, each.key, each.value) for each in batch]
    return rows
