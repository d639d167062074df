"""Idempotent producers: the rules of KIP-98 and KIP-360, and the snapshot file."""

import struct

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from broker.log.errors import AppendRefused
from broker.log.producer_snapshot import SnapshotCorrupt, decode_snapshot, encode_snapshot
from broker.log.producer_state import ProducerStates
from broker.log.transactions import Transactions
from tests.unit.broker_log.builders import NOW_MS, idempotent
from wire.batch import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader, parse_header
from wire.control import EndMarker


def header(sequence: int, count: int = 1, *, epoch: int = 0, producer_id: int = 1) -> BatchHeader:
    return parse_header(idempotent(producer_id, sequence, count, epoch))


def append(states: ProducerStates, wanted: BatchHeader, base_offset: int) -> int:
    """The base offset the batch has in the end."""
    repeated = states.check(wanted)
    if repeated is not None:
        return repeated.base_offset
    states.record(wanted, base_offset, NOW_MS)
    return base_offset


def refused(states: ProducerStates, wanted: BatchHeader) -> ErrorCode:
    with pytest.raises(AppendRefused) as raised:
        states.check(wanted)
    return raised.value.error_code


def test_an_unknown_producer_may_start_anywhere() -> None:
    states = ProducerStates()
    assert append(states, header(4711), 0) == 0
    assert refused(states, header(4713)) is ErrorCode.out_of_order_sequence_number
    assert append(states, header(4712), 1) == 1


def test_the_last_five_batches_are_answered_with_their_first_offset() -> None:
    states = ProducerStates()
    for number in range(7):
        append(states, header(number * 2, 2), number * 10)
    for number in range(2, 7):
        assert append(states, header(number * 2, 2), 999) == number * 10
    for number in range(2):
        assert refused(states, header(number * 2, 2)) is ErrorCode.out_of_order_sequence_number


def test_a_repetition_must_be_the_same_batch() -> None:
    states = ProducerStates()
    append(states, header(0, 3), 0)
    assert refused(states, header(0, 2)) is ErrorCode.out_of_order_sequence_number
    assert refused(states, header(1, 2)) is ErrorCode.out_of_order_sequence_number


def test_a_new_epoch_starts_with_zero_and_fences_the_old() -> None:
    states = ProducerStates()
    append(states, header(0), 0)
    assert refused(states, header(5, epoch=1)) is ErrorCode.out_of_order_sequence_number
    assert append(states, header(0, epoch=1), 1) == 1
    assert refused(states, header(1, epoch=0)) is ErrorCode.invalid_producer_epoch
    assert refused(states, header(0, epoch=0)) is ErrorCode.invalid_producer_epoch
    assert append(states, header(1, epoch=1), 2) == 2


def test_sequences_go_on_with_zero() -> None:
    states = ProducerStates()
    append(states, header(2**31 - 2, 2), 0)
    assert append(states, header(0), 2) == 2
    states = ProducerStates()
    append(states, header(2**31 - 2, 4), 0)
    assert append(states, header(2), 4) == 4


def test_the_longest_silent_are_forgotten_beyond_the_bound() -> None:
    states = ProducerStates(producers_max=3)
    for producer_id in (1, 2, 3, 1, 4):
        states.record(header(0, producer_id=producer_id), 0, NOW_MS)
    assert list(states.entries) == [3, 1, 4]


def test_silent_producers_expire_by_our_clock() -> None:
    states = ProducerStates()
    states.record(header(0, producer_id=1), 0, NOW_MS)
    states.record(header(0, producer_id=2), 1, NOW_MS + 500)
    assert states.expire(NOW_MS + 1000, 1000) == 1
    assert list(states.entries) == [2]


def test_a_repetition_is_told_with_the_time_of_its_records() -> None:
    states = ProducerStates()
    append(states, header(0, 2), 7)
    repeated = states.check(header(0, 2))
    assert repeated is not None
    assert (repeated.base_offset, repeated.last_offset) == (7, 8)
    assert repeated.timestamp_ms == header(0, 2).max_timestamp_ms > 0


class _Counted:
    """An instance's share that only counts."""

    def __init__(self) -> None:
        self.producers = 0

    def joined(self, states: ProducerStates) -> None:
        self.producers += len(states.entries)

    def left(self, states: ProducerStates) -> None:
        self.producers -= len(states.entries)

    def grew(self, count: int) -> None:
        self.producers += count

    def shrank(self, count: int) -> None:
        self.producers -= count

    def transaction_ended(self) -> None: ...

    def admits(self) -> bool:
        return True


def test_who_is_forgotten_to_make_room_counts_no_longer() -> None:
    states, share = ProducerStates(producers_max=3), _Counted()
    states.join(share)
    for producer_id in (1, 2, 3, 4, 5):
        states.record(header(0, producer_id=producer_id), 0, NOW_MS)
    assert share.producers == len(states.entries) == 3


def test_a_guard_is_used_up_by_the_batch_that_opens_the_transaction() -> None:
    states = ProducerStates()
    guard = states.verifications.begin(1, 0, 0, NOW_MS)
    other = states.verifications.begin(2, 0, 0, NOW_MS)
    transactional = header(0)._replace(attributes=TRANSACTIONAL_BIT)
    states.record(transactional, 0, NOW_MS)
    assert not states.verifications.allow(1, guard)
    assert states.verifications.allow(2, other), "which is another producer's"


@pytest.mark.parametrize(
    ("version", "asked_epoch", "marked_epoch", "stays"),
    [
        (0, 4, 4, False),  # the transaction that the batch is of has ended
        (2, 4, 4, True),  # the one before has
        (2, 4, 5, False),
    ],
)
def test_a_marker_ends_what_is_asked_about_its_own_transaction(
    version: int, asked_epoch: int, marked_epoch: int, stays: bool
) -> None:
    states = ProducerStates()
    guard = states.verifications.begin(1, asked_epoch, 0, NOW_MS, starts_at_zero=version > 0)
    marked = header(0)._replace(attributes=TRANSACTIONAL_BIT | CONTROL_BIT, producer_epoch=marked_epoch)
    states.check_marker(marked, EndMarker(True, 1, version))
    states.record_marker(marked, 7, NOW_MS, EndMarker(True, 1))
    assert states.verifications.allow(1, guard) == stays
    data = header(0)._replace(attributes=TRANSACTIONAL_BIT, producer_epoch=asked_epoch)
    if stays:
        states.check_own(data, guard)
    else:
        with pytest.raises(AppendRefused):
            states.check_own(data, guard)


def test_a_producer_whose_batches_are_gone_gets_none_back_from_before() -> None:
    earlier, states = ProducerStates(), ProducerStates()
    earlier.record(header(0), 0, NOW_MS)
    states.record(header(0), 0, NOW_MS)
    states.entries[1].batches.clear()
    states.remember_batches(earlier)
    assert states.entries[1].batches == []


def test_a_marker_at_the_high_watermark_is_not_committed_although_an_earlier_one_is() -> None:
    transactions = Transactions()
    for producer_id, first_offset, marker_offset in ((1, 0, 2), (2, 3, 5)):
        transactions.begin(producer_id, first_offset)
        transactions.end(producer_id, marker_offset, is_aborted=False)
    transactions.committed_to(5)
    assert ([each.last_offset for each in transactions.ended], transactions.first_unstable_offset) == ([5], 3)
    transactions.committed_to(6)
    assert (transactions.ended, transactions.first_unstable_offset) == ([], None)


def test_the_snapshot_is_kafkas() -> None:
    states = ProducerStates()
    states.record(header(3, 2, epoch=6, producer_id=77), 100, NOW_MS)
    data = encode_snapshot(states)
    assert struct.unpack_from(">hIi", data) == (1, crc32c(data[6:]), 1)
    assert struct.unpack_from(">qhiqiqiq", data, 10) == (77, 6, 4, 101, 1, NOW_MS, -1, -1)
    assert len(data) == 10 + 46


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4)), max_size=30))
@settings(max_examples=100)
def test_a_snapshot_keeps_each_producers_last_batch(steps: list[tuple[int, int]]) -> None:
    states = ProducerStates()
    sequences: dict[int, int] = {}
    for offset, (producer_id, count) in enumerate(steps):
        states.record(
            header(sequences.get(producer_id, 0), count, producer_id=producer_id), offset * 10, NOW_MS
        )
        sequences[producer_id] = sequences.get(producer_id, 0) + count
    again = decode_snapshot(encode_snapshot(states))
    assert list(again.entries) == list(states.entries)
    for producer_id, entry in states.entries.items():
        kept, last = again.entries[producer_id].batches, entry.batches[-1]
        assert [b._replace(timestamp_ms=0) for b in kept] == [last._replace(timestamp_ms=0)]


def test_damaged_snapshots_are_noticed() -> None:
    states = ProducerStates()
    states.record(header(0), 0, NOW_MS)
    data = encode_snapshot(states)
    for cut in range(len(data)):
        with pytest.raises(SnapshotCorrupt):
            decode_snapshot(data[:cut])
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 1
        with pytest.raises(SnapshotCorrupt):
            decode_snapshot(bytes(damaged))


def test_replayed_batches_know_more_than_the_snapshot() -> None:
    states = ProducerStates()
    for number in range(5):
        states.record(header(number), number, NOW_MS)
    states.record(header(0, producer_id=2), 9, NOW_MS)
    after_crash = decode_snapshot(encode_snapshot(states))
    assert refused(after_crash, header(2)) is ErrorCode.out_of_order_sequence_number
    tail = ProducerStates()
    for number in range(1, 5):
        tail.record(header(number), number, NOW_MS)
    after_crash.remember_batches(tail)
    assert append(after_crash, header(2), 99) == 2
    assert append(after_crash, header(0, producer_id=2), 99) == 9
