"""How long a cluster does not acknowledge when a broker dies or leaves, and how fast one catches up."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Final, NamedTuple

from ctl.bench import load
from ctl.bench.cluster_load import produce
from ctl.bench.load import Endpoint
from ctl.bench.peers import Peer, look, until_agreed, until_in_sync, until_led

_RETRY_S: Final = 0.01
_SETTLE_S: Final = 1.0
_TIMEOUT_S: Final = 120.0
_ATTEMPT_TIMEOUT_S: Final = 1.0
_SMALL: Final = 1_000


class Prober:
    """Produces one small acks=all record after another to one partition, wherever its leader is."""

    def __init__(self, peer: Peer, topic: str, partition: int) -> None:
        self._peer = peer
        self._topic = topic
        self._frame = load.produce_frames(topic, load.workload(_SMALL), partition + 1)[partition]
        self._partition = partition
        self._stopping = threading.Event()
        self.acknowledged_s: list[float] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            leader = self._leader()
            if leader is None:
                time.sleep(_RETRY_S)
                continue
            try:
                with load.connected(leader) as client:
                    client.socket.settimeout(_ATTEMPT_TIMEOUT_S)
                    self._produce(client)
            except (OSError, RuntimeError):
                time.sleep(_RETRY_S)

    def _produce(self, client: load.Client) -> None:
        while not self._stopping.is_set():
            load.check_produced(client, self._frame)
            self.acknowledged_s.append(time.perf_counter())
            time.sleep(_RETRY_S)

    def _leader(self) -> Endpoint | None:
        for node_id in self._peer.nodes:
            try:
                view = look(self._peer.endpoint(node_id), self._topic)
            except (OSError, RuntimeError, IndexError):
                continue
            partition = view.partitions.get(self._partition)
            if partition is not None and partition.leader in self._peer.nodes:
                return self._peer.endpoint(partition.leader)
        return None

    def gap_s(self, since_s: float) -> float:
        """The longest time without an acknowledgement around and after a moment."""
        times = [at for at in self.acknowledged_s if at >= since_s - _SETTLE_S]
        return max((after - before for before, after in pairwise(times)), default=0.0)

    def until_acknowledged(self, since_s: float) -> None:
        """Wait for an acknowledgement some time after a moment. Raises: RuntimeError."""
        deadline = time.monotonic() + _TIMEOUT_S
        while time.monotonic() < deadline:
            if self.acknowledged_s and self.acknowledged_s[-1] > since_s + _SETTLE_S:
                return
            time.sleep(0.05)
        raise RuntimeError(f"nothing was acknowledged for {_TIMEOUT_S:.0f} s")

    def close(self) -> None:
        """Stop producing."""
        self._stopping.set()
        self._thread.join()


class Outage(NamedTuple):
    """What a producer saw of one death."""

    gap_s: float
    """The longest time between two acknowledgements."""
    discovered_to_acknowledged_s: float | None
    """From the end of the broker's node in ZooKeeper to the next acknowledgement, where there is one."""


def leader_outage(peer: Peer, topic: str, partitions: int, number: signal.Signals) -> Outage:
    """The leader of partition 0 gets a signal under load; it is started again when all is measured."""
    leader = until_agreed(peer, topic, partitions).partitions[0].leader
    with _node_watched(peer, f"/brokers/ids/{leader}") as ended_s:
        prober = Prober(peer, topic, 0)
        try:
            prober.until_acknowledged(time.perf_counter() - _SETTLE_S)
            time.sleep(_SETTLE_S)
            struck_s = time.perf_counter()
            os.kill(peer.nodes[leader].pid, number)
            time.sleep(_SETTLE_S)
            prober.until_acknowledged(struck_s + _SETTLE_S)
        finally:
            prober.close()
        after = [at for at in prober.acknowledged_s if ended_s and at > ended_s[0]]
        discovered = after[0] - ended_s[0] if after else None
    restart(peer, leader, topic)
    return Outage(prober.gap_s(struck_s), discovered)


@contextmanager
def _node_watched(peer: Peer, path: str) -> Iterator[list[float]]:
    """The moment at which a node of ZooKeeper ends, once it has."""
    ended_s: list[float] = []
    if peer.zookeeper is None:
        yield ended_s
        return
    from kazoo.client import KazooClient

    from runtime.tree.access import Access

    client = KazooClient(peer.zookeeper, auth_data=Access(peer.secret).credentials)
    client.start()
    try:
        client.exists(path, watch=lambda _event: ended_s.append(time.perf_counter()))
        yield ended_s
    finally:
        client.stop()
        client.close()


def restart(peer: Peer, node_id: int, topic: str) -> None:
    """Start a stopped node and wait until it is in every ISR again."""
    node = peer.nodes[node_id]
    node.start()
    node.until_serving()
    until_in_sync(peer.endpoint(node_id), topic, len(peer.nodes))


def controller_failover(peer: Peer, topic: str, partitions: int) -> tuple[float, float | None]:
    """Seconds from kill -9 of the controller, and from the end of /controller, until all is led again."""
    controller = look(peer.any_endpoint, topic).controller
    other = next(node for node in peer.nodes if node != controller)
    with _node_watched(peer, "/controller") as ended_s:
        os.kill(peer.nodes[controller].pid, signal.SIGKILL)
        struck_s = time.perf_counter()
        until_led(peer.endpoint(other), topic, partitions, dead=controller)
        led_s = time.perf_counter()
    restart(peer, controller, topic)
    return led_s - struck_s, led_s - ended_s[0] if ended_s else None


class Restart(NamedTuple):
    """How long each part of stopping and starting a whole cluster took."""

    stopped_s: float
    led_s: float
    in_sync_s: float


def restart_all(peer: Peer, topic: str, partitions: int) -> Restart:
    """Stop every broker and start them again. Raises: RuntimeError, TimeoutExpired."""
    began_s = time.perf_counter()
    for node in peer.nodes.values():
        os.kill(node.pid, signal.SIGTERM)
    for node in peer.nodes.values():
        node.until_ended()
    ended_s = time.perf_counter()
    for node in peer.nodes.values():
        node.start()
    until_led(peer.any_endpoint, topic, partitions)
    led_s = time.perf_counter()
    until_in_sync(peer.any_endpoint, topic, len(peer.nodes))
    return Restart(ended_s - began_s, led_s - ended_s, time.perf_counter() - ended_s)


def catch_up_bytes_per_s(peer: Peer, topic: str, partitions: int, total_bytes: int) -> float:
    """Stop a follower, store bytes without it, start it: bytes per second until it is in every ISR."""
    work = load.workload(1_000_000)
    stopped = max(peer.nodes)
    node = peer.nodes[stopped]
    os.kill(node.pid, signal.SIGTERM)
    rest = Peer(peer.name, {k: v for k, v in peer.nodes.items() if k != stopped}, peer.secret, ())
    until_led(rest.any_endpoint, topic, partitions, dead=stopped)
    until_in_sync(rest.any_endpoint, topic, len(rest.nodes))
    produce(rest, topic, work, partitions, total_bytes, window=4)
    node.start()
    node.until_serving()
    started_s = time.perf_counter()
    until_in_sync(rest.any_endpoint, topic, len(peer.nodes))
    return total_bytes / (time.perf_counter() - started_s)
