"""Three of our brokers over ZooKeeper on this machine, without control plane."""

import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from ctl.bench.peers import Peer
from ctl.errors import CommandError
from ctl.stack.layout import free_port
from ctl.stack.zookeeper import is_serving, server_command

_START_TIMEOUT_S: Final = 30.0
_STOP_TIMEOUT_S: Final = 60.0
SESSION_TIMEOUT_MS: Final = 6_000


class PorticoBroker:
    """One broker process."""

    def __init__(self, node_id: int, directory: Path, zookeeper: str, session_timeout_ms: int) -> None:
        self.node_id = node_id
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self._log = directory / f"broker-{node_id}.log"
        self._arguments = [
            *("--node-id", str(node_id), "--cluster-id", "bench"),
            *("--data-dir", str(directory / f"broker-{node_id}"), "--listen", f"127.0.0.1:{self.port}"),
            *("--zookeeper", zookeeper, "--session-timeout-ms", str(session_timeout_ms)),
            *("--default-replication-factor", "3", "--min-insync-replicas", "2"),
            *("--secret-file", str(directory / "secret")),
        ]

    @property
    def pid(self) -> int:
        """Of the running process."""
        assert self.process is not None
        return self.process.pid

    def start(self) -> None:
        """Start the process, once the one before has ended."""
        if self.process is not None:
            self.until_ended()
        with self._log.open("ab") as log:
            command = [sys.executable, "-m", "runtime.start", "broker", *self._arguments]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def until_ended(self) -> None:
        """Wait for the end of a process that was told to stop. Raises: TimeoutExpired."""
        assert self.process is not None
        self.process.wait(_STOP_TIMEOUT_S)

    def until_serving(self) -> None:
        """Wait until the port answers. Raises: CommandError."""
        assert self.process is not None
        deadline = time.monotonic() + _START_TIMEOUT_S
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.01)
        raise CommandError(f"a broker did not start:\n{self._log.read_text(errors='replace')[-2000:]}")

    def stop(self) -> None:
        """SIGTERM, then SIGKILL."""
        if self.process is not None:
            _end(self.process)


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
        _end(process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
