"""A flood of handshakes that are not finished, or finished for nothing, at one instance: what it is held to,
that every connection ends with a name, and that its own clients and a neighbour's go on."""

import contextlib
import re
import resource
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final
from urllib.request import urlopen

import msgspec
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from contracts.specs import Limits
from contracts.users import SecurityProtocol
from gateway.handshakes import HANDSHAKES_MAX
from tests.integration.broker.fake_control import wait_until
from tests.integration.broker.process import running_broker
from tests.integration.gateway.processes import GatewayProcess, running_gateway_process
from tests.integration.gateway.test_tls_clients import AUTHORITY, FOLDER
from tests.integration.gateway.test_user_logins import PASSWORD, address, spec, user
from tests.scenarios.harness import A, B

LIMITS: Final = Limits(connection_rate_max=1_000_000)
"""Nobody is refused at accept, however fast they come: what is looked at here comes behind it."""
PLAIN, SASL_SSL = SecurityProtocol.PLAIN, SecurityProtocol.SASL_SSL
FLOOD: Final = 2_000
AT_ONCE: Final = 2 * HANDSHAKES_MAX
"""So many come without a pause: three of four do not finish, too many before the first is late."""
FLOODER: Final = "127.0.0.2"
"""Clients that mean it come from another address."""
HALF_A_HELLO: Final = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200)
GARBAGE: Final = b"\x16\x03\x01\x02\x00" + b"\xff" * 512
NAMED: Final = ("tls_handshakes_max", "tls_handshake_timeout", "tls_handshake_failed")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    directory = tmp_path_factory.mktemp("gateway")
    files = ("--tls-cert", str(FOLDER / "gateway.pem"), "--tls-key", str(FOLDER / "gateway.key"))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 20_000), hard))
    specs = [
        msgspec.structs.replace(spec(one, user("app"), protocols=(PLAIN, SASL_SSL)), limits=LIMITS)
        for one in (A, B)
    ]
    with (
        running_broker(directory) as broker,
        running_gateway_process(directory, broker.port, *specs, options=files) as running,
    ):
        for one in (A, B):
            admin = AdminClient({"bootstrap.servers": address(running, one, PLAIN)})
            admin.create_topics([NewTopic("t", 1, 1)])["t"].result(20)
        yield running
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Client(threading.Thread):
    """Writes a record, each when the one before is acknowledged."""

    def __init__(self, gateway: GatewayProcess, instance: str, protocol: SecurityProtocol) -> None:
        super().__init__()
        settings: dict[str, Any] = {"bootstrap.servers": address(gateway, instance, protocol)}
        if protocol is SASL_SSL:
            settings |= {
                "security.protocol": "SASL_SSL",
                "ssl.ca.location": AUTHORITY,
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.username": "app",
                "sasl.password": PASSWORD,
            }
        self.settings = settings
        self.acknowledged = 0
        self.failures: list[Any] = []
        self._has_enough = threading.Event()
        self._producer = Producer(settings)

    def run(self) -> None:
        while not self._has_enough.is_set():
            self._producer.produce("t", b"v", on_delivery=self._told)
            self._producer.flush(60)

    def _told(self, error: Any, _: Any) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.failures.append(error)

    def stop(self) -> None:
        self._has_enough.set()
        self.join(60)


@contextlib.contextmanager
def running(*clients: Client) -> Iterator[None]:
    for one in clients:
        one.start()
    try:
        yield
    finally:
        for one in clients:
            one.stop()


def go_on(*clients: Client) -> None:
    """Each has more acknowledged than now."""
    before = [one.acknowledged for one in clients]
    wait_until(lambda: all(one.acknowledged > was + 20 for one, was in zip(clients, before, strict=True)))
    assert not any(one.failures for one in clients)


def gauge(gateway: GatewayProcess, name: str, instance: str) -> int:
    return sum(counted(gateway, name, instance, "").values())


def counted(gateway: GatewayProcess, name: str, instance: str, label: str) -> Counter[str]:
    """A metric of an instance by one of its labels."""
    with urlopen(gateway.metrics_url) as answer:
        text = answer.read().decode()
    found: Counter[str] = Counter()
    for labels, value in re.findall(rf"^{name}{{(.*)}} (\S+)$", text, re.MULTILINE):
        told = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        if told.get("instance") == instance:
            found[told.get(label, "")] += int(float(value))
    return found


def cpu_s(gateway: GatewayProcess, instance: str) -> float:
    """CPU time that is on an instance's account."""
    with urlopen(gateway.metrics_url) as answer:
        text = answer.read().decode()
    name = f'portico_gateway_cpu_seconds_total{{for="tenant",instance="{instance}"}}'
    [value] = [line.rpartition(" ")[2] for line in text.splitlines() if line.startswith(name)]
    return float(value)


def causes(gateway: GatewayProcess, instance: str) -> Counter[str]:
    return counted(gateway, "portico_gateway_connections_closed_total", instance, "cause")


def by_name(ended: Counter[str]) -> int:
    """How many ended by one of the names that a flood has."""
    return sum(ended[cause] for cause in NAMED)


def knock(gateway: GatewayProcess) -> socket.socket:
    host, _, port = address(gateway, A, SASL_SSL).rpartition(":")
    return socket.create_connection((host, int(port)), timeout=60, source_address=(FLOODER, 0))


def drip(socks: list[socket.socket], ended: threading.Event) -> None:
    """A byte a second of something that could become a hello."""
    sent: Counter[socket.socket] = Counter()
    while not ended.wait(1):
        for sock in tuple(socks):
            with contextlib.suppress(OSError):
                sent[sock] += sock.send(HALF_A_HELLO[sent[sock] : sent[sock] + 1])


def test_two_thousand_that_do_not_finish(gateway: GatewayProcess) -> None:
    before = causes(gateway, A)
    others = [Client(gateway, B, PLAIN), Client(gateway, B, SASL_SSL), Client(gateway, A, SASL_SSL)]
    flood: list[socket.socket] = []
    dripping: list[socket.socket] = []
    ended = threading.Event()
    dripper = threading.Thread(target=drip, args=(dripping, ended))
    with running(*others):
        go_on(*others)
        dripper.start()
        for number in range(FLOOD):
            flood.append(sock := knock(gateway))
            with contextlib.suppress(OSError):  # it had to make room already
                match number % 4:
                    case 0:
                        sock.sendall(HALF_A_HELLO)
                    case 1:
                        sock.sendall(GARBAGE)
                    case 2:
                        dripping.append(sock)
            if number > AT_ONCE and number % 250 == 0:
                assert gauge(gateway, "portico_gateway_connections", A) <= HANDSHAKES_MAX + 20
                go_on(*others)
        newcomer = AdminClient(others[-1].settings)
        assert newcomer.list_topics(timeout=60).topics, "who finishes is let in beside those who do not"
        go_on(*others)
        wait_until(lambda: by_name(causes(gateway, A) - before) == FLOOD, within_s=120)
        ended.set()
        dripper.join(60)
    for sock in flood:
        sock.close()
    named = causes(gateway, A) - before
    assert by_name(named) == FLOOD, named
    assert named["tls_handshake_failed"] == FLOOD // 4 and named["tls_handshakes_max"] > 0
    assert named["tls_handshake_timeout"] > 0
    assert not set(causes(gateway, B)) & {*NAMED, "client_reset"}


def test_handshakes_that_are_finished_for_nothing_are_paid_for_by_their_instance(
    gateway: GatewayProcess,
) -> None:
    others = [Client(gateway, B, PLAIN), Client(gateway, B, SASL_SSL), Client(gateway, A, PLAIN)]
    done: Counter[int] = Counter()
    ended = threading.Event()

    def shake(number: int) -> None:
        context = ssl.create_default_context(cafile=AUTHORITY)
        while not ended.is_set():
            with contextlib.suppress(OSError), knock(gateway) as raw:
                context.wrap_socket(raw, server_hostname="127.0.0.1").close()
                done[number] += 1

    shakers = [threading.Thread(target=shake, args=(number,)) for number in range(4)]
    before = cpu_s(gateway, A)
    with running(*others):
        go_on(*others)
        for one in shakers:
            one.start()
        try:
            wait_until(lambda: done.total() > 200)
            go_on(*others)
            connected = AdminClient(others[1].settings)
            assert connected.list_topics(timeout=60).topics, "the neighbour's newcomers are let in"
            wait_until(lambda: cpu_s(gateway, A) > before)
            go_on(*others)
        finally:
            ended.set()
            for one in shakers:
                one.join(60)
