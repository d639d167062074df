"""Records of `__transaction_state` in Kafka's own formats, so that Kafka's `--transaction-log-decoder` reads
them.

Key v0: transactional id. Value v0 written: producer id i64, epoch i16, timeout i32, state i8, partitions as
nullable array {topic, [i32]}, last update i64, start i64. Values v0 and v1 (flexible, KIP-890) are read.
Source: Kafka TransactionLogKey.json, TransactionLogValue.json, TransactionLog.scala.
"""

import struct
from typing import Final, NamedTuple

from broker.transactions.state import State, TopicPartition, Transaction
from wire.faults import MalformedFrame
from wire.uvarint import read_uvarint

TRANSACTIONS_TOPIC: Final = "__transaction_state"
KEY_VERSION: Final = 0
STRING_BYTES_MAX: Final = 32_767
_VALUE_VERSION: Final = 0
_FLEXIBLE_FROM: Final = 1
_VALUE_VERSION_MAX: Final = 1
_EPOCH_FENCE: Final = 7
"""Kafka's PrepareEpochFence, which never is in a log."""
_HEAD: Final = struct.Struct(">hqhib")
_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_TIMES: Final = struct.Struct(">qq")


class TransactionRecord(NamedTuple):
    """The state of a transactional id; value None is a tombstone."""

    transactional_id: str
    value: Transaction | None


class UnreadableRecord(Exception):  # noqa: N818 - a fact about stored bytes
    """A record of the transaction log that no version we know describes."""


def is_storable(transactional_id: str) -> bool:
    """Whether a transactional id fits a record."""
    return len(transactional_id) <= STRING_BYTES_MAX and len(transactional_id.encode()) <= STRING_BYTES_MAX


def encode_key(record: TransactionRecord) -> bytes:
    """The key of a record."""
    return _I16.pack(KEY_VERSION) + _string(record.transactional_id)


def encode_value(record: TransactionRecord) -> bytes | None:
    """The value of a record, or None for a tombstone."""
    value = record.value
    if value is None:
        return None
    assert value.state is not State.DEAD, "what is dead is a tombstone"
    parts = [
        _HEAD.pack(
            _VALUE_VERSION, value.producer_id, value.producer_epoch, value.timeout_ms, int(value.state)
        ),
        _partitions(value),
        _TIMES.pack(value.last_update_ms, value.start_ms),
    ]
    return b"".join(parts)


def _partitions(value: Transaction) -> bytes:
    """Null where Kafka's decoder expects none: without a transaction."""
    if value.state is State.EMPTY:
        assert not value.partitions, "an empty transaction has no partitions"
        return _I32.pack(-1)
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(value.partitions):
        by_topic.setdefault(topic, []).append(partition)
    parts = [_I32.pack(len(by_topic))]
    for topic, indexes in by_topic.items():
        parts += (_string(topic), struct.pack(f">i{len(indexes)}i", len(indexes), *indexes))
    return b"".join(parts)


def decode(key: bytes, value: bytes | None) -> TransactionRecord | None:
    """A record from its bytes; None for key versions of newer coordinators, which are left alone.

    Raises: UnreadableRecord.
    """
    try:
        (version,) = _I16.unpack_from(key)
        if version != KEY_VERSION:
            return None
        transactional_id, _ = _read_string(key, 2)
        return TransactionRecord(transactional_id, None if value is None else _decode_value(value))
    except (struct.error, ValueError, MalformedFrame) as error:
        raise UnreadableRecord(str(error)) from error


def _decode_value(data: bytes) -> Transaction:
    version, producer_id, producer_epoch, timeout_ms, state = _HEAD.unpack_from(data)
    if not 0 <= version <= _VALUE_VERSION_MAX:
        raise ValueError(f"TransactionLogValue v{version}")
    if state in (State.DEAD, _EPOCH_FENCE):
        raise ValueError(f"state {state} is never stored")
    read = _read_flexible if version >= _FLEXIBLE_FROM else _read_plain
    partitions, at = read(data, _HEAD.size)
    last_update_ms, start_ms = _TIMES.unpack_from(data, at)
    return Transaction(
        producer_id, producer_epoch, timeout_ms, State(state), partitions, last_update_ms, start_ms
    )


def _read_plain(data: bytes, at: int) -> tuple[frozenset[TopicPartition], int]:
    (count,) = _I32.unpack_from(data, at)
    at += 4
    found = []
    for _ in range(count):
        topic, at = _read_string(data, at)
        (size,) = _I32.unpack_from(data, at)
        found += [TopicPartition(topic, each) for each in struct.unpack_from(f">{size}i", data, at + 4)]
        at += 4 + 4 * size
    return frozenset(found), at


def _read_flexible(data: bytes, at: int) -> tuple[frozenset[TopicPartition], int]:
    count, at = read_uvarint(data, at)
    found = []
    for _ in range(count - 1):
        size, at = read_uvarint(data, at)
        topic = data[at : at + size - 1].decode()
        size, at = read_uvarint(data, at + size - 1)
        found += [TopicPartition(topic, each) for each in struct.unpack_from(f">{size - 1}i", data, at)]
        at = _skip_tags(data, at + 4 * (size - 1))
    return frozenset(found), at


def _skip_tags(data: bytes, at: int) -> int:
    count, at = read_uvarint(data, at)
    for _ in range(count):
        _, at = read_uvarint(data, at)
        size, at = read_uvarint(data, at)
        at += size
    return at


def _string(text: str) -> bytes:
    encoded = text.encode()
    assert len(encoded) <= STRING_BYTES_MAX, "a string too long for a record"
    return _I16.pack(len(encoded)) + encoded


def _read_string(data: bytes, at: int) -> tuple[str, int]:
    (size,) = _I16.unpack_from(data, at)
    end = at + 2 + size
    if size < 0 or end > len(data):
        raise ValueError(f"a string of {size} bytes at {at} of {len(data)}")
    return data[at + 2 : end].decode(), end
