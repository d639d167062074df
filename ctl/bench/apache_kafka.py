"""Three Apache Kafka brokers (KRaft, each also a controller) on this machine: the peer of `bench cluster`."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from ctl.bench.kafka_jars import PEER_VERSION, class_path
from ctl.bench.process import ServerProcess
from ctl.errors import CommandError
from ctl.stack.layout import free_port

_CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qg"
_HEAP: Final = "1g"
_START_TIMEOUT_S: Final = 90.0
_STOP_TIMEOUT_S: Final = 20.0
_END_TIMEOUT_S: Final = 120.0
_SETTINGS: Final = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "auto.create.topics.enable": "false",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "group.initial.rebalance.delay.ms": "0",
    # what a round has deleted goes soon, for the logs are in memory
    "log.initial.task.delay.ms": "1000",
    "log.retention.check.interval.ms": "2000",
    "log.segment.delete.delay.ms": "1000",
}


class KafkaBroker(ServerProcess):
    """One JVM."""

    def __init__(self, node_id: int, port: int, directory: Path) -> None:
        self.node_id = node_id
        self.directory = directory
        super().__init__(
            f"Apache Kafka {node_id}",
            port,
            self._java(_HEAP, "kafka.Kafka", str(self._properties)),
            directory / "server.log",
            start_timeout_s=_START_TIMEOUT_S,
            stop_timeout_s=_STOP_TIMEOUT_S,
            end_timeout_s=_END_TIMEOUT_S,
        )

    def configure(self, controller_ports: dict[int, int]) -> None:
        """Write server.properties and format the log directory. Raises: CommandError."""
        voters = ",".join(f"{node}@127.0.0.1:{port}" for node, port in controller_ports.items())
        own = {
            "node.id": str(self.node_id),
            "controller.quorum.voters": voters,
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},"
            f"CONTROLLER://127.0.0.1:{controller_ports[self.node_id]}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "log.dirs": str(self.directory / "logs"),
        }
        self.directory.mkdir(parents=True)
        lines = [f"{name}={value}\n" for name, value in (_SETTINGS | own).items()]
        self._properties.write_text("".join(lines))
        arguments = ["format", "-t", _CLUSTER_ID, "-c", str(self._properties)]
        done = subprocess.run(
            self._java("256m", "kafka.tools.StorageTool", *arguments),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode != 0:
            raise CommandError(f"Apache Kafka's storage cannot be formatted: {done.stdout}{done.stderr}")

    @property
    def _properties(self) -> Path:
        return self.directory / "server.properties"

    def _java(self, heap: str, main_class: str, *arguments: str) -> list[str]:
        flags = [f"-Xmx{heap}", f"-Xms{heap}", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"]
        return ["java", *flags, "-cp", class_path(PEER_VERSION), main_class, *arguments]


@contextmanager
def kafka_cluster(directory: Path, nodes: int = 3) -> Iterator[list[KafkaBroker]]:
    """A running cluster. Raises: CommandError."""
    brokers = [KafkaBroker(node, free_port(), directory / f"kafka-{node}") for node in range(1, nodes + 1)]
    controllers = {broker.node_id: free_port() for broker in brokers}
    for broker in brokers:
        broker.configure(controllers)
    with ExitStack() as stopping:
        for broker in brokers:
            stopping.callback(broker.stop)
            broker.start()
        for broker in brokers:
            broker.until_serving()
        yield brokers
