"""The `.snapshot` file: every producer's last batch, in Kafka's binary format. Pure.

version i16 = 1, CRC-32C u32 over what follows it, count i32, then per producer {producer id i64, epoch i16,
last sequence i32, last offset i64, offset delta i32, timestamp i64, coordinator epoch i32,
first offset of the current transaction i64}.
Source: Kafka ProducerStateManager.
"""

import struct
from typing import Final

from crc32c import crc32c

from broker.log.producer_state import CachedBatch, ProducerEntry, ProducerStates
from wire.batch import NO_SEQUENCE, SEQUENCE_MAX

_HEAD: Final = struct.Struct(">hIi")
_CRC_FROM: Final = 6
_ENTRY: Final = struct.Struct(">qhiqiqiq")
_VERSION: Final = 1
_NO_OFFSET: Final = -1


class SnapshotCorrupt(ValueError):  # noqa: N818 - states what is so
    """A snapshot does not parse or does not match its CRC; an older one and the log rebuild it."""


def encode_snapshot(states: ProducerStates) -> bytes:
    """The file's bytes."""
    body = bytearray(_HEAD.size)
    for producer_id, entry in states.entries.items():
        sequence, offset, delta = NO_SEQUENCE, _NO_OFFSET, 0
        if entry.batches:
            last = entry.batches[-1]
            sequence, offset, delta = (
                last.last_sequence,
                last.last_offset,
                last.last_offset - last.base_offset,
            )
        first_offset = states.transactions.first_offset(producer_id)
        body += _ENTRY.pack(
            producer_id,
            entry.epoch,
            sequence,
            offset,
            delta,
            entry.active_ms,
            entry.coordinator_epoch,
            _NO_OFFSET if first_offset is None else first_offset,
        )
    _HEAD.pack_into(body, 0, _VERSION, 0, len(states.entries))
    struct.pack_into(">I", body, 2, crc32c(memoryview(body)[_CRC_FROM:]))
    return bytes(body)


def decode_snapshot(data: bytes) -> ProducerStates:
    """Raises: SnapshotCorrupt."""
    if len(data) < _HEAD.size:
        raise SnapshotCorrupt(f"{len(data)} bytes")
    version, crc, count = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise SnapshotCorrupt(f"version {version}")
    if crc32c(data[_CRC_FROM:]) != crc:
        raise SnapshotCorrupt("CRC mismatch")
    if len(data) != _HEAD.size + count * _ENTRY.size:
        raise SnapshotCorrupt(f"{count} entries in {len(data)} bytes")
    states = ProducerStates()
    open_transactions = {}
    for fields in _ENTRY.iter_unpack(data[_HEAD.size :]):
        producer_id, epoch, sequence, offset, delta, active_ms, coordinator_epoch, first_offset = fields
        entry = ProducerEntry(epoch, active_ms, coordinator_epoch)
        if offset >= 0:
            first_sequence = (sequence - delta) & SEQUENCE_MAX
            entry.batches.append(CachedBatch(first_sequence, sequence, offset - delta, offset, active_ms))
        states.entries[producer_id] = entry
        if first_offset >= 0:
            open_transactions[producer_id] = first_offset
    states.transactions.restore(open_transactions)
    return states
