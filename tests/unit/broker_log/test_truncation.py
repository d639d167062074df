"""A replica's end moves back: what is left is a log like any other, now and after a crash."""

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from broker.log.errors import AppendRefused, StorageFailed
from broker.log.log_config import LogConfig
from broker.log.partition_log import PartitionLog
from broker.log.results import AppendOrigin
from broker.storage.manager import LogManager
from tests.unit.broker_log.builders import (
    NOW_MS,
    SMALL,
    TOPIC,
    append,
    batch,
    crash,
    fill,
    flush,
    idempotent,
    new_log,
    new_log_in,
    open_manager,
    read_all,
    values,
)

ONE_SEGMENT = LogConfig(index_interval_bytes=256)
REPLICATION = AppendOrigin.REPLICATION


def offsets(log: PartitionLog) -> list[int]:
    return [record.offset for record in read_all(log)]


def fetched(offset: int, *values: str, epoch: int = 0) -> bytearray:
    return batch(*values, base_offset=offset, partition_leader_epoch=epoch)


@pytest.mark.parametrize("config", [SMALL, ONE_SEGMENT])
@pytest.mark.parametrize("target", [0, 1, 10, 11, 12, 25, 39])
def test_the_log_ends_there_and_goes_on(tmp_path: Path, config: LogConfig, target: int) -> None:
    manager, _ = open_manager(tmp_path, config)
    log = new_log_in(manager, config)
    fill(log, 40)
    flush(manager)
    assert log.truncation.truncate_to(target)
    assert (log.log_end_offset, log.high_watermark, log.recovery_point) == (target, target, target)
    assert log.size_bytes == sum(path.stat().st_size for path in log.directory.glob("*.log"))
    assert offsets(log) == list(range(target))
    for number in range(target):
        assert log.reading.offset_for_timestamp(NOW_MS + number) == (NOW_MS + number, number)
    fill(log, 20)
    expected = read_all(log)
    assert offsets(log) == list(range(target + 20))
    crash(manager)
    manager, report = open_manager(tmp_path, config)
    assert report.truncated_bytes == 0
    assert read_all(manager.logs[TOPIC, 0]) == expected
    assert manager.close() == []


def test_a_batch_goes_as_a_whole(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, batch("a", "b"))
    append(log, batch("c", "d", "e"))
    assert log.truncation.truncate_to(4)
    assert (log.log_end_offset, offsets(log)) == (2, [0, 1])


def test_at_or_behind_the_end_nothing_happens(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    fill(log, 5)
    assert not log.truncation.truncate_to(5)
    assert not log.truncation.truncate_to(50)
    assert log.log_end_offset == 5


def test_below_the_log_start_the_log_begins_anew(tmp_path: Path) -> None:
    manager, _ = open_manager(tmp_path)
    log = new_log_in(manager)
    fill(log, 30)
    log.retention.delete_records_before(20)
    assert log.truncation.truncate_to(10)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (10, 10, 10)
    append(log, batch("a"))
    crash(manager)
    manager, _ = open_manager(tmp_path)
    assert offsets(manager.logs[TOPIC, 0]) == [10]


@pytest.mark.parametrize("start", [5, 30, 1000])
def test_starting_anew_forgets_everything(tmp_path: Path, start: int) -> None:
    manager, _ = open_manager(tmp_path)
    log = new_log_in(manager)
    fill(log, 30)
    append(log, idempotent(7, 0), leader_epoch=3)
    flush(manager)
    log.truncation.truncate_fully_and_start_at(start)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (start, start, start)
    assert (log.size_bytes, log.leader_epoch, len(log.producers)) == (0, -1, 0)
    assert not list(log.directory.glob("*.snapshot"))
    append(log, fetched(start + 2, "a", epoch=1), leader_epoch=1, origin=REPLICATION)
    flush(manager)
    crash(manager)
    manager, _ = open_manager(tmp_path)
    log = manager.logs[TOPIC, 0]
    assert (log.log_start_offset, offsets(log), log.leader_epoch) == (start, [start + 2], 1)


def test_epochs_that_were_cut_off_are_forgotten(tmp_path: Path) -> None:
    manager, _ = open_manager(tmp_path)
    log = new_log_in(manager)
    for epoch in (0, 0, 3, 5):
        append(log, batch("a"), leader_epoch=epoch)
    flush(manager)
    log.truncation.truncate_to(2)
    assert (log.leader_epoch, log.end_offset_for_epoch(4)) == (0, (-1, -1))
    append(log, fetched(2, "b", epoch=4), leader_epoch=7, origin=REPLICATION)
    append(log, fetched(3, "c", epoch=7), leader_epoch=7, origin=REPLICATION)
    crash(manager)
    manager, _ = open_manager(tmp_path)
    log = manager.logs[TOPIC, 0]
    assert [log.epoch_of(offset) for offset in range(4)] == [0, 0, 4, 7]


def test_producers_are_as_they_were_at_the_new_end(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    for number in range(40):
        append(log, idempotent(5, number))
        append(log, batch("x" * 300))
    append(log, idempotent(6, 0))
    log.truncation.truncate_to(61)
    assert len(log.producers) == 1
    assert append(log, idempotent(5, 30)).is_duplicate
    assert append(log, idempotent(5, 31)).base_offset == 61
    with pytest.raises(AppendRefused):
        append(log, idempotent(5, 40))


def test_a_flush_that_began_before_moves_no_recovery_point(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    fill(log, 20)
    job = log.durability.begin_flush()
    assert job is not None
    log.truncation.truncate_to(5)
    fill(log, 10)
    job.run()
    log.durability.complete_flush(job)
    assert log.recovery_point == 0
    log.durability.flush()
    assert log.recovery_point == 15


def test_a_stale_recovery_point_does_not_hide_damage(tmp_path: Path) -> None:
    manager, _ = open_manager(tmp_path, ONE_SEGMENT)
    log = new_log_in(manager, ONE_SEGMENT)
    fill(log, 20)
    log.offsets.high_watermark = 5
    flush(manager)
    log.truncation.truncate_to(5)
    fill(log, 10)
    crash(manager)
    path = next(log.directory.glob("*.log"))
    data = bytearray(path.read_bytes())
    data[-400] ^= 1
    path.write_bytes(data)
    manager, report = open_manager(tmp_path, ONE_SEGMENT)
    assert report.truncated_bytes > 0
    assert manager.logs[TOPIC, 0].log_end_offset == 13


def test_a_truncation_that_fails_takes_the_log_offline(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    fill(log, 40)
    log.release_files()
    for path in log.directory.glob("*.log"):
        path.unlink()
    with pytest.raises(StorageFailed):
        log.truncation.truncate_to(3)
    with pytest.raises(StorageFailed):
        append(log, batch("a"))


@settings(max_examples=100, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.integers(1, 25), st.integers(0, 60), st.booleans(), st.booleans()), max_size=6
    )
)
def test_any_order_of_truncations_and_crashes(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int, bool, bool]]
) -> None:
    directory = tmp_path_factory.mktemp("log")
    manager, _ = open_manager(directory)
    log = new_log_in(manager)
    expected: list[str] = []
    for count, target, flushes, crashes in steps:
        for _ in range(count):
            expected.append(f"{len(expected)}-{os.urandom(2).hex()}" + "x" * 200)
            append(log, batch(expected[-1]))
        if flushes:
            flush(manager)
        log.truncation.truncate_to(target)
        del expected[target:]
        if crashes:
            crash(manager)
            manager, _ = open_manager(directory)
            log = manager.logs[TOPIC, 0]
        assert (log.log_end_offset, values(read_all(log))) == (len(expected), expected)
    crash(manager)


# What a follower appends


def test_gaps_and_epochs_are_kept(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    data = fetched(3, "a", epoch=1) + fetched(9, "b", "c", epoch=2)
    result = append(log, bytearray(data), leader_epoch=2, origin=REPLICATION)
    assert (result.base_offset, result.last_offset, result.appended_bytes) == (3, 10, len(data))
    assert (offsets(log), log.log_end_offset, log.leader_epoch) == ([3, 9, 10], 11, 2)


def test_a_batch_that_is_cut_off_is_left_out(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    data = fetched(0, "a") + fetched(1, "b")
    for cut in (10, 62):
        result = append(log, bytearray(data + fetched(2, "c")[:cut]), origin=REPLICATION)
        assert (result.appended_bytes, log.log_end_offset) == (len(data), 2)
        log.truncation.truncate_to(0)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (fetched(2, "a", epoch=3), ErrorCode.offset_out_of_range),
        (fetched(3, "a", epoch=2), ErrorCode.fenced_leader_epoch),
        (fetched(3, "a", epoch=6), ErrorCode.unknown_leader_epoch),
        (fetched(3, "a", epoch=5) + fetched(4, "b", epoch=4), ErrorCode.fenced_leader_epoch),
        (fetched(3, "a", epoch=5) + fetched(3, "b", epoch=5), ErrorCode.offset_out_of_range),
        (fetched(3, "a", epoch=5)[:-1] + b"\xff", ErrorCode.corrupt_message),
        (fetched(3, "a", epoch=5)[:50], ErrorCode.corrupt_message),
        (bytearray(70), ErrorCode.invalid_record),
    ],
)
def test_what_no_leader_sends_is_refused(tmp_path: Path, data: bytearray, code: ErrorCode) -> None:
    log = new_log(tmp_path)
    append(log, fetched(0, "a", "b", "c", epoch=3), leader_epoch=3, origin=REPLICATION)
    with pytest.raises(AppendRefused) as raised:
        append(log, bytearray(data), leader_epoch=5, origin=REPLICATION)
    assert raised.value.error_code is code
    assert log.log_end_offset == 3


def test_a_gap_of_more_than_31_bits_begins_a_segment(tmp_path: Path) -> None:
    manager, _ = open_manager(tmp_path)
    log = new_log_in(manager)
    append(log, fetched(2**32, "a"), origin=REPLICATION)
    append(log, fetched(2**33, "b"), origin=REPLICATION)
    assert (offsets(log), log.segment_count) == ([2**32, 2**33], 2)
    flush(manager)
    crash(manager)
    manager, _ = open_manager(tmp_path)
    assert offsets(manager.logs[TOPIC, 0]) == [2**32, 2**33]


# What a start knows of the last end


def start(directory: Path, boot_id: str) -> tuple[LogManager, bool]:
    manager = LogManager([directory], cluster_id="test", node_id=0, boot_id=boot_id)
    report = manager.load(lambda _: SMALL, NOW_MS)
    return manager, report.is_unclean


def test_a_lost_page_cache_is_known_until_the_start_was_registered(tmp_path: Path) -> None:
    manager, unclean = start(tmp_path, "one")
    assert unclean, "a directory that knows nothing may have lost everything"
    manager.remember_boot()
    crash(manager)
    manager, unclean = start(tmp_path, "one")
    assert not unclean, "the page cache outlives the process"
    crash(manager)
    for _ in range(2):
        manager, unclean = start(tmp_path, "two")
        assert unclean
        crash(manager)
    manager, _ = start(tmp_path, "two")
    manager.remember_boot()
    assert manager.close() == []
    manager, unclean = start(tmp_path, "three")
    assert not unclean, "a clean shutdown loses nothing"
    crash(manager)


def test_an_unknown_boot_is_never_the_same(tmp_path: Path) -> None:
    manager, _ = start(tmp_path, "")
    manager.remember_boot()
    crash(manager)
    assert start(tmp_path, "")[1]


def test_a_log_that_is_shorter_than_what_was_committed_is_told(tmp_path: Path) -> None:
    manager, _ = start(tmp_path, "one")
    manager.remember_boot()
    log = new_log_in(manager)
    fill(log, 5)
    assert manager.close() == []
    path = next(log.directory.glob("*.log"))
    os.truncate(path, path.stat().st_size - 1)
    manager = LogManager([tmp_path], cluster_id="test", node_id=0, boot_id="one")
    report = manager.load(lambda _: SMALL, NOW_MS)
    assert report.clean
    assert report.short == {(TOPIC, 0): (4, 5)}
    assert report.is_unclean


def test_a_log_whose_directory_is_gone_is_short_unless_its_topic_is(tmp_path: Path) -> None:
    """Whoever removes a damaged replica to have it fetched anew must not see it elected empty."""
    manager, _ = start(tmp_path, "one")
    manager.remember_boot()
    log = new_log_in(manager)
    fill(log, 5)
    assert manager.close() == []
    shutil.rmtree(log.directory)
    manager = LogManager([tmp_path], cluster_id="test", node_id=0, boot_id="one")
    report = manager.load(lambda _: SMALL, NOW_MS)
    assert report.short == {(TOPIC, 0): (0, 5)}
    assert report.is_unclean
    report.forget_deleted({"another"})
    assert not report.is_unclean


def test_the_marker_holds_the_broker_epoch(tmp_path: Path) -> None:
    manager, _ = start(tmp_path, "one")
    assert manager.close(broker_epoch=4711) == []
    assert (tmp_path / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":4711}'
    manager = LogManager([tmp_path], cluster_id="test", node_id=0)
    assert manager.load(lambda _: SMALL, NOW_MS).broker_epoch == 4711
    manager.close()
    (tmp_path / ".kafka_cleanshutdown").write_bytes(b"")
    manager = LogManager([tmp_path], cluster_id="test", node_id=0)
    report = manager.load(lambda _: SMALL, NOW_MS)
    assert (report.clean, report.broker_epoch) == (True, -1)


def test_an_older_checkpoint_never_replaces_a_newer_one(tmp_path: Path) -> None:
    manager, _ = open_manager(tmp_path)
    log = new_log_in(manager)
    fill(log, 9)
    flush(manager)
    fill(log, 1)
    log.durability.flush()
    on_its_way = manager.begin_checkpoint()
    assert on_its_way is not None
    log.truncation.truncate_to(4)
    on_its_way.run()
    assert f"{TOPIC} 0 4" in (tmp_path / "recovery-point-offset-checkpoint").read_text()
