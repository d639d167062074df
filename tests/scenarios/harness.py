"""A gateway worker in the test's own loop, in front of any broker, and a client that speaks frames."""

import asyncio
import struct
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any, Final

import msgspec

from contracts.client_metrics import MetricsSubscription
from contracts.specs import BrokerAddress, ClusterSpec, InstanceSpec, InstanceState, Limits, Listener
from ctl.stack.layout import free_port
from gateway.app import Gateway
from gateway.config import GatewayConfig
from runtime.machine import THIS_MACHINE, Machine
from tests.scenarios.fake_broker import NODE_ID
from wire.codec import decode_response, framed_request

CLUSTER_ID = "c1"
A, B = "iaaaaaaaaaaa", "ibbbbbbbbbbb"
PATIENCE_S: Final = 30.0
"""For what comes at once, on a machine that has much else to do."""


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now, each another one."""
    ports: set[int] = set()
    while len(ports) < count:
        ports.add(free_port())
    return [*ports]


def instance_spec(instance_id: str, **changes: Any) -> InstanceSpec:
    """A spec with a bootstrap listener and one for the only broker, open to all."""
    if isinstance(changes.get("limits"), dict):
        changes["limits"] = Limits(**changes["limits"])
    if "listeners" not in changes:
        bootstrap, node = free_ports(2)
        changes["listeners"] = tuple(
            Listener(node_id=node_id, bind_host="127.0.0.1", advertised_host="127.0.0.1", port=port)
            for node_id, port in ((None, bootstrap), (NODE_ID, node))
        )
    fields: dict[str, Any] = {
        "revision": 1,
        "instance_id": instance_id,
        "tenant": "default",
        "name": "test",
        "state": InstanceState.ACTIVE,
        "cluster_id": CLUSTER_ID,
        "produce_rate_bytes_per_s": 10**9,
        "consume_rate_bytes_per_s": 10**9,
        "capacity_bytes": 10**10,
        "allow_all": True,
    }
    if "metric_subscriptions" in changes:
        told = changes["metric_subscriptions"]
        changes["metric_subscriptions"] = msgspec.convert(told, tuple[MetricsSubscription, ...])
    return InstanceSpec(**(fields | changes))


class RunningGateway:
    """A gateway whose specs a test changes at will."""

    def __init__(self, gateway: Gateway, broker_port: int, cluster: Mapping[str, Any]) -> None:
        self.gateway = gateway
        self.specs: dict[str, InstanceSpec] = {}
        self._cluster = ClusterSpec(
            revision=1,
            cluster_id=CLUSTER_ID,
            brokers=(BrokerAddress(node_id=NODE_ID, host="127.0.0.1", port=broker_port),),
            **cluster,
        )

    def serve(self, *specs: InstanceSpec) -> None:
        """Apply new or changed instances beside those that are there."""
        self.specs.update({spec.instance_id: spec for spec in specs})
        self.gateway.follower.apply_static(self.specs.values(), [self._cluster])

    def change(self, instance_id: str, **changes: Any) -> None:
        """Apply a changed spec."""
        self.serve(msgspec.structs.replace(self.specs[instance_id], **changes))

    def port(self, instance_id: str, *, bootstrap: bool = False) -> int:
        """The port of an instance's broker, or its bootstrap port."""
        wanted = None if bootstrap else NODE_ID
        return next(one.port for one in self.specs[instance_id].listeners if one.node_id == wanted)

    def closed(self, instance_id: str) -> dict[str, int]:
        """Ended connections by cause."""
        return {str(cause): count for cause, count in self.gateway.worker.served[instance_id].closed.items()}

    def connections(self, instance_id: str) -> int:
        """Connections now."""
        return len(self.gateway.worker.served[instance_id].connections)

    async def client(self, instance_id: str, **options: Any) -> "FrameClient":
        """A client on an instance's port."""
        return await FrameClient.connect(self.port(instance_id), **options)


@asynccontextmanager
async def running_gateway(
    broker_port: int,
    *specs: InstanceSpec,
    name: str = "gateway-0",
    machine: Machine = THIS_MACHINE,
    cluster: Mapping[str, Any] = MappingProxyType({}),
    **settings: Any,
) -> AsyncIterator[RunningGateway]:
    """A gateway that serves `specs` while the block runs. `settings` are those of `GatewayConfig`, `cluster`
    says what differs in the cluster's spec."""
    gateway = Gateway(GatewayConfig(name=name, **settings), machine)
    gateway.start()
    running = RunningGateway(gateway, broker_port, cluster)
    running.serve(*specs)
    try:
        yield running
    finally:
        await gateway.aclose()


class FrameClient:
    """A connection that sends frames and reads frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.correlation_id = 0

    @classmethod
    async def connect(cls, port: int, host: str = "127.0.0.1") -> "FrameClient":
        """Connect."""
        return cls(*await asyncio.open_connection(host, port))

    def send(self, request: Any, client_id: str | None = "test-client") -> int:
        """Send a request, answer its correlation id."""
        self.correlation_id += 1
        self.writer.write(framed_request(request, self.correlation_id, client_id))
        return self.correlation_id

    async def frame(self, timeout_s: float = PATIENCE_S) -> bytes:
        """The next frame, without length prefix."""
        async with asyncio.timeout(timeout_s):
            (size,) = struct.unpack(">i", await self.reader.readexactly(4))
            return await self.reader.readexactly(size)

    async def call(self, request: Any) -> Any:
        """Send a request and decode its response."""
        sent = self.send(request)
        answered, response = decode_response(await self.frame(), request.__api_key__, request.__version__)
        assert answered == sent
        return response

    async def ended(self, timeout_s: float = PATIENCE_S) -> bool:
        """Whether the gateway closes the connection within the time."""
        try:
            async with asyncio.timeout(timeout_s):
                while await self.reader.read(65536):
                    pass
        except ConnectionError:
            return True
        except TimeoutError:
            return False
        return True

    def close(self) -> None:
        """Close."""
        self.writer.close()


async def until(holds: Callable[[], bool], timeout_s: float = PATIENCE_S) -> None:
    """Wait for a condition. Raises: TimeoutError."""
    async with asyncio.timeout(timeout_s):
        while not holds():
            await asyncio.sleep(0.01)
