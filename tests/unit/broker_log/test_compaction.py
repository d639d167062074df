"""Compaction: what stays for consumers, what goes, and that a crash at any step changes neither."""

import os
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from broker.log.cleaning import CleaningResult, CleaningTask, clean
from broker.log.cleaning_job import CleaningJob
from broker.log.cleaning_process import clean_in_process
from broker.log.compaction import Cleanable, SealedSegment, find_cleanable, group_segments
from broker.log.config import LogConfig
from broker.log.errors import StorageFailed
from broker.log.log_cleaner import LogCleaner
from broker.log.manager import LogManager
from broker.log.partition_log import PartitionLog
from broker.log.payload import records_of
from broker.log.results import AppendOrigin
from tests.unit.broker_log.builders import (
    NOW_MS,
    TOPIC,
    TOPIC_ID,
    append,
    crash,
    flush,
    idempotent,
    new_log_in,
    open_manager,
    read_all,
)
from tests.unit.broker_log.test_transactions import COORDINATOR, end, put, transactional
from wire.batch import TRANSACTIONAL_BIT, Record, build_batch, encode_records
from wire.compression import compress

COMPACT = LogConfig(
    segment_bytes=2000,
    index_interval_bytes=256,
    cleanup_policy=frozenset({"compact"}),
    delete_retention_ms=1000,
)


def rows(*pairs: tuple[str, str | None], at_ms: int = NOW_MS) -> list[Record]:
    return [Record(0, at_ms, key.encode(), None if text is None else text.encode()) for key, text in pairs]


def write(log: PartitionLog, *pairs: tuple[str, str | None]) -> None:
    append(log, build_batch(rows(*pairs)))


def roll(log: PartitionLog) -> None:
    """Everything so far can be compacted then."""
    log._roll(log.log_end_offset, NOW_MS)
    log.flush()


def compact(log: PartitionLog, now_ms: int = NOW_MS, map_bytes_max: int = 1 << 26) -> CleaningResult:
    job = log.begin_cleaning(now_ms, map_bytes_max)
    assert job is not None
    job.run()
    result = log.complete_cleaning(job)
    assert result is not None, (job.error, log.uncleanable)
    return result


def table(log: PartitionLog) -> dict[str, str | None]:
    """What a consumer that reads everything knows."""
    return {
        (record.key or b"").decode(): None if record.value is None else record.value.decode()
        for record in read_all(log, max_bytes=10**6)
    }


def layout(log: PartitionLog) -> list[tuple[int, str | None]]:
    return [(r.offset, None if r.value is None else r.value.decode()) for r in read_all(log, max_bytes=10**6)]


@pytest.fixture
def manager(tmp_path: Path) -> LogManager:
    return open_manager(tmp_path, COMPACT)[0]


@pytest.fixture
def log(manager: LogManager) -> PartitionLog:
    return new_log_in(manager, COMPACT)


def files(log: PartitionLog) -> set[str]:
    return {path.suffix for path in log.directory.iterdir()}


# What stays


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
    assert log.begin_cleaning(NOW_MS) is None


def test_the_next_compaction_begins_where_the_last_ended(log: PartitionLog) -> None:
    write(log, ("a", "1"), ("b", "1"))
    roll(log)
    compact(log)
    assert log.begin_cleaning(NOW_MS) is None
    write(log, ("a", "2"))
    roll(log)
    cleanable = log.cleanable(NOW_MS)
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
        log._roll(log.log_end_offset, NOW_MS)
    log.flush()
    log.advance_high_watermark(2)
    compact(log)
    assert log.cleaned_to == 2
    log.advance_high_watermark()
    assert [offset for offset, _ in layout(log)] == [1, 2, 3, 4, 5]
    write(log, ("b", "1"))
    log._roll(log.log_end_offset, NOW_MS)
    cleanable = log.cleanable(NOW_MS)
    assert cleanable is not None and cleanable.up_to == 6


def test_tombstones_go_after_their_time(log: PartitionLog) -> None:
    write(log, ("a", "1"), ("b", "1"))
    roll(log)
    write(log, ("a", None), ("c", "1"))
    roll(log)
    compact(log)
    assert table(log) == {"a": None, "b": "1", "c": "1"}
    found = log._segments.find(2)
    assert found is not None
    header = found[2]
    assert (header.attributes & 0x40, header.base_timestamp_ms) == (0x40, NOW_MS + 1000)
    assert [record.timestamp_ms for record in read_all(log)] == [NOW_MS] * 3
    assert log.offset_for_timestamp(NOW_MS + 1) is None
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
    while log.cleaned_to < log.log_end_offset:
        before = log.cleaned_to
        compact(log, map_bytes_max=20_000)
        assert log.cleaned_to > before
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
    batches = [header for segment in log._segments for _, header in segment.headers(0)]
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
    last = [header for segment in log._segments for _, header in segment.headers(0)][-1]
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
    batches = [h for segment in log._segments for _, h in segment.headers(0)]
    assert [(h.base_offset, h.is_control) for h in batches] == [
        (0, False),
        (1, True),
        (4, True),
        (5, False),
        (6, True),
        (7, False),
    ]
    assert [entry[:3] for entry in log.aborted_transactions(0, 8)] == [(1, 2, 4)]
    for later_ms in (0, 999):
        write(log, ("e", str(later_ms)))
        roll(log)
        compact(log, NOW_MS + later_ms)
        assert 4 in [h.base_offset for segment in log._segments for _, h in segment.headers(0)]
        assert log.aborted_transactions(0, 8) == [], "nothing is left that a consumer would have to drop"
    write(log, ("e", "later"))
    roll(log)
    compact(log, NOW_MS + 1000)
    assert 4 not in [h.base_offset for segment in log._segments for _, h in segment.headers(0)]
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
    assert (log.cleaned_to, [offset for offset, _ in layout(log)]) == (2, [1, 2])


def test_what_follows_an_aborted_transaction_is_seen(log: PartitionLog) -> None:
    """The next compaction begins behind the marker of a transaction that the index still names."""
    put(log, transactional(1, 0), COORDINATOR)
    write(log, ("a", "old"))
    end(log, 1, commit=False)
    log.advance_high_watermark()
    roll(log)
    compact(log)
    assert len(log.aborted_transactions(0, 99)) == 1
    data = build_batch(
        rows(("a", None)), producer_id=1, producer_epoch=0, base_sequence=1, attributes=TRANSACTIONAL_BIT
    )
    put(log, data, COORDINATOR)
    end(log, 1, commit=True)
    write(log, ("b", "1"))
    roll(log)
    compact(log)
    assert "old" not in table(log).values()


# The choice


def sealed(*sizes: int, at_ms: int = NOW_MS) -> list[SealedSegment]:
    return [
        SealedSegment(10 * number, 10 * number + 10, size, 100, at_ms + number, at_ms + number)
        for number, size in enumerate(sizes)
    ]


def test_the_dirty_share_decides() -> None:
    found = find_cleanable(sealed(50, 30, 20), COMPACT, cleaned_to=10, stable_to=30, now_ms=NOW_MS)
    assert found == Cleanable(10, 30, 50, 50, False)
    assert not found.is_worth_it(COMPACT)
    assert found.is_worth_it(replace(COMPACT, min_cleanable_dirty_ratio=0.4))
    nothing = find_cleanable(sealed(50), COMPACT, cleaned_to=10, stable_to=30, now_ms=NOW_MS)
    assert not nothing.is_worth_it(replace(COMPACT, min_cleanable_dirty_ratio=0.0))
    assert not find_cleanable([], COMPACT, cleaned_to=5, stable_to=9, now_ms=NOW_MS).is_worth_it(COMPACT)


@pytest.mark.parametrize("cleaned_to", [-1, 5, 1000])
def test_a_pointer_that_is_not_in_the_log_means_all_of_it(cleaned_to: int) -> None:
    segments = sealed(50, 50, 50)[1:]
    found = find_cleanable(segments, COMPACT, cleaned_to=cleaned_to, stable_to=99, now_ms=NOW_MS)
    assert (found.first_dirty, found.up_to, found.clean_bytes) == (10, 30, 0)


def test_young_records_wait() -> None:
    config = replace(COMPACT, min_compaction_lag_ms=100)
    found = find_cleanable(sealed(1, 1, 1), config, cleaned_to=0, stable_to=30, now_ms=NOW_MS + 101)
    assert found.up_to == 20
    assert find_cleanable(sealed(1), config, cleaned_to=0, stable_to=30, now_ms=NOW_MS).dirty_bytes == 0


def test_old_records_do_not() -> None:
    config = replace(COMPACT, max_compaction_lag_ms=100)
    segments = sealed(1000, 1)
    for later_ms, overdue in ((101, False), (102, True)):
        found = find_cleanable(segments, config, cleaned_to=10, stable_to=20, now_ms=NOW_MS + later_ms)
        assert (found.overdue, found.is_worth_it(config)) == (overdue, overdue)
    assert replace(COMPACT, max_compaction_lag_ms=5, segment_ms=9).roll_ms == 5
    assert LogConfig(max_compaction_lag_ms=5, segment_ms=9).roll_ms == 9


def test_segments_are_grouped_up_to_a_segments_size() -> None:
    groups = group_segments(sealed(40, 40, 40, 90, 10), segment_bytes=100, index_bytes=10**6)
    assert [[s.size_bytes for s in group] for group in groups] == [[40, 40], [40], [90, 10]]
    assert len(group_segments(sealed(1, 1, 1), segment_bytes=100, index_bytes=150)) == 3
    far = [SealedSegment(0, 2**31, 1, 0, 0, 0), SealedSegment(2**31, 2**31 + 2, 1, 0, 0, 0)]
    assert len(group_segments(far, segment_bytes=100, index_bytes=150)) == 2


def test_the_filthiest_log_comes_first(manager: LogManager) -> None:
    logs = [manager.create(TOPIC, number, TOPIC_ID, COMPACT, NOW_MS) for number in range(3)]
    for number, log in enumerate(logs):
        write(log, ("a", "x" * 500))
        roll(log)
        compact(log)
        for _ in range(number * 2):
            write(log, ("a", "x" * 500))
        if number:
            roll(log)
    cleaner = LogCleaner(manager.logs)
    order = []
    while (found := cleaner.begin(NOW_MS)) is not None:
        found.run(clean)
        assert cleaner.complete(found) is not None
        order.append(found.log.partition)
    assert order == [2, 1]


# Faults


def test_it_runs_in_a_process_of_its_own(log: PartitionLog) -> None:
    write(log, ("a", "1"), ("a", "2"))
    roll(log)
    job = log.begin_cleaning(NOW_MS)
    assert job is not None
    job.run(clean_in_process)
    assert log.complete_cleaning(job) is not None
    assert layout(log) == [(1, "2")]


def test_the_process_answers_with_what_is_wrong(log: PartitionLog) -> None:
    write(log, ("a", "1"))
    roll(log)
    job = log.begin_cleaning(NOW_MS)
    assert job is not None
    log._segments.first.path().unlink()
    job.run(clean_in_process)
    with pytest.raises(StorageFailed) as raised:
        log.complete_cleaning(job)
    assert raised.value.error_code is ErrorCode.kafka_storage_error


def test_batches_larger_than_a_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.log.cleaning._READ_BYTES", 150)
    log = new_log_in(open_manager(tmp_path, COMPACT)[0], COMPACT)
    for number in range(10):
        write(log, (f"k{number % 3}", "x" * 37 * number))
    roll(log)
    expected = table(log)
    compact(log)
    assert table(log) == expected
    assert len(layout(log)) == 3


def test_a_process_nobody_waits_for_is_ended(log: PartitionLog) -> None:
    write(log, ("a", "1"))
    roll(log)
    job = log.begin_cleaning(NOW_MS)
    assert job is not None
    job.is_cancelled = True
    job.run(clean_in_process)
    assert job.result is None and job.error is None
    assert ".cleaned" not in files(log)


@pytest.mark.parametrize("damage", ["crc", "offset", "records", "cut"])
def test_a_damaged_log_is_left_as_it_is(log: PartitionLog, damage: str) -> None:
    write(log, ("a", "1"))
    if damage == "records":
        garbage = build_batch(rows(("a", "1")), payload=b"\xff" * 30)
        log.append(garbage, now_ms=NOW_MS, leader_epoch=0, origin=COORDINATOR)
        log.advance_high_watermark()
    write(log, ("a", "2"))
    roll(log)
    path = log._segments.first.path()
    if damage in ("crc", "offset"):
        data = bytearray(path.read_bytes())
        data[69 if damage == "crc" else 70] ^= 1
        path.write_bytes(data)
    if damage == "cut":
        os.truncate(path, path.stat().st_size - 1)
    before = path.read_bytes()
    job = log.begin_cleaning(NOW_MS)
    assert job is not None
    job.run()
    assert log.complete_cleaning(job) is None
    assert log.uncleanable is not None and "segment 0" in log.uncleanable
    assert path.read_bytes() == before
    assert not files(log) & {".cleaned", ".swap"}
    assert log.begin_cleaning(NOW_MS) is None


def test_changes_under_a_compaction_make_it_void(manager: LogManager, log: PartitionLog) -> None:
    def truncate() -> None:
        log.high_watermark = 1
        log.truncate_to(1)

    changes: list[tuple[Callable[[], object], bool]] = [
        (lambda: log.delete_records_before(1), True),
        (truncate, True),
        (lambda: log.truncate_fully_and_start_at(9), True),
        (lambda: log.truncate_to(log.log_end_offset - 1), False),
        (lambda: log.apply_retention(NOW_MS), False),
    ]
    for change, cancels in changes:
        for when in ("before", "after"):
            log.truncate_fully_and_start_at(0)
            log.cleaned_to = -1
            write(log, ("a", "1"), ("b", "1"))
            write(log, ("a", "2"))
            roll(log)
            write(log, ("c", "1"))
            write(log, ("c", "2"))
            job = log.begin_cleaning(NOW_MS)
            assert job is not None
            if when == "before":
                change()
                job.run()
            else:
                job.run()
                change()
            assert (log.complete_cleaning(job) is None) is cancels
            assert not files(log) & {".cleaned", ".swap"}
            layout(log)


def test_a_deleted_partition_takes_its_compaction_along(manager: LogManager, log: PartitionLog) -> None:
    write(log, ("a", "1"))
    roll(log)
    job = log.begin_cleaning(NOW_MS)
    assert job is not None
    manager.delete(TOPIC, 0)
    again = new_log_in(manager, COMPACT)
    job.run()
    assert log.complete_cleaning(job) is None
    assert not files(again) & {".cleaned", ".swap"}


def prepare(directory: Path) -> tuple[LogManager, PartitionLog, CleaningJob]:
    manager, _ = open_manager(directory, COMPACT)
    log = new_log_in(manager, COMPACT)
    for number in range(36):
        write(log, (f"k{number % 7}", f"{number}" * 60))
    write(log, ("k1", None))
    roll(log)
    write(log, ("end", "1"))
    flush(manager)
    assert log.segment_count == 5
    job = log.begin_cleaning(NOW_MS)
    assert job is not None
    return manager, log, job


class PowerCut(BaseException):
    """The process ends here."""


def test_a_crash_at_any_step_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory is left as it is before the n-th rename or unlink, for every n."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(os, "fdatasync", lambda _: None)
    steps = 0
    while True:
        directory = tmp_path / str(steps)
        manager, log, job = prepare(directory)
        expected = table(log)
        left = [steps]

        def step(real: Callable[..., object], left: list[int] = left) -> Callable[..., object]:
            def count(*arguments: object, **options: object) -> object:
                left[0] -= 1
                if left[0] < 0:
                    raise PowerCut
                return real(*arguments, **options)

            return count

        with monkeypatch.context() as patch:
            patch.setattr(Path, "rename", step(Path.rename))
            patch.setattr(Path, "unlink", step(Path.unlink))
            try:
                job.run()
                log.complete_cleaning(job)
                finished = True
            except PowerCut:
                finished = False
        crash(manager)
        manager, report = open_manager(directory, COMPACT)
        log = manager.logs[TOPIC, 0]
        assert report.truncated_bytes == 0
        assert table(log) == expected
        assert not files(log) & {".cleaned", ".swap"}
        write(log, ("after", "1"))
        roll(log)
        compact(log)
        assert table(log) == {**expected, "after": "1"}
        crash(manager)
        shutil.rmtree(directory)
        steps += 1
        if finished:
            break
    assert steps > 20


def test_a_full_disk_leaves_the_log_as_it_was(log: PartitionLog, monkeypatch: pytest.MonkeyPatch) -> None:
    write(log, ("a", "1"), ("a", "2"))
    roll(log)
    before = layout(log)

    def refuse(task: CleaningTask, should_stop: Callable[[], bool]) -> CleaningResult:
        (Path(task.directory) / "00000000000000000000.log.cleaned").mkdir()
        return clean(task, should_stop)

    job = log.begin_cleaning(NOW_MS)
    assert job is not None
    job.run(refuse)
    with pytest.raises(StorageFailed):
        log.complete_cleaning(job)
    (log.directory / "00000000000000000000.log.cleaned").rmdir()
    assert layout(log) == before
    compact(log)


def test_where_it_ended_is_known_after_a_restart(tmp_path: Path) -> None:
    manager, _ = open_manager(tmp_path, COMPACT)
    log = new_log_in(manager, COMPACT)
    write(log, ("a", "1"), ("a", "2"))
    roll(log)
    compact(log)
    assert manager.close() == []
    assert (tmp_path / "cleaner-offset-checkpoint").read_text() == f"0\n1\n{TOPIC} 0 2\n"
    manager, _ = open_manager(tmp_path, COMPACT)
    assert manager.logs[TOPIC, 0].cleaned_to == 2


def test_slices_that_are_being_sent_keep_their_file(log: PartitionLog) -> None:
    write(log, ("a", "1"), ("a", "2"))
    roll(log)
    found = log.read(0, 10**6, up_to=log.high_watermark, min_one_batch=True)
    assert found is not None
    before = found.read()
    compact(log)
    assert found.read() == before


# Any life of a compacted log


def committed(log: PartitionLog) -> dict[bytes | None, tuple[int, bytes]]:
    """What a read_committed consumer knows in the end: offset and value of each key that has one."""
    aborted = log.aborted_transactions(0, log.log_end_offset)
    known: dict[bytes | None, tuple[int, bytes]] = {}
    for segment in log._segments:
        for position, header in segment.headers(0):
            gone = any(
                entry.producer_id == header.producer_id
                and entry.first_offset <= header.base_offset <= entry.last_offset
                for entry in aborted
            )
            if header.is_control or (gone and header.is_transactional):
                continue
            for record in records_of(segment.read(position, header.size_bytes), header):
                if record.value is None:
                    known.pop(record.key, None)
                else:
                    known[record.key] = (record.offset, record.value)
    return known


class Twins:
    """Two logs with the same appends; one is compacted and crashes."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.draw = random.Random(seed)
        self.directory = directory / "compacted"
        self.manager, _ = open_manager(self.directory, COMPACT)
        self.log = new_log_in(self.manager, COMPACT)
        self.shadow = new_log_in(open_manager(directory / "shadow", COMPACT)[0], COMPACT)
        self.sequences: dict[int, int] = {}
        self.now_ms = NOW_MS

    def both(self, act: Callable[[PartitionLog], object]) -> None:
        act(self.log)
        act(self.shadow)

    def write(self) -> None:
        producer_id = self.draw.randrange(4)
        pairs = [
            (
                f"k{self.draw.randrange(12)}",
                None if self.draw.random() < 0.2 else self.draw.randbytes(20).hex(),
            )
            for _ in range(self.draw.randrange(1, 6))
        ]
        sequence = self.sequences.get(producer_id, 0)
        self.sequences[producer_id] = sequence + len(pairs)
        data = build_batch(
            rows(*pairs),
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            attributes=TRANSACTIONAL_BIT if producer_id else 0,
        )
        self.both(lambda log: put(log, bytearray(data), AppendOrigin.CLIENT))

    def end(self) -> None:
        producer_id, commit = self.draw.randrange(1, 4), self.draw.random() < 0.6
        self.both(lambda log: end(log, producer_id, commit=commit))

    def compact(self) -> None:
        self.log.advance_high_watermark()
        self.log.flush()
        if self.log._segments.active.size_bytes and self.draw.random() < 0.5:
            roll(self.log)
        job = self.log.begin_cleaning(self.now_ms, self.draw.choice((500, 10**6)))
        if job is not None:
            job.run()
            assert self.log.complete_cleaning(job) is not None

    def crash(self) -> None:
        flush(self.manager)
        crash(self.manager)
        if self.draw.random() < 0.5:
            for path in self.log.directory.glob("*.snapshot"):
                path.unlink()
        self.manager, report = open_manager(self.directory, COMPACT)
        assert report.truncated_bytes == 0
        self.log = self.manager.logs[TOPIC, 0]

    def step(self) -> None:
        self.now_ms += self.draw.randrange(300)
        chance = self.draw.random()
        if chance < 0.6:
            self.write()
        elif chance < 0.8:
            self.end()
        elif chance < 0.95:
            self.compact()
        else:
            self.crash()


@pytest.mark.parametrize("seed", [*range(10), 206])
def test_any_life_of_a_compacted_log(tmp_path: Path, seed: int) -> None:
    twins = Twins(tmp_path, seed)
    for _ in range(120):
        twins.step()
        assert twins.log.log_end_offset == twins.shadow.log_end_offset
        twins.shadow.advance_high_watermark()
        twins.log.advance_high_watermark()
        assert twins.log.last_stable_offset == twins.shadow.last_stable_offset
    for producer_id in (1, 2, 3):
        twins.both(lambda log, producer_id=producer_id: end(log, producer_id, commit=False))  # type: ignore[misc]
    assert committed(twins.log) == committed(twins.shadow)
    assert twins.log.size_bytes < twins.shadow.size_bytes
    known = {entry.producer_id: entry.last_sequence for entry in twins.log.describe_producers()}
    assert known == {entry.producer_id: entry.last_sequence for entry in twins.shadow.describe_producers()}
    crash(twins.manager)
