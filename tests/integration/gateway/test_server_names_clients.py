"""Standard clients at the port that serves by names: they get along on it alone. Their machine says where the
names are: in the Python clients the resolver of the process, in librdkafka and Java a file of hosts."""

import json
import shutil
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, KafkaProducer

from contracts.server_names import host_name
from contracts.users import SecurityProtocol
from ctl.kafka.jars import DEFAULT_VERSION, class_path
from tests.integration.broker.process import running_broker
from tests.integration.gateway.processes import GatewayProcess, running_gateway_process
from tests.integration.gateway.test_tls_clients import FOLDER
from tests.integration.gateway.test_user_logins import PASSWORD, address, spec, user
from tests.scenarios.fake_broker import NODE_ID
from tests.scenarios.harness import A, B, free_ports

DOMAIN: Final = "kafka.test"
AUTHORITY: Final = str(FOLDER / "names.pem")
PLAIN, TLS, SASL_SSL = SecurityProtocol.PLAIN, SecurityProtocol.TLS, SecurityProtocol.SASL_SSL
RECORDS: Final = 50
_LIBRDKAFKA: Final = """
import json, sys
from confluent_kafka import Consumer, Producer
settings, topic, records = json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3])
producer = Producer(settings)
for number in range(records):
    producer.produce(topic, f"{topic}-{number}")
assert producer.flush(60) == 0
consumer = Consumer({**settings, "group.id": "librdkafka", "auto.offset.reset": "earliest"})
consumer.subscribe([topic])
came = []
while len(came) < records:
    message = consumer.poll(60)
    assert message is not None and message.error() is None, message
    came.append(message.value().decode())
consumer.close()
print("\\n".join(came))
"""


class NamedGateway:
    """A worker and the port of names."""

    def __init__(self, process: GatewayProcess, port: int, hosts: Path) -> None:
        self.process, self.port, self.hosts = process, port, hosts

    def bootstrap(self, instance_id: str, protocol: SecurityProtocol = SASL_SSL) -> str:
        return f"{host_name(instance_id, None, protocol, DOMAIN)}:{self.port}"


def options(port: int) -> tuple[str, ...]:
    """A worker's that serves by names."""
    files = [
        (f"--{of}-{kind}", str(FOLDER / f"{name}.{end}"))
        for of, name in (("tls", "gateway"), ("sni", "names"))
        for kind, end in (("cert", "pem"), ("key", "key"))
    ]
    files.append(("--tls-client-ca", str(FOLDER / "authority.pem")))
    files += [("--sni-domain", DOMAIN), ("--sni-port", str(port))]
    return tuple(word for pair in files for word in pair)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NamedGateway]:
    directory = tmp_path_factory.mktemp("gateway")
    (port,) = free_ports(1)
    specs = [spec(one, user("app"), protocols=(PLAIN, TLS, SASL_SSL)) for one in (A, B)]
    hosts = directory / "hosts"
    hosts.write_text(
        "127.0.0.1 localhost\n"
        + "".join(
            f"127.0.0.1 {host_name(one, node_id, protocol, DOMAIN)}\n"
            for one in (A, B)
            for node_id in (None, NODE_ID)
            for protocol in (TLS, SASL_SSL)
        )
    )
    with (
        running_broker(directory) as broker,
        running_gateway_process(directory, broker.port, *specs, options=options(port)) as running,
    ):
        for one in (A, B):
            admin = AdminClient({"bootstrap.servers": address(running, one, protocol=PLAIN)})
            names = ("librdkafka", "certificate", "kafka-python", "aiokafka", "java", "java-certificate")
            for made in admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
                made.result(20)
        yield NamedGateway(running, port, hosts)


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every name of the domain is this machine's."""
    original = socket.getaddrinfo

    def resolved(host: Any, *rest: Any, **more: Any) -> Any:
        text = host.decode() if isinstance(host, bytes) else host
        return original("127.0.0.1" if text and text.endswith(DOMAIN) else host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", resolved)


def common(gateway: NamedGateway, instance_id: str) -> dict[str, Any]:
    """Settings of both Python clients."""
    return {
        "bootstrap_servers": gateway.bootstrap(instance_id),
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "app",
        "sasl_plain_password": PASSWORD,
    }


@pytest.mark.usefixtures("resolver")
async def test_aiokafka(gateway: NamedGateway) -> None:
    for one in (A, B):
        settings = common(gateway, one) | {"ssl_context": ssl.create_default_context(cafile=AUTHORITY)}
        async with AIOKafkaProducer(**settings) as producer:
            for number in range(RECORDS):
                await producer.send("aiokafka", f"{one}-{number}".encode())
        async with AIOKafkaConsumer(
            "aiokafka", **settings, auto_offset_reset="earliest", group_id="g"
        ) as consumer:
            came = [(await consumer.getone()).value for _ in range(RECORDS)]
        assert came == [f"{one}-{number}".encode() for number in range(RECORDS)]


@pytest.mark.usefixtures("resolver")
def test_kafka_python(gateway: NamedGateway) -> None:
    settings = common(gateway, A) | {"ssl_cafile": AUTHORITY}
    producer = KafkaProducer(**settings)
    for future in [producer.send("kafka-python", b"%d" % number) for number in range(RECORDS)]:
        future.get(60)
    producer.close()
    consumer = KafkaConsumer(
        "kafka-python", **settings, auto_offset_reset="earliest", consumer_timeout_ms=60_000
    )
    came = [message.value for _, message in zip(range(RECORDS), consumer, strict=False)]
    consumer.close()
    assert came == [b"%d" % number for number in range(RECORDS)]


def by_password(gateway: NamedGateway) -> dict[str, str]:
    """Settings of librdkafka."""
    return {
        "bootstrap.servers": gateway.bootstrap(A),
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": AUTHORITY,
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "app",
        "sasl.password": PASSWORD,
    }


def by_certificate(gateway: NamedGateway) -> dict[str, str]:
    """Settings of librdkafka."""
    return {
        "bootstrap.servers": gateway.bootstrap(A, TLS),
        "security.protocol": "SSL",
        "ssl.ca.location": AUTHORITY,
        "ssl.certificate.location": str(FOLDER / "app.pem"),
        "ssl.key.location": str(FOLDER / "app.key"),
    }


def _has_own_mounts() -> bool:
    """Whether a process may have files of its own, as librdkafka's hosts here."""
    unshare = shutil.which("unshare")
    if unshare is None:
        return False
    return subprocess.run([unshare, "-rm", "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not _has_own_mounts(), reason="no mounts of its own: librdkafka cannot find the names")
@pytest.mark.parametrize(
    ("settings", "topic"), [(by_password, "librdkafka"), (by_certificate, "certificate")]
)
def test_librdkafka(gateway: NamedGateway, settings: Any, topic: str) -> None:
    inside = 'mount --bind "$1" /etc/hosts && shift && exec "$@"'
    command = [
        "unshare",
        "-rm",
        "sh",
        "-c",
        inside,
        "sh",
        str(gateway.hosts),
        sys.executable,
        "-c",
        _LIBRDKAFKA,
    ]
    command += [json.dumps(settings(gateway)), topic, str(RECORDS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr + gateway.process.log
    assert done.stdout.split() == [f"{topic}-{number}" for number in range(RECORDS)]


@pytest.mark.java
@pytest.mark.parametrize("topic", ["java", "java-certificate"])
def test_apache_kafkas_own_clients(gateway: NamedGateway, tmp_path: Path, topic: str) -> None:
    settings = ["ssl.truststore.type=PEM", f"ssl.truststore.location={AUTHORITY}"]
    if topic == "java":
        login = f'ScramLoginModule required username="app" password="{PASSWORD}";'
        settings += ["security.protocol=SASL_SSL", "sasl.mechanism=SCRAM-SHA-512"]
        settings += [f"sasl.jaas.config=org.apache.kafka.common.security.scram.{login}"]
        bootstrap = gateway.bootstrap(A)
    else:
        key_and_chain = tmp_path / "app.pem"
        key_and_chain.write_text((FOLDER / "app.key").read_text() + (FOLDER / "app.pem").read_text())
        settings += [
            "security.protocol=SSL",
            "ssl.keystore.type=PEM",
            f"ssl.keystore.location={key_and_chain}",
        ]
        bootstrap = gateway.bootstrap(A, TLS)
    properties = tmp_path / "client.properties"
    properties.write_text("\n".join(settings))
    java = ["java", "-Xmx256m", f"-Djdk.net.hosts.file={gateway.hosts}", "-cp", class_path(DEFAULT_VERSION)]
    tools = "org.apache.kafka.tools"
    said = [f"{topic}-{number}" for number in range(RECORDS)]
    produce = [*java, f"{tools}.ConsoleProducer", "--command-config", str(properties)]
    consume = [
        *java,
        f"{tools}.consumer.ConsoleConsumer",
        "--command-config",
        str(properties),
        "--from-beginning",
    ]
    common_options = ["--bootstrap-server", bootstrap, "--topic", topic]
    for command, text in ((produce, "\n".join(said)), ([*consume, "--max-messages", str(RECORDS)], "")):
        done = subprocess.run(
            [*command, *common_options], input=text, capture_output=True, text=True, timeout=200, check=False
        )
        assert done.returncode == 0, done.stderr + gateway.process.log
    assert done.stdout.split() == said


def test_the_port_goes_over_to_a_successor(tmp_path: Path) -> None:
    """No handshake fails meanwhile, and the successor has no other port of names than that one."""
    (port,) = free_ports(1)
    old = GatewayProcess(made(tmp_path / "old"), 1, *options(port), "--drain-ms", "500")
    old.serve(spec(A, protocols=(SASL_SSL,)))
    old.start()
    goes_on = ("--name", "gateway-1", "--take-over", str(old.pid))
    new = GatewayProcess(made(tmp_path / "new"), 1, *options(port), *goes_on)
    new.serve(*old.specs.values())
    assert shown(port) == "names"
    failures: list[Exception] = []
    stops = threading.Event()

    def come_and_go() -> None:
        while not stops.is_set():
            try:
                shown(port)
            except (OSError, AssertionError) as error:
                failures.append(error)

    clients = threading.Thread(target=come_and_go)
    clients.start()
    try:
        new.start()
        assert old.wait() == 0
        assert shown(port) == "names"
    finally:
        stops.set()
        clients.join()
        old.kill()
        new.kill()
    assert not failures


def made(directory: Path) -> Path:
    directory.mkdir()
    return directory


def shown(port: int) -> str:
    """Whose certificate a client of the name is shown."""
    name = host_name(A, NODE_ID, SASL_SSL, DOMAIN)
    with (
        socket.create_connection(("127.0.0.1", port), timeout=30) as raw,
        ssl.create_default_context(cafile=AUTHORITY).wrap_socket(raw, server_hostname=name) as tls,
    ):
        found = tls.getpeercert()
    assert found is not None
    return str(found["subject"][0][0][1])
