"""Real clients' transactions against one broker."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import aiokafka
import pytest
from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from kafka import KafkaProducer

from tests.integration.broker.process import BrokerProcess
from tests.integration.transactions.clients import TIMEOUT_S, producer, read, write

NewTopic = Callable[[int], str]


def _config(broker: BrokerProcess) -> dict[str, Any]:
    return {"bootstrap.servers": broker.address}


def test_committed_is_read_and_aborted_is_not(broker: BrokerProcess, new_topic: NewTopic) -> None:
    config, topic = _config(broker), new_topic(3)
    writer = producer(config, "commit-and-abort")
    for number in range(6):
        values = [f"{number}-{each}" for each in range(30)]
        write(writer, topic, values, commit=number % 3 != 1)
    expected = sorted(f"{number}-{each}" for number in (0, 2, 3, 5) for each in range(30))
    assert sorted(read(config, topic, len(expected), partitions=3)) == expected
    uncommitted = read(config, topic, 180, partitions=3, isolation="read_uncommitted")
    assert len(uncommitted) == 180


def test_nothing_behind_an_open_transaction_is_read(broker: BrokerProcess, new_topic: NewTopic) -> None:
    config, topic = _config(broker), new_topic(1)
    slow, quick = producer(config, "slow"), producer(config, "quick")
    slow.begin_transaction()
    slow.produce(topic, b"first")
    slow.flush(TIMEOUT_S)
    write(quick, topic, ["second"], commit=True)
    assert read(config, topic, 1, within_s=0.5) == []
    stable = _latest(broker, topic, IsolationLevel.READ_COMMITTED)
    assert stable < _latest(broker, topic, IsolationLevel.READ_UNCOMMITTED)
    assert stable == 0
    slow.commit_transaction(TIMEOUT_S)
    assert read(config, topic, 2) == ["first", "second"]
    assert _latest(broker, topic, IsolationLevel.READ_COMMITTED) == 4, "two records, two markers"


def _latest(broker: BrokerProcess, topic: str, isolation: IsolationLevel) -> int:
    admin = AdminClient(_config(broker))
    partition = TopicPartition(topic, 0)
    (future,) = admin.list_offsets({partition: OffsetSpec.latest()}, isolation_level=isolation).values()
    return int(future.result(TIMEOUT_S).offset)


def test_a_waiting_reader_gets_a_transaction_as_soon_as_it_is_committed(
    broker: BrokerProcess, new_topic: NewTopic
) -> None:
    config, topic = _config(broker), new_topic(1)
    writer = producer(config, "prompt")
    reader = Consumer(
        {**config, "group.id": "prompt", "fetch.min.bytes": 50_000, "fetch.wait.max.ms": 20_000}
    )
    reader.assign([TopicPartition(topic, 0, 0)])
    assert reader.poll(0.5) is None
    writer.begin_transaction()
    writer.produce(topic, b"x" * 60_000)
    writer.flush(TIMEOUT_S)
    time.sleep(0.3)
    begun = time.monotonic()
    writer.commit_transaction(TIMEOUT_S)
    message = reader.poll(TIMEOUT_S)
    assert message is not None and message.error() is None
    assert time.monotonic() - begun < 15
    reader.close()


def test_a_zombie_is_fenced(broker: BrokerProcess, new_topic: NewTopic) -> None:
    config, topic = _config(broker), new_topic(1)
    zombie = producer(config, "fenced")
    zombie.begin_transaction()
    zombie.produce(topic, b"lost")
    zombie.flush(TIMEOUT_S)
    successor = producer(config, "fenced")
    with pytest.raises(KafkaException) as refused:
        zombie.commit_transaction(TIMEOUT_S)
    assert refused.value.args[0].fatal()
    assert refused.value.args[0].code() == KafkaError._FENCED
    write(successor, topic, ["kept"], commit=True)
    assert read(config, topic, 1) == ["kept"]


def test_a_transaction_that_takes_too_long_is_aborted(broker: BrokerProcess, new_topic: NewTopic) -> None:
    config, topic = _config(broker), new_topic(1)
    slow = producer(config, "too-long", **{"transaction.timeout.ms": 1_500})
    slow.begin_transaction()
    slow.produce(topic, b"late")
    slow.flush(TIMEOUT_S)
    other = producer(config, "in-time")
    write(other, topic, ["kept"], commit=True)
    assert read(config, topic, 1) == ["kept"], "nobody ended the other transaction"
    with pytest.raises(KafkaException):
        slow.commit_transaction(TIMEOUT_S)


def test_consume_transform_produce(broker: BrokerProcess, new_topic: NewTopic) -> None:
    config, source, target = _config(broker), new_topic(2), new_topic(2)
    write(producer(config, "source"), source, [str(number) for number in range(100)], commit=True)
    copier = producer(config, "copier")
    consumer = Consumer(
        {
            **config,
            "group.id": "copy",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([source])
    copied, rounds = 0, 0
    deadline = time.monotonic() + 40
    while copied < 100 and time.monotonic() < deadline:
        messages = [each for each in consumer.consume(20, 1.0) if each.error() is None]
        if not messages:
            continue
        rounds += 1
        copier.begin_transaction()
        for message in messages:
            copier.produce(target, message.value())
        before = consumer.committed(consumer.assignment(), TIMEOUT_S)
        position = [each for each in consumer.position(consumer.assignment()) if each.offset >= 0]
        copier.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), TIMEOUT_S)
        if rounds % 3 == 2:
            copier.abort_transaction(TIMEOUT_S)
            assert _offsets(consumer.committed(consumer.assignment(), TIMEOUT_S)) == _offsets(before)
            for each in before:
                consumer.seek(TopicPartition(each.topic, each.partition, max(each.offset, 0)))
            continue
        copier.commit_transaction(TIMEOUT_S)
        copied += len(messages)
        after = _offsets(consumer.committed(consumer.assignment(), TIMEOUT_S))
        assert after == _offsets(before) | _offsets(position)
    consumer.close()
    values = read(config, target, 100, partitions=2)
    assert sorted(values, key=int) == [str(number) for number in range(100)]


def _offsets(found: list[TopicPartition]) -> dict[tuple[str, int], int]:
    return {(each.topic, each.partition): each.offset for each in found}


def test_aiokafka(broker: BrokerProcess, new_topic: NewTopic) -> None:
    topic = new_topic(1)

    async def transact() -> None:
        writer = aiokafka.AIOKafkaProducer(bootstrap_servers=broker.address, transactional_id="aio")
        await writer.start()
        try:
            async with writer.transaction():
                await writer.send_and_wait(topic, b"kept")
                await writer.send_offsets_to_transaction({aiokafka.TopicPartition(topic, 0): 1}, "aio-group")
            await writer.begin_transaction()
            await writer.send_and_wait(topic, b"dropped")
            await writer.abort_transaction()
            async with writer.transaction():
                await writer.send_and_wait(topic, b"also kept")
        finally:
            await writer.stop()

    asyncio.run(transact())
    assert read(_config(broker), topic, 2) == ["kept", "also kept"]
    committed = Consumer({**_config(broker), "group.id": "aio-group"})
    (found,) = committed.committed([TopicPartition(topic, 0)], TIMEOUT_S)
    assert found.offset == 1
    committed.close()


def test_kafka_python(broker: BrokerProcess, new_topic: NewTopic) -> None:
    topic = new_topic(1)
    writer = KafkaProducer(bootstrap_servers=broker.address, transactional_id="python")
    try:
        writer.init_transactions()
        for value, commit in ((b"kept", True), (b"dropped", False), (b"also kept", True)):
            writer.begin_transaction()
            writer.send(topic, value).get(TIMEOUT_S)
            if commit:
                writer.commit_transaction()
            else:
                writer.abort_transaction()
    finally:
        writer.close(5)
    assert read(_config(broker), topic, 2) == ["kept", "also kept"]
