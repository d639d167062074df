"""One gateway of the simulation, and a tenant whose clients know nothing but its ports."""

import asyncio
import contextvars
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import kio.schema.create_topics.v4.request as create_topics_v4

from contracts.specs import BrokerAddress, ClusterSpec, InstanceSpec, InstanceState, Listener
from gateway.app import Gateway
from gateway.config import GatewayConfig
from runtime.kafka_client import KafkaUnavailable
from runtime.machine import Machine
from tests.simulation.client import Client, Producing, Refused
from tests.simulation.network import Network
from tests.simulation.node import SECRET
from tests.simulation.virtual import NODE, NodeState, VirtualLoop, virtual_clock
from wire.codec import duration

GATEWAY: Final = 11
"""Its node id, for cuts."""
INSTANCE: Final = "iaaaaaaaaaaa"
TOPIC: Final = "orders"
PHYSICAL: Final = f"{INSTANCE}.{TOPIC}"
_CLUSTER: Final = "simulated"
_CREATE: Any = create_topics_v4
_TOPIC_EXISTS: Final = 36
_PAUSE_S: Final = 0.3


def vport(node_id: int) -> int:
    """Where the tenant finds a broker."""
    return 20_000 + node_id


class SimulatedGateway:
    """A real `Gateway` worker; its deaths and returns."""

    def __init__(
        self,
        directory: Path,
        loop: VirtualLoop,
        chance: random.Random,
        network: Network,
        broker_ports: dict[int, int],
    ) -> None:
        directory.mkdir()
        self._secret_file = directory / "secret"
        self._secret_file.write_text(SECRET)
        self._secret_file.chmod(0o600)
        self._loop = loop
        self._chance = chance
        self._network = network
        self._broker_ports = broker_ports
        self._gateway: Gateway | None = None
        self.graves: list[object] = []
        self.states: list[NodeState] = []

    @property
    def is_up(self) -> bool:
        """Whether there is a process."""
        return self._gateway is not None

    def start(self) -> None:
        """Start the process: its specs come from the disk."""
        assert not self.is_up
        state = NodeState(GATEWAY)
        self.states.append(state)
        machine = Machine(
            clock=virtual_clock(self._loop, state),
            random=random.Random(self._chance.random()),
            network=self._network.of(state),
        )
        context = contextvars.Context()
        context.run(NODE.set, state)
        context.run(self._serve, machine)

    def _serve(self, machine: Machine) -> None:
        gateway = Gateway(GatewayConfig(name="gateway-0", secret_file=self._secret_file), machine)
        gateway.start()
        gateway.follower.apply_static([self._instance()], [self._cluster()])
        self._gateway = gateway

    def _cluster(self) -> ClusterSpec:
        brokers = [
            BrokerAddress(node_id=node_id, host="127.0.0.1", port=port)
            for node_id, port in self._broker_ports.items()
        ]
        return ClusterSpec(revision=1, cluster_id=_CLUSTER, brokers=tuple(brokers))

    def _instance(self) -> InstanceSpec:
        listeners = [
            Listener(node_id=node_id, bind_host="127.0.0.1", advertised_host="127.0.0.1", port=vport(node_id))
            for node_id in self._broker_ports
        ]
        return InstanceSpec(
            revision=1,
            instance_id=INSTANCE,
            tenant="default",
            name="simulated",
            state=InstanceState.ACTIVE,
            cluster_id=_CLUSTER,
            produce_rate_bytes_per_s=10**9,
            consume_rate_bytes_per_s=10**9,
            capacity_bytes=10**10,
            allow_all=True,
            listeners=tuple(listeners),
        )

    def kill(self) -> None:
        """kill -9."""
        gateway, self._gateway = self._gateway, None
        assert gateway is not None
        self.states[-1].is_alive = False
        gateway.worker.pipe.close()  # the kernel does it for a dead process
        self.graves.append(gateway)
        self._network.close_all_of(GATEWAY)

    def bury(self) -> None:
        """At the end of the history everything may come to its end."""
        for state in self.states:
            state.is_alive = True


class Tenant:
    """Writes to one partition and reads it, by its own names, through the gateway."""

    def __init__(self, client: Callable[[Sequence[int]], Client], chance: random.Random) -> None:
        self._new_client = client
        self._ports = [vport(node_id) for node_id in (1, 2, 3)]
        self.producing = Producing(self._client(), TOPIC, 0, "once", chance, idempotent=True)

    def _client(self) -> Client:
        return self._new_client(self._ports)

    async def create_topic(self) -> bool:
        """Whether it is there. Clients try again."""
        client = self._client()
        topic = _CREATE.CreatableTopic(
            name=TOPIC, num_partitions=1, replication_factor=3, assignments=(), configs=()
        )
        request = _CREATE.CreateTopicsRequest(topics=(topic,), timeout=duration(10_000), validate_only=False)
        for port in self._ports:
            try:
                answer = await client.ask(port, request)
            except KafkaUnavailable:
                continue
            if int(answer.topics[0].error_code) in (0, _TOPIC_EXISTS):
                return True
        return False

    async def read(self, until: Callable[[], bool], saw: Callable[[int, bytes], None]) -> None:
        """Read until told to stop."""
        client, offset = self._client(), 0
        while not until():
            try:
                records = await client.fetch(TOPIC, 0, offset)
            except (KafkaUnavailable, Refused):
                client.forget(TOPIC)
                records = []
            for at, value in records:
                saw(at, value)
                offset = at + 1
            await asyncio.sleep(_PAUSE_S)

    async def strange_names(self) -> list[str]:
        """Names of topics that are told to this tenant and are none of its own. Raises: KafkaUnavailable."""
        answer = await self._client().refresh(None)
        return [str(topic.name) for topic in answer.topics if topic.name != TOPIC]
