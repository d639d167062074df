"""Brokers of Apache Kafka that a benchmark or a test kills and starts again: the peer of `bench cluster`."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from ctl.bench.process import ServerProcess
from ctl.kafka.cluster import KafkaCluster, Node, Wish, prepared
from ctl.stack.layout import Layout

_START_TIMEOUT_S: Final = 90.0
_STOP_TIMEOUT_S: Final = 20.0
_END_TIMEOUT_S: Final = 120.0
HEAP: Final = "1g"
_THREE: Final = Wish(brokers=3)
DELETED_SOON: Final = {
    "log.initial.task.delay.ms": "1000",
    "log.retention.check.interval.ms": "2000",
    "log.segment.delete.delay.ms": "1000",
}
"""What a round has deleted goes soon, for the logs are in memory."""


class KafkaBroker(ServerProcess):
    """One JVM."""

    def __init__(self, cluster: KafkaCluster, node: Node, heap: str) -> None:
        self.node_id = node.node_id
        self.directory = cluster.node_directory(node)
        self.secured_port = node.secured_port
        super().__init__(
            f"Apache Kafka {node.node_id}",
            node.port,
            cluster.command(node, heap),
            self.directory / "server.log",
            directory=self.directory,
            start_timeout_s=_START_TIMEOUT_S,
            stop_timeout_s=_STOP_TIMEOUT_S,
            end_timeout_s=_END_TIMEOUT_S,
        )


@contextmanager
def kafka_cluster(
    directory: Path,
    wish: Wish = _THREE,
    settings: Mapping[str, str] | None = None,
    heap: str = HEAP,
) -> Iterator[list[KafkaBroker]]:
    """A running cluster. Raises: CommandError."""
    cluster = prepared(Layout(directory), wish, settings=settings)
    nodes = [KafkaBroker(cluster, node, heap) for node in cluster.nodes]
    with ExitStack() as stopping:
        for broker in nodes:
            stopping.callback(broker.stop)
            broker.start()
        stopping.callback(_tell_all, nodes)
        for broker in nodes:
            broker.until_serving()
        cluster.let_in()
        yield nodes


def _tell_all(brokers: list[KafkaBroker]) -> None:
    """To stop, before any is waited for: the last ones would wait for the votes of those that are gone."""
    for broker in brokers:
        if broker.process is not None:
            broker.process.terminate()
