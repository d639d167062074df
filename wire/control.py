"""Control records: the markers that end a transaction on a partition.

Key: version i16 = 0, type i16 (0 abort, 1 commit). Value: version i16 = 0, coordinator epoch i32.
Source: Kafka ControlRecordType, EndTransactionMarker.
"""

import struct
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from wire.batch import CONTROL_BIT, TRANSACTIONAL_BIT, BatchError, Record, build_batch

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")
_ABORT: Final = 0
_COMMIT: Final = 1


class EndOfTransaction(NamedTuple):
    """What a marker says."""

    committed: bool
    coordinator_epoch: int


def build_marker(
    *, producer_id: int, producer_epoch: int, committed: bool, coordinator_epoch: int, now_ms: int
) -> bytearray:
    """A control batch that ends a producer's transaction."""
    key = _KEY.pack(0, _COMMIT if committed else _ABORT)
    record = Record(0, now_ms, key, _VALUE.pack(0, coordinator_epoch))
    return build_batch(
        (record,),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        attributes=CONTROL_BIT | TRANSACTIONAL_BIT,
    )


def read_marker(record: Record) -> EndOfTransaction | None:
    """What the record of a control batch says; None for control records of other kinds.

    Raises: BatchError (INVALID_RECORD) for one too short to be any.
    """
    if record.key is None or len(record.key) < _KEY.size:
        raise BatchError(ErrorCode.invalid_record, "a control record without version and type")
    _version, kind = _KEY.unpack_from(record.key)
    if kind not in (_ABORT, _COMMIT):
        return None
    if record.value is None or len(record.value) < _VALUE.size:
        raise BatchError(ErrorCode.invalid_record, "an end of transaction without coordinator epoch")
    _version, coordinator_epoch = _VALUE.unpack_from(record.value)
    return EndOfTransaction(kind == _COMMIT, coordinator_epoch)
