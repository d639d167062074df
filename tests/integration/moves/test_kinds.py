"""Logs of every kind are the same behind a move: records, times, offsets, and where they begin."""

import time
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.integration.moves.clients import PARTITIONS, make_topics
from tests.integration.moves.second_cluster import CLUSTER_ID, Broker
from tests.integration.moves.test_moves import moved, until
from tests.integration.stack import Stack

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
_QUIET = {"log_level": 2}
NAMES = ("stamped", "table", "empty", "cut", "emptied", "exact")


class Look(NamedTuple):
    """What clients see of a topic."""

    records: list[tuple[Any, ...]]
    """Partition, offset, (type of time, time), key, value, headers; those of aborted transactions, too."""
    committed: list[tuple[Any, ...]]
    """Without those."""
    bounds: list[tuple[int, int]]
    by_time: list[list[int]]
    """For each of some times, by partition: the offset."""


def _look(bootstrap: str, topic: str, times_ms: tuple[int, ...]) -> Look:
    reader = _reader(bootstrap, "read_uncommitted")
    asked = [[TopicPartition(topic, index, at) for index in range(PARTITIONS)] for at in times_ms]
    by_time = [[one.offset for one in reader.offsets_for_times(each, timeout=20)] for each in asked]
    bounds = [reader.get_watermark_offsets(TopicPartition(topic, index)) for index in range(PARTITIONS)]
    reader.close()
    return Look(
        _records(bootstrap, topic, "read_uncommitted"),
        _records(bootstrap, topic, "read_committed"),
        bounds,
        by_time,
    )


def _reader(bootstrap: str, isolation: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "look",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            **_QUIET,
        }
    )


def _records(bootstrap: str, topic: str, isolation: str) -> list[tuple[Any, ...]]:
    reader = _reader(bootstrap, isolation)
    reader.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    found: list[tuple[Any, ...]] = []
    ended: set[int | None] = set()
    deadline = time.monotonic() + 60
    while len(ended) < PARTITIONS:
        assert time.monotonic() < deadline, "the topic cannot be read to its end"
        message = reader.poll(1)
        if message is None:
            continue
        error = message.error()
        if error is None:
            place = (message.partition(), message.offset(), message.timestamp())
            found.append((*place, message.key(), message.value(), message.headers()))
        elif error.code() == KafkaError._PARTITION_EOF:
            ended.add(message.partition())
    reader.close()
    return sorted(found, key=lambda one: one[:2])


def _fill(bootstrap: str) -> None:
    make_topics(bootstrap, "stamped", **{"message.timestamp.type": "LogAppendTime"})
    make_topics(bootstrap, "table", **{"cleanup.policy": "compact", "segment.bytes": "1048576"})
    make_topics(bootstrap, "empty", "cut", "emptied", "exact")
    old_ms = int(time.time() * 1000) - 3_600_000
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "compression.type": "lz4", **_QUIET})
    for number in range(900):
        value, at = b"%d" % number, number % PARTITIONS
        headers: list[tuple[str, bytes | None]] = [("h", value), ("none", None)]
        for topic in ("stamped", "cut", "emptied"):
            producer.produce(topic, value, partition=at, headers=headers, timestamp=old_ms + number)
        told = None if number % 5 == 0 else value
        producer.produce("table", told, key=b"k%d" % (number % 30), partition=at, timestamp=old_ms + number)
        if number % 90 == 0:
            producer.flush(20)
    assert producer.flush(20) == 0
    admin = AdminClient({"bootstrap.servers": bootstrap, **_QUIET})
    asked = [TopicPartition("cut", index, 100 + index) for index in range(PARTITIONS)]
    asked += [TopicPartition("emptied", index, 300) for index in range(PARTITIONS)]
    for future in admin.delete_records(asked).values():
        future.result(20)
    transacting = Producer({"bootstrap.servers": bootstrap, "transactional.id": "t", **_QUIET})
    transacting.init_transactions(30)
    for number in range(9):
        transacting.begin_transaction()
        for index in range(PARTITIONS):
            transacting.produce("exact", b"%d" % number, partition=index)
        transacting.flush(20)
        if number % 3:
            transacting.commit_transaction(30)
        else:
            transacting.abort_transaction(30)


def test_logs_of_every_kind_are_the_same(stack: Stack, second: Broker) -> None:
    instance = stack.create_instance("kinds", cluster="builtin-1")
    bootstrap = instance["bootstrap_servers"]
    begun_ms = int(time.time() * 1000)
    _fill(bootstrap)
    now_ms = int(time.time() * 1000)
    times_ms = (0, begun_ms - 3_600_000 + 450, begun_ms, now_ms, now_ms + 100_000)
    before = {name: _look(bootstrap, name, times_ms) for name in NAMES}
    assert before["cut"].bounds == [(100 + index, 300) for index in range(PARTITIONS)]
    assert before["emptied"].bounds == [(300, 300)] * PARTITIONS
    assert len(before["exact"].records) > len(before["exact"].committed) > 0
    assert all(one[2][1] >= begun_ms for one in before["stamped"].records)
    moved(stack, instance["id"], CLUSTER_ID)
    for name, seen in before.items():
        assert _look(bootstrap, name, times_ms) == seen, name
    second.kill()
    second.start()  # it reads its files anew
    for name, seen in before.items():
        assert _look(bootstrap, name, times_ms) == seen, name
    stack.api("DELETE", f"instances/{instance['id']}/move/old-copy", expect=202)
    until(stack, instance["id"], "done")
    moved(stack, instance["id"], "builtin-1")
    for name, seen in before.items():
        assert _look(bootstrap, name, times_ms) == seen, name
    producer = Producer({"bootstrap.servers": bootstrap, **_QUIET})
    for topic in NAMES:
        for index in range(PARTITIONS):
            producer.produce(topic, b"next", key=b"next", partition=index, timestamp=now_ms)
    assert producer.flush(30) == 0
    for name, seen in before.items():
        after = _look(bootstrap, name, ())
        assert [end for _, end in after.bounds] == [end + 1 for _, end in seen.bounds], name
        assert len(after.records) == len(seen.records) + PARTITIONS, name
    ends = [one for one in _look(bootstrap, "stamped", ()).records if one[4] == b"next"]
    assert all(one[2][1] > now_ms for one in ends), "stamped by the cluster where it is"
