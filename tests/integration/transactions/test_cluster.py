"""Transactions over three brokers, while brokers die."""

import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.integration.broker.raw import request
from tests.integration.cluster.brokers import Cluster, eventually, running_cluster
from tests.integration.transactions.clients import TIMEOUT_S, producer, read, write
from tests.integration.zookeeper.server import running_zookeeper

_PARTITIONS = 6


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    zookeeper_directory = tmp_path_factory.mktemp("zookeeper")
    directory = tmp_path_factory.mktemp("cluster")
    with (
        running_zookeeper(zookeeper_directory) as zookeeper,
        running_cluster(directory, zookeeper.new_chroot()) as running,
    ):
        running.controller_id()
        yield running


def _up(cluster: Cluster) -> None:
    """Everyone is there and in sync."""
    for broker in cluster.brokers.values():
        if not broker.is_running:
            broker.start()
    for topic in ("__transaction_state", "__consumer_offsets"):
        eventually(partial(_in_sync, cluster, topic))


def _in_sync(cluster: Cluster, topic: str) -> bool:
    (found,) = cluster.metadata(topic).topics
    return bool(found.partitions) and all(len(each.isr_nodes) == 3 for each in found.partitions)


def _coordinator(cluster: Cluster, transactional_id: str) -> int:
    """The broker that coordinates a transactional id."""
    wanted = request(10, 2, key=transactional_id, key_type=1)
    for node_id, broker in cluster.brokers.items():
        if broker.is_running:
            return int(cluster.call(node_id, wanted).node_id)
    raise AssertionError("no broker runs")


def test_transactions_span_leaders_and_are_atomic(cluster: Cluster) -> None:
    config = cluster.config()
    _up(cluster)
    cluster.create("spanning", _PARTITIONS)
    writer = producer(config, "spanning")
    for number in range(5):
        write(writer, "spanning", [f"{number}-{each}" for each in range(60)], commit=number != 2)
    values = read(config, "spanning", 240, partitions=_PARTITIONS)
    assert sorted(values) == sorted(f"{number}-{each}" for number in (0, 1, 3, 4) for each in range(60))


def test_the_coordinator_dies_while_a_transaction_is_committed(cluster: Cluster) -> None:
    config = cluster.config()
    _up(cluster)
    cluster.create("torn", _PARTITIONS)
    writer = producer(config, "torn", **{"transaction.timeout.ms": 60_000})
    writer.begin_transaction()
    for each in range(60):
        writer.produce("torn", str(each).encode(), partition=each % _PARTITIONS)
    writer.flush(TIMEOUT_S)
    coordinator = _coordinator(cluster, "torn")
    killer = threading.Thread(target=cluster.brokers[coordinator].kill)
    killer.start()
    _commit(writer)
    killer.join()
    values = read(config, "torn", 60, partitions=_PARTITIONS, within_s=40)
    assert sorted(values, key=int) == [str(each) for each in range(60)]
    _up(cluster)
    write(writer, "torn", ["next"], commit=True)
    assert len(read(config, "torn", 61, partitions=_PARTITIONS)) == 61


def _commit(writer: Producer) -> None:
    """Commit, as applications do: again while the error may pass."""
    deadline = time.monotonic() + 60
    while True:
        try:
            writer.commit_transaction(TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].retriable() and time.monotonic() < deadline:
                continue
            raise
        return


def test_an_exactly_once_copy_while_each_broker_dies_in_turn(cluster: Cluster) -> None:
    config = cluster.config()
    _up(cluster)
    count = 3_000
    cluster.create("source", _PARTITIONS)
    cluster.create("copy", _PARTITIONS)
    write(producer(config, "fill"), "source", [str(each) for each in range(count)], commit=True)
    stop = threading.Event()
    killer = threading.Thread(target=_kill_in_turn, args=(cluster, stop))
    killer.start()
    try:
        _copy(config)
    finally:
        stop.set()
        killer.join()
    _up(cluster)
    values = read(config, "copy", count, partitions=_PARTITIONS, within_s=40)
    assert len(values) == count
    assert sorted(values, key=int) == [str(each) for each in range(count)]


def _kill_in_turn(cluster: Cluster, stop: threading.Event) -> None:
    for broker in cluster.brokers.values():
        if stop.wait(1.0):
            return
        broker.kill()
        time.sleep(1.0)
        broker.start()
        eventually(lambda: stop.is_set() or _in_sync(cluster, "__transaction_state"))


def _copy(config: dict[str, Any]) -> None:
    """Consume, produce, commit both; when an error is fatal a new copier fences the old one."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        consumer = Consumer(
            {
                **config,
                "group.id": "copy",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "session.timeout.ms": 6_000,
            }
        )
        consumer.subscribe(["source"])
        try:
            copier = producer(config, "copier")
            if _copy_on(consumer, copier, deadline):
                return
        except KafkaException:
            time.sleep(0.2)
        finally:
            consumer.close()
    raise AssertionError("the copy does not end")


def _copy_on(consumer: Consumer, copier: Producer, deadline: float) -> bool:
    """Whether everything is copied. Raises: KafkaException when this copier cannot go on."""
    while time.monotonic() < deadline:
        messages = [each for each in consumer.consume(200, 0.5) if each.error() is None]
        if not messages and _is_done(consumer):
            return True
        if not messages:
            continue
        copier.begin_transaction()
        try:
            for message in messages:
                copier.produce("copy", message.value(), partition=message.partition())
            position = [each for each in consumer.position(consumer.assignment()) if each.offset >= 0]
            copier.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), TIMEOUT_S)
            _commit(copier)
        except KafkaException as error:
            if error.args[0].fatal():
                raise
            copier.abort_transaction(TIMEOUT_S)
            raise
    return False


def _is_done(consumer: Consumer) -> bool:
    """Whether the group has committed every record: the last of each partition is a marker, which counts or
    not."""
    partitions = [TopicPartition("source", index) for index in range(_PARTITIONS)]
    try:
        committed = consumer.committed(partitions, 10)
        ends = [consumer.get_watermark_offsets(each, 10)[1] for each in partitions]
    except KafkaException:
        return False
    return all(each.offset >= end - 1 for each, end in zip(committed, ends, strict=True))
