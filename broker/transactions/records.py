"""Records of `__transaction_state` in Kafka's own formats, so that Kafka's `--transaction-log-decoder` reads
them.

Key v0: transactional id. Value v0: producer id i64, epoch i16, timeout i32, state i8, partitions as nullable
array {topic, [i32]}, last update i64, start i64. v1 is the same, flexible, and says in tagged fields what
only transactions of version 2 have (KIP-890): it is written for these.
Source: Kafka TransactionLogKey.json, TransactionLogValue.json, TransactionLog.scala.
"""

import struct
from typing import Final, NamedTuple

from broker.transactions.state import NO_PRODUCER_ID, State, TopicPartition, Transaction
from wire.faults import MalformedFrame
from wire.uvarint import pack_uvarint, read_uvarint

TRANSACTIONS_TOPIC: Final = "__transaction_state"
KEY_VERSION: Final = 0
STRING_BYTES_MAX: Final = 32_767
_FLEXIBLE_FROM: Final = 1
_VALUE_VERSION_MAX: Final = 1
_EPOCH_FENCE: Final = 7
"""Kafka's PrepareEpochFence, which never is in a log."""
_HEAD: Final = struct.Struct(">hqhib")
_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_I64: Final = struct.Struct(">q")
_LAST_PRODUCER_ID: Final = 0
_NEXT_PRODUCER_ID: Final = 1
_CLIENT_VERSION: Final = 2
"""Tags of a value's own section."""
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
    assert value.state is not State.EMPTY or not value.partitions, "an empty transaction has no partitions"
    tagged = _tagged(value)
    version = _FLEXIBLE_FROM if tagged else 0
    parts = [
        _HEAD.pack(version, value.producer_id, value.producer_epoch, value.timeout_ms, int(value.state)),
        _flexible_partitions(value) if tagged else _partitions(value),
        _TIMES.pack(value.last_update_ms, value.start_ms),
    ]
    if tagged:
        parts.append(pack_uvarint(len(tagged)))
        parts += (pack_uvarint(tag) + pack_uvarint(len(data)) + data for tag, data in tagged)
    return b"".join(parts)


def _tagged(value: Transaction) -> list[tuple[int, bytes]]:
    """What is not what it is by default, in the order of tags."""
    tagged = []
    if value.last_producer_id not in (NO_PRODUCER_ID, value.producer_id):
        tagged.append((_LAST_PRODUCER_ID, _I64.pack(value.last_producer_id)))
    if value.next_producer_id != NO_PRODUCER_ID:
        tagged.append((_NEXT_PRODUCER_ID, _I64.pack(value.next_producer_id)))
    if value.version:
        tagged.append((_CLIENT_VERSION, _I16.pack(value.version)))
    return tagged


def _by_topic(value: Transaction) -> dict[str, list[int]]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(value.partitions):
        by_topic.setdefault(topic, []).append(partition)
    return by_topic


def _partitions(value: Transaction) -> bytes:
    """Null where Kafka's decoder expects none: without a transaction."""
    if value.state is State.EMPTY:
        return _I32.pack(-1)
    by_topic = _by_topic(value)
    parts = [_I32.pack(len(by_topic))]
    for topic, indexes in by_topic.items():
        parts += (_string(topic), struct.pack(f">i{len(indexes)}i", len(indexes), *indexes))
    return b"".join(parts)


def _flexible_partitions(value: Transaction) -> bytes:
    if value.state is State.EMPTY:
        return pack_uvarint(0)
    by_topic = _by_topic(value)
    parts = [pack_uvarint(len(by_topic) + 1)]
    for topic, indexes in by_topic.items():
        encoded = topic.encode()
        parts += (pack_uvarint(len(encoded) + 1), encoded, pack_uvarint(len(indexes) + 1))
        parts += (struct.pack(f">{len(indexes)}i", *indexes), pack_uvarint(0))
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
    value = Transaction(
        producer_id, producer_epoch, timeout_ms, State(state), partitions, last_update_ms, start_ms
    )
    if version < _FLEXIBLE_FROM:
        return value
    tagged = _read_tags(data, at + _TIMES.size)
    return value._replace(
        last_producer_id=_number(_I64, tagged, _LAST_PRODUCER_ID, NO_PRODUCER_ID),
        next_producer_id=_number(_I64, tagged, _NEXT_PRODUCER_ID, NO_PRODUCER_ID),
        version=_number(_I16, tagged, _CLIENT_VERSION, 0),
    )


def _number(form: struct.Struct, tagged: dict[int, bytes], tag: int, absent: int) -> int:
    if tag not in tagged:
        return absent
    (number,) = form.unpack(tagged[tag])
    return int(number)


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


def _read_tags(data: bytes, at: int) -> dict[int, bytes]:
    count, at = read_uvarint(data, at)
    found = {}
    for _ in range(count):
        tag, at = read_uvarint(data, at)
        size, at = read_uvarint(data, at)
        found[tag] = data[at : at + size]
        at += size
    return found


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
