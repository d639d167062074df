"""Looking at the records inside a batch, for the few questions a header cannot answer. Never on the usual
path."""

from collections.abc import Iterator

from kio.schema.errors import ErrorCode

from broker.log.errors import AppendRefused
from wire.batch import HEADER_SIZE, BatchError, BatchHeader, Buffer, Record, decode_records
from wire.compression import PayloadUnreadable, decompress


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
