"""The offsets topic's records: Kafka's bytes, round trips, hostile bytes."""

import contextlib
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.coordination.java_hash import java_hash, partition_for
from broker.groups.consumer_records import (
    ConsumerGroupRecord,
    CurrentAssignment,
    CurrentRecord,
    GroupEpoch,
    MemberMetadata,
    MemberRecord,
    MemberState,
    MemberTargetRecord,
    TargetRecord,
)
from broker.groups.record_fields import UnreadableRecord
from broker.groups.records import (
    GroupMetadata,
    GroupRecord,
    OffsetAndMetadata,
    OffsetRecord,
    Record,
    StoredMember,
    decode,
    encode_key,
    encode_value,
)

_text = st.text(max_size=20)
_i32 = st.integers(-(2**31), 2**31 - 1)
_ms = st.integers(0, 2**62)


def test_an_offset_commit_has_kafkas_bytes() -> None:
    record = OffsetRecord("g", "topic", 3, OffsetAndMetadata(42, 7, "m", 1000))
    assert encode_key(record).hex() == "00010001670005746f70696300000003"
    assert encode_value(record) == bytes.fromhex("0003000000000000002a0000000700016d00000000000003e8")


def test_a_retention_of_the_clients_own_needs_value_version_1() -> None:
    record = OffsetRecord("g", "t", 0, OffsetAndMetadata(5, -1, "", 1000, 2000))
    value = encode_value(record)
    assert value is not None
    assert value.hex() == "00010000000000000005000000000000000003e800000000000007d0"
    assert decode(encode_key(record), value) == record


def test_a_group_has_kafkas_bytes() -> None:
    member = StoredMember("m-1", "i", "c", "/h", 60000, 10000, b"S", b"AA")
    record = GroupRecord("g", GroupMetadata("consumer", 5, "range", "m-1", 1000, (member,)))
    assert encode_key(record).hex() == "0002000167"
    value = encode_value(record)
    assert value is not None
    assert value.hex() == (
        "0003"
        "0008636f6e73756d6572"
        "00000005"
        "000572616e6765"
        "00036d2d31"
        "00000000000003e8"
        "00000001"
        "00036d2d31"
        "000169"
        "000163"
        "00022f68"
        "0000ea60"
        "00002710"
        "0000000153"
        "000000024141"
    )


def test_older_group_values_are_read() -> None:
    value = bytes.fromhex("000000016300000002ffffffff00000001")
    value += bytes.fromhex("00016d000163000168000027100000000000000000")
    record = decode(bytes.fromhex("0002000167"), value)
    assert record == GroupRecord(
        "g",
        GroupMetadata("c", 2, None, None, None, (StoredMember("m", None, "c", "h", 10000, 10000, b"", b""),)),
    )


def test_tombstones_have_no_value() -> None:
    for record in (OffsetRecord("g", "t", 1, None), GroupRecord("g", None)):
        assert encode_value(record) is None
        assert decode(encode_key(record), None) == record


def test_keys_of_newer_coordinators_are_left_alone() -> None:
    assert decode(bytes.fromhex("0063000167"), b"\0\0") is None


@given(group=_text, topic=_text, partition=_i32, offset=_ms, epoch=_i32, metadata=_text, at=_ms)
@settings(max_examples=50)
def test_offsets_round_trip(
    group: str, topic: str, partition: int, offset: int, epoch: int, metadata: str, at: int
) -> None:
    record = OffsetRecord(group, topic, partition, OffsetAndMetadata(offset, epoch, metadata, at))
    assert decode(encode_key(record), encode_value(record)) == record


_members = st.builds(
    StoredMember, _text, st.none() | _text, _text, _text, st.integers(0, 9), _i32, st.binary(), st.binary()
)


@given(st.builds(GroupMetadata, _text, _i32, st.none() | _text, st.none() | _text, _ms, st.tuples(_members)))
@settings(max_examples=50)
def test_groups_round_trip(metadata: GroupMetadata) -> None:
    record = GroupRecord("g", metadata)
    assert decode(encode_key(record), encode_value(record)) == record


@given(st.binary(max_size=60), st.none() | st.binary(max_size=60))
@settings(max_examples=200)
def test_hostile_bytes_are_a_record_or_unreadable(key: bytes, value: bytes | None) -> None:
    with contextlib.suppress(UnreadableRecord):
        decode(key, value)


def test_a_cut_record_is_unreadable() -> None:
    record = GroupRecord("g", GroupMetadata("consumer", 5, "range", "m", 1, ()))
    value = encode_value(record)
    assert value is not None
    for size in range(len(value)):
        with pytest.raises(UnreadableRecord):
            decode(encode_key(record), value[:size])


@pytest.mark.parametrize(
    ("text", "hashed"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("BB", 2112),
        ("polygenelubricants", -(2**31)),
        ("\U0001f600", 1772899),
    ],
)
def test_hashes_are_javas(text: str, hashed: int) -> None:
    assert java_hash(text) == hashed


def test_the_smallest_hash_has_a_partition() -> None:
    assert partition_for("polygenelubricants", 50) == 0
    assert all(0 <= partition_for(str(number), 12) < 12 for number in range(500))


_ID = UUID("00000000-0000-0001-0000-000000000002")


@pytest.mark.parametrize(
    ("record", "key", "value"),
    [
        (ConsumerGroupRecord("g", GroupEpoch(5, 7)), "0003000167", "0000000000050100080000000000000007"),
        (TargetRecord("g", 5), "0006000167", "00000000000500"),
        (
            MemberTargetRecord("g", "m", {_ID: frozenset({2, 1})}),
            "000700016700016d",
            "000002000000000000000100000000000000020300000001000000020000",
        ),
        (
            CurrentRecord("g", "m", CurrentAssignment(5, 4, MemberState.UNRELEASED_PARTITIONS, {}, {})),
            "000800016700016d",
            "0000000000050000000402010100",
        ),
        (
            MemberRecord("g", "m", MemberMetadata(None, "r", "c", "/h", frozenset({"t"}), None, 9, "range")),
            "000500016700016d",
            "00000002720263032f6802027400000000090672616e676500",
        ),
    ],
)
def test_consumer_groups_have_kafkas_bytes(record: Record, key: str, value: str) -> None:
    assert encode_key(record).hex() == key
    encoded = encode_value(record)
    assert encoded is not None
    assert encoded.hex() == value
    assert decode(encode_key(record), encoded) == record
    assert decode(encode_key(record), None) == record._replace(value=None)
    for size in range(len(encoded)):
        with pytest.raises(UnreadableRecord):
            decode(encode_key(record), encoded[:size])
