"""Clients people use: confluent-kafka (librdkafka), kafka-python, aiokafka."""

import time

import aiokafka
import kafka
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from kafka.admin import KafkaAdminClient

from tests.integration.broker.process import BrokerProcess
from tests.integration.broker.raw import RawClient, create_topic

_CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def _consume(broker: BrokerProcess, topic: str, count: int, **settings: object) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": f"read.{topic}",
            "auto.offset.reset": "earliest",
            "check.crcs": True,
            **settings,
        }
    )
    consumer.subscribe([topic])
    values: list[bytes] = []
    deadline = time.monotonic() + 20
    while len(values) < count and time.monotonic() < deadline:
        for message in consumer.consume(500, timeout=0.5):
            assert message.error() is None, message.error()
            values.append(message.value())
    consumer.close()
    return values


@pytest.mark.parametrize("codec", _CODECS)
def test_librdkafka_with_every_codec(broker: BrokerProcess, codec: str) -> None:
    topic = f"librdkafka.{codec}"
    with RawClient(broker.port) as raw:
        create_topic(raw, topic, 3)
    producer = Producer(
        {
            "bootstrap.servers": broker.address,
            "compression.type": codec,
            "enable.idempotence": True,
            "linger.ms": 5,
        }
    )
    sent = [b"value %d of many that are alike" % number for number in range(2_000)]
    failures = []
    for value in sent:
        producer.produce(topic, value, on_delivery=lambda error, _: error and failures.append(error))
    assert producer.flush(20) == 0
    assert not failures
    assert sorted(_consume(broker, topic, len(sent))) == sorted(sent)


def test_librdkafka_admin(broker: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": broker.address})
    topic = "librdkafka.admin"
    admin.create_topics([NewTopic(topic, 2, 1, config={"retention.ms": "60000"})])[topic].result(10)
    with pytest.raises(KafkaException) as exists:
        admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(10)
    assert exists.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(10)
    deadline = time.monotonic() + 5
    while len(admin.list_topics(timeout=5).topics[topic].partitions) != 5 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(admin.list_topics(timeout=5).topics[topic].partitions) == 5
    entry = ConfigEntry("segment.ms", "700000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(10)
    asked = ConfigResource(ResourceType.TOPIC, topic)
    described = admin.describe_configs([asked])[asked].result(10)
    assert described["segment.ms"].value == "700000"
    assert described["retention.ms"].value == "60000"
    assert not described["retention.ms"].is_default
    nodes = admin.describe_cluster().result(10)
    assert nodes.cluster_id == "portico"
    assert [node.port for node in nodes.nodes] == [broker.port]
    admin.delete_records([TopicPartition(topic, 0, 0)])[TopicPartition(topic, 0, 0)].result(10)
    admin.delete_topics([topic])[topic].result(10)


@pytest.mark.parametrize("codec", [None, "gzip"])
def test_kafka_python_with_every_codec(broker: BrokerProcess, codec: str | None) -> None:
    topic = f"kafka-python.{codec}"
    with RawClient(broker.port) as raw:
        create_topic(raw, topic, 2)
    producer = kafka.KafkaProducer(bootstrap_servers=broker.address, compression_type=codec)
    sent = [b"value %d" % number for number in range(500)]
    futures = [producer.send(topic, value, headers=[("h", b"1")]) for value in sent]
    for future in futures:
        future.get(10)
    producer.close()
    consumer = kafka.KafkaConsumer(
        topic, bootstrap_servers=broker.address, auto_offset_reset="earliest", consumer_timeout_ms=1_500
    )
    assert sorted(record.value for record in consumer) == sorted(sent)
    consumer.close()


def test_kafka_python_admin_and_offsets(broker: BrokerProcess) -> None:
    topic = "kafka-python.admin"
    admin = KafkaAdminClient(bootstrap_servers=broker.address)
    admin.create_topics([kafka.admin.NewTopic(topic, 1, 1)])
    producer = kafka.KafkaProducer(bootstrap_servers=broker.address)
    times = []
    for number in range(3):
        record = producer.send(topic, b"v", timestamp_ms=1_000_000_000_000 + number * 1000).get(10)
        times.append(record.timestamp)
    consumer = kafka.KafkaConsumer(bootstrap_servers=broker.address)
    partition = kafka.TopicPartition(topic, 0)
    assert consumer.beginning_offsets([partition]) == {partition: 0}
    assert consumer.end_offsets([partition]) == {partition: 3}
    found = consumer.offsets_for_times({partition: 1_000_000_000_500})[partition]
    assert (found.offset, found.timestamp) == (1, 1_000_000_001_000)
    assert consumer.offsets_for_times({partition: 2_000_000_000_000})[partition] is None
    admin.delete_topics([topic])
    consumer.close()
    producer.close()
    admin.close()


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
async def test_aiokafka_with_every_codec(broker: BrokerProcess, codec: str | None) -> None:
    topic = f"aiokafka.{codec}"
    with RawClient(broker.port) as raw:
        create_topic(raw, topic, 2)
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=broker.address, compression_type=codec, enable_idempotence=True
    )
    await producer.start()
    sent = [b"value %d" % number for number in range(300)]
    try:
        for future in [await producer.send(topic, value) for value in sent]:
            await future
    finally:
        await producer.stop()
    consumer = aiokafka.AIOKafkaConsumer(
        topic, bootstrap_servers=broker.address, auto_offset_reset="earliest", group_id=f"read.{topic}"
    )
    await consumer.start()
    values: list[bytes] = []
    try:
        while len(values) < len(sent):
            batches = await consumer.getmany(timeout_ms=2_000)
            assert batches, f"{len(values)} of {len(sent)}"
            values += [record.value for records in batches.values() for record in records]
    finally:
        await consumer.stop()
    assert sorted(values) == sorted(sent)


def test_read_committed_sees_what_is_produced(broker: BrokerProcess) -> None:
    with RawClient(broker.port) as raw:
        create_topic(raw, "read.committed")
    producer = Producer({"bootstrap.servers": broker.address})
    producer.produce("read.committed", b"v")
    producer.flush(10)
    assert _consume(broker, "read.committed", 1, **{"isolation.level": "read_committed"}) == [b"v"]
