"""What a start after a crash finds, reads, cuts off and rebuilds."""

import os
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from broker.log.errors import AppendRefused
from broker.log.load_report import LoadReport
from broker.log.log_config import LogConfig
from broker.log.partition_log import PartitionLog
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
    new_log_in,
    open_manager,
    read_all,
    values,
)

ONE_SEGMENT = LogConfig(index_interval_bytes=256)


class Stack:
    """A manager with one log that can crash and start again."""

    def __init__(self, directory: Path, config: LogConfig = SMALL) -> None:
        self.directory, self.config = directory, config
        self.manager: LogManager = open_manager(directory, config)[0]
        self.log: PartitionLog = new_log_in(self.manager, config)

    def crash(self) -> None:
        crash(self.manager)

    def start(self) -> LoadReport:
        self.manager, report = open_manager(self.directory, self.config)
        self.log = self.manager.logs[TOPIC, 0]
        return report

    def restart(self) -> LoadReport:
        self.crash()
        return self.start()


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    return Stack(tmp_path)


@pytest.fixture
def long_stack(tmp_path: Path) -> Stack:
    return Stack(tmp_path, ONE_SEGMENT)


def offsets(log: PartitionLog) -> list[int]:
    return [record.offset for record in read_all(log)]


def test_a_clean_start_reads_no_records(stack: Stack) -> None:
    fill(stack.log, 30)
    expected = read_all(stack.log)
    assert stack.manager.close() == []
    report = stack.start()
    assert (report.clean, report.partitions, report.recovered_bytes) == (True, 1, 0)
    assert read_all(stack.log) == expected
    assert stack.log.recovery_point == 30
    assert stack.log.topic_id.int != 0
    fill(stack.log, 5)
    assert offsets(stack.log) == list(range(35))


def test_the_clean_marker_counts_once(stack: Stack) -> None:
    fill(stack.log, 3)
    stack.manager.close()
    assert stack.start().clean
    assert not stack.restart().clean


def test_after_a_crash_everything_written_is_there(stack: Stack) -> None:
    fill(stack.log, 30)
    report = stack.restart()
    assert not report.clean
    assert (report.recovered_bytes, report.truncated_bytes) == (stack.log.size_bytes, 0)
    assert offsets(stack.log) == list(range(30))
    fill(stack.log, 5)
    assert offsets(stack.log) == list(range(35))


@pytest.mark.parametrize("config", [SMALL, ONE_SEGMENT])
def test_only_what_came_after_the_checkpoint_is_read(tmp_path: Path, config: LogConfig) -> None:
    stack = Stack(tmp_path, config)
    fill(stack.log, 50)
    flush(stack.manager)
    flushed = stack.log.size_bytes
    fill(stack.log, 7)
    written = stack.log.size_bytes - flushed
    report = stack.restart()
    assert report.recovered_bytes == written
    assert offsets(stack.log) == list(range(57))


def test_nothing_is_read_when_all_was_flushed(stack: Stack) -> None:
    fill(stack.log, 50)
    flush(stack.manager)
    assert stack.restart().recovered_bytes == 0
    assert offsets(stack.log) == list(range(50))


@pytest.mark.parametrize("cut", [1, 11, 60, 61, 200])
def test_a_torn_tail_is_cut_off(long_stack: Stack, cut: int) -> None:
    fill(long_stack.log, 10)
    flush(long_stack.manager)
    path = next(long_stack.log.directory.glob("*.log"))
    whole = path.stat().st_size
    append(long_stack.log, batch("x" * 300))
    long_stack.crash()
    os.truncate(path, whole + cut)
    report = long_stack.start()
    assert report.truncated_bytes == cut
    assert path.stat().st_size == whole
    assert long_stack.log.log_end_offset == 10
    append(long_stack.log, batch("again"))
    assert offsets(long_stack.log) == list(range(11))


def test_zeros_at_the_end_are_cut_off(long_stack: Stack) -> None:
    fill(long_stack.log, 10)
    flush(long_stack.manager)
    long_stack.crash()
    path = next(long_stack.log.directory.glob("*.log"))
    size = path.stat().st_size
    os.truncate(path, size + 4096)
    assert long_stack.start().truncated_bytes == 4096
    assert long_stack.log.size_bytes == size


def test_a_flipped_bit_ends_the_log_there_and_takes_later_segments(stack: Stack) -> None:
    fill(stack.log, 5)
    flush(stack.manager)
    fill(stack.log, 40)
    assert stack.log.segment_count > 3
    stack.crash()
    path = stack.log.directory / "00000000000000000011.log"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    report = stack.start()
    assert report.truncated_bytes > 0
    assert 11 < stack.log.log_end_offset < 22
    assert offsets(stack.log) == list(range(stack.log.log_end_offset))
    assert len(list(stack.log.directory.glob("*.log"))) == 2
    before = stack.log.log_end_offset
    append(stack.log, batch("again"))
    assert values(read_all(stack.log, before)) == ["again"]


def test_a_batch_that_lies_about_its_offset_ends_the_log(long_stack: Stack) -> None:
    fill(long_stack.log, 4)
    long_stack.crash()
    path = next(long_stack.log.directory.glob("*.log"))
    with path.open("ab") as file:
        file.write(batch("old", base_offset=2, partition_leader_epoch=0))
    long_stack.start()
    assert long_stack.log.log_end_offset == 4


@pytest.mark.parametrize("damage", ["missing", "empty", "zeros", "garbage"])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_spoilt_indexes_are_rebuilt(long_stack: Stack, suffix: str, damage: str) -> None:
    fill(long_stack.log, 60)
    flush(long_stack.manager)
    fill(long_stack.log, 5)
    long_stack.crash()
    path = next(long_stack.log.directory.glob("*" + suffix))
    content = path.read_bytes()
    assert len(content) > 100
    if damage == "missing":
        path.unlink()
    else:
        replacement = {"empty": b"", "zeros": bytes(len(content)), "garbage": os.urandom(len(content))}
        path.write_bytes(replacement[damage])
    long_stack.start()
    assert offsets(long_stack.log) == list(range(65))
    for number in range(60):
        assert long_stack.log.reading.offset_for_timestamp(NOW_MS + number) == (NOW_MS + number, number)
    long_stack.manager.close()
    assert path.stat().st_size % 4 == 0
    assert path.stat().st_size >= len(content)


def test_largest_timestamps_survive_where_the_time_index_lags(long_stack: Stack) -> None:
    append(long_stack.log, batch("late", at_ms=NOW_MS + 500))
    append(long_stack.log, batch("early", at_ms=NOW_MS))
    flush(long_stack.manager)
    long_stack.restart()
    assert long_stack.log.reading.offset_for_timestamp(NOW_MS + 400) == (NOW_MS + 500, 0)


def test_repeated_batches_are_known_after_a_crash(stack: Stack) -> None:
    for number in range(40):
        append(stack.log, idempotent(5, number))
        append(stack.log, batch("x" * 300))
    flush(stack.manager)
    end = stack.log.log_end_offset
    stack.restart()
    for number in range(35, 40):
        result = append(stack.log, idempotent(5, number))
        assert (result.is_duplicate, result.base_offset) == (True, number * 2)
    assert stack.log.log_end_offset == end
    with pytest.raises(AppendRefused) as raised:
        append(stack.log, idempotent(5, 41))
    assert raised.value.error_code is ErrorCode.out_of_order_sequence_number
    assert not append(stack.log, idempotent(5, 40)).is_duplicate


def test_repeated_batches_are_known_after_a_clean_restart(stack: Stack) -> None:
    for number in range(10):
        append(stack.log, idempotent(5, number))
    stack.manager.close()
    stack.start()
    assert append(stack.log, idempotent(5, 5)).base_offset == 5


def test_damaged_snapshots_are_passed_over(stack: Stack) -> None:
    for number in range(20):
        append(stack.log, idempotent(5, number))
        append(stack.log, batch("x" * 300))
    stack.manager.close()
    for path in stack.log.directory.glob("*.snapshot"):
        path.write_bytes(b"damaged")
    stack.start()
    assert append(stack.log, idempotent(5, 19)).base_offset == 38
    assert not append(stack.log, idempotent(5, 20)).is_duplicate


def test_snapshots_of_what_was_cut_off_are_removed(long_stack: Stack) -> None:
    for number in range(3):
        append(long_stack.log, idempotent(5, number))
    path = next(long_stack.log.directory.glob("*.log"))
    size = path.stat().st_size
    append(long_stack.log, idempotent(5, 3))
    long_stack.manager.close()
    (long_stack.directory / ".kafka_cleanshutdown").unlink()
    (long_stack.directory / "recovery-point-offset-checkpoint").unlink()
    os.truncate(path, size)
    long_stack.start()
    assert long_stack.log.log_end_offset == 3
    assert not append(long_stack.log, idempotent(5, 3)).is_duplicate


def test_epochs_are_rebuilt_from_batches(stack: Stack) -> None:
    for epoch in (0, 0, 1, 4):
        append(stack.log, batch("a"), leader_epoch=epoch)
    flush(stack.manager)
    append(stack.log, batch("b"), leader_epoch=6)
    stack.restart()
    assert stack.log.leader_epoch == 6
    assert stack.log.end_offset_for_epoch(0) == (0, 2)
    assert stack.log.end_offset_for_epoch(5) == (4, 4)
    flush(stack.manager)
    stack.crash()
    (stack.log.directory / "leader-epoch-checkpoint").write_text("0\n7\ntorn")
    stack.start()
    assert stack.log.end_offset_for_epoch(1) == (1, 3)


def test_epochs_that_were_rebuilt_are_kept(stack: Stack) -> None:
    """A follower starts none of its own: after a clean restart it would ask its leader about an older one."""
    append(stack.log, batch("a"), leader_epoch=0)
    flush(stack.manager)
    append(stack.log, batch("b"), leader_epoch=3)
    stack.restart()
    assert stack.manager.close() == []
    stack.start()
    assert (stack.log.leader_epoch, stack.log.end_offset_for_epoch(0)) == (3, (0, 1))
    append(stack.log, batch("c"), leader_epoch=5)
    stack.restart()
    flush(stack.manager)
    stack.restart()
    assert (stack.log.leader_epoch, stack.log.epoch_of(1)) == (5, 3)


def test_the_log_start_survives(stack: Stack) -> None:
    fill(stack.log, 30)
    stack.log.retention.delete_records_before(17)
    flush(stack.manager)
    stack.restart()
    assert (stack.log.log_start_offset, offsets(stack.log)) == (17, list(range(17, 30)))


def test_an_emptied_log_keeps_its_offsets(stack: Stack) -> None:
    fill(stack.log, 30)
    stack.log.retention.delete_records_before(30)
    stack.restart()
    assert (stack.log.log_start_offset, stack.log.log_end_offset) == (30, 30)
    flush(stack.manager)
    stack.crash()
    for path in stack.log.directory.glob("*.log"):
        path.unlink()
    stack.start()
    assert (stack.log.log_start_offset, stack.log.log_end_offset) == (30, 30)


def test_batches_without_timestamps_survive_too(stack: Stack) -> None:
    append(stack.log, batch("a", at_ms=-1))
    stack.restart()
    assert values(read_all(stack.log)) == ["a"]
