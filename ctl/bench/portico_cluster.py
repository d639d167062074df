"""Three of our brokers over ZooKeeper on this machine, without control plane."""

import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from ctl.bench.peers import Peer
from ctl.bench.process import ServerProcess, end
from ctl.errors import CommandError
from ctl.stack.layout import free_port
from ctl.stack.zookeeper import is_serving, server_command

_START_TIMEOUT_S: Final = 30.0
_STOP_TIMEOUT_S: Final = 60.0
SESSION_TIMEOUT_MS: Final = 6_000


class PorticoBroker(ServerProcess):
    """One broker process."""

    def __init__(self, node_id: int, directory: Path, zookeeper: str, session_timeout_ms: int) -> None:
        self.node_id = node_id
        port = free_port()
        command = [
            *(sys.executable, "-m", "runtime.start", "broker"),
            *("--node-id", str(node_id), "--cluster-id", "bench"),
            *("--data-dir", str(directory / f"broker-{node_id}"), "--listen", f"127.0.0.1:{port}"),
            *("--zookeeper", zookeeper, "--session-timeout-ms", str(session_timeout_ms)),
            *("--default-replication-factor", "3", "--min-insync-replicas", "2"),
            *("--secret-file", str(directory / "secret")),
        ]
        super().__init__(
            "a broker",
            port,
            command,
            directory / f"broker-{node_id}.log",
            start_timeout_s=_START_TIMEOUT_S,
            stop_timeout_s=_STOP_TIMEOUT_S,
            end_timeout_s=_STOP_TIMEOUT_S,
        )


@contextmanager
def portico_cluster(
    directory: Path, nodes: int = 3, session_timeout_ms: int = SESSION_TIMEOUT_MS
) -> Iterator[Peer]:
    """A running cluster. Raises: CommandError."""
    secret = secrets.token_urlsafe(16)
    (directory / "secret").write_text(secret)
    with ExitStack() as stopping:
        port = free_port()
        zookeeper = stopping.enter_context(_zookeeper(directory / "zookeeper", port))
        brokers = [
            PorticoBroker(node, directory, f"127.0.0.1:{port}", session_timeout_ms)
            for node in range(1, nodes + 1)
        ]
        for broker in brokers:
            stopping.callback(broker.stop)
            broker.start()
        for broker in brokers:
            broker.until_serving()
        nodes_by_id = {broker.node_id: broker for broker in brokers}
        yield Peer("portico", nodes_by_id, secret, (zookeeper.pid,), f"127.0.0.1:{port}")


@contextmanager
def _zookeeper(directory: Path, port: int) -> "Iterator[subprocess.Popen[bytes]]":
    command = server_command(directory, port)
    with (directory / "server.log").open("ab") as log:
        process = subprocess.Popen(command, cwd=directory, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not is_serving("127.0.0.1", port):
            if process.poll() is not None or time.monotonic() > deadline:
                log_text = (directory / "server.log").read_text(errors="replace")
                raise CommandError(f"ZooKeeper did not start:\n{log_text[-2000:]}")
            time.sleep(0.02)
        yield process
    finally:
        end(process, _STOP_TIMEOUT_S)
