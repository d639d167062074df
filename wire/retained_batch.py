"""Batches that compaction writes again: fewer records, the same offsets, sequences and epochs. Pure.

Base offset, last offset delta and base sequence stay as the producer wrote them, so that its last sequence
can still be told and offsets mean what they did. A delete horizon says when the tombstones (or the marker)
of a batch may go: it takes the place of the base timestamp, and bit 6 of the attributes says so.
Source: Kafka MemoryRecords.filterTo, DefaultRecordBatch.writeEmptyHeader, KIP-534.
"""

from wire.batch import (
    CODEC_MASK,
    CODEC_NONE,
    DELETE_HORIZON_BIT,
    NO_TIMESTAMP,
    BatchHeader,
    seal_batch,
)
from wire.compression import compress
from wire.record_runs import Runs, largest_timestamp_delta, shift_timestamps


def retained_batch(
    header: BatchHeader, payload: bytes, runs: Runs, *, delete_horizon_ms: int | None = None
) -> tuple[BatchHeader, bytearray]:
    """The batch with only the records in `runs` of its decompressed `payload`, in its own codec.

    `delete_horizon_ms`: set this one; a batch that has one keeps it.
    """
    max_timestamp_ms = header.max_timestamp_ms
    if runs.dropped and not header.is_log_append_time:
        max_timestamp_ms = header.base_timestamp_ms + largest_timestamp_delta(payload, runs.spans)
    base_timestamp_ms, attributes = header.base_timestamp_ms, header.attributes
    if delete_horizon_ms is None:
        records = b"".join([payload[start:end] for start, end in runs.spans])
    else:
        records = shift_timestamps(payload, runs.spans, base_timestamp_ms - delete_horizon_ms)
        base_timestamp_ms, attributes = delete_horizon_ms, attributes | DELETE_HORIZON_BIT
    kept = header._replace(
        attributes=attributes,
        base_timestamp_ms=base_timestamp_ms,
        max_timestamp_ms=max_timestamp_ms,
        record_count=runs.kept,
    )
    return seal_batch(kept, compress(records, header.codec))


def empty_batch(header: BatchHeader) -> tuple[BatchHeader, bytearray]:
    """The batch without records, for what its header says of its producer and of the log's end."""
    kept = header._replace(
        attributes=header.attributes & ~(CODEC_MASK | DELETE_HORIZON_BIT) | CODEC_NONE,
        base_timestamp_ms=NO_TIMESTAMP,
        record_count=0,
    )
    return seal_batch(kept, b"")
