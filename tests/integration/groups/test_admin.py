"""What administrators do to groups, through the clients' own tools."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import aiokafka.admin
import kafka
import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from tests.integration.broker.process import BrokerProcess

_PARTITIONS = 3
_PER_PARTITION = 20


@pytest.fixture
def admin(broker: BrokerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.address})


def _fill(broker: BrokerProcess, admin: AdminClient, topic: str) -> None:
    admin.create_topics([NewTopic(topic, _PARTITIONS, 1)])[topic].result(10)
    producer = Producer({"bootstrap.servers": broker.address})
    for number in range(_PARTITIONS * _PER_PARTITION):
        producer.produce(topic, str(number), partition=number % _PARTITIONS)
    assert producer.flush(10) == 0


@contextmanager
def _consumer(broker: BrokerProcess, group: str, topic: str, **changes: Any) -> Iterator[Consumer]:
    config = {
        "bootstrap.servers": broker.address,
        "group.id": group,
        "client.id": "tester",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": 6_000,
    }
    consumer = Consumer(config | changes)
    consumer.subscribe([topic])
    try:
        yield consumer
    finally:
        consumer.close()


def _read(consumer: Consumer, count: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    while len(found) < count:
        message = consumer.poll(10)
        assert message is not None, f"{len(found)} of {count} messages came"
        assert message.error() is None, message.error()
        found.append((message.partition(), message.offset()))
    return found


def _offsets(admin: AdminClient, group: str) -> dict[int, int]:
    asked = ConsumerGroupTopicPartitions(group)
    found = admin.list_consumer_group_offsets([asked])[group].result(10)
    return {one.partition: one.offset for one in found.topic_partitions}


def test_a_consumer_goes_on_where_the_group_stopped(broker: BrokerProcess, admin: AdminClient) -> None:
    _fill(broker, admin, "goes-on")
    with _consumer(broker, "goes-on", "goes-on") as consumer:
        first = _read(consumer, 25)
        consumer.commit(asynchronous=False)
    with _consumer(broker, "goes-on", "goes-on") as consumer:
        second = _read(consumer, 35)
    assert sorted(first + second) == [(p, o) for p in range(_PARTITIONS) for o in range(_PER_PARTITION)]


def test_describe_and_list(broker: BrokerProcess, admin: AdminClient) -> None:
    _fill(broker, admin, "described")
    with _consumer(broker, "described", "described") as consumer:
        _read(consumer, 1)
        shown = admin.describe_consumer_groups(["described"], include_authorized_operations=True)["described"]
        group = shown.result(10)
        assert group.state is ConsumerGroupState.STABLE
        assert group.partition_assignor == "range"
        assert not group.is_simple_consumer_group
        assert {operation.name for operation in group.authorized_operations} == {"READ", "DELETE", "DESCRIBE"}
        (member,) = group.members
        assert member.client_id == "tester"
        assert member.host == "/127.0.0.1"
        assert [(one.topic, one.partition) for one in member.assignment.topic_partitions] == [
            ("described", number) for number in range(_PARTITIONS)
        ]
        states = {ConsumerGroupState.STABLE}
        stable = admin.list_consumer_groups(states=states).result(10).valid
        assert "described" in {one.group_id for one in stable}
    empty = admin.list_consumer_groups(states={ConsumerGroupState.EMPTY}).result(10).valid
    assert "described" in {one.group_id for one in empty}
    nobody = admin.describe_consumer_groups(["never-seen"])["never-seen"].result(10)
    assert nobody.state is ConsumerGroupState.DEAD


def test_offsets_are_reset_while_nobody_is_there(broker: BrokerProcess, admin: AdminClient) -> None:
    _fill(broker, admin, "reset")
    wanted = [TopicPartition("reset", number, 15) for number in range(_PARTITIONS)]
    request = ConsumerGroupTopicPartitions("reset", wanted)
    with _consumer(broker, "reset", "reset") as consumer:
        _read(consumer, 60)
        consumer.commit(asynchronous=False)
        refused = admin.alter_consumer_group_offsets([request])["reset"].result(10)
        codes = {one.error.code() for one in refused.topic_partitions}
        assert codes == {KafkaError.UNKNOWN_MEMBER_ID}
    admin.alter_consumer_group_offsets([request])["reset"].result(10)
    assert _offsets(admin, "reset") == {0: 15, 1: 15, 2: 15}
    with _consumer(broker, "reset", "reset") as consumer:
        again = _read(consumer, 15)
    assert sorted(again) == [(p, o) for p in range(_PARTITIONS) for o in range(15, 20)]


def test_offsets_and_groups_are_deleted(broker: BrokerProcess, admin: AdminClient) -> None:
    _fill(broker, admin, "deleted")
    with _consumer(broker, "deleted", "deleted") as consumer:
        _read(consumer, 60)
        consumer.commit(asynchronous=False)
        with pytest.raises(KafkaException) as refused:
            admin.delete_consumer_groups(["deleted"])["deleted"].result(10)
        assert refused.value.args[0].code() == KafkaError.NON_EMPTY_GROUP
    assert len(_offsets(admin, "deleted")) == _PARTITIONS
    admin.delete_consumer_groups(["deleted"])["deleted"].result(10)
    assert _offsets(admin, "deleted") == {}
    with pytest.raises(KafkaException) as missing:
        admin.delete_consumer_groups(["deleted"])["deleted"].result(10)
    assert missing.value.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND
    with _consumer(broker, "deleted", "deleted") as consumer:
        assert len(_read(consumer, 60)) == 60


def test_metadata_and_leader_epoch_come_back(broker: BrokerProcess, admin: AdminClient) -> None:
    _fill(broker, admin, "noted")
    with _consumer(broker, "noted", "noted") as consumer:
        _read(consumer, 1)
        offset = TopicPartition("noted", 1, 7, metadata="what I know")
        consumer.commit(offsets=[offset], asynchronous=False)
        (found,) = consumer.committed([TopicPartition("noted", 1)], timeout=10)
        assert (found.offset, found.metadata) == (7, "what I know")


def test_kafka_pythons_administrator(broker: BrokerProcess, admin: AdminClient) -> None:
    _fill(broker, admin, "kafka-python")
    with _consumer(broker, "kafka-python", "kafka-python") as consumer:
        _read(consumer, 60)
        consumer.commit(asynchronous=False)
    tool = kafka.KafkaAdminClient(bootstrap_servers=broker.address)
    try:
        described = tool.describe_groups(["kafka-python"])
        assert described["kafka-python"]["group_state"] == "Empty"
        assert "kafka-python" in {one["group_id"] for one in tool.list_groups()}
        offsets = tool.list_group_offsets("kafka-python")["kafka-python"]
        assert {one.partition: kept.offset for one, kept in offsets.items()} == {0: 20, 1: 20, 2: 20}
        tool.delete_group_offsets("kafka-python", [kafka.TopicPartition("kafka-python", 1)])
        assert set(_offsets(admin, "kafka-python")) == {0, 2}
        tool.delete_groups(["kafka-python"])
    finally:
        tool.close()
    assert _offsets(admin, "kafka-python") == {}


async def test_aiokafkas_administrator(broker: BrokerProcess, admin: AdminClient) -> None:
    _fill(broker, admin, "aiokafka")
    with _consumer(broker, "aiokafka", "aiokafka") as consumer:
        _read(consumer, 60)
        consumer.commit(asynchronous=False)
    tool = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=broker.address)
    await tool.start()
    try:
        listed = await tool.list_consumer_groups()
        assert ("aiokafka", "consumer") in listed
        offsets = await tool.list_consumer_group_offsets("aiokafka")
        assert {one.partition: kept.offset for one, kept in offsets.items()} == {0: 20, 1: 20, 2: 20}
        (described,) = await tool.describe_consumer_groups(["aiokafka"])
        assert described.groups[0][1:3] == ("aiokafka", "Empty")
    finally:
        await tool.close()
