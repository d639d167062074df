"""Topics over real logs: what is on the disk and what is visible agree, also after faults."""

import shutil
import uuid
from collections import deque
from pathlib import Path

import pytest

from broker.log.errors import StorageFailed
from broker.log.manager import LogManager
from broker.topic_store import StoredTopic, TopicStore
from broker.topics import Steps, Topics

_ID = "iaaaaaaaaaaa"


def _open(directory: Path) -> tuple[Topics, LogManager]:
    logs = LogManager([directory / "logs"], cluster_id="c", node_id=1)
    topics = Topics(TopicStore(directory / "topics"), logs)
    topics.load(0)
    return topics, logs


def _run(steps: Steps) -> int:
    """Drive to the end; how many turns it left."""
    return len(deque(steps))


def _stored(name: str, partitions: int = 1, **configs: str) -> StoredTopic:
    return StoredTopic(name=name, topic_id=uuid.uuid4(), partitions=partitions, configs=configs)


def _directories(directory: Path) -> set[str]:
    return {path.name for path in (directory / "logs").iterdir() if path.is_dir()}


def test_topics_are_there_after_a_restart(tmp_path: Path) -> None:
    topics, logs = _open(tmp_path)
    stored = _stored(f"{_ID}.orders", 2)
    _run(topics.create(stored, 0))
    topic = topics.get(stored.name)
    assert topic is not None
    topics.reconfigure(topic, {"retention.ms": "5"})
    _run(topics.add_partitions(topic, 5, 0))
    assert topics.led_by(_ID) == (5, 0)
    logs.close()
    topics, logs = _open(tmp_path)
    again = topics.get(stored.name)
    assert again is not None
    assert (again.topic_id, len(again.partitions), again.configs) == (
        stored.topic_id,
        5,
        {"retention.ms": "5"},
    )
    assert again.partitions[4].config.retention_ms == 5
    assert topics.partition_count == 5
    logs.close()


def test_many_partitions_leave_turns_to_others(tmp_path: Path) -> None:
    topics, logs = _open(tmp_path)
    steps = topics.create(_stored("many", 35), 0)
    next(steps)
    assert topics.get("many") is None, "not visible before it is whole"
    assert topics.is_taken("many")
    assert topics.partition_count == 35, "room is taken at once"
    assert _run(steps) == 2
    topic = topics.get("many")
    assert topic is not None
    deleting = topics.delete(topic)
    next(deleting)
    assert topics.get("many") is None
    assert topics.is_taken("many")
    _run(deleting)
    assert not topics.is_taken("many")
    assert topics.partition_count == 0
    logs.close()


def test_a_topic_the_disk_refuses_does_not_exist(tmp_path: Path) -> None:
    topics, logs = _open(tmp_path)
    (tmp_path / "logs" / "half-3").write_text("in the way")
    with pytest.raises(StorageFailed):
        _run(topics.create(_stored("half", 5), 0))
    assert not topics.is_taken("half")
    assert topics.partition_count == 0
    assert TopicStore(tmp_path / "topics").load() == []
    (tmp_path / "logs" / "half-3").unlink()
    _run(topics.create(_stored("half", 5), 0))
    logs.close()


def test_growth_that_the_disk_refuses_keeps_what_was_made(tmp_path: Path) -> None:
    topics, logs = _open(tmp_path)
    _run(topics.create(_stored("grows", 1), 0))
    topic = topics.get("grows")
    assert topic is not None
    (tmp_path / "logs" / "grows-3").write_text("in the way")
    with pytest.raises(StorageFailed):
        _run(topics.add_partitions(topic, 6, 0))
    assert len(topic.partitions) == 3
    assert [each.partitions for each in TopicStore(tmp_path / "topics").load()] == [3]
    assert topics.partition_count == 3
    logs.close()


def test_a_crash_between_the_file_and_the_logs_is_put_right(tmp_path: Path) -> None:
    topics, logs = _open(tmp_path)
    _run(topics.create(_stored("whole", 3), 0))
    _run(topics.create(_stored("gone", 1), 0))
    gone = topics.get("gone")
    assert gone is not None
    logs.close()
    shutil.rmtree(tmp_path / "logs" / "whole-1")
    TopicStore(tmp_path / "topics").remove(gone.topic_id)
    topics, logs = _open(tmp_path)
    whole = topics.get("whole")
    assert whole is not None
    assert len(whole.partitions) == 3
    assert not topics.is_taken("gone")
    assert "gone-0" not in _directories(tmp_path)
    logs.close()


def test_logs_of_an_earlier_topic_of_that_name_go(tmp_path: Path) -> None:
    topics, logs = _open(tmp_path)
    first = _stored("again", 1)
    _run(topics.create(first, 0))
    logs.close()
    store = TopicStore(tmp_path / "topics")
    store.remove(first.topic_id)
    second = _stored("again", 1)
    store.put(second)
    topics, logs = _open(tmp_path)
    assert topics.get("again") is not None
    assert logs.logs["again", 0].topic_id == second.topic_id
    logs.close()


def test_a_log_with_an_unreadable_id_is_kept(tmp_path: Path) -> None:
    topics, logs = _open(tmp_path)
    _run(topics.create(_stored("kept", 1), 0))
    logs.close()
    (tmp_path / "logs" / "kept-0" / "partition.metadata").write_text("")
    marker = tmp_path / "logs" / "kept-0" / "marker"
    marker.write_text("")
    _, logs = _open(tmp_path)
    assert marker.exists()
    logs.close()
