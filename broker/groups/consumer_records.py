"""Records of consumer groups (KIP-848) in Kafka's own formats: keys of types 3 and 5 to 8, values v0.

Versions: 4 (ConsumerGroupPartitionMetadata, until Kafka 4.0) and 16 (resolved regular expressions) are
neither written nor needed: both are worked out anew.
"""

import struct
from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from broker.groups.record_fields import (
    NO_TAGS,
    Reader,
    UnreadableRecord,
    pack_compact_array,
    pack_compact_string,
    pack_string,
)
from wire.uvarint import pack_uvarint

_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_I64: Final = struct.Struct(">q")
_HEAD: Final = _I16.pack(0)
_METADATA_HASH_TAG: Final = 0
_CLASSIC_TAG: Final = 0

Partitions: TypeAlias = Mapping[UUID, frozenset[int]]
"""Topic id -> partitions; never an empty set."""
NO_PARTITIONS: Final[Partitions] = {}


class MemberState(IntEnum):
    """How far a member is on its way to its target assignment."""

    STABLE = 0
    """It has been given all of its target."""
    UNREVOKED_PARTITIONS = 1
    """It must confirm first that it has let go of some."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that their owners have not let go of yet."""


class MemberMetadata(NamedTuple):
    """What a member says of itself."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    topic_names: frozenset[str]
    topic_regex: str | None
    rebalance_timeout_ms: int
    server_assignor: str | None


class CurrentAssignment(NamedTuple):
    """What a member has been given."""

    member_epoch: int
    previous_member_epoch: int
    state: MemberState
    assigned: Partitions
    pending_revocation: Partitions


class GroupEpoch(NamedTuple):
    """A group's epoch, and a hash of the topics that it reads."""

    epoch: int
    metadata_hash: int


class ConsumerGroupRecord(NamedTuple):
    """That a consumer group is there."""

    group_id: str
    value: GroupEpoch | None


class MemberRecord(NamedTuple):
    """A member of one."""

    group_id: str
    member_id: str
    value: MemberMetadata | None


class TargetRecord(NamedTuple):
    """The epoch that the target assignment was made for."""

    group_id: str
    value: int | None


class MemberTargetRecord(NamedTuple):
    """What a member shall have."""

    group_id: str
    member_id: str
    value: Partitions | None


class CurrentRecord(NamedTuple):
    """What a member has been given."""

    group_id: str
    member_id: str
    value: CurrentAssignment | None


ConsumerRecord: TypeAlias = (
    ConsumerGroupRecord | MemberRecord | TargetRecord | MemberTargetRecord | CurrentRecord
)
CONSUMER_RECORDS: Final = (ConsumerGroupRecord, MemberRecord, TargetRecord, MemberTargetRecord, CurrentRecord)
_KEY_TYPES: Final = {
    ConsumerGroupRecord: 3,
    MemberRecord: 5,
    TargetRecord: 6,
    MemberTargetRecord: 7,
    CurrentRecord: 8,
}
_BY_KEY_TYPE: Final = {key_type: kind for kind, key_type in _KEY_TYPES.items()}


def encode_consumer_key(record: ConsumerRecord) -> bytes:
    """The key of a record; its first number is the type."""
    key = _I16.pack(_KEY_TYPES[type(record)]) + pack_string(record.group_id)
    if isinstance(record, ConsumerGroupRecord | TargetRecord):
        return key
    return key + pack_string(record.member_id)


def encode_consumer_value(record: ConsumerRecord) -> bytes | None:
    """The value of a record, None for a tombstone."""
    if record.value is None:
        return None
    if isinstance(record, ConsumerGroupRecord):
        body = _encode_epoch(record.value)
    elif isinstance(record, MemberRecord):
        body = _encode_member(record.value)
    elif isinstance(record, TargetRecord):
        body = _I32.pack(record.value) + NO_TAGS
    elif isinstance(record, MemberTargetRecord):
        body = _encode_partitions(record.value) + NO_TAGS
    else:
        body = _encode_current(record.value)
    return _HEAD + body


def decode_consumer(key_type: int, key: Reader, value: bytes | None) -> ConsumerRecord | None:
    """A record, its key read up to behind the type; None: of a type that is left alone.

    Raises: UnreadableRecord.
    """
    kind = _BY_KEY_TYPE.get(key_type)
    if kind is None:
        return None
    group_id = key.string()
    reader = None if value is None else _value_reader(value)
    if kind is ConsumerGroupRecord:
        return ConsumerGroupRecord(group_id, None if reader is None else _decode_epoch(reader))
    if kind is TargetRecord:
        return TargetRecord(group_id, None if reader is None else _decode_target(reader))
    member_id = key.string()
    if kind is MemberRecord:
        return MemberRecord(group_id, member_id, None if reader is None else _decode_member(reader))
    if kind is MemberTargetRecord:
        return MemberTargetRecord(group_id, member_id, None if reader is None else _decode_targets(reader))
    return CurrentRecord(group_id, member_id, None if reader is None else _decode_current(reader))


def _value_reader(value: bytes) -> Reader:
    reader = Reader(value)
    version = reader.i16()
    if version != 0:
        raise UnreadableRecord(f"a value of a consumer group v{version}")
    return reader


def _encode_epoch(value: GroupEpoch) -> bytes:
    # Tag 0 with eight bytes: the only tagged field.
    tag = b"\1" + pack_uvarint(_METADATA_HASH_TAG) + pack_uvarint(8) + _I64.pack(value.metadata_hash)
    return _I32.pack(value.epoch) + tag


def _decode_epoch(reader: Reader) -> GroupEpoch:
    epoch = reader.i32()
    metadata_hash = reader.tags().get(_METADATA_HASH_TAG, b"\0")
    return GroupEpoch(epoch, int.from_bytes(metadata_hash, signed=True))


def _encode_member(value: MemberMetadata) -> bytes:
    return b"".join(
        (
            pack_compact_string(value.instance_id),
            pack_compact_string(value.rack_id),
            pack_compact_string(value.client_id),
            pack_compact_string(value.client_host),
            pack_compact_array(map(pack_compact_string, sorted(value.topic_names))),
            pack_compact_string(value.topic_regex),
            _I32.pack(value.rebalance_timeout_ms),
            pack_compact_string(value.server_assignor),
            NO_TAGS,
        )
    )


def _decode_member(reader: Reader) -> MemberMetadata:
    value = MemberMetadata(
        instance_id=reader.compact_nullable_string(),
        rack_id=reader.compact_nullable_string(),
        client_id=reader.compact_string(),
        client_host=reader.compact_string(),
        topic_names=frozenset(reader.compact_string() for _ in range(reader.compact_count())),
        topic_regex=reader.compact_nullable_string(),
        rebalance_timeout_ms=reader.i32(),
        server_assignor=reader.compact_nullable_string(),
    )
    if reader.tags().get(_CLASSIC_TAG, b"\0") != b"\0":
        raise UnreadableRecord("a member of the classic protocol in a consumer group")
    return value


def _encode_current(value: CurrentAssignment) -> bytes:
    return b"".join(
        (
            _I32.pack(value.member_epoch),
            _I32.pack(value.previous_member_epoch),
            bytes((value.state,)),
            _encode_partitions(value.assigned),
            _encode_partitions(value.pending_revocation),
            NO_TAGS,
        )
    )


def _decode_current(reader: Reader) -> CurrentAssignment:
    member_epoch, previous_member_epoch, number = reader.i32(), reader.i32(), reader.i8()
    try:
        state = MemberState(number)
    except ValueError as error:
        raise UnreadableRecord(f"a member in state {number}") from error
    assigned, pending_revocation = _decode_partitions(reader), _decode_partitions(reader)
    reader.tags()
    return CurrentAssignment(member_epoch, previous_member_epoch, state, assigned, pending_revocation)


def _decode_target(reader: Reader) -> int:
    epoch = reader.i32()
    reader.tags()
    return epoch


def _decode_targets(reader: Reader) -> Partitions:
    partitions = _decode_partitions(reader)
    reader.tags()
    return partitions


def _encode_partitions(partitions: Partitions) -> bytes:
    return pack_compact_array(
        topic_id.bytes + pack_compact_array(map(_I32.pack, sorted(indexes))) + NO_TAGS
        for topic_id, indexes in sorted(partitions.items(), key=lambda item: item[0].bytes)
    )


def _decode_partitions(reader: Reader) -> Partitions:
    found = {}
    for _ in range(reader.compact_count()):
        topic_id = reader.uuid()
        found[topic_id] = frozenset(reader.i32() for _ in range(reader.compact_count()))
        reader.tags()
    return found
