"""Records of the transaction log, against bytes written out by hand from Kafka's schema."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.transactions.records import TransactionRecord, UnreadableRecord, decode, encode_key, encode_value
from broker.transactions.state import State, TopicPartition, Transaction

_KEY = bytes.fromhex("0000 0001 74")


def test_an_ongoing_transaction_as_kafka_writes_it() -> None:
    value = Transaction(
        producer_id=7,
        producer_epoch=3,
        timeout_ms=60_000,
        state=State.ONGOING,
        partitions=frozenset({TopicPartition("a", 2), TopicPartition("a", 0)}),
        last_update_ms=5,
        start_ms=4,
    )
    record = TransactionRecord("t", value)
    assert encode_key(record) == _KEY
    encoded = bytes.fromhex(
        "0000 0000000000000007 0003 0000ea60 01"
        "00000001 0001 61 00000002 00000000 00000002"
        "0000000000000005 0000000000000004"
    )
    assert encode_value(record) == encoded
    assert decode(_KEY, encoded) == record


def test_an_empty_one_has_no_partitions_at_all() -> None:
    record = TransactionRecord("t", Transaction(7, 0, 1, State.EMPTY, frozenset(), 5))
    encoded = bytes.fromhex(
        "0000 0000000000000007 0000 00000001 00 ffffffff 0000000000000005 ffffffffffffffff"
    )
    assert encode_value(record) == encoded
    assert decode(_KEY, encoded) == record


def test_what_only_version_2_has_is_in_tagged_fields() -> None:
    value = Transaction(
        producer_id=7,
        producer_epoch=3,
        timeout_ms=60_000,
        state=State.PREPARE_COMMIT,
        partitions=frozenset({TopicPartition("a", 2), TopicPartition("a", 0)}),
        last_update_ms=5,
        start_ms=4,
        last_producer_id=6,
        next_producer_id=8,
        version=2,
    )
    encoded = bytes.fromhex(
        "0001 0000000000000007 0003 0000ea60 02"
        "02 02 61 03 00000000 00000002 00"
        "0000000000000005 0000000000000004"
        "03 00 08 0000000000000006 01 08 0000000000000008 02 02 0002"
    )
    assert encode_value(TransactionRecord("t", value)) == encoded
    assert decode(_KEY, encoded) == TransactionRecord("t", value)
    empty = value._replace(state=State.EMPTY, partitions=frozenset())
    encoded = encode_value(TransactionRecord("t", empty)) or b""
    assert decode(_KEY, encoded) == TransactionRecord("t", empty)


def test_the_flexible_version_is_read_and_tags_nobody_knows_passed_over() -> None:
    encoded = bytes.fromhex(
        "0001 0000000000000007 0003 0000ea60 02"
        "02 02 61 03 00000000 00000002 00"
        "0000000000000005 0000000000000004"
        "02 03 02 0006 09 01 00"
    )
    found = decode(_KEY, encoded)
    assert found is not None and found.value is not None
    assert found.value.partitions == {("a", 0), ("a", 2)}
    assert (found.value.state, found.value.start_ms) == (State.PREPARE_COMMIT, 4)


def test_tombstones_and_keys_of_newer_coordinators() -> None:
    assert decode(_KEY, None) == TransactionRecord("t", None)
    assert encode_value(TransactionRecord("t", None)) is None
    assert decode(bytes.fromhex("0009 0001 74"), b"") is None


@pytest.mark.parametrize(
    "value",
    [
        "",
        "0002 0000000000000007 0003 0000ea60 01 00000000 0000000000000005 0000000000000004",
        "0000 0000000000000007 0003 0000ea60 06 00000000 0000000000000005 0000000000000004",
        "0000 0000000000000007 0003 0000ea60 09 00000000 0000000000000005 0000000000000004",
        "0000 0000000000000007 0003 0000ea60 01 00000001 7fff 61",
        "0001 0000000000000007 0003 0000ea60 01 ff",
        "0001 0000000000000007 0003 0000ea60 01 01 0000000000000005 0000000000000004 01 01 02 0000",
    ],
)
def test_what_it_cannot_read_it_says(value: str) -> None:
    with pytest.raises(UnreadableRecord):
        decode(_KEY, bytes.fromhex(value))


@given(data=st.binary(max_size=80))
@settings(max_examples=200)
def test_arbitrary_bytes_are_read_or_refused(data: bytes) -> None:
    for key, value in ((data, None), (_KEY, data), (_KEY, b"\0\1" + data)):
        try:
            decode(key, value)
        except UnreadableRecord:
            continue
