"""Several log directories: one that fails takes only its own partitions offline."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from broker.log.errors import LogDirectoryUnusable, StorageFailed
from broker.log.files import FileHandle, LogFiles
from broker.log.partition_log import PartitionLog
from broker.storage.manager import LogManager
from tests.unit.broker_log.builders import (
    NOW_MS,
    SMALL,
    TOPIC_ID,
    append,
    batch,
    fill,
    flush,
    read_all,
    values,
)


class FailingFiles(LogFiles):
    """Files of the broken directories are refused, as a disk does that is gone."""

    def __init__(self) -> None:
        super().__init__()
        self.broken: dict[Path, int] = {}

    def get(self, path: Path, *, create: bool = False) -> FileHandle:
        error_number = self.broken.get(path.parent.parent)
        if error_number is not None:
            raise OSError(error_number, os.strerror(error_number))
        return super().get(path, create=create)


class Broker:
    """A manager over two directories."""

    def __init__(self, directory: Path, *, full_is_failure: bool = False) -> None:
        self.paths = [directory / "a", directory / "b"]
        self.files = FailingFiles()
        self.told: list[tuple[Path, list[tuple[str, int]], str]] = []
        self.manager = LogManager(
            self.paths,
            cluster_id="test",
            node_id=0,
            files=self.files,
            full_is_failure=full_is_failure,
            on_offline=lambda path, keys, reason: self.told.append((path, keys, reason)),
        )
        self.report = self.manager.load(lambda _: SMALL, NOW_MS)

    def create(self, number: int, *, is_new: bool = True) -> PartitionLog:
        return self.manager.create("t", number, TOPIC_ID, SMALL, NOW_MS, is_new=is_new)


def refused(act: Callable[[], object]) -> str:
    with pytest.raises(StorageFailed) as raised:
        act()
    assert raised.value.error_code is ErrorCode.kafka_storage_error
    return raised.value.message


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    broker = Broker(tmp_path)
    for number in range(4):
        append(broker.create(number), batch(f"{number}"))
    return broker


def break_one(
    broker: Broker, error_number: int = errno.EIO
) -> tuple[Path, list[PartitionLog], list[PartitionLog]]:
    """(the broken directory, its logs, the others)."""
    broken = broker.manager.logs["t", 0].directory.parent
    gone = [log for log in broker.manager.logs.values() if log.directory.parent == broken]
    left = [log for log in broker.manager.logs.values() if log.directory.parent != broken]
    broker.files.broken[broken] = error_number
    assert len(gone) == len(left) == 2
    return broken, gone, left


def keys(logs: list[PartitionLog]) -> set[tuple[str, int]]:
    return {(log.topic, log.partition) for log in logs}


@pytest.mark.parametrize("operation", ["append", "read", "flush", "truncate", "find"])
def test_a_disk_that_fails_takes_its_logs_offline(broker: Broker, operation: str) -> None:
    broken, gone, left = break_one(broker)
    log = gone[0]
    for each in gone + left:
        each.release_files()
    acts: dict[str, Callable[[], object]] = {
        "append": lambda: append(log, batch("x")),
        "read": lambda: log.reading.read_bytes(0, 100, up_to=1, min_one_batch=True),
        "flush": log.durability.flush,
        "truncate": lambda: log.truncation.truncate_to(0),
        "find": lambda: log.reading.offset_for_timestamp(0),
    }
    refused(acts[operation])
    assert [(path, set(told)) for path, told, _ in broker.told] == [(broken, keys(gone))]
    assert set(broker.manager.logs) == keys(left)
    assert set(broker.manager.offline) == keys(gone)
    assert "Input/output error" in broker.manager.offline[log.topic, log.partition]
    assert broker.manager.directories == [path for path in broker.paths if path != broken]
    for each in gone:
        assert "has failed" in refused(lambda each=each: append(each, batch("x")))  # type: ignore[misc]
    for each in left:
        append(each, batch("y"))
        assert values(read_all(each))[-1] == "y"
    flush(broker.manager)
    assert len(broker.told) == 1


def test_what_was_there_is_not_begun_anew(broker: Broker) -> None:
    _, gone, _ = break_one(broker)
    refused(lambda: append_again(gone[0]))
    for log in gone:
        assert "has failed" in refused(lambda log=log: broker.create(log.partition))  # type: ignore[misc]
    refused(lambda: broker.create(9, is_new=False))
    assert broker.create(10).directory.parent in broker.manager.directories
    broker.manager.forget_offline("t", gone[0].partition)
    append(broker.create(gone[0].partition), batch("new"))


def append_again(log: PartitionLog) -> None:
    log.release_files()
    append(log, batch("x"))


def test_a_full_disk_is_a_failure_only_where_others_take_over(tmp_path: Path) -> None:
    for full_is_failure in (False, True):
        broker = Broker(tmp_path / str(full_is_failure), full_is_failure=full_is_failure)
        for number in range(4):
            append(broker.create(number), batch(f"{number}"))
        broken, gone, _ = break_one(broker, errno.ENOSPC)
        refused(lambda gone=gone: append_again(gone[0]))  # type: ignore[misc]
        assert (broken in broker.manager.offline_directories) is full_is_failure
        del broker.files.broken[broken]
        if not full_is_failure:
            append(gone[0], batch("again"))


def test_new_partitions_go_where_there_is_a_disk(broker: Broker) -> None:
    broken, _, _ = break_one(broker)
    for number in range(10, 14):
        assert broker.create(number).directory.parent != broken
    assert [path for path, _, _ in broker.told] == [broken]
    broker.files.broken.update(dict.fromkeys(broker.paths, errno.EIO))
    assert "every log directory has failed" in refused(lambda: broker.create(20))
    assert broker.manager.directories == []


def test_checkpoints_of_the_others_are_written(broker: Broker) -> None:
    broken, gone, left = break_one(broker)
    del broker.files.broken[broken]
    shutil.rmtree(broken)
    broken.write_text("no directory any more")
    for log in gone + left:
        append(log, batch("x"))
    job = broker.manager.begin_checkpoint()
    assert job is not None
    job.run()
    assert set(job.errors) == {broken}
    refused(lambda: broker.manager.complete_checkpoint(job))
    other = left[0].directory.parent
    assert "\nt " in (other / "replication-offset-checkpoint").read_text()


def test_a_failed_directory_leaves_the_shutdown_of_the_others_clean(tmp_path: Path, broker: Broker) -> None:
    broken, gone, left = break_one(broker)
    refused(lambda: append_again(gone[0]))
    assert broker.manager.close() == []
    assert not (broken / ".kafka_cleanshutdown").exists()
    again = Broker(tmp_path)
    assert not again.report.clean
    assert set(again.manager.logs) == keys(gone) | keys(left)
    assert again.manager.offline == {}


def test_a_directory_that_cannot_be_opened_is_offline_from_the_start(tmp_path: Path, broker: Broker) -> None:
    broken, gone, left = break_one(broker)
    del broker.files.broken[broken]
    assert broker.manager.close() == []
    shutil.rmtree(broken)
    broken.write_text("no directory any more")
    again = Broker(tmp_path)
    assert set(again.manager.offline_directories) == {broken}
    assert set(again.manager.logs) == keys(left)
    assert "may be in a log directory that has failed" in refused(
        lambda: again.create(gone[0].partition, is_new=False)
    )
    for path in broker.paths:
        shutil.rmtree(path, ignore_errors=True)
        path.unlink(missing_ok=True)
        path.write_text("")
    with pytest.raises(OSError, match=r"exists|directory"):
        Broker(tmp_path)


def test_a_directory_that_fails_while_it_is_read(tmp_path: Path, broker: Broker) -> None:
    broken, _, left = break_one(broker)
    del broker.files.broken[broken]
    broker.manager._directories.unlock()  # a crash: everything will be read

    class FailingFromTheStart(FailingFiles):
        def __init__(self) -> None:
            super().__init__()
            self.broken = {broken: errno.EIO}

    files = FailingFromTheStart()
    manager = LogManager(broker.paths, cluster_id="test", node_id=0, files=files)
    report = manager.load(lambda _: SMALL, NOW_MS)
    assert set(manager.logs) == keys(left)
    assert list(manager.offline_directories) == [broken]
    assert report.partitions >= len(left)


def test_a_partition_in_two_directories_is_told(tmp_path: Path, broker: Broker) -> None:
    assert broker.manager.close() == []
    first = next(path for path in broker.paths if (path / "t-0").exists())
    other = next(path for path in broker.paths if path != first)
    shutil.copytree(first / "t-0", other / "t-0")
    again = Broker(tmp_path)
    assert set(again.report.failures) == {("t", 0)}
    assert ("t", 0) in again.manager.logs


def test_a_directory_of_another_broker_is_refused(tmp_path: Path, broker: Broker) -> None:
    assert broker.manager.close() == []
    with pytest.raises(LogDirectoryUnusable):
        LogManager(broker.paths, cluster_id="test", node_id=1)
    with pytest.raises(LogDirectoryUnusable):
        LogManager([tmp_path / "c", broker.paths[0]], cluster_id="other", node_id=0)


def test_one_partition_that_cannot_be_opened_is_offline_alone(tmp_path: Path, broker: Broker) -> None:
    for number in range(4, 8):
        fill(broker.create(number), 3)
    assert broker.manager.close() == []
    path = next(broker.manager.logs["t", 5].directory.glob("*.log"))
    path.unlink()
    path.mkdir()
    again = Broker(tmp_path)
    assert set(again.report.failures) == set(again.manager.offline) == {("t", 5)}
    assert len(again.manager.logs) == 7
    refused(lambda: again.create(5))
    again.manager.forget_offline("t", 5)
    removal = again.manager.begin_removal()
    assert removal is not None
    removal.run()
    assert again.create(5).log_end_offset == 0
