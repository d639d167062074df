"""What `bench cluster` needs of a cluster, ours or Apache Kafka's: addresses, processes, who leads what."""

import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol

import kio.schema.metadata.v7.request as metadata_v7

from ctl.bench import load
from ctl.bench.load import Endpoint
from ctl.bench.measure import cpu_seconds, rss_bytes

_METADATA: Any = metadata_v7
_LED_TIMEOUT_S: Final = 120.0


class Node(Protocol):
    """One broker process that can be killed and started again."""

    node_id: int
    port: int

    @property
    def pid(self) -> int:
        """The id of the running process."""

    def start(self) -> None:
        """Start the process, once the one before has ended."""

    def until_ended(self) -> None:
        """Wait for the end of a process that was told to stop. Raises: TimeoutExpired."""

    def until_serving(self) -> None:
        """Wait until its port answers. Raises: CommandError."""


class Peer(NamedTuple):
    """A running cluster. `helpers` are processes beside the brokers (ZooKeeper): CPU counts, memory not."""

    name: str
    nodes: Mapping[int, Node]
    secret: str | None = None
    helpers: tuple[int, ...] = ()
    zookeeper: str | None = None
    """HOST:PORT, where the cluster has one: a death can be told from its discovery."""

    def endpoint(self, node_id: int) -> Endpoint:
        """Where a node is reached."""
        return Endpoint(self.nodes[node_id].port, self.secret)

    @property
    def any_endpoint(self) -> Endpoint:
        """An address of the first node."""
        return self.endpoint(min(self.nodes))

    def cpu_seconds(self) -> float:
        """CPU time of all processes together."""
        pids = [node.pid for node in self.nodes.values()] + list(self.helpers)
        return sum(cpu_seconds(pid) for pid in pids)

    def rss_bytes(self) -> int:
        """Memory of all processes together."""
        pids = [node.pid for node in self.nodes.values()] + list(self.helpers)
        return sum(rss_bytes(pid) for pid in pids)


class PartitionView(NamedTuple):
    """One partition as Metadata shows it."""

    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class ClusterView(NamedTuple):
    """One broker's answer to Metadata."""

    controller: int
    partitions: dict[int, PartitionView]


def look(endpoint: Endpoint, topic: str) -> ClusterView:
    """The partitions of a topic. Raises: OSError when the broker does not answer."""
    request = _METADATA.MetadataRequest(
        topics=(_METADATA.MetadataRequestTopic(name=topic),), allow_auto_topic_creation=False
    )
    with load.connected(endpoint) as client:
        answer = client.call(request)
    return ClusterView(
        int(answer.controller_id),
        {
            int(each.partition_index): PartitionView(
                int(each.leader_id),
                tuple(int(node) for node in each.replica_nodes),
                tuple(int(node) for node in each.isr_nodes),
            )
            for each in answer.topics[0].partitions
        },
    )


def create_topic(peer: Peer, name: str, partitions: int) -> ClusterView:
    """Create a topic at the controller and wait until it is led. Raises: RuntimeError."""
    refusal: Exception | None = None
    for node_id in peer.nodes:
        try:
            load.create_topic(peer.endpoint(node_id), name, partitions)
        except RuntimeError as error:  # not the controller
            refusal = error
        else:
            return until_led(peer.endpoint(node_id), name, partitions)
    raise RuntimeError(f"{peer.name}: {refusal}")


def until_led(endpoint: Endpoint, topic: str, partitions: int, dead: int | None = None) -> ClusterView:
    """Wait until every partition has a leader that is not `dead`. Raises: RuntimeError."""
    deadline = time.monotonic() + _LED_TIMEOUT_S
    while time.monotonic() < deadline:
        try:
            view = look(endpoint, topic)
        except OSError:
            time.sleep(0.02)
            continue
        led = [each for each in view.partitions.values() if each.leader not in (-1, dead)]
        if len(led) == partitions:
            return view
        time.sleep(0.01)
    raise RuntimeError(f"not every partition of {topic} was led within {_LED_TIMEOUT_S:.0f} s")


def until_agreed(peer: Peer, topic: str, partitions: int) -> ClusterView:
    """Wait until every node names the same leaders. Raises: RuntimeError."""
    deadline = time.monotonic() + _LED_TIMEOUT_S
    while time.monotonic() < deadline:
        views = [until_led(peer.endpoint(node_id), topic, partitions) for node_id in peer.nodes]
        leaders = [[(index, each.leader) for index, each in view.partitions.items()] for view in views]
        if all(set(led) == set(leaders[0]) and all(at in peer.nodes for _, at in led) for led in leaders):
            return views[0]
        time.sleep(0.05)
    raise RuntimeError(f"the brokers did not agree on the leaders of {topic}")


def until_in_sync(endpoint: Endpoint, topic: str, size: int, timeout_s: float = 300.0) -> None:
    """Wait until every ISR of the topic has `size` members. Raises: RuntimeError."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        view = look(endpoint, topic)
        if view.partitions and all(len(each.isr) == size for each in view.partitions.values()):
            return
        time.sleep(0.02)
    raise RuntimeError(f"the replicas of {topic} were not in sync within {timeout_s:.0f} s")
