"""A storm of connections is accepted a quantum at a time: nobody else waits for the whole of it."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from contracts.quota import NO_NODE
from contracts.specs import InstanceSpec, InstanceState, Listener
from gateway.config import GatewayConfig
from gateway.listeners import ListenerSet
from gateway.otlp import read_metrics
from gateway.rules.client_metrics import ClientMetrics
from gateway.rules.logins import Logins
from gateway.served import ServedInstance
from runtime.clock import Clock
from runtime.network import KERNEL_NETWORK
from runtime.pacing import Pacing
from traffic.point import TrafficPoint
from traffic.turns import QUANTUM_ALONE_NS

ACCEPT_NS = QUANTUM_ALONE_NS // 4
CONNECTIONS = 20


class StandingLoop:
    """A loop whose turns come when they are asked for."""

    def __init__(self) -> None:
        self.readers: dict[int, tuple[Callable[..., None], tuple[Any, ...]]] = {}
        self.soon: list[Callable[[], None]] = []

    def add_reader(self, descriptor: int, callback: Callable[..., None], *arguments: Any) -> None:
        self.readers[descriptor] = callback, arguments

    def remove_reader(self, descriptor: int) -> None:
        self.readers.pop(descriptor, None)

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def turn(self) -> None:
        """What a poll of sockets with connections in them calls, or else what waits for its turn."""
        ready, self.soon = self.soon, []
        for callback, arguments in tuple(self.readers.values()):
            callback(*arguments)
        for step in ready:
            step()


class StormWorker:
    """What listeners need of a worker; accepting costs time on a clock of its own."""

    def __init__(self, loop: Any) -> None:
        self.loop = loop
        self.now_ns = 0
        self.now_ms = 0
        point = TrafficPoint(point="g", node_id=NO_NODE, cluster_id="", boot_id="b", now_ms=0)
        self.clock = Clock(
            monotonic_ns=lambda: self.now_ns, cpu_ns=lambda: self.now_ns, monotonic_ms=lambda: 0
        )
        self.pacing = Pacing(loop, point, clock=self.clock)
        self.network = KERNEL_NETWORK
        self.config = GatewayConfig(name="gateway-0")
        self.served: dict[str, Any] = {}
        self.accepted: list[socket.socket] = []

    def join(self, spec: InstanceSpec) -> ServedInstance:
        logins = Logins(b"secret", bytes, lambda: 0)
        served = self.served[spec.instance_id] = ServedInstance(
            spec,
            self.pacing.join(spec.instance_id),
            logins,
            ClientMetrics(bytes, read_metrics),
            now_ms=0,
        )
        return served

    def lacks_certificate(self, _listener: Listener) -> str:
        return ""

    def leave(self, served: ServedInstance) -> None:
        self.pacing.leave(served.turn)
        del self.served[served.instance_id]

    def accept(self, _served: Any, _listener: Listener, sock: socket.socket, *_peer: Any) -> None:
        self.now_ns += ACCEPT_NS
        self.accepted.append(sock)


@pytest.fixture
def worker() -> Iterator[StormWorker]:
    worker = StormWorker(StandingLoop())
    yield worker
    for sock in worker.accepted:
        sock.close()


async def test_one_turn_accepts_a_quantum_and_the_next_ones_the_rest(worker: StormWorker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    spec = InstanceSpec(
        revision=1,
        instance_id="iaaaaaaaaaaa",
        tenant="t",
        name="n",
        state=InstanceState.ACTIVE,
        cluster_id="c",
        produce_rate_bytes_per_s=10**6,
        consume_rate_bytes_per_s=10**6,
        capacity_bytes=10**9,
        request_percent=100,
        listeners=(Listener(node_id=None, bind_host="127.0.0.1", advertised_host="localhost", port=port),),
        allow_all=True,
    )
    listeners = ListenerSet(worker)  # type: ignore[arg-type]
    listeners.apply(spec)
    clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(CONNECTIONS)]
    try:
        by_turn = []
        while len(worker.accepted) < CONNECTIONS:
            before = len(worker.accepted)
            worker.loop.turn()
            by_turn.append(len(worker.accepted) - before)
            assert len(by_turn) < 10 * CONNECTIONS
            await asyncio.sleep(0)
        assert max(by_turn) <= QUANTUM_ALONE_NS // ACCEPT_NS + 1
    finally:
        for client in clients:
            client.close()
        for served in tuple(worker.served.values()):
            served.connections.clear()
        listeners.close()
