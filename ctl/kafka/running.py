"""The processes of an Apache Kafka on a data directory, supervised like a stack's."""

import asyncio
import contextlib
import fcntl
import socket
from pathlib import Path
from typing import Final, NamedTuple, TextIO

from kio.schema.metadata.v8.request import MetadataRequest

from contracts.units import counted
from ctl.errors import CommandError
from ctl.installation import CALLED
from ctl.kafka.cluster import KafkaCluster, Node, node_ports
from ctl.kafka.entry import client_arguments
from ctl.stack.children import Child, ChildSpec
from ctl.stack.holding import hold
from ctl.stack.layout import Layout
from ctl.stack.steps import Teller, told_again, until_all_serve
from runtime.clock import monotonic_ms
from runtime.kafka_client import KafkaConnection, KafkaUnavailable

_HEAP: Final = "512m"
_STOP_GRACE_S: Final = 20.0
_LET_GO_S: Final = 30.0
_WHOLE_TIMEOUT_MS: Final = 60_000
_ASK_EVERY_S: Final = 0.2
_ASK_TIMEOUT_S: Final = 3.0
_CLIENT_ID: Final = "portico-kafka"


class NodeState(NamedTuple):
    """A node as it is seen from outside."""

    node_id: int
    address: str
    known: int | None
    """Brokers that it knows; None: it gives no answer."""

    @property
    def said(self) -> str:
        """For people."""
        return "no answer" if self.known is None else f"answers, knows {counted(self.known, 'broker')}"


class RunningKafka:
    """The supervisor of one cluster."""

    def __init__(self, layout: Layout, teller: Teller) -> None:
        self._layout = layout
        self._teller = teller
        self._children: list[Child] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._lock: TextIO | None = None

    def lock(self) -> None:
        """Take the data directory. Raises: CommandError."""
        self._lock = hold(self._layout, "an Apache Kafka")

    async def start(self, cluster: KafkaCluster) -> None:
        """Start all nodes; returns once they are a cluster. Raises: CommandError."""
        for node in cluster.nodes:
            await _until_let_go(cluster.node_directory(node) / "logs" / ".lock", self._teller)
            child = Child(_spec(cluster, node), self._layout, self._teller.say)
            self._children.append(child)
            self._tasks.append(asyncio.create_task(child.run(), name=node.name))
        await until_all_serve(self._children, self._teller)
        await told_again(
            _until_whole(cluster), lambda: self._teller.step("waiting until all brokers know each other")
        )
        await asyncio.to_thread(cluster.let_in)
        self._teller.clear()

    async def stop(self) -> None:
        """Stop all nodes at once: each waits for the others' votes as it goes."""
        await asyncio.gather(*(child.stop(_STOP_GRACE_S) for child in self._children))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with contextlib.suppress(FileNotFoundError):
            self._layout.run_file("supervisor").unlink()


def _spec(cluster: KafkaCluster, node: Node) -> ChildSpec:
    command = tuple(cluster.command(node, _HEAP))
    return ChildSpec(node.name, command, cluster.node_directory(node), lambda: _listens(node.port))


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


async def _until_let_go(lock: Path, teller: Teller) -> None:
    """A node of a supervisor that was killed ends by itself, and holds its logs until then."""
    deadline_ms = monotonic_ms() + round(_LET_GO_S * 1000)
    is_told = False
    while await asyncio.to_thread(_is_locked, lock):
        if monotonic_ms() > deadline_ms:
            raise CommandError(f"another process holds {lock.parent}: stop it, and start again")
        if not is_told:
            teller.step("waiting for the nodes of a supervisor that was killed to end")
            is_told = True
        await asyncio.sleep(_ASK_EVERY_S)


def _is_locked(path: Path) -> bool:
    """Whether a JVM has Java's kind of lock on a file."""
    try:
        with path.open("r+") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


async def _until_whole(cluster: KafkaCluster) -> None:
    """Every broker knows as many as there are. Raises: CommandError."""
    deadline_ms = monotonic_ms() + _WHOLE_TIMEOUT_MS
    for node in cluster.nodes:
        while await brokers_known(node.port) != len(cluster.nodes):
            if monotonic_ms() > deadline_ms:
                raise CommandError(f"{node.name} does not know all brokers of its cluster; its log says why")
            await asyncio.sleep(_ASK_EVERY_S)


def greeting(cluster: KafkaCluster, end: str) -> str:
    """What people are told once it serves; `end` says how it stops."""
    lines = [f"Apache Kafka {cluster.version} serves.", "", f"  bootstrap  {cluster.bootstrap}"]
    following = f"up --backend {cluster.bootstrap}"
    if cluster.entry:
        lines.append(f"  {cluster.entry.protocol:<9}  {cluster.secured_bootstrap}")
        arguments = client_arguments(cluster.entry, cluster.credentials)
        following = f"cluster add far --bootstrap {cluster.secured_bootstrap} {arguments}"
    lines += [f"  data       {cluster.directory}", "", "Next:", "", f"  {CALLED} {following}", "", end]
    return "\n".join(["", *lines])


async def brokers_known(port: int) -> int | None:
    """How many brokers the one at a port of this machine knows; None: it gives no answer."""
    try:
        connection = await KafkaConnection.open(
            "127.0.0.1", port, client_id=_CLIENT_ID, timeout_s=_ASK_TIMEOUT_S
        )
    except KafkaUnavailable:
        return None
    try:
        request = MetadataRequest(
            topics=(),
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        return len((await connection.call(request, timeout_s=_ASK_TIMEOUT_S)).brokers)
    except KafkaUnavailable:
        return None
    finally:
        connection.close()


async def states(layout: Layout, brokers: int) -> list[NodeState]:
    """Whether each node of a directory's cluster answers."""
    ports = node_ports(layout, brokers, "kafka")
    known = await asyncio.gather(*(brokers_known(port) for port in ports.values()))
    return [
        NodeState(node_id, f"127.0.0.1:{port}", count)
        for (node_id, port), count in zip(ports.items(), known, strict=True)
    ]
