"""Control batches: the markers that end a transaction in a partition's log. Pure.

One record: key {version i16 = 0, type i16: 0 ABORT, 1 COMMIT}, value {version i16 = 0, coordinator epoch
i32}. Readers accept newer versions, which only add fields.
Source: Kafka ControlRecordType, EndTransactionMarker, KIP-98.
"""

import struct
from typing import Final, NamedTuple

from wire.batch import (
    CONTROL_BIT,
    HEADER_SIZE,
    TRANSACTIONAL_BIT,
    BatchError,
    BatchHeader,
    Buffer,
    Record,
    build_batch,
    decode_records,
)

ABORT: Final = 0
COMMIT: Final = 1
BUMPS_EPOCH_FROM: Final = 2
"""Transactions of this version have an epoch of their own each, and their markers the next (KIP-890)."""
_VERSION: Final = 0
_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")


class EndMarker(NamedTuple):
    """How a transaction ended, and the epoch of the coordinator that says so."""

    is_commit: bool
    coordinator_epoch: int
    transaction_version: int = 0
    """Not in the log: 0 where it comes from there."""


def build_marker(producer_id: int, producer_epoch: int, marker: EndMarker, *, now_ms: int) -> bytearray:
    """A control batch for one producer, to be appended like any other batch."""
    record = Record(
        0,
        now_ms,
        _KEY.pack(_VERSION, COMMIT if marker.is_commit else ABORT),
        _VALUE.pack(_VERSION, marker.coordinator_epoch),
    )
    return build_batch(
        [record],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        attributes=TRANSACTIONAL_BIT | CONTROL_BIT,
    )


def parse_marker(batch: Buffer, header: BatchHeader) -> EndMarker | None:
    """The marker in a control batch; None where compaction emptied it or it is none that we know."""
    try:
        record = next(decode_records(header, batch[HEADER_SIZE : header.size_bytes]), None)
        if record is None:
            return None
        _, kind = _KEY.unpack_from(record.key or b"")
        _, coordinator_epoch = _VALUE.unpack_from(record.value or b"")
    except (BatchError, struct.error):
        return None
    return EndMarker(kind == COMMIT, coordinator_epoch) if kind in (ABORT, COMMIT) else None


def marker_at(records: Buffer, at: int, header: BatchHeader) -> EndMarker | None:
    """`parse_marker` of the batch at a position."""
    with memoryview(records) as view, view[at : at + header.size_bytes] as batch:
        return parse_marker(batch, header)
