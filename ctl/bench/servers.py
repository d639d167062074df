"""Processes that a benchmark measures: broker, gateway, relay and floor, each on a port of its own."""

import datetime
import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from contracts.specs import BrokerAddress, ClusterSpec, InstanceSpec, InstanceState, Limits, Listener
from contracts.users import SecurityProtocol
from ctl.bench.process import ServerProcess, running
from ctl.console_client import Console
from ctl.stack.layout import Layout, free_port
from ctl.stack.own_stack import own_environment, started
from ctl.stack.processes import CLUSTER_ID
from runtime.process import write_file

INSTANCE_ID: Final = "ibenchbench2"
_CLUSTER_ID: Final = "bench"
_BOUGHT: Final = {
    "produce_rate_bytes_per_s": 10**12,
    "consume_rate_bytes_per_s": 10**12,
    "capacity_bytes": 10**15,
}
_ORDER: Final = {
    **_BOUGHT,
    "name": "bench",
    "whitelist": ["127.0.0.0/8"],
    "security_protocols": [SecurityProtocol.PLAIN, SecurityProtocol.TLS],
    "limits": {"connections_max": 50_000, "connections_per_ip_max": 50_000, "connection_rate_max": 100_000},
}

_MEMORY_DIR: Final = Path("/dev/shm")


def scratch_parent(needed_bytes: int) -> str | None:
    """Where a benchmark keeps its logs: in memory where there is room, so that no disk is measured."""
    if _MEMORY_DIR.is_dir() and shutil.disk_usage(_MEMORY_DIR).free > needed_bytes:
        return str(_MEMORY_DIR)
    return None


class Server(NamedTuple):
    """A running process and the port its clients use."""

    pid: int
    port: int


class Stack(NamedTuple):
    """A running stack with one instance."""

    broker: Server
    gateway: Server
    """Its port is the instance's."""
    tls_port: int
    """The instance's with TLS."""
    secret: str
    instance_id: str


@contextmanager
def _process(name: str, command: list[str], directory: Path, port: int) -> Iterator[Server]:
    command = [sys.executable, "-m", "runtime.start", *command]
    with running(ServerProcess(name, port, command, directory / f"{name}.log")) as process:
        yield Server(process.pid, port)


@contextmanager
def stack(data_dir: Path, *more: str) -> Iterator[Stack]:
    """What `portico up` starts with one gateway worker, and an instance that no limit of its own holds up."""
    arguments = ("--console", f"127.0.0.1:{free_port()}", "--metrics", "127.0.0.1:0", "--workers", "1", *more)
    certificate = data_dir.with_name(f"{data_dir.name}.pem")
    write_file(certificate, _certificate())
    arguments += ("--tls-cert", str(certificate), "--tls-key", str(certificate))
    with started(data_dir, *arguments, variables=own_environment()), Console.of(data_dir) as console:
        for who in ("tenants/default", f"clusters/{CLUSTER_ID}"):
            console.call("PATCH", f"{who}/ceilings", _BOUGHT)
        made = console.wait_until_serving(console.call("POST", "instances", _ORDER)["id"])
        layout = Layout(data_dir)
        facts = json.loads(layout.stack_file.read_text())
        [broker], [gateway_pid] = facts["brokers"], facts["pids"]["gateways"]
        ports = {each["security_protocol"]: _first_port(each) for each in made["endpoints"]}
        yield Stack(
            Server(broker["pid"], broker["port"]),
            Server(gateway_pid, ports[SecurityProtocol.PLAIN]),
            ports[SecurityProtocol.TLS],
            layout.ensure_secret(),
            made["id"],
        )


def _first_port(endpoint: dict[str, str]) -> int:
    return int(endpoint["bootstrap_servers"].partition(",")[0].rpartition(":")[2])


def _certificate() -> bytes:
    """A key and what it certifies by itself, for a day. Nobody checks it here."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "portico bench")])
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - day)
        .not_valid_after(now + day)
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pem + certificate.public_bytes(Encoding.PEM)


@contextmanager
def broker(directory: Path) -> Iterator[Server]:
    """A broker of its own, without control plane."""
    port = free_port()
    command = ["broker", "--cluster-id", _CLUSTER_ID, "--data-dir", str(directory / "broker")]
    with _process("broker", [*command, "--listen", f"127.0.0.1:{port}"], directory, port) as server:
        yield server


@contextmanager
def gateway(directory: Path, broker_port: int, instance_id: str = INSTANCE_ID) -> Iterator[Server]:
    """One gateway worker with one instance, without control plane: mapping, whitelist and metering on."""
    port, node_port = free_port(), free_port()
    own = directory / f"gateway-{instance_id}"
    own.mkdir()
    specs = own / "specs.json"
    specs.write_bytes(msgspec.json.encode(_specs(instance_id, port, node_port, broker_port)))
    command = ["gateway", "--name", "gateway-0", "--specs", str(specs), "--state-dir", str(own / "state")]
    table = ["--shared-table", str(own / "connections.table")]
    with _process("gateway", [*command, *table], own, port) as server:
        yield server


def _specs(instance_id: str, port: int, node_port: int, broker_port: int) -> dict[str, object]:
    def listener(node_id: int | None, at: int) -> Listener:
        return Listener(node_id=node_id, bind_host="127.0.0.1", advertised_host="127.0.0.1", port=at)

    instance = InstanceSpec(
        revision=1,
        instance_id=instance_id,
        tenant="bench",
        name="bench",
        state=InstanceState.ACTIVE,
        cluster_id=_CLUSTER_ID,
        produce_rate_bytes_per_s=10**12,
        consume_rate_bytes_per_s=10**12,
        capacity_bytes=10**15,
        limits=Limits(connections_max=50_000, connections_per_ip_max=50_000, connection_rate_max=100_000),
        whitelist=("127.0.0.0/8",),
        listeners=(listener(None, port), listener(1, node_port)),
    )
    address = BrokerAddress(node_id=1, host="127.0.0.1", port=broker_port)
    cluster = ClusterSpec(revision=1, cluster_id=_CLUSTER_ID, brokers=(address,))
    return {"instances": [instance], "clusters": [cluster]}


@contextmanager
def relay(directory: Path, target_port: int) -> Iterator[Server]:
    """The bare relay."""
    with _relay("relay", directory, target_port) as server:
        yield server


@contextmanager
def epoll_relay(directory: Path, target_port: int) -> Iterator[Server]:
    """The one that is barer still."""
    with _relay("epoll_relay", directory, target_port) as server:
        yield server


@contextmanager
def _relay(name: str, directory: Path, target_port: int) -> Iterator[Server]:
    port = free_port()
    with _process(name, [f"ctl.bench.{name}", str(port), str(target_port)], directory, port) as server:
        yield server


@contextmanager
def floor(directory: Path, batch_at: int, answer_size: int, stored_bytes: int = 0) -> Iterator[Server]:
    """The floor loop; see `ctl.bench.floor`."""
    port = free_port()
    numbers = [str(batch_at), str(answer_size), str(stored_bytes)]
    command = ["ctl.bench.floor", str(port), str(directory), *numbers]
    with _process(f"floor-{stored_bytes}", command, directory, port) as server:
        yield server


def write_results(path: Path, results: dict[str, object]) -> None:
    """The results as JSON."""
    path.write_text(json.dumps(results, indent=2) + "\n")
