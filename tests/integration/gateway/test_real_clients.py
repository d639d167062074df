"""Standard clients against two instances with equal names, through one gateway worker and the real broker."""

import asyncio
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic, OffsetSpec
from kafka import KafkaConsumer, KafkaProducer

from contracts.specs import Limits
from gateway.apis import SERVED, Mode
from tests.integration.broker.fake_control import wait_until
from tests.integration.broker.process import running_broker
from tests.integration.gateway.filling import filled
from tests.integration.gateway.processes import GatewayProcess, running_gateway_process
from tests.lately import LATELY_MS
from tests.scenarios.harness import A, B, FrameClient, instance_spec
from wire.api_table import ApiKey
from wire.classify import FieldClass
from wire.codec import request_class

RECORDS = 500


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    directory = tmp_path_factory.mktemp("gateway")
    limits = Limits(partitions_max=20)
    specs = [instance_spec(one, limits=limits) for one in (A, B)]
    with (
        running_broker(directory) as broker,
        running_gateway_process(directory, broker.port, *specs) as running,
    ):
        for one in (A, B):
            create(admin(running, one), "orders", 3)
        yield running


def admin(gateway: GatewayProcess, instance_id: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": gateway.bootstrap(instance_id)})


def create(client: AdminClient, topic: str, partitions: int, **config: str) -> None:
    client.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result(10)


def test_the_record_with_the_largest_timestamp(gateway: GatewayProcess) -> None:
    """Not the last one, and nobody else's."""
    for instance_id, latest in ((A, 1), (B, 2)):
        client = admin(gateway, instance_id)
        create(client, "times", 1)
        producer = Producer({"bootstrap.servers": gateway.bootstrap(instance_id)})
        for number in range(4):
            producer.produce("times", b"v", timestamp=LATELY_MS + (number == latest))
            assert producer.flush(20) == 0
    for instance_id, latest in ((A, 1), (B, 2)):
        asked = {TopicPartition("times", 0): OffsetSpec.max_timestamp()}
        client = admin(gateway, instance_id)
        (future,) = client.list_offsets(asked).values()
        found = future.result(10)
        assert (found.offset, found.timestamp) == (latest, LATELY_MS + 1)


def test_a_topic_that_says_where_its_replicas_go(gateway: GatewayProcess) -> None:
    client = admin(gateway, A)
    client.create_topics([NewTopic("placed", 2, replica_assignment=[[1], [1]])])["placed"].result(10)
    client.create_partitions([NewPartitions("placed", 3, replica_assignment=[[1]])])["placed"].result(10)
    assert len(client.list_topics("placed", 10).topics["placed"].partitions) == 3
    with pytest.raises(KafkaException) as refused:
        client.create_topics([NewTopic("elsewhere", 1, replica_assignment=[[7]])])["elsewhere"].result(10)
    assert refused.value.args[0].code() == KafkaError.INVALID_REPLICA_ASSIGNMENT


def produced_by_confluent(gateway: GatewayProcess, instance_id: str, topic: str, **settings: object) -> None:
    producer = Producer({"bootstrap.servers": gateway.bootstrap(instance_id), **settings})
    failures: list[KafkaError] = []
    for number in range(RECORDS):
        producer.produce(
            topic,
            key=str(number),
            value=f"{instance_id} {number}",
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    assert producer.flush(20) == 0 and failures == []


def consumed_by_confluent(gateway: GatewayProcess, instance_id: str, topic: str, group: str) -> list[str]:
    consumer = Consumer(
        {
            "bootstrap.servers": gateway.bootstrap(instance_id),
            "group.id": group,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    values: list[str] = []
    deadline = time.monotonic() + 20
    while len(values) < RECORDS and time.monotonic() < deadline:
        for message in consumer.consume(500, 0.2):
            assert message.error() is None
            values.append(message.value().decode())
    consumer.commit(asynchronous=False)
    consumer.close()
    return values


def expected(instance_id: str) -> list[str]:
    return sorted(f"{instance_id} {number}" for number in range(RECORDS))


@pytest.mark.parametrize(
    "settings",
    [{"enable.idempotence": True}, {"acks": "1", "compression.type": "lz4"}, {"compression.type": "zstd"}],
    ids=["idempotent", "lz4", "zstd"],
)
def test_confluent_kafka(gateway: GatewayProcess, settings: dict[str, object]) -> None:
    topic = f"confluent-{len(settings)}-{settings.get('compression.type')}"
    for one in (A, B):
        create(admin(gateway, one), topic, 2)
        produced_by_confluent(gateway, one, topic, **settings)
    for one in (A, B):
        assert sorted(consumed_by_confluent(gateway, one, topic, topic)) == expected(one)
    assert "confluent-1-None" in admin(gateway, A).list_topics(timeout=5).topics


def test_kafka_python(gateway: GatewayProcess) -> None:
    for one in (A, B):
        create(admin(gateway, one), "kafka-python", 2)
        producer = KafkaProducer(bootstrap_servers=gateway.bootstrap(one))
        sent = [producer.send("kafka-python", f"{one} {number}".encode()) for number in range(RECORDS)]
        for future in sent:
            future.get(10)
        producer.close()
    for one in (A, B):
        consumer = KafkaConsumer(
            "kafka-python",
            bootstrap_servers=gateway.bootstrap(one),
            group_id="same-group",
            auto_offset_reset="earliest",
            consumer_timeout_ms=10_000,
        )
        values = [message.value.decode() for _, message in zip(range(RECORDS), consumer, strict=False)]
        consumer.close()
        assert sorted(values) == expected(one)


async def test_aiokafka(gateway: GatewayProcess) -> None:
    for one in (A, B):
        create(admin(gateway, one), "aiokafka", 2)
        producer = AIOKafkaProducer(bootstrap_servers=gateway.bootstrap(one), enable_idempotence=True)
        await producer.start()
        for number in range(RECORDS):
            await producer.send("aiokafka", f"{one} {number}".encode())
        await producer.stop()
    for one in (A, B):
        consumer = AIOKafkaConsumer(
            "aiokafka", bootstrap_servers=gateway.bootstrap(one), group_id="g", auto_offset_reset="earliest"
        )
        await consumer.start()
        values = []
        async with asyncio.timeout(20):
            while len(values) < RECORDS:
                values.append((await consumer.getone()).value.decode())
        await consumer.stop()
        assert sorted(values) == expected(one)


def test_large_messages_pass(gateway: GatewayProcess) -> None:
    """Batches beyond the receive window, with the topic's own bound raised as far as the instance allows."""
    producer = Producer({"bootstrap.servers": gateway.bootstrap(A), "message.max.bytes": 2_000_000})
    outcomes: dict[int, Any] = {}  # the two may go to different partitions, answered in any order
    for size in (900_000, 1_500_000):
        producer.produce(
            "orders", b"x" * size, on_delivery=lambda error, _, size=size: outcomes.__setitem__(size, error)
        )
    assert producer.flush(10) == 0
    assert outcomes[900_000] is None
    assert outcomes[1_500_000].code() == KafkaError.MSG_SIZE_TOO_LARGE


def test_administration(gateway: GatewayProcess) -> None:
    client = admin(gateway, A)
    create(client, "admin", 1, **{"retention.ms": "100000"})
    resource = ConfigResource(ConfigResource.Type.TOPIC, "admin")
    described = client.describe_configs([resource])[resource].result(5)
    assert described["retention.ms"].value == "100000" and not described["retention.ms"].is_read_only
    assert described["segment.bytes"].value == "100000000"
    client.create_partitions([NewPartitions("admin", 2)])["admin"].result(5)
    metadata = client.list_topics("admin", timeout=5)
    assert len(metadata.topics["admin"].partitions) == 2 and metadata.cluster_id == A
    with pytest.raises(KafkaException) as refused:
        client.create_partitions([NewPartitions("admin", 100)])["admin"].result(5)
    assert refused.value.args[0].code() == KafkaError.POLICY_VIOLATION
    with pytest.raises(KafkaException) as refused:
        create(client, "tuned", 1, **{"unclean.leader.election.enable": "true"})
    assert refused.value.args[0].code() == KafkaError.INVALID_CONFIG
    assert "unclean.leader.election.enable" in refused.value.args[0].str()
    client.delete_topics(["admin"])["admin"].result(5)
    assert "admin" not in client.list_topics(timeout=5).topics


def test_groups_show_the_tenants_client_and_nothing_else(gateway: GatewayProcess) -> None:
    consumer = Consumer({"bootstrap.servers": gateway.bootstrap(A), "group.id": "watched", "client.id": "me"})
    consumer.subscribe(["orders"])
    deadline = time.monotonic() + 15
    while not consumer.assignment() and time.monotonic() < deadline:
        consumer.poll(0.1)
    mine, neighbour = admin(gateway, A), admin(gateway, B)  # kept: a client that goes takes its futures along
    group = mine.describe_consumer_groups(["watched"])["watched"].result(5)
    (member,) = group.members
    assert member.client_id == "me" and member.host.lstrip("/") == "127.0.0.1"
    assert {partition.topic for partition in member.assignment.topic_partitions} == {"orders"}
    seen = [one.group_id for one in neighbour.list_consumer_groups().result(5).valid]
    assert "watched" not in seen and seen != []
    consumer.close()


_NOT_COMPARED = {ApiKey.CREATE_TOPICS, ApiKey.JOIN_GROUP, ApiKey.INIT_PRODUCER_ID}
"""These succeed for any name, each time with an id of its own."""


@pytest.mark.parametrize(
    ("key", "version"),
    [
        pytest.param(key, version, id=f"{ApiKey(key).name}-{version}")
        for (key, version), row in SERVED.items()
        if row.mode is not Mode.LOCAL and key not in _NOT_COMPARED
    ],
)
async def test_a_foreign_name_gets_what_a_missing_one_gets(
    gateway: GatewayProcess, key: int, version: int
) -> None:
    port = next(one.port for one in gateway.specs[A].listeners if one.node_id is not None)
    replies = []
    for name in (f"{B}.orders", "iccccccccccc.orders"):
        client = await FrameClient.connect(port)

        def namer(field_class: FieldClass, name: str = name) -> str:
            return name

        client.send(filled(request_class(key, version), [namer], key_type=0, session_epoch=-1))
        replies.append((await client.frame()).replace(name.encode(), b"<name>"))
        client.close()
    assert replies[0] == replies[1]


def test_metrics_name_instances_and_apis(gateway: GatewayProcess) -> None:
    for one in (A, B):
        produced_by_confluent(gateway, one, "orders")  # its end closes the connections
    wanted = {
        f'portico_gateway_requests_total{{api="produce",instance="{A}"}}',
        f'portico_gateway_bytes_total{{direction="in",instance="{B}"}}',
        f'portico_gateway_connections_closed_total{{cause="client_closed",instance="{A}"}}',
    }
    wait_until(lambda: all(each in _metrics(gateway) for each in wanted))
    text = _metrics(gateway)
    assert 'cause="internal_error"' not in text and 'cause="upstream_malformed"' not in text


def _metrics(gateway: GatewayProcess) -> str:
    with urllib.request.urlopen(gateway.metrics_url) as answer:
        return str(answer.read().decode())
