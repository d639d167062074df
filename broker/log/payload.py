"""Looking at the records inside a batch, for the questions that a header cannot answer."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from broker.log.errors import AppendRefused
from broker.log.log_config import LogConfig
from wire.batch import CODEC_NONE, HEADER_SIZE, BatchError, BatchHeader, Buffer, Record, decode_records
from wire.compression import PAYLOAD_BYTES_MAX, PayloadTooLarge, PayloadUnreadable, decompress
from wire.record_walk import KeylessRecords, RecordScan, ScanTask

SAMPLE_EVERY: Final = 256
"""In a topic that is not compacted one compressed batch in so many is looked into, and a log's first."""
_RECORDS_HERE_MAX: Final = 500
"""A quarter of a millisecond."""
_COMPRESSED_HERE_MAX: Final = 16 * 1024
_DECOMPRESSED_HERE_MAX: Final = 128 * 1024
_EXPANSION_MAX: Final = 32
"""Decompressed bytes for each that a batch of the topic may have."""


class Look(NamedTuple):
    """What is to be found out about the records behind a header."""

    codec: int
    record_count: int
    needs_keys: bool
    """A compacted topic takes no record without a key."""
    bytes_max: int
    """Decompressed; above it MESSAGE_TOO_LARGE, upon which Java's producer splits the batch."""


def look_at(header: BatchHeader, config: LogConfig) -> Look:
    """At every record of a batch that a client sent."""
    largest = config.max_message_bytes
    bytes_max = max(largest, min(PAYLOAD_BYTES_MAX, _EXPANSION_MAX * largest))
    return Look(header.codec, header.record_count, config.is_compacted, bytes_max)


def records_of(batch: Buffer, header: BatchHeader) -> Iterator[Record]:
    """The records of one whole batch. Raises: PayloadUnreadable, BatchError."""
    payload = bytes(batch[HEADER_SIZE : header.size_bytes])
    return decode_records(header, decompress(payload, header.codec))


def check_payload(batch: Buffer, header: BatchHeader, look: Look) -> None:
    """Whether the records that a client sent are what the header declares. Raises: AppendRefused."""
    try:
        _scan(batch, header, look)
    except KeylessRecords as error:
        raise AppendRefused(error.error_code, error.message, error.indexes) from error
    except BatchError as error:
        raise AppendRefused(error.error_code, error.message) from error
    except PayloadTooLarge as error:
        raise AppendRefused(ErrorCode.message_too_large, f"the records cannot be read: {error}") from error
    except PayloadUnreadable as error:
        raise AppendRefused(ErrorCode.invalid_record, f"the records cannot be read: {error}") from error


def is_right(batch: Buffer, header: BatchHeader, look: Look) -> bool:
    """Whether it is right, where telling is little work whatever the records; False: nothing is known.

    Raises: AppendRefused.
    """
    if header.record_count > _RECORDS_HERE_MAX or (
        header.codec != CODEC_NONE and header.size_bytes > _COMPRESSED_HERE_MAX
    ):
        return False
    here = look._replace(bytes_max=min(look.bytes_max, _DECOMPRESSED_HERE_MAX))
    try:
        check_payload(batch, header, here)
    except AppendRefused as refused:
        if refused.error_code is ErrorCode.message_too_large and here.bytes_max < look.bytes_max:
            return False
        raise
    return True


def _scan(batch: Buffer, header: BatchHeader, look: Look) -> None:
    payload = decompress(bytes(batch[HEADER_SIZE : header.size_bytes]), look.codec, look.bytes_max)
    scan = RecordScan(payload, 0, len(payload), ScanTask(look.record_count, look.needs_keys))
    assert scan.step(look.record_count)
