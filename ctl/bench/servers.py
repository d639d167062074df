"""Processes that a benchmark measures: broker, gateway, relay and floor, each on a port of its own."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from contracts.specs import BrokerAddress, ClusterSpec, InstanceSpec, InstanceState, Limits, Listener
from ctl.errors import CommandError
from ctl.stack.layout import free_port, is_free

INSTANCE_ID: Final = "ibenchbench2"
_START_TIMEOUT_S: Final = 30.0
_CLUSTER_ID: Final = "bench"


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


@contextmanager
def _process(name: str, command: list[str], directory: Path, port: int) -> Iterator[Server]:
    with (directory / f"{name}.log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "-m", *command], stdout=log, stderr=log)
        try:
            _wait(process, name, port, directory)
            yield Server(process.pid, port)
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(process: "subprocess.Popen[bytes]", name: str, port: int, directory: Path) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while is_free(port):
        if process.poll() is not None or time.monotonic() > deadline:
            end = (directory / f"{name}.log").read_text(errors="replace")[-2000:]
            raise CommandError(f"{name} did not start:\n{end}")
        time.sleep(0.02)


@contextmanager
def broker(directory: Path, *arguments: str) -> Iterator[Server]:
    """A broker of its own, without control plane."""
    port = free_port()
    command = [
        "broker",
        "--node-id",
        "1",
        "--cluster-id",
        _CLUSTER_ID,
        "--data-dir",
        str(directory / "broker"),
    ]
    with _process(
        "broker", [*command, "--listen", f"127.0.0.1:{port}", *arguments], directory, port
    ) as server:
        yield server


@contextmanager
def gateway(
    directory: Path, broker_port: int, instance_id: str = INSTANCE_ID, secret_file: Path | None = None
) -> Iterator[Server]:
    """One gateway worker with one instance: mapping, whitelist and metering on."""
    port, node_port = free_port(), free_port()
    own = directory / f"gateway-{instance_id}"
    own.mkdir()
    specs = own / "specs.json"
    specs.write_bytes(msgspec.json.encode(_specs(instance_id, port, node_port, broker_port)))
    command = ["gateway", "--name", "gateway-0", "--specs", str(specs), "--state-dir", str(own / "state")]
    table = ["--shared-table", str(own / "connections.table")]
    secret = [] if secret_file is None else ["--secret-file", str(secret_file)]
    with _process("gateway", [*command, *table, *secret], own, port) as server:
        yield server


def _specs(instance_id: str, port: int, node_port: int, broker_port: int) -> dict[str, Any]:
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
    port = free_port()
    with _process("relay", ["ctl.bench.relay", str(port), str(target_port)], directory, port) as server:
        yield server


@contextmanager
def floor(directory: Path, batch_at: int, answer_size: int, stored_bytes: int = 0) -> Iterator[Server]:
    """The floor loop; see `ctl.bench.floor`."""
    port = free_port()
    numbers = [str(batch_at), str(answer_size), str(stored_bytes)]
    command = ["ctl.bench.floor", str(port), str(directory), *numbers]
    with _process(f"floor-{stored_bytes}", command, directory, port) as server:
        yield server


def write_results(path: Path, results: dict[str, Any]) -> None:
    """The results as JSON."""
    path.write_text(json.dumps(results, indent=2) + "\n")
