"""A stack with a certificate: its files are exchanged while clients write by TLS; doctor looks at them."""

import json
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from socket import create_connection
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.e2e.test_commands import RATES, answer, portico
from tests.integration.broker.fake_control import wait_until
from tests.integration.stack import Stack, running_stack

CERTIFICATES: Final = Path(__file__).resolve().parents[1] / "certificates"
AUTHORITY: Final = CERTIFICATES / "authority.pem"
PASSWORD: Final = "a password of my own"


def use(folder: Path, name: str) -> None:
    """As certbot and Kubernetes do it: files stay where they are, and a link points to others."""
    new = folder / name
    if not new.exists():
        new.mkdir()
        (new / "cert.pem").write_text((CERTIFICATES / f"{name}.pem").read_text() + AUTHORITY.read_text())
        (new / "key.pem").write_text((CERTIFICATES / f"{name}.key").read_text())
        (new / "key.pem").chmod(0o600)
    (folder / "next").symlink_to(name)
    (folder / "next").rename(folder / "live")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the stack reads its certificate, behind the link `live`."""
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Iterator[Stack]:
    use(folder, "gateway")
    files = ("--tls-cert", str(folder / "live/cert.pem"), "--tls-key", str(folder / "live/key.pem"))
    with running_stack(tmp_path_factory.mktemp("encrypted") / "data", "--workers", "2", *files) as stack:
        yield stack


class Writer(threading.Thread):
    """A client that writes numbered records, each when the one before is acknowledged, until it is told."""

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__()
        self.written = 0
        self.failures: list[Any] = []
        self._producer = Producer(settings)
        self._has_enough = threading.Event()

    def run(self) -> None:
        while not self._has_enough.is_set() and not self.failures:
            self._producer.produce("t", str(self.written).encode(), on_delivery=self._told)
            self._producer.flush(60)

    def _told(self, error: Any, _: Any) -> None:
        if error is None:
            self.written += 1
        else:
            self.failures.append(error)

    def goes_on(self) -> None:
        """Wait until more is written than is now."""
        before = self.written
        wait_until(lambda: bool(self.failures) or self.written > before + 3)

    def stop(self) -> None:
        self._has_enough.set()
        self.join(60)


def shown(bootstrap: str) -> str:
    """Whose certificate a client is shown that comes now."""
    host, _, port = bootstrap.rpartition(":")
    context = ssl.create_default_context(cafile=AUTHORITY)
    with (
        create_connection((host, int(port)), 30) as raw,
        context.wrap_socket(raw, server_hostname=host) as tls,
    ):
        found: Any = tls.getpeercert()
    return str(found["subject"][0][0][1])


def shown_by_all(bootstrap: str, name: str) -> bool:
    """Whether several connections in a row get it: workers share the port, each looks for itself."""
    return all(shown(bootstrap) == name for _ in range(8))


def of_certificates(stack: Stack) -> tuple[int, list[dict[str, Any]]]:
    """Doctor's exit code and findings."""
    ran = portico(stack, "doctor", "--json")
    return ran.returncode, [one for one in json.loads(ran.stdout) if one["subject"] == "certificate"]


def test_certificates_are_exchanged_while_clients_write(
    encrypted: Stack, folder: Path, tmp_path: Path
) -> None:
    ways = ("--listener", "plain", "--listener", "sasl_ssl")
    made = answer(encrypted, "instance", "create", "safe", *RATES, "--whitelist", "127.0.0.1/32", *ways)
    by_way = {one["security_protocol"]: one["bootstrap_servers"] for one in made["endpoints"]}
    encrypted.api("POST", f"instances/{made['id']}/topics", {"name": "t", "partitions": 1})
    file = tmp_path / "password"
    file.write_text(PASSWORD)
    answer(encrypted, "user", "create", "safe", "app", "--password-file", str(file))
    wait_until(lambda: encrypted.api("GET", f"instances/{made['id']}/users")["items"][0]["applied"])
    settings = {
        "bootstrap.servers": by_way["sasl_ssl"],
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(AUTHORITY),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "app",
        "sasl.password": PASSWORD,
    }
    writer = Writer(settings)
    writer.start()
    try:
        for name in ("gateway_2", "gateway"):
            writer.goes_on()
            use(folder, name)
            wait_until(lambda name=name: shown_by_all(by_way["sasl_ssl"], name.replace("_", "-")))
            code, findings = of_certificates(encrypted)
            assert code == 0 and {one["level"] for one in findings} == {"ok"}, findings
        use(folder, "expired")
        code, findings = of_certificates(encrypted)
        assert code == 1 and any("has ended" in one["found"] for one in findings), findings
        writer.goes_on()
        assert shown_by_all(by_way["sasl_ssl"], "gateway"), "the one before is in use"
        use(folder, "gateway")
        writer.goes_on()
    finally:
        writer.stop()
    assert not writer.failures
    closed = encrypted.api("GET", f"instances/{made['id']}/refusals")["closed"]
    assert set(closed) <= {"client_closed", "client_reset"}, "nobody's connection ended for it"
    came = read_all(settings, writer.written)
    assert came == [str(number).encode() for number in range(writer.written)]


def read_all(settings: dict[str, Any], count: int) -> list[bytes]:
    """The first so many records, by a client of TLS that is new."""
    consumer = Consumer(settings | {"group.id": "g"})
    consumer.assign([TopicPartition("t", 0, 0)])
    came: list[bytes] = []
    wait_until(lambda: came.extend(one.value() for one in consumer.consume(count, 1.0)) or len(came) >= count)
    consumer.close()
    return came
