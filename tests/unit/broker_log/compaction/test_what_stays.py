"""Compaction: what stays for consumers and what goes."""

from pathlib import Path

import pytest

from broker.log.partition_log import PartitionLog
from tests.unit.broker_log.builders import (
    NOW_MS,
    TOPIC,
    append,
    crash,
    flush,
    idempotent,
    new_log_in,
    open_manager,
    read_all,
)
from tests.unit.broker_log.compaction.compacted_log import COMPACT, compact, layout, roll, rows, table, write
from tests.unit.broker_log.test_transactions import COORDINATOR, end, put, transactional
from wire.batch import TRANSACTIONAL_BIT, Record, build_batch, encode_records
from wire.compression import compress


def test_the_latest_record_of_each_key_stays_where_it_was(log: PartitionLog) -> None:
    write(log, ("a", "1"), ("b", "1"), ("a", "2"))
    write(log, ("c", "1"), ("b", "2"))
    roll(log)
    write(log, ("a", "3"))
    result = compact(log)
    assert layout(log) == [(2, "2"), (3, "1"), (4, "2"), (5, "3")]
    assert (result.records_kept, result.records_dropped, result.cleaned_to) == (3, 2, 5)
    assert log.size_bytes == sum(path.stat().st_size for path in log.directory.glob("*.log"))


def test_nothing_of_the_active_segment_goes(log: PartitionLog) -> None:
    write(log, ("a", "1"), ("a", "2"))
    assert log.compaction.begin(NOW_MS) is None


def test_the_next_compaction_begins_where_the_last_ended(log: PartitionLog) -> None:
    write(log, ("a", "1"), ("b", "1"))
    roll(log)
    compact(log)
    assert log.compaction.begin(NOW_MS) is None
    write(log, ("a", "2"))
    roll(log)
    cleanable = log.compaction.cleanable(NOW_MS)
    assert cleanable is not None
    assert (cleanable.first_dirty, cleanable.up_to) == (2, 3)
    compact(log)
    assert layout(log) == [(1, "1"), (2, "2")]


def test_small_segments_become_one(log: PartitionLog) -> None:
    for number in range(8):
        write(log, (f"k{number}", "x" * 100))
        roll(log)
    assert log.segment_count == 9
    compact(log)
    assert log.segment_count == 2
    assert len(table(log)) == 8
    for number in range(8):
        assert read_all(log, number)[0].offset == number


def test_uncommitted_and_unflushed_records_are_left_alone(log: PartitionLog) -> None:
    for _ in range(3):
        log.append(
            build_batch(rows(("a", "1"), ("a", "2"))), now_ms=NOW_MS, leader_epoch=0, origin=COORDINATOR
        )
        log.rolling.roll(log.log_end_offset, NOW_MS)
    log.durability.flush()
    log.advance_high_watermark(2)
    compact(log)
    assert log.compaction.cleaned_to == 2
    log.advance_high_watermark()
    assert [offset for offset, _ in layout(log)] == [1, 2, 3, 4, 5]
    write(log, ("b", "1"))
    log.rolling.roll(log.log_end_offset, NOW_MS)
    cleanable = log.compaction.cleanable(NOW_MS)
    assert cleanable is not None and cleanable.up_to == 6


def test_tombstones_go_after_their_time(log: PartitionLog) -> None:
    write(log, ("a", "1"), ("b", "1"))
    roll(log)
    write(log, ("a", None), ("c", "1"))
    roll(log)
    compact(log)
    assert table(log) == {"a": None, "b": "1", "c": "1"}
    found = log.segments.find(2)
    assert found is not None
    header = found[2]
    assert (header.attributes & 0x40, header.base_timestamp_ms) == (0x40, NOW_MS + 1000)
    assert [record.timestamp_ms for record in read_all(log)] == [NOW_MS] * 3
    assert log.reading.offset_for_timestamp(NOW_MS + 1) is None
    for later_ms, kept in ((999, True), (1000, False)):
        write(log, ("d", str(later_ms)))
        roll(log)
        compact(log, NOW_MS + later_ms)
        assert ("a" in table(log)) is kept
    assert table(log) == {"b": "1", "c": "1", "d": "1000"}


def test_records_without_a_key_go(log: PartitionLog) -> None:
    keyless = build_batch([Record(0, NOW_MS, None, b"v"), Record(0, NOW_MS, b"k", b"v")])
    log.append(keyless, now_ms=NOW_MS, leader_epoch=0, origin=COORDINATOR)
    log.advance_high_watermark()
    roll(log)
    compact(log)
    assert [offset for offset, _ in layout(log)] == [1]


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_compressed_batches_too(log: PartitionLog, codec: int) -> None:
    for round_ in range(3):
        content = rows(*((f"k{number % 5}", f"{round_}-{number}" * 10) for number in range(20)))
        payload = compress(encode_records(content), codec)
        append(log, build_batch(content, attributes=codec, payload=payload))
    roll(log)
    expected = table(log)
    compact(log)
    assert table(log) == expected
    assert len(layout(log)) == 5


def test_more_keys_than_the_map_holds_take_several_rounds(log: PartitionLog) -> None:
    for round_ in range(3):
        for number in range(40):
            write(log, *((f"k{number}-{row}", str(round_)) for row in range(10)))
    roll(log)
    expected = table(log)
    rounds = 0
    while log.compaction.cleaned_to < log.log_end_offset:
        before = log.compaction.cleaned_to
        compact(log, map_bytes_max=20_000)
        assert log.compaction.cleaned_to > before
        rounds += 1
        assert table(log) == expected
    assert rounds > 3
    assert len(layout(log)) == 400


def test_idempotent_producers_are_remembered(tmp_path: Path) -> None:
    manager, _ = open_manager(tmp_path, COMPACT)
    log = new_log_in(manager, COMPACT)
    append(log, idempotent(7, 0, 3))
    append(log, idempotent(8, 5, 2))
    write(log, ("k", "newest"))
    roll(log)
    compact(log)
    assert layout(log) == [(5, "newest")]
    batches = [header for segment in log.segments for _, header in segment.headers(0)]
    assert [(h.base_offset, h.record_count, h.last_sequence) for h in batches] == [
        (0, 0, 2),
        (3, 0, 6),
        (5, 1, -1),
    ]
    flush(manager)
    crash(manager)
    for path in log.directory.glob("*.snapshot"):
        path.unlink()
    manager, _ = open_manager(tmp_path, COMPACT)
    log = manager.logs[TOPIC, 0]
    assert append(log, idempotent(7, 0, 3)).is_duplicate
    assert not append(log, idempotent(8, 7)).is_duplicate


def test_followers_reach_the_end_although_the_last_records_went(log: PartitionLog) -> None:
    write(log, ("a", "1"))
    put(log, transactional(1, 0), COORDINATOR)
    end(log, 1, commit=False)
    log.advance_high_watermark()
    roll(log)
    compact(log)
    last = [header for segment in log.segments for _, header in segment.headers(0)][-1]
    assert last.next_offset == log.log_end_offset


# Transactions


def test_aborted_records_go_and_markers_follow(log: PartitionLog) -> None:
    def txn(key: str, text: str, sequence: int) -> bytearray:
        return build_batch(
            rows((key, text)),
            producer_id=1,
            producer_epoch=0,
            base_sequence=sequence,
            attributes=TRANSACTIONAL_BIT,
        )

    put(log, txn("a", "committed", 0), COORDINATOR)
    end(log, 1, commit=True)
    put(log, txn("a", "aborted", 1), COORDINATOR)
    put(log, txn("b", "aborted", 2), COORDINATOR)
    end(log, 1, commit=False)
    put(log, txn("c", "committed", 3), COORDINATOR)
    end(log, 1, commit=True)
    write(log, ("d", "plain"))
    roll(log)
    compact(log)
    batches = [h for segment in log.segments for _, h in segment.headers(0)]
    assert [(h.base_offset, h.is_control) for h in batches] == [
        (0, False),
        (1, True),
        (4, True),
        (5, False),
        (6, True),
        (7, False),
    ]
    assert [entry[:3] for entry in log.reading.aborted(0, 8)] == [(1, 2, 4)]
    for later_ms in (0, 999):
        write(log, ("e", str(later_ms)))
        roll(log)
        compact(log, NOW_MS + later_ms)
        assert 4 in [h.base_offset for segment in log.segments for _, h in segment.headers(0)]
        assert log.reading.aborted(0, 8) == [], "nothing is left that a consumer would have to drop"
    write(log, ("e", "later"))
    roll(log)
    compact(log, NOW_MS + 1000)
    assert 4 not in [h.base_offset for segment in log.segments for _, h in segment.headers(0)]
    assert {key: text for key, text in table(log).items() if key in "abcd"} == {
        "a": "committed",
        "c": "committed",
        "d": "plain",
    }


def test_an_open_transaction_stops_it(log: PartitionLog) -> None:
    write(log, ("a", "1"), ("a", "2"))
    put(log, transactional(1, 0), COORDINATOR)
    log.advance_high_watermark()
    roll(log)
    compact(log)
    assert (log.compaction.cleaned_to, [offset for offset, _ in layout(log)]) == (2, [1, 2])


def test_what_follows_an_aborted_transaction_is_seen(log: PartitionLog) -> None:
    """The next compaction begins behind the marker of a transaction that the index still names."""
    put(log, transactional(1, 0), COORDINATOR)
    write(log, ("a", "old"))
    end(log, 1, commit=False)
    log.advance_high_watermark()
    roll(log)
    compact(log)
    assert len(log.reading.aborted(0, 99)) == 1
    data = build_batch(
        rows(("a", None)), producer_id=1, producer_epoch=0, base_sequence=1, attributes=TRANSACTIONAL_BIT
    )
    put(log, data, COORDINATOR)
    end(log, 1, commit=True)
    write(log, ("b", "1"))
    roll(log)
    compact(log)
    assert "old" not in table(log).values()
