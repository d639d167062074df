"""TLS with standard clients through one gateway worker: passwords, certificates, and their exchange."""

import asyncio
import shutil
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

import msgspec
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, KafkaProducer

from contracts.users import SecurityProtocol
from tests.integration.broker.fake_control import wait_until
from tests.integration.broker.process import running_broker
from tests.integration.gateway.processes import GatewayProcess, running_gateway_process
from tests.integration.gateway.test_user_logins import PASSWORD, address, closed, spec, user
from tests.scenarios.harness import A

FOLDER: Final = Path(__file__).resolve().parents[2] / "certificates"
AUTHORITY: Final = str(FOLDER / "authority.pem")
PLAIN, TLS, SASL_SSL = SecurityProtocol.PLAIN, SecurityProtocol.TLS, SecurityProtocol.SASL_SSL
RECORD: Final = bytes(range(256)) * 2_000
"""Half a megabyte: batches go to and fro in many records of TLS."""
RECORDS: Final = 12


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the gateway reads its certificate."""
    return tmp_path_factory.mktemp("certificate")


def use(files: Path, certificate: str) -> None:
    """Exchange the gateway's files, the key first."""
    for suffix in ("key", "pem"):
        shutil.copy(FOLDER / f"{certificate}.{suffix}", files / "new")
        (files / "new").replace(files / f"gateway.{suffix}")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, files: Path) -> Iterator[GatewayProcess]:
    directory = tmp_path_factory.mktemp("gateway")
    use(files, "gateway")
    options = ("--tls-cert", str(files / "gateway.pem"), "--tls-key", str(files / "gateway.key"))
    with (
        running_broker(directory) as broker,
        running_gateway_process(
            directory,
            broker.port,
            spec(A, user("app"), user("other"), protocols=(PLAIN, TLS, SASL_SSL)),
            options=(*options, "--tls-client-ca", AUTHORITY),
        ) as running,
    ):
        admin = AdminClient({"bootstrap.servers": address(running, protocol=PLAIN)})
        names = ("librdkafka", "certificate", "kafka-python", "aiokafka")
        for made_one in admin.create_topics([NewTopic(one, 1, 1) for one in names]).values():
            made_one.result(20)
        yield running


def by_password(gateway: GatewayProcess) -> dict[str, Any]:
    """Settings of librdkafka."""
    return {
        "bootstrap.servers": address(gateway, protocol=SASL_SSL),
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": AUTHORITY,
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "app",
        "sasl.password": PASSWORD,
    }


def by_certificate(gateway: GatewayProcess, name: str = "app") -> dict[str, Any]:
    """Settings of librdkafka."""
    return {
        "bootstrap.servers": address(gateway, protocol=TLS),
        "security.protocol": "SSL",
        "ssl.ca.location": AUTHORITY,
        "ssl.certificate.location": str(FOLDER / f"{name}.pem"),
        "ssl.key.location": str(FOLDER / f"{name}.key"),
    }


@pytest.mark.parametrize(
    ("settings", "topic"), [(by_password, "librdkafka"), (by_certificate, "certificate")]
)
def test_confluent_kafka(gateway: GatewayProcess, settings: Any, topic: str) -> None:
    failures: list[KafkaError] = []
    producer = Producer(settings(gateway))
    for number in range(RECORDS):
        producer.produce(
            topic,
            RECORD,
            key=str(number),
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    assert producer.flush(60) == 0 and not failures, gateway.log
    consumer = Consumer({**settings(gateway), "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    came: list[bytes] = []
    deadline = time.monotonic() + 60
    while len(came) < RECORDS and time.monotonic() < deadline:
        for message in consumer.consume(10, 0.5):
            assert message.error() is None
            came.append(message.value())
    consumer.close()
    assert came == [RECORD] * RECORDS


def test_kafka_python(gateway: GatewayProcess) -> None:
    common = {
        "bootstrap_servers": address(gateway, protocol=SASL_SSL),
        "security_protocol": "SASL_SSL",
        "ssl_cafile": AUTHORITY,
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "app",
        "sasl_plain_password": PASSWORD,
    }
    producer = KafkaProducer(**common)
    for future in [producer.send("kafka-python", RECORD) for _ in range(RECORDS)]:
        future.get(60)
    producer.close()
    consumer = KafkaConsumer(
        "kafka-python", **common, auto_offset_reset="earliest", consumer_timeout_ms=60_000
    )
    came = [message.value for _, message in zip(range(RECORDS), consumer, strict=False)]
    consumer.close()
    assert came == [RECORD] * RECORDS


async def test_aiokafka(gateway: GatewayProcess) -> None:
    common: dict[str, Any] = {
        "bootstrap_servers": address(gateway, protocol=SASL_SSL),
        "security_protocol": "SASL_SSL",
        "ssl_context": ssl.create_default_context(cafile=AUTHORITY),
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "app",
        "sasl_plain_password": PASSWORD,
    }
    async with AIOKafkaProducer(**common) as producer:
        await asyncio.gather(*[producer.send_and_wait("aiokafka", RECORD) for _ in range(RECORDS)])
    async with AIOKafkaConsumer("aiokafka", **common, auto_offset_reset="earliest") as consumer:
        async with asyncio.timeout(60):
            assert [(await consumer.getone()).value for _ in range(RECORDS)] == [RECORD] * RECORDS


def context(certificate: str | None = None) -> ssl.SSLContext:
    """A client's."""
    made = ssl.create_default_context(cafile=AUTHORITY)
    if certificate is not None:
        made.load_cert_chain(FOLDER / f"{certificate}.pem", FOLDER / f"{certificate}.key")
    return made


def connected(gateway: GatewayProcess, protocol: SecurityProtocol) -> socket.socket:
    host, _, port = address(gateway, protocol=protocol).rpartition(":")
    return socket.create_connection((host, int(port)), timeout=30)


def ends(gateway: GatewayProcess, cause: str, protocol: SecurityProtocol, certificate: str | None) -> None:
    """A client of TLS is cut, by this name, and does not wait for it."""
    before = closed(gateway, A, cause)
    with (
        suppress(OSError),  # refused during its handshake, or behind it
        connected(gateway, protocol) as raw,
        context(certificate).wrap_socket(raw, server_hostname="127.0.0.1") as tls,
    ):
        assert tls.recv(1) == b""
    wait_until(lambda: closed(gateway, A, cause) > before)


def test_what_does_not_speak_alike_is_cut_by_name(gateway: GatewayProcess) -> None:
    ends(gateway, "tls_to_plain", PLAIN, None)
    ends(gateway, "tls_handshake_failed", TLS, None)
    ends(gateway, "tls_handshake_failed", TLS, "impostor")
    ends(gateway, "tls_handshake_failed", TLS, "late_app")
    ends(gateway, "certificate_refused", TLS, "nobody")
    before = closed(gateway, A, "not_tls")
    with connected(gateway, SASL_SSL) as raw:
        raw.sendall(b"\0\0\0\x10\0\x12\0\0\0\0\0\1\0\6client")
        with suppress(ConnectionError):
            assert raw.recv(1) == b""
    wait_until(lambda: closed(gateway, A, "not_tls") > before)


def test_who_shows_the_certificate_of_a_user_that_is_deleted_is_cut(gateway: GatewayProcess) -> None:
    stays = AdminClient(by_password(gateway))
    goes = AdminClient(by_certificate(gateway))
    assert stays.list_topics(timeout=30) and goes.list_topics(timeout=30)
    before = closed(gateway, A, "user_changed"), closed(gateway, A, "certificate_refused")
    original = gateway.specs[A]
    gateway.serve(msgspec.structs.replace(original, users=(user("other"),)))
    wait_until(lambda: closed(gateway, A, "user_changed") > before[0])
    ends(gateway, "certificate_refused", TLS, "app")
    gateway.serve(original)
    assert stays.list_topics(timeout=60) and goes.list_topics(timeout=60), "both come back with their user"


def shown(gateway: GatewayProcess) -> str:
    """Whose certificate a new connection is shown."""
    with (
        connected(gateway, SASL_SSL) as raw,
        context().wrap_socket(raw, server_hostname="127.0.0.1") as tls,
    ):
        found = tls.getpeercert()
    assert found is not None
    return str(found["subject"][0][0][1])  # type: ignore[index]


def test_a_new_certificate_is_shown_to_new_connections_and_a_broken_one_to_nobody(
    gateway: GatewayProcess, files: Path
) -> None:
    assert shown(gateway) == "gateway"
    client = AdminClient(by_password(gateway))
    assert client.list_topics(timeout=30)
    use(files, "gateway_2")
    wait_until(lambda: shown(gateway) == "gateway-2")
    assert client.list_topics(timeout=30)
    use(files, "expired")
    wait_until(lambda: "portico_gateway_certificate_failing 1.0" in metrics(gateway))
    assert shown(gateway) == "gateway-2"
    use(files, "gateway")
    wait_until(lambda: shown(gateway) == "gateway")
    assert "portico_gateway_certificate_failing 0.0" in metrics(gateway)


def metrics(gateway: GatewayProcess) -> str:
    with urlopen(gateway.metrics_url) as answer:
        text: str = answer.read().decode()
    return text
