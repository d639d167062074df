"""A disk that refuses: nothing acknowledged is lost, and the log works again when there is room."""

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from broker.log.errors import StorageFailed
from broker.log.files import FileHandle
from broker.log.log_config import LogConfig
from tests.unit.broker_log.builders import (
    NOW_MS,
    TOPIC_ID,
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

CONFIG = LogConfig(index_interval_bytes=256)


@contextmanager
def files_end_at(size_bytes: int) -> Iterator[None]:
    """The kernel refuses to write behind `size_bytes` of any file (EFBIG), after writing up to there."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_refused_write_leaves_nothing_behind(tmp_path: Path) -> None:
    manager, _ = open_manager(tmp_path, CONFIG)
    log = new_log_in(manager, CONFIG)
    for number in range(3):
        append(log, idempotent(1, number))
    size, path = log.size_bytes, next(log.directory.glob("*.log"))
    with files_end_at(size + 20):
        for _ in range(2):
            with pytest.raises(StorageFailed) as raised:
                append(log, idempotent(1, 3))
            assert raised.value.error_code is ErrorCode.kafka_storage_error
            assert path.stat().st_size == size
        assert log.log_end_offset == 3
        assert len(read_all(log)) == 3
    assert append(log, idempotent(1, 3)).base_offset == 3
    crash(manager)
    manager, report = open_manager(tmp_path, CONFIG)
    assert report.truncated_bytes == 0
    assert values(read_all(manager.logs["orders", 0])) == [f"p1s{number}" for number in range(4)]


def test_a_roll_that_fails_leaves_the_log_as_it_was(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=2000, index_interval_bytes=256)
    manager, _ = open_manager(tmp_path, config)
    log = new_log_in(manager, config)
    while log.size_bytes + 400 < 2000:
        fill(log, 1)
    before = log.log_end_offset
    with files_end_at(0), pytest.raises(StorageFailed):
        append(log, batch("x" * 400))
    assert (log.log_end_offset, log.segment_count) == (before, 1)
    assert append(log, batch("x" * 400)).base_offset == before
    assert log.segment_count == 2
    assert len(read_all(log)) == before + 1


def test_a_flush_that_cannot_write_indexes_is_tried_again(tmp_path: Path) -> None:
    manager, _ = open_manager(tmp_path, CONFIG)
    log = new_log_in(manager, CONFIG)
    fill(log, 10)
    with files_end_at(4):
        flush_round = manager.begin_flush(NOW_MS, within_ms=10_000)
        assert flush_round is not None
        assert [failure.error_code for failure in flush_round.failures] == [ErrorCode.kafka_storage_error]
        assert manager.complete_flush(flush_round) == flush_round.failures
    assert log.recovery_point == 0
    fill(log, 1)
    flush(manager)
    assert log.recovery_point == 11


def test_small_files_that_fail_are_tried_again(tmp_path: Path) -> None:
    manager, _ = open_manager(tmp_path, CONFIG)
    log = new_log_in(manager, CONFIG)
    append(log, batch("a"))
    job = log.durability.begin_flush()
    assert job is not None
    with files_end_at(4):
        job.run()
    with pytest.raises(StorageFailed):
        log.durability.complete_flush(job)
    assert (log.recovery_point, log.standing.failure) == (0, None)
    append(log, batch("b"))
    flush(manager)
    assert log.recovery_point == 2
    assert (log.directory / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"


def test_after_a_failed_sync_the_log_waits_for_recovery(tmp_path: Path) -> None:
    manager, _ = open_manager(tmp_path, CONFIG)
    log = new_log_in(manager, CONFIG)
    append(log, batch("a"))
    job = log.durability.begin_flush()
    assert job is not None
    reader, writer = os.pipe()
    broken = FileHandle(Path(f"/proc/self/fd/{writer}"))
    job.handles[0] = broken  # fdatasync of a pipe is refused by the kernel
    job.run()
    with pytest.raises(StorageFailed):
        log.durability.complete_flush(job)
    assert log.recovery_point == 0
    with pytest.raises(StorageFailed):
        append(log, batch("b"))
    assert values(read_all(log)) == ["a"]
    assert [failure.error_code for failure in manager.close()] == [ErrorCode.kafka_storage_error]
    os.close(reader)
    os.close(writer)
    manager, report = open_manager(tmp_path, CONFIG)
    assert not report.clean
    append(manager.logs["orders", 0], batch("b"))
    assert values(read_all(manager.logs["orders", 0])) == ["a", "b"]


def test_a_later_sync_does_not_hide_a_failed_one(tmp_path: Path) -> None:
    manager, _ = open_manager(tmp_path, CONFIG)
    log = new_log_in(manager, CONFIG)
    append(log, batch("a"))
    first = log.durability.begin_flush()
    append(log, batch("b"))
    second = log.durability.begin_flush()
    assert first is not None and second is not None
    first.error, first.data_refused = OSError(5, "Input/output error"), True
    second.run()
    for job in (first, second):
        with pytest.raises(StorageFailed):
            log.durability.complete_flush(job)
    assert log.recovery_point == 0


def test_records_can_be_deleted_when_nothing_can_be_written(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=2000, index_interval_bytes=256)
    manager, _ = open_manager(tmp_path, config)
    log = new_log_in(manager, config)
    append(log, idempotent(1, 0))
    fill(log, 20)
    with files_end_at(0):
        assert log.retention.delete_records_before(21) == 21
    assert (log.size_bytes, log.segment_count) == (0, 1)
    flush(manager)
    assert append(log, idempotent(1, 1)).base_offset == 21
    crash(manager)
    manager, _ = open_manager(tmp_path, config)
    assert append(manager.logs["orders", 0], idempotent(1, 1)).is_duplicate


def take_all_descriptors(taken: list[int]) -> None:
    try:
        while True:
            taken.append(os.open("/dev/null", os.O_RDONLY))
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise


def test_taken_descriptors_are_given_back_by_the_cache(tmp_path: Path) -> None:
    manager, _ = open_manager(tmp_path, CONFIG)
    logs = [manager.create("t", partition, TOPIC_ID, CONFIG, NOW_MS) for partition in range(5)]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(path.name) for path in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 8, hard))
    taken: list[int] = []
    try:
        take_all_descriptors(taken)
        for log in logs:
            log.release_files()
        append(logs[0], batch("a"))
        take_all_descriptors(taken)
        append(logs[1], batch("b"))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in taken:
            os.close(fd)
    assert values(read_all(logs[1])) == ["b"]


def test_a_partition_that_cannot_be_created_leaves_nothing(tmp_path: Path) -> None:
    manager, _ = open_manager(tmp_path, CONFIG)
    with files_end_at(10), pytest.raises(StorageFailed):
        new_log_in(manager, CONFIG)
    assert not list(tmp_path.glob("orders-*"))
    assert manager.logs == {}
    append(new_log_in(manager, CONFIG), batch("a"))
