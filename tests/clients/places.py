"""Where clients come in: an instance with its ways, on brokers of our own or on an Apache Kafka."""

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from ctl.bench.apache_kafka import kafka_cluster
from ctl.kafka.cluster import Wish
from tests.clients.contract import Connection, Sasl, Tls
from tests.integration.broker.fake_control import wait_until
from tests.integration.stack import Stack, running_stack
from tests.unit.gateway.tokens import AUDIENCE, ISSUER, key_set, rsa, token

CERTIFICATES: Final = Path(__file__).resolve().parents[1] / "certificates"
AUTHORITY: Final = CERTIFICATES / "authority.pem"
TLS: Final = Tls(str(AUTHORITY))
BY_CERTIFICATE: Final = Tls(str(AUTHORITY), str(CERTIFICATES / "app.pem"), str(CERTIFICATES / "app.key"))
USER: Final = "app"
PASSWORD: Final = "a password of the app"
SCRAM: Final = "SCRAM-SHA-512"
WAYS: Final = ("plain", "sasl_ssl")
BUILT_IN, APACHE = "our brokers", "Apache Kafka"
BACKENDS: Final = (BUILT_IN, APACHE)
_BROKERS: Final = 3
_PROTOCOLS: Final = ("plain", "tls", "sasl_ssl")
FEW: Final = {"offsets.topic.num.partitions": "5", "transaction.state.log.num.partitions": "5"}
_TOKEN_S: Final = 3_600


class Place:
    """A stack that has clients, and where its brokers keep their logs."""

    def __init__(self, stack: Stack, logs: Path) -> None:
        self.stack = stack
        self._logs = logs

    def logs(self, instance: str, topic: str, partition: int) -> list[Path]:
        """The directories of one partition, a replica each. Others' may be deleted meanwhile."""
        wanted = f"{instance}.{topic}-{partition}"
        return sorted(Path(one, wanted) for one, names, _ in os.walk(self._logs) if wanted in names)

    def instance(self, name: str, *protocols: str) -> "Instance":
        """A new one; unless only these ways are wanted, with all of them, a user and a provider of tokens."""
        made = self.stack.create_instance(name, security_protocols=protocols or _PROTOCOLS)
        if protocols:
            return Instance(self, made)
        path = f"instances/{made['id']}"
        self.stack.api("POST", f"{path}/users", {"name": USER, "password": PASSWORD})
        keys = {"issuer": ISSUER, "audience": AUDIENCE, "jwks": key_set_of_provider()}
        self.stack.api("PUT", f"{path}/oauth", keys)
        wait_for_users(self.stack, path)
        wait_until(lambda: self.stack.api("GET", f"{path}/oauth")["applied"])
        return Instance(self, made)


class Instance:
    """One tenant's. `connection` says how a client comes in by a way's name."""

    def __init__(self, place: Place, made: Mapping[str, Any]) -> None:
        self.place, self.id = place, str(made["id"])
        self._at = {one["security_protocol"]: one["bootstrap_servers"] for one in made["endpoints"]}

    def connection(self, way: str) -> Connection:
        """`plain`, `tls` by a certificate, `sasl_ssl` by SCRAM-SHA-512, or a mechanism by `sasl_ssl`."""
        if way == "plain":
            return Connection(self._at["plain"])
        if way == "tls":
            return Connection(self._at["tls"], BY_CERTIFICATE)
        mechanism = SCRAM if way == "sasl_ssl" else way
        login = Sasl(mechanism, USER, PASSWORD)
        if mechanism == "OAUTHBEARER":
            login = Sasl(mechanism, USER, token=token(rsa(), sub=USER, exp=int(time.time()) + _TOKEN_S))
        return Connection(self._at["sasl_ssl"], TLS, login)


def wait_for_users(stack: Stack, path: str) -> None:
    """Until gateways have all users of the instance at this path."""
    wait_until(lambda: all(one["applied"] for one in stack.api("GET", f"{path}/users")["items"]))


def key_set_of_provider() -> Any:
    """Public keys of the one whose tokens clients come with."""
    return json.loads(key_set(rsa()))


def _files() -> tuple[str, ...]:
    pem, key = CERTIFICATES / "gateway.pem", CERTIFICATES / "gateway.key"
    return ("--tls-cert", str(pem), "--tls-key", str(key), "--tls-client-ca", str(AUTHORITY))


@contextmanager
def running(backend: str, directory: Path, *, brokers: int = _BROKERS) -> Iterator[Place]:
    """A stack of its own, on the backend of this name."""
    options = ("--deletion-grace", "0", "--workers", "1", *_files())
    data = directory / "stack" / "data"
    if backend == BUILT_IN:
        count = brokers if brokers > 1 else None
        with running_stack(data, *options, brokers=count) as stack:
            yield Place(stack, data)
        return
    with kafka_cluster(directory / "kafka", Wish(brokers), settings=FEW, heap="512m") as nodes:
        at = ",".join(f"127.0.0.1:{node.port}" for node in nodes)
        with running_stack(data, "--backend", at, *options) as stack:
            yield Place(stack, directory / "kafka")
