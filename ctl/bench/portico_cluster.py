"""Three of our brokers over ZooKeeper on this machine, without control plane."""

import secrets
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from ctl.bench.peers import Peer
from ctl.bench.process import HOST, ServerProcess, running_zookeeper
from ctl.stack.layout import free_port

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
        super().__init__("a broker", port, command, directory / f"broker-{node_id}.log")


@contextmanager
def portico_cluster(
    directory: Path, nodes: int = 3, session_timeout_ms: int = SESSION_TIMEOUT_MS
) -> Iterator[Peer]:
    """A running cluster. Raises: CommandError."""
    secret = secrets.token_urlsafe(16)
    (directory / "secret").write_text(secret)
    with ExitStack() as stopping:
        zookeeper = stopping.enter_context(running_zookeeper(directory / "zookeeper"))
        hosts = f"{HOST}:{zookeeper.port}"
        brokers = [PorticoBroker(node, directory, hosts, session_timeout_ms) for node in range(1, nodes + 1)]
        for broker in brokers:
            stopping.callback(broker.stop)
            broker.start()
        for broker in brokers:
            broker.until_serving()
        nodes_by_id = {broker.node_id: broker for broker in brokers}
        yield Peer("portico", nodes_by_id, secret, (zookeeper.pid,), hosts)
