"""Records of `__consumer_offsets` in Kafka's own formats, so that Kafka's `--offsets-decoder` reads them.

Keys: OffsetCommitKey v0-1, GroupMetadataKey v2. Values written: OffsetCommitValue v3 (v1 when the client gave
its own retention, which only v1 can hold), GroupMetadataValue v3. Values read: v0-3 of both.
Records of consumer groups: `consumer_records`.
"""

import struct
from typing import Final, NamedTuple, TypeAlias

from broker.groups.consumer_records import (
    CONSUMER_RECORDS,
    ConsumerRecord,
    decode_consumer,
    encode_consumer_key,
    encode_consumer_value,
)
from broker.groups.record_fields import (
    STRING_BYTES_MAX,
    Reader,
    UnreadableRecord,
    pack_bytes,
    pack_nullable_string,
    pack_string,
)

_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_I64: Final = struct.Struct(">q")

OFFSETS_TOPIC: Final = "__consumer_offsets"
OFFSET_COMMIT_KEY_VERSION: Final = 1
GROUP_METADATA_KEY_VERSION: Final = 2


class OffsetAndMetadata(NamedTuple):
    """A committed offset."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None


class StoredMember(NamedTuple):
    """A member as the log keeps it; `subscription` is its metadata for the group's chosen protocol."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class GroupMetadata(NamedTuple):
    """A group as the log keeps it: written when it becomes stable or empty."""

    protocol_type: str
    generation_id: int
    protocol_name: str | None
    leader: str | None
    state_timestamp_ms: int | None
    members: tuple[StoredMember, ...]


class OffsetRecord(NamedTuple):
    """A committed offset of one partition; value None is a tombstone."""

    group_id: str
    topic: str
    partition: int
    value: OffsetAndMetadata | None


class GroupRecord(NamedTuple):
    """A group's metadata; value None is a tombstone."""

    group_id: str
    value: GroupMetadata | None


Record: TypeAlias = OffsetRecord | GroupRecord | ConsumerRecord


def is_storable(text: str) -> bool:
    """Whether a string fits a record and the older versions of every answer; flexible ones allow more."""
    return len(text) <= STRING_BYTES_MAX and len(text.encode()) <= STRING_BYTES_MAX


def is_storable_group_id(group_id: str) -> bool:
    """Whether a group of this name may have members."""
    return group_id != "" and is_storable(group_id)


def encode_key(record: Record) -> bytes:
    """The key of a record."""
    if isinstance(record, CONSUMER_RECORDS):
        return encode_consumer_key(record)
    if isinstance(record, OffsetRecord):
        head = _I16.pack(OFFSET_COMMIT_KEY_VERSION) + pack_string(record.group_id) + pack_string(record.topic)
        return head + _I32.pack(record.partition)
    return _I16.pack(GROUP_METADATA_KEY_VERSION) + pack_string(record.group_id)


def encode_value(record: Record) -> bytes | None:
    """The value of a record, or None for a tombstone."""
    if isinstance(record, CONSUMER_RECORDS):
        return encode_consumer_value(record)
    if record.value is None:
        return None
    if isinstance(record.value, OffsetAndMetadata):
        return _encode_offset(record.value)
    return _encode_group(record.value)


def decode(key: bytes, value: bytes | None) -> Record | None:
    """A record from its bytes; None for key versions of newer coordinators, which are left alone.

    Raises: UnreadableRecord.
    """
    reader = Reader(key)
    version = reader.i16()
    if version in (0, OFFSET_COMMIT_KEY_VERSION):
        group_id, topic, partition = reader.string(), reader.string(), reader.i32()
        return OffsetRecord(group_id, topic, partition, None if value is None else _decode_offset(value))
    if version == GROUP_METADATA_KEY_VERSION:
        group_id = reader.string()
        return GroupRecord(group_id, None if value is None else _decode_group(value))
    return decode_consumer(version, reader, value)


def _encode_offset(value: OffsetAndMetadata) -> bytes:
    if value.expire_timestamp_ms is not None:
        head = _I16.pack(1) + _I64.pack(value.offset) + pack_string(value.metadata)
        return head + _I64.pack(value.commit_timestamp_ms) + _I64.pack(value.expire_timestamp_ms)
    head = _I16.pack(3) + _I64.pack(value.offset) + _I32.pack(value.leader_epoch)
    return head + pack_string(value.metadata) + _I64.pack(value.commit_timestamp_ms)


def _decode_offset(value: bytes) -> OffsetAndMetadata:
    reader = Reader(value)
    version = reader.i16()
    if not 0 <= version <= 3:
        raise UnreadableRecord(f"OffsetCommitValue v{version}")
    offset = reader.i64()
    leader_epoch = reader.i32() if version >= 3 else -1
    metadata, commit_timestamp_ms = reader.string(), reader.i64()
    expire_timestamp_ms = reader.i64() if version == 1 else -1
    return OffsetAndMetadata(
        offset,
        leader_epoch,
        metadata,
        commit_timestamp_ms,
        None if expire_timestamp_ms == -1 else expire_timestamp_ms,
    )


def _encode_group(value: GroupMetadata) -> bytes:
    parts = [
        _I16.pack(3),
        pack_string(value.protocol_type),
        _I32.pack(value.generation_id),
        pack_nullable_string(value.protocol_name),
        pack_nullable_string(value.leader),
        _I64.pack(-1 if value.state_timestamp_ms is None else value.state_timestamp_ms),
        _I32.pack(len(value.members)),
    ]
    for member in value.members:
        parts += (
            pack_string(member.member_id),
            pack_nullable_string(member.group_instance_id),
            pack_string(member.client_id),
            pack_string(member.client_host),
            _I32.pack(member.rebalance_timeout_ms),
            _I32.pack(member.session_timeout_ms),
            pack_bytes(member.subscription),
            pack_bytes(member.assignment),
        )
    return b"".join(parts)


def _decode_group(value: bytes) -> GroupMetadata:
    reader = Reader(value)
    version = reader.i16()
    if not 0 <= version <= 3:
        raise UnreadableRecord(f"GroupMetadataValue v{version}")
    protocol_type, generation_id = reader.string(), reader.i32()
    protocol_name, leader = reader.nullable_string(), reader.nullable_string()
    timestamp_ms = reader.i64() if version >= 2 else -1
    members = tuple(_decode_member(reader, version) for _ in range(reader.i32()))
    state_timestamp_ms = None if timestamp_ms == -1 else timestamp_ms
    return GroupMetadata(protocol_type, generation_id, protocol_name, leader, state_timestamp_ms, members)


def _decode_member(reader: Reader, version: int) -> StoredMember:
    member_id = reader.string()
    group_instance_id = reader.nullable_string() if version >= 3 else None
    client_id, client_host = reader.string(), reader.string()
    rebalance_timeout_ms = reader.i32() if version >= 1 else -1
    session_timeout_ms = reader.i32()
    return StoredMember(
        member_id,
        group_instance_id,
        client_id,
        client_host,
        session_timeout_ms if rebalance_timeout_ms == -1 else rebalance_timeout_ms,
        session_timeout_ms,
        reader.sized_bytes(),
        reader.sized_bytes(),
    )
