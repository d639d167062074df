"""Log directories: identity, checkpoints, creating, deleting, ticks."""

import gc
import json
import uuid
from pathlib import Path

import pytest

from broker.log.errors import LogDirectoryUnusable
from broker.log.files import LogFiles
from broker.log.log_config import LogConfig
from broker.storage.flushing import EMPTY_LOGS_PER_FLUSH
from broker.storage.manager import LogManager
from tests.unit.broker_log.builders import (
    NOW_MS,
    SMALL,
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


def test_one_process_per_directory(tmp_path: Path) -> None:
    manager, _ = open_manager(tmp_path)
    with pytest.raises(LogDirectoryUnusable, match="in use"):
        open_manager(tmp_path)
    manager.close()
    open_manager(tmp_path)[0].close()


def test_a_directory_belongs_to_a_node_of_a_cluster(tmp_path: Path) -> None:
    open_manager(tmp_path)[0].close()
    text = (tmp_path / "meta.properties").read_text()
    assert "cluster.id=test\nnode.id=0\n" in text and "version=1\n" in text
    for cluster_id, node_id in (("other", 0), ("test", 1)):
        with pytest.raises(LogDirectoryUnusable, match="belongs to"):
            LogManager([tmp_path], cluster_id=cluster_id, node_id=node_id)
    open_manager(tmp_path)[0].close()


def test_checkpoints_and_marker_are_kafkas(tmp_path: Path) -> None:
    manager, _ = open_manager(tmp_path)
    log = new_log_in(manager)
    fill(log, 30)
    log.retention.delete_records_before(5)
    manager.close()
    for name, offset in (
        ("recovery-point-offset-checkpoint", 30),
        ("log-start-offset-checkpoint", 5),
        ("replication-offset-checkpoint", 30),
    ):
        assert (tmp_path / name).read_text() == f"0\n1\norders 0 {offset}\n"
    assert json.loads((tmp_path / ".kafka_cleanshutdown").read_text()) == {"version": 0, "brokerEpoch": -1}
    text = (log.directory / "partition.metadata").read_text()
    assert text == "version: 0\ntopic_id: EjRWeBI0VngSNFZ4EjRWeA"
    assert (log.directory / "leader-epoch-checkpoint").read_text() == "0\n1\n0 5\n"


def test_a_new_log_is_two_files_until_it_holds_records(tmp_path: Path) -> None:
    manager, _ = open_manager(tmp_path)
    log = new_log_in(manager)
    first = {"partition.metadata", f"{0:020d}.log"}
    assert {path.name for path in log.directory.iterdir()} == first
    manager.close()
    assert {path.name for path in log.directory.iterdir()} == first
    manager, report = open_manager(tmp_path)
    assert (report.partitions, report.recovered_bytes) == (1, 0)
    fill(manager.logs["orders", 0], 3)
    manager.close()
    assert {path.suffix for path in log.directory.iterdir()} >= {".log", ".index", ".timeindex"}


def test_deleted_partitions_go_in_the_background(tmp_path: Path) -> None:
    manager, _ = open_manager(tmp_path)
    log = new_log_in(manager)
    fill(log, 5)
    found = log.read(0, 300, up_to=5, min_one_batch=True)
    assert found is not None
    manager.delete("orders", 0)
    assert manager.get("orders", 0) is None
    assert [path.name for path in tmp_path.glob("orders*")] == [f"orders-0.{TOPIC_ID.hex}-delete"]
    assert len(found.read()) == found.size_bytes
    again = manager.create("orders", 0, uuid.uuid4(), SMALL, NOW_MS)
    assert again.log_end_offset == 0
    job = manager.begin_removal()
    assert job is not None
    job.run()
    assert job.errors == []
    assert [path.name for path in tmp_path.glob("orders*")] == ["orders-0"]
    assert manager.begin_removal() is None


def test_what_is_set_aside_is_neither_loaded_nor_removed(tmp_path: Path) -> None:
    manager, _ = open_manager(tmp_path)
    fill(new_log_in(manager), 5)
    aside = manager.set_aside("orders", 0)
    assert manager.get("orders", 0) is None
    assert aside == tmp_path / f"orders-0.{TOPIC_ID.hex}-stray"
    before = {path.name: path.read_bytes() for path in aside.iterdir()}
    manager.create("orders", 0, uuid.uuid4(), SMALL, NOW_MS)
    assert manager.begin_removal() is None
    manager.close()
    manager, report = open_manager(tmp_path)
    assert report.partitions == 1
    assert manager.begin_removal() is None
    assert {path.name: path.read_bytes() for path in aside.iterdir()} == before


def test_the_blocks_of_large_segments_go_in_the_background(tmp_path: Path) -> None:
    config = LogConfig(max_message_bytes=16 * 1024 * 1024)
    manager, _ = open_manager(tmp_path, config)
    log = new_log_in(manager, config)
    append(log, batch("x" * (9 * 1024 * 1024)))
    log.retention.delete_records_before(1)
    assert [path.name for path in log.directory.glob("*.log")] == [f"{1:020d}.log"]
    before = descriptors()
    job = manager.begin_removal()
    assert job is not None
    job.run()
    assert descriptors() == before - 1


def test_deletions_a_crash_interrupted_are_finished(tmp_path: Path) -> None:
    manager, _ = open_manager(tmp_path)
    fill(new_log_in(manager), 5)
    manager.delete("orders", 0)
    crash(manager)
    manager, report = open_manager(tmp_path)
    assert report.partitions == 0
    job = manager.begin_removal()
    assert job is not None
    job.run()
    assert not list(tmp_path.glob("orders*"))


def test_long_topic_names_can_be_deleted(tmp_path: Path) -> None:
    manager, _ = open_manager(tmp_path)
    name = "t" * 249
    manager.create(name, 4711, TOPIC_ID, SMALL, NOW_MS)
    manager.delete(name, 4711)
    (path,) = tmp_path.glob("t*-delete")
    assert len(path.name) == 255


def test_names_with_dots_and_dashes(tmp_path: Path) -> None:
    manager, _ = open_manager(tmp_path)
    for topic in ("iabc.a-1", "iabc.a", "-", "a-delete"):
        append(manager.create(topic, 1, TOPIC_ID, SMALL, NOW_MS), batch(topic))
    manager.close()
    manager, _ = open_manager(tmp_path)
    assert {key: values(read_all(log)) for key, log in manager.logs.items()} == {
        (topic, 1): [topic] for topic in ("iabc.a-1", "iabc.a", "-", "a-delete")
    }


def test_only_what_is_due_is_flushed(tmp_path: Path) -> None:
    manager, _ = open_manager(tmp_path)
    slow = manager.create("slow", 0, TOPIC_ID, LogConfig(flush_ms=5000), NOW_MS)
    quick = manager.create("quick", 0, TOPIC_ID, LogConfig(flush_ms=1000), NOW_MS)
    counted = manager.create("counted", 0, TOPIC_ID, LogConfig(flush_ms=10**9, flush_messages=2), NOW_MS)
    flush(manager)
    for log in (slow, quick, counted):
        append(log, batch("a"))
    assert manager.begin_flush(NOW_MS + 999) is None
    due = manager.begin_flush(NOW_MS + 999, within_ms=1)
    assert due is not None
    assert [log for log, _ in due.jobs] == [quick]
    append(counted, batch("b"))
    due_by_count = manager.begin_flush(NOW_MS)
    assert due_by_count is not None
    assert [log for log, _ in due_by_count.jobs] == [counted]


def test_new_partitions_are_flushed_behind_records_and_some_at_a_time(tmp_path: Path) -> None:
    """A tenant may make thousands at once."""
    manager, _ = open_manager(tmp_path)
    new = [
        manager.create("new", number, TOPIC_ID, SMALL, NOW_MS) for number in range(EMPTY_LOGS_PER_FLUSH + 3)
    ]
    written = new_log_in(manager)
    append(written, batch("a"))
    first = manager.begin_flush(NOW_MS, within_ms=10_000)
    second = manager.begin_flush(NOW_MS, within_ms=10_000)
    assert first is not None and second is not None
    assert [log for log, _ in first.jobs] == [written, *new[:EMPTY_LOGS_PER_FLUSH]]
    assert [log for log, _ in second.jobs] == new[EMPTY_LOGS_PER_FLUSH:]


def test_records_appended_during_a_flush_wait_for_the_next(tmp_path: Path) -> None:
    manager, _ = open_manager(tmp_path)
    log = new_log_in(manager)
    append(log, batch("a"))
    job = manager.begin_flush(NOW_MS, within_ms=10_000)
    assert job is not None
    append(log, batch("b"))
    job.run()
    assert manager.complete_flush(job) == []
    assert log.recovery_point == 1
    flush(manager)
    assert log.recovery_point == 2


def test_a_log_deleted_during_a_flush_is_no_failure(tmp_path: Path) -> None:
    manager, _ = open_manager(tmp_path)
    append(new_log_in(manager), batch("a"))
    job = manager.begin_flush(NOW_MS, within_ms=10_000)
    assert job is not None
    manager.delete("orders", 0)
    job.run()
    assert manager.complete_flush(job) == []


def test_checkpoints_are_written_only_when_something_moved(tmp_path: Path) -> None:
    manager, _ = open_manager(tmp_path)
    append(new_log_in(manager), batch("a"))
    flush(manager)
    assert manager.begin_checkpoint() is None


def test_an_unreadable_partition_does_not_stop_the_others(tmp_path: Path) -> None:
    manager, _ = open_manager(tmp_path)
    append(manager.create("good", 0, TOPIC_ID, SMALL, NOW_MS), batch("a"))
    append(manager.create("bad", 0, TOPIC_ID, SMALL, NOW_MS), batch("a"))
    manager.close()
    path = next((tmp_path / "bad-0").glob("*.log"))
    path.unlink()
    path.mkdir()
    manager, report = open_manager(tmp_path)
    assert set(report.failures) == {("bad", 0)}
    assert set(manager.logs) == {("good", 0)}


def test_partitions_spread_over_directories(tmp_path: Path) -> None:
    manager = LogManager([tmp_path / "a", tmp_path / "b"], cluster_id="test", node_id=0)
    manager.load(lambda _: SMALL, NOW_MS)
    for partition in range(4):
        append(manager.create("t", partition, TOPIC_ID, SMALL, NOW_MS), batch(str(partition)))
    assert len(list((tmp_path / "a").glob("t-*"))) == len(list((tmp_path / "b").glob("t-*"))) == 2
    assert manager.close() == []
    manager = LogManager([tmp_path / "a", tmp_path / "b"], cluster_id="test", node_id=0)
    assert manager.load(lambda _: SMALL, NOW_MS).clean
    for log in manager.logs.values():
        log.advance_high_watermark()
    assert sorted(values(read_all(log))[0] for log in manager.logs.values()) == ["0", "1", "2", "3"]


def test_retention_goes_through_all_logs(tmp_path: Path) -> None:
    config = LogConfig(retention_ms=1000)
    manager, _ = open_manager(tmp_path, config)
    logs = [manager.create("t", partition, TOPIC_ID, config, NOW_MS) for partition in range(3)]
    for log in logs:
        fill(log, 3)
    before = manager.size_bytes
    steps = list(manager.retain(NOW_MS + 10_000, lambda _topic: False))
    assert [log for log, _ in steps] == logs
    assert sum(freed for _, freed in steps if isinstance(freed, int)) == before
    assert manager.size_bytes == 0


def test_retention_leaves_held_topics_alone(tmp_path: Path) -> None:
    config = LogConfig(retention_ms=1000)
    manager, _ = open_manager(tmp_path, config)
    logs = [manager.create(topic, 0, TOPIC_ID, config, NOW_MS) for topic in ("held", "t")]
    for log in logs:
        fill(log, 3)
    size_bytes = logs[0].size_bytes
    assert [log for log, _ in manager.retain(NOW_MS + 10_000, lambda topic: topic == "held")] == logs[1:]
    assert (logs[0].size_bytes, logs[1].size_bytes) == (size_bytes, 0)


def descriptors() -> int:
    gc.collect()  # logs of other tests that nobody closed
    return len(list(Path("/proc/self/fd").iterdir()))


def test_few_descriptors_serve_many_partitions(tmp_path: Path) -> None:
    manager = LogManager([tmp_path], cluster_id="test", node_id=0, files=LogFiles(handles_max=8))
    manager.load(lambda _: SMALL, NOW_MS)
    before = descriptors()
    logs = [manager.create("t", partition, TOPIC_ID, SMALL, NOW_MS) for partition in range(40)]
    for number in range(4):
        for log in logs:
            append(log, batch(f"{log.partition}-{number}"))
    assert descriptors() <= before + 9
    flush(manager)
    assert descriptors() <= before + 9
    for log in logs:
        assert values(read_all(log)) == [f"{log.partition}-{number}" for number in range(4)]
    manager.close()
    assert descriptors() < before


def test_the_memory_of_sealed_indexes_is_bounded(tmp_path: Path) -> None:
    files = LogFiles(index_bytes_max=200)
    manager = LogManager([tmp_path], cluster_id="test", node_id=0, files=files)
    manager.load(lambda _: SMALL, NOW_MS)
    log = new_log_in(manager)
    fill(log, 120)
    for _ in range(2):
        assert [record.offset for record in read_all(log)] == list(range(120))
    loaded = [segment for segment in log.segments if segment.index_bytes_in_memory]
    assert len(loaded) <= 3


def test_silent_producers_expire(tmp_path: Path) -> None:
    manager, _ = open_manager(tmp_path)
    log = new_log_in(manager)
    append(log, idempotent(1, 0))
    assert len(log.producers) == 1
    assert manager.expire_producers(NOW_MS + 24 * 3_600_000) == 1
    assert len(log.producers) == 0
    assert not append(log, idempotent(1, 50)).is_duplicate


def test_configs_are_kafkas_names() -> None:
    config = LogConfig().overridden(
        {
            "retention.ms": "5",
            "cleanup.policy": "compact,delete",
            "min.insync.replicas": "2",
            "segment.bytes": None,
        }
    )
    assert (config.retention_ms, config.cleanup_policy) == (5, frozenset({"compact", "delete"}))
    assert config.segment_bytes == LogConfig().segment_bytes
    assert (
        LogConfig().overridden({"message.timestamp.type": "LogAppendTime"}).message_timestamp_type
        == "LogAppendTime"
    )
