"""Looking at the records inside a batch, for the questions that a header cannot answer."""

from collections.abc import Iterator

from kio.schema.errors import ErrorCode

from broker.log.errors import AppendRefused
from wire.batch import CODEC_NONE, HEADER_SIZE, BatchError, BatchHeader, Buffer, Record, decode_records
from wire.compression import PayloadUnreadable, decompress
from wire.record_walk import KeylessRecords, RecordScan, ScanTask, check_lengths


def records_of(batch: Buffer, header: BatchHeader) -> Iterator[Record]:
    """The records of one whole batch. Raises: PayloadUnreadable, BatchError."""
    payload = bytes(batch[HEADER_SIZE : header.size_bytes])
    return decode_records(header, decompress(payload, header.codec))


def check_payload(batch: Buffer, header: BatchHeader, *, needs_keys: bool) -> None:
    """Whether the records that a client sent are what the header declares; a compacted topic (`needs_keys`)
    takes none without a key. Raises: AppendRefused."""
    try:
        if needs_keys:
            _scan(batch, header)
        elif header.codec == CODEC_NONE:
            with memoryview(batch) as view:
                check_lengths(view, header)
    except KeylessRecords as error:
        raise AppendRefused(error.error_code, error.message, error.indexes) from error
    except BatchError as error:
        raise AppendRefused(error.error_code, error.message) from error
    except PayloadUnreadable as error:
        raise AppendRefused(ErrorCode.invalid_record, f"the records cannot be read: {error}") from error


def _scan(batch: Buffer, header: BatchHeader) -> None:
    payload = decompress(bytes(batch[HEADER_SIZE : header.size_bytes]), header.codec)
    scan = RecordScan(payload, 0, len(payload), ScanTask(header.record_count, needs_keys=True))
    assert scan.step(header.record_count)
