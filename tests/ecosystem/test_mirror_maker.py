"""MirrorMaker 2 into an instance: from another instance, and from an Apache Kafka. It is killed meanwhile."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from ctl.bench.apache_kafka import kafka_cluster
from ctl.kafka.cluster import Wish
from ctl.kafka.jars import DEFAULT_VERSION
from ctl.stack.layout import free_port
from tests.ecosystem.certificate import Part, holds
from tests.ecosystem.connect import connect_class_path
from tests.ecosystem.java_process import JavaProcess
from tests.ecosystem.neighbour import beside
from tests.ecosystem.reading import Reader
from tests.integration.stack import Stack

_COMMITS_MAX: Final = 30
_PARTITIONS: Final = 3
_BEFORE: Final = 3_000
"""Records that are in the source when MirrorMaker starts."""
_MEANWHILE: Final = 3_000
_AFTER: Final = 300
"""What comes when the group has moved to the target."""
_DELETED: Final = 100
"""Of each partition, so that offsets of source and target differ."""
_PER_ROUND: Final = 10
_GROUP: Final = "movers"
_TOPIC: Final = "orders"
_COPY: Final = f"source.{_TOPIC}"


@contextmanager
def _apache_kafka(directory: Path) -> Iterator[str]:
    with kafka_cluster(directory, Wish(brokers=1), heap="512m") as brokers:
        yield f"127.0.0.1:{brokers[0].port}"


def _settings(source: str, target: str) -> Mapping[str, str]:
    """Topics of its own stand in the target alone: the source is only read, but for its groups' offsets."""
    one_replica = {
        f"{name}replication.factor": "1"
        for name in ("", "offset-syncs.topic.", "checkpoints.topic.", "heartbeats.topic.")
    }
    in_target = {f"{name}.storage.replication.factor": "-1" for name in ("offset", "config", "status")}
    return (
        one_replica
        | in_target
        | {
            "clusters": "source, target",
            "source.bootstrap.servers": source,
            "target.bootstrap.servers": target,
            "source->target.enabled": "true",
            "target->source.enabled": "false",
            "target.exactly.once.source.support": "enabled",
            "dedicated.mode.enable.internal.rest": "true",
            "listeners": f"http://127.0.0.1:{free_port()}",
            "offset-syncs.topic.location": "target",
            "topics": _TOPIC,
            "groups": _GROUP,
            "offset.lag.max": "0",
            "refresh.topics.interval.seconds": "2",
            "refresh.groups.interval.seconds": "2",
            "emit.checkpoints.interval.seconds": "1",
            "sync.group.offsets.enabled": "true",
            "sync.group.offsets.interval.seconds": "1",
            "emit.heartbeats.enabled": "false",
            "scheduled.rebalance.max.delay.ms": "1000",
            "session.timeout.ms": "10000",
        }
    )


class _Source:
    """Numbers in a topic, in turns over its partitions, from which a group reads."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        self._admin.create_topics([NewTopic(_TOPIC, _PARTITIONS)])[_TOPIC].result(30)
        self.written = 0

    def write(self, count: int) -> None:
        for _ in range(count):
            self._producer.produce(_TOPIC, str(self.written), partition=self.written % _PARTITIONS)
            self.written += 1
        assert self._producer.flush(60) == 0

    def forget_the_first(self) -> None:
        firsts = [TopicPartition(_TOPIC, partition, _DELETED) for partition in range(_PARTITIONS)]
        for deleted in self._admin.delete_records(firsts).values():
            deleted.result(30)

    def commit_at_the_end(self) -> None:
        """The group has read all."""
        ends = [
            TopicPartition(_TOPIC, partition, _written_to(partition, self.written))
            for partition in range(_PARTITIONS)
        ]
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": _GROUP})
        retriable = (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
        for left in reversed(range(_COMMITS_MAX)):
            try:
                consumer.commit(offsets=ends, asynchronous=False)
                break
            except KafkaException as failure:  # the topic of offsets is only being made
                if left == 0 or failure.args[0].code() not in retriable:
                    raise
                time.sleep(1)
        consumer.close()


def _written_to(partition: int, written: int) -> int:
    return len(range(partition, written, _PARTITIONS))


def _moved(admin: AdminClient, within_s: float, ends: Mapping[int, int]) -> None:
    """The group's offsets in the target are right behind the last records there."""
    deadline = time.monotonic() + within_s
    asked = ConsumerGroupTopicPartitions(_GROUP, [TopicPartition(_COPY, each) for each in range(_PARTITIONS)])
    found: dict[int, int] = {}
    while found != ends:
        assert time.monotonic() < deadline, f"the group is at {found} in the target, {ends} wanted"
        time.sleep(0.5)
        told = admin.list_consumer_group_offsets([asked])[_GROUP].result(30)
        found = {one.partition: one.offset for one in told.topic_partitions or []}


def _rest(bootstrap: str, count: int) -> list[int]:
    """What the group reads in the target, until it has this many and nothing more comes."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": _GROUP, "isolation.level": "read_committed"}
        | {"auto.offset.reset": "error"}
    )
    consumer.subscribe([_COPY])
    read: list[int] = []
    quiet, deadline = 0, time.monotonic() + 120
    while len(read) < count or quiet < 3:
        message = consumer.poll(1)
        quiet = quiet + 1 if message is None else 0
        assert time.monotonic() < deadline, f"{len(read)} of {count} are read"
        if message is not None:
            assert message.error() is None, str(message.error())
            read.append(int(message.value() or b""))
    consumer.close()
    return read


def _mirror(source: _Source, settings: Mapping[str, str], target: str, directory: Path) -> None:
    file = directory / "mirror.properties"
    file.write_text("".join(f"{key} = {value}\n" for key, value in settings.items()))
    maker = JavaProcess(
        connect_class_path(),
        ("org.apache.kafka.connect.mirror.MirrorMaker", str(file)),
        directory / "mirror.log",
        flags=("-Xmx512m",),
    )
    source.write(_BEFORE)
    source.forget_the_first()
    copied_before = _BEFORE - _PARTITIONS * _DELETED
    with Reader(target, _COPY) as reader, maker:
        reader.until(lambda read: len(read) >= copied_before, 240)
        for number in range(_MEANWHILE // _PER_ROUND):
            source.write(_PER_ROUND)
            if number == _MEANWHILE // _PER_ROUND // 2:
                reader.until(lambda read: len(read) > copied_before, 120)
                maker.kill()
                maker.start()
        reader.until(lambda read: len(read) >= copied_before + _MEANWHILE, 240)
        reader.to_the_end()
        kept = [number for number in range(source.written) if number // _PARTITIONS >= _DELETED]
        assert sorted(int(value or b"") for _, value in reader.read) == kept
        source.commit_at_the_end()
        ends = {partition: offset + 1 for (_, partition), offset in reader.last_offsets.items()}
        _moved(AdminClient({"bootstrap.servers": target}), 180, ends)
        source.write(_AFTER)
        assert sorted(_rest(target, _AFTER)) == list(range(source.written - _AFTER, source.written))


def _certify(part: Part) -> None:
    holds(
        part,
        ran=f"MirrorMaker 2 of {DEFAULT_VERSION}, dedicated, with exactly-once source support",
        records=_BEFORE + _MEANWHILE + _AFTER - _PARTITIONS * _DELETED,
        killed="MirrorMaker, once",
        held="each record once; a group that goes over reads what it had not, by its translated offsets",
    )


@pytest.mark.ecosystem
@pytest.mark.timeout(1200)
def test_from_instance_to_instance(stack: Stack, tmp_path: Path) -> None:
    source = stack.create_instance("mirror-source")["bootstrap_servers"]
    target = stack.create_instance("mirror-target")["bootstrap_servers"]
    beside_it = stack.create_instance("beside-mirror")["bootstrap_servers"]
    with beside(beside_it, (_TOPIC, _COPY), _GROUP):
        _mirror(_Source(source), _settings(source, target), target, tmp_path)
    _certify(Part.MIRROR_INSTANCES)


@pytest.mark.ecosystem
@pytest.mark.timeout(1200)
def test_from_an_apache_kafka(stack: Stack, tmp_path: Path) -> None:
    target = stack.create_instance("mirror-inward")["bootstrap_servers"]
    beside_it = stack.create_instance("beside-inward")["bootstrap_servers"]
    with _apache_kafka(tmp_path / "kafka") as source, beside(beside_it, (_TOPIC, _COPY), _GROUP):
        _mirror(_Source(source), _settings(source, target), target, tmp_path)
    _certify(Part.MIRROR_KAFKA)
