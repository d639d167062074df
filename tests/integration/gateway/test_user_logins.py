"""Users of an instance with standard clients, through one gateway worker and the real broker."""

import asyncio
import time
import urllib.request
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import TopicAuthorizationFailedError
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, KafkaProducer
from kio.schema.errors import ErrorCode

from contracts.acls import Acl, Operation, PatternType, Permission, ResourceType
from contracts.specs import InstanceSpec, Listener
from contracts.users import SCRAM_MECHANISMS, KafkaUser, SecurityProtocol, credential
from tests.integration.broker.fake_control import wait_until
from tests.integration.broker.process import running_broker
from tests.integration.gateway.processes import GatewayProcess, running_gateway_process
from tests.scenarios.fake_broker import NODE_ID
from tests.scenarios.harness import A, B, FrameClient, free_ports, instance_spec
from wire.api_table import ApiKey
from wire.build import build
from wire.codec import request_class

PASSWORD: Final = "right-password"
RECORDS: Final = 50
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def user(name: str, password: str = PASSWORD) -> KafkaUser:
    return KafkaUser(
        name=name, credentials=tuple(credential(one, password, name.encode() * 4) for one in SCRAM_MECHANISMS)
    )


def spec(
    instance_id: str,
    *users: KafkaUser,
    protocols: tuple[SecurityProtocol, ...] = (SecurityProtocol.PLAIN, SecurityProtocol.SASL_PLAINTEXT),
) -> InstanceSpec:
    """An instance with these ways of coming in."""
    listeners = [
        Listener(
            node_id=node_id,
            bind_host="127.0.0.1",
            advertised_host="127.0.0.1",
            port=port,
            security_protocol=protocol,
        )
        for (node_id, protocol), port in zip(
            [(node_id, protocol) for protocol in protocols for node_id in (None, NODE_ID)],
            free_ports(2 * len(protocols)),
            strict=True,
        )
    ]
    return instance_spec(instance_id, listeners=tuple(listeners), users=users)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    directory = tmp_path_factory.mktemp("gateway")
    with (
        running_broker(directory) as broker,
        running_gateway_process(
            directory, broker.port, spec(A, user("app"), user("other")), spec(B, user("neighbour"))
        ) as running,
    ):
        for one in (A, B):
            admin = AdminClient({"bootstrap.servers": running.bootstrap(one)})
            admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(20)
        yield running


def address(
    gateway: GatewayProcess,
    instance_id: str = A,
    protocol: SecurityProtocol = SecurityProtocol.SASL_PLAINTEXT,
) -> str:
    """Where users of an instance begin."""
    port = next(
        one.port
        for one in gateway.specs[instance_id].listeners
        if one.node_id is None and one.security_protocol is protocol
    )
    return f"127.0.0.1:{port}"


def settings(gateway: GatewayProcess, mechanism: str, **changes: object) -> dict[str, Any]:
    """Of librdkafka."""
    return {
        "bootstrap.servers": address(gateway),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "app",
        "sasl.password": PASSWORD,
        **changes,
    }


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_confluent_kafka(gateway: GatewayProcess, mechanism: str) -> None:
    failures: list[KafkaError] = []
    producer = Producer(settings(gateway, mechanism))
    for number in range(RECORDS):
        producer.produce(
            "orders",
            f"{mechanism} {number}",
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    assert producer.flush(30) == 0 and not failures
    consumer = Consumer(
        settings(gateway, mechanism, **{"group.id": mechanism, "auto.offset.reset": "earliest"})
    )
    consumer.subscribe(["orders"])
    wanted = {f"{mechanism} {number}" for number in range(RECORDS)}
    deadline = time.monotonic() + 60
    while wanted and time.monotonic() < deadline:
        wanted -= {message.value().decode() for message in consumer.consume(500, 0.5)}
    consumer.close()
    assert not wanted


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python(gateway: GatewayProcess, mechanism: str) -> None:
    common = {
        "bootstrap_servers": address(gateway),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "app",
        "sasl_plain_password": PASSWORD,
    }
    producer = KafkaProducer(**common)
    for future in [producer.send("orders", f"kp {mechanism} {number}".encode()) for number in range(RECORDS)]:
        future.get(30)
    producer.close()
    consumer = KafkaConsumer("orders", **common, auto_offset_reset="earliest", consumer_timeout_ms=30_000)
    wanted = {f"kp {mechanism} {number}".encode() for number in range(RECORDS)}
    for message in consumer:
        wanted.discard(message.value)
        if not wanted:
            break
    consumer.close()
    assert not wanted


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_aiokafka(gateway: GatewayProcess, mechanism: str) -> None:
    common: dict[str, Any] = {
        "bootstrap_servers": address(gateway),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "app",
        "sasl_plain_password": PASSWORD,
    }
    wanted = {f"aio {mechanism} {number}".encode() for number in range(RECORDS)}
    async with AIOKafkaProducer(**common) as producer:
        await asyncio.gather(*[producer.send_and_wait("orders", value) for value in sorted(wanted)])
    async with AIOKafkaConsumer("orders", **common, auto_offset_reset="earliest") as consumer:
        async with asyncio.timeout(60):
            while wanted:
                wanted.discard((await consumer.getone()).value)


def refused(gateway: GatewayProcess, **changes: object) -> str:
    """The error of a librdkafka client that is not let in."""
    came: list[KafkaError] = []
    producer = Producer(settings(gateway, "SCRAM-SHA-256", error_cb=came.append, **changes))

    def told() -> list[str]:
        producer.poll(0.1)
        return [one.str() for one in came if one.code() == KafkaError._AUTHENTICATION]

    wait_until(lambda: bool(told()))
    return told()[0]


def closed(gateway: GatewayProcess, instance_id: str, cause: str) -> float:
    """How many connections ended so."""
    name = f'portico_gateway_connections_closed_total{{cause="{cause}",instance="{instance_id}"}}'
    with urllib.request.urlopen(gateway.metrics_url) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


async def tries(gateway: GatewayProcess, name: str, password: str) -> tuple[FrameClient, ErrorCode]:
    """A new client, and what it is told."""
    client = await FrameClient.connect(int(address(gateway).rpartition(":")[2]))
    await client.call(build(request_class(ApiKey.SASL_HANDSHAKE, 1), {"mechanism": "PLAIN"}))
    auth_bytes = f"\0{name}\0{password}".encode()
    answer = await client.call(build(request_class(ApiKey.SASL_AUTHENTICATE, 2), {"auth_bytes": auth_bytes}))
    return client, answer.error_code


async def authenticated(gateway: GatewayProcess, name: str, password: str) -> ErrorCode:
    """What a new client is told, which leaves then."""
    client, told = await tries(gateway, name, password)
    client.close()
    return told


async def logged_in(gateway: GatewayProcess, name: str, password: str = PASSWORD) -> FrameClient:
    """A client that is in and stays: librdkafka's may have no connection for a moment."""
    client, told = await tries(gateway, name, password)
    assert told is ErrorCode.none
    return client


def test_wrong_passwords_and_names_are_told_as_kafka_tells_them(gateway: GatewayProcess) -> None:
    wrong: list[dict[str, object]] = [
        {"sasl.password": "wrong-password"},
        {"sasl.username": "nobody"},
        {"sasl.username": "neighbour"},
        {"sasl.mechanism": "PLAIN", "sasl.password": "wrong-password"},
    ]
    before = closed(gateway, A, "authentication_failed"), closed(gateway, B, "authentication_failed")
    for changes in wrong:
        assert "invalid credentials" in refused(gateway, **changes)
    wait_until(lambda: closed(gateway, A, "authentication_failed") >= before[0] + len(wrong))
    assert closed(gateway, B, "authentication_failed") == before[1], "a user is of one instance"


async def test_who_does_not_log_in_is_cut_by_name(gateway: GatewayProcess) -> None:
    client = await FrameClient.connect(int(address(gateway).rpartition(":")[2]))
    client.send(build(request_class(ApiKey.METADATA, 4), {"topics": None}))
    assert await client.ended()
    await asyncio.to_thread(wait_until, lambda: closed(gateway, A, "not_authenticated") > 0)


async def test_a_user_that_is_deleted_or_gets_another_password_is_cut_and_others_are_not(
    gateway: GatewayProcess,
) -> None:
    def serve(*users: KafkaUser) -> None:
        gateway.serve(msgspec.structs.replace(gateway.specs[A], users=users))

    before = closed(gateway, A, "user_changed")
    stays, goes = await logged_in(gateway, "app"), await logged_in(gateway, "other")
    serve(user("app"), user("other", "another-password"))
    assert await goes.ended(60)
    assert await authenticated(gateway, "other", PASSWORD) is ErrorCode.sasl_authentication_failed
    again = await logged_in(gateway, "other", "another-password")
    serve(user("app"))
    assert await again.ended(60)
    assert await authenticated(gateway, "other", "another-password") is ErrorCode.sasl_authentication_failed
    listed = await stays.call(build(request_class(ApiKey.METADATA, 4), {"topics": None}))
    assert [topic.name for topic in listed.topics] == ["orders"]
    assert await authenticated(gateway, "app", PASSWORD) is ErrorCode.none
    assert closed(gateway, A, "user_changed") == before + 2
    stays.close()


def acl(kind: ResourceType, name: str, operation: Operation, principal: str = "User:app") -> Acl:
    return Acl(kind, PatternType.LITERAL, name, principal, "*", operation, Permission.ALLOW)


@pytest.fixture
def enforcing(gateway: GatewayProcess) -> Iterator[GatewayProcess]:
    """`app` may write and read `orders` in group `readers`, `other` and who comes without a login nothing."""
    before = gateway.specs[A]
    acls = (
        acl(ResourceType.TOPIC, "orders", Operation.READ),
        acl(ResourceType.TOPIC, "orders", Operation.WRITE),
        acl(ResourceType.GROUP, "readers", Operation.READ),
    )
    users = (user("app"), user("other"))
    gateway.serve(msgspec.structs.replace(before, users=users, acls=acls, acls_enforced=True))
    plain = AdminClient({"bootstrap.servers": gateway.bootstrap(A)})
    wait_until(lambda: "orders" not in plain.list_topics(timeout=30).topics)
    yield gateway
    gateway.serve(before)
    wait_until(lambda: "orders" in plain.list_topics(timeout=30).topics)


def produced(settings: dict[str, Any]) -> KafkaError | None:
    """What becomes of a record."""
    came: list[KafkaError | None] = []
    producer = Producer(settings)
    producer.produce("orders", b"allowed", on_delivery=lambda error, _: came.append(error))
    assert producer.flush(60) == 0
    return came[0]


def test_acls_say_what_a_user_may_do(enforcing: GatewayProcess) -> None:
    app = settings(enforcing, "SCRAM-SHA-256")
    other = settings(enforcing, "SCRAM-SHA-512", **{"sasl.username": "other"})
    assert produced(app) is None
    for refused_one in (other, {"bootstrap.servers": enforcing.bootstrap(A)}):
        error = produced(refused_one)
        assert error is not None and error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert list(AdminClient(app).list_topics(timeout=30).topics) == ["orders"]
    assert not AdminClient(other).list_topics(timeout=30).topics
    neighbour = AdminClient({"bootstrap.servers": enforcing.bootstrap(B)})
    assert "orders" in neighbour.list_topics(timeout=30).topics, "another instance enforces nothing"

    consumer = Consumer({**app, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    wait_until(lambda: any(one.value() == b"allowed" for one in consumer.consume(500, 0.5)))
    consumer.commit(asynchronous=False)
    consumer.close()
    stranger = Consumer({**app, "group.id": "strangers", "auto.offset.reset": "earliest"})
    stranger.subscribe(["orders"])
    errors: list[int] = []

    def refused_group() -> bool:
        message = stranger.poll(0.5)
        if message is not None and message.error() is not None:
            errors.append(message.error().code())
        return KafkaError.GROUP_AUTHORIZATION_FAILED in errors

    wait_until(refused_group)
    stranger.close()


async def test_acls_with_aiokafka(enforcing: GatewayProcess) -> None:
    common: dict[str, Any] = {
        "bootstrap_servers": address(enforcing),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_password": PASSWORD,
    }
    async with AIOKafkaProducer(**common, sasl_plain_username="app", enable_idempotence=True) as producer:
        await producer.send_and_wait("orders", b"allowed")
    async with AIOKafkaProducer(**common, sasl_plain_username="other") as producer:
        with pytest.raises(TopicAuthorizationFailedError):
            await producer.send_and_wait("orders", b"refused")
