"""One broker of the simulation: a real `Broker` on a directory, its session, its deaths and returns."""

import asyncio
import contextvars
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

from broker.app import Broker
from broker.config import BrokerConfig
from broker.replication.partition import Partition
from runtime.machine import Machine
from tests.memory_tree import MemoryEnsemble
from tests.simulation.disk import Disk
from tests.simulation.ensemble import SessionKeeper, SimulatedTree
from tests.simulation.network import NOBODY, Network
from tests.simulation.virtual import NODE, NodeState, VirtualLoop, virtual_clock

SESSION_TIMEOUT_MS = 2_000
SECRET = "simulated"
_LAG_MAX_MS = 3_000


class SimulatedNode:
    """`is_reachable()` says whether ZooKeeper is in this node's sight."""

    def __init__(
        self,
        node_id: int,
        directory: Path,
        loop: VirtualLoop,
        ensemble: MemoryEnsemble,
        chance: random.Random,
        is_reachable: Callable[[int], bool],
        on_end: Callable[["SimulatedNode"], None],
        network: Network,
        on_leadership: Callable[[int, Partition, bool], None],
    ) -> None:
        self._on_leadership = on_leadership
        self._network = network
        self.node_id = node_id
        self.directory = directory
        self.port = 10_000 + node_id
        self.disk = Disk()
        self.clock_skew_ms = 0
        self.state = NodeState(node_id)
        self.broker: Broker | None = None
        self.tree: SimulatedTree
        self._has_started = False
        self.boots = 0
        self._machine_boots = 0
        self._loop = loop
        self._ensemble = ensemble
        self._chance = chance
        self._is_reachable = is_reachable
        self._on_end = on_end
        self._serving: asyncio.Task[None] | None = None
        self._keepers: list[asyncio.Task[None]] = []
        self.faults: list[str] = []
        self.states: list[NodeState] = []
        self.graves: list[object] = []
        """Dead processes: what they left half done must not be collected, for that would let them act."""

    @property
    def is_up(self) -> bool:
        """Whether there is a process, paused or not."""
        return self._serving is not None

    @property
    def serves(self) -> bool:
        """Whether it has joined and runs."""
        return self.broker is not None and self._has_started and not self.state.is_paused

    def start(self) -> None:
        """Start the process."""
        assert not self.is_up
        self.boots += 1
        self.state = NodeState(self.node_id)
        self.state.clock_skew_ms = self.clock_skew_ms
        self.states.append(self.state)
        context = contextvars.Context()
        context.run(NODE.set, self.state)
        self._serving = asyncio.Task(self._serve(), loop=self._loop, context=context)

    async def _serve(self) -> None:
        state = self.state
        self.tree = SimulatedTree(self._ensemble, self._chance, lambda: self._is_reachable(self.node_id))
        keeper = SessionKeeper(
            self._ensemble, self.tree, SESSION_TIMEOUT_MS / 1000, lambda: self._is_heard(state)
        )
        self._keepers.append(asyncio.Task(keeper.run(), loop=self._loop, context=NOBODY.copy()))
        config = BrokerConfig(
            node_id=self.node_id,
            cluster_id="simulated",
            data_dir=self.directory,
            listen_port=self.port,
            zookeeper="simulated:1",
            session_timeout_ms=SESSION_TIMEOUT_MS,
            secret=SECRET,
            default_replication_factor=3,
            min_insync_replicas=2,
            replica_lag_time_max_ms=_LAG_MAX_MS,
            flush_interval_ms=700,
            checkpoint_interval_ms=1_500,
            receive_buffer_bytes=64 * 1024,
        )
        try:
            broker = self.broker = Broker(config, self._machine(state), self.tree)
            broker.replicas.on_leadership(partial(self._on_leadership, self.node_id))
            await broker.start()
            self._has_started = True
        except Exception as error:  # noqa: BLE001 - whatever it is: the process ends, the supervisor has it
            if state.is_alive:
                self.faults.append(f"{type(error).__name__}: {error}")
                self._loop.call_soon(self._ended, state, context=NOBODY.copy())

    def _machine(self, state: NodeState) -> Machine:
        return Machine(
            clock=virtual_clock(self._loop, state),
            random=random.Random(self._chance.random()),
            network=self._network.of(state),
            sync_file=self.disk.sync,
            boot_id=f"machine {self.node_id} boot {self._machine_boots}",
        )

    def _ended(self, state: NodeState) -> None:
        """A start failed: it is tried again, as the supervisor does."""
        if state.is_alive:
            self.kill()
            self._on_end(self)

    # -- ends --------------------------------------------------------------------------------------------

    def kill(self) -> None:
        """kill -9: nothing of it runs any more; its files stay as they are."""
        self.state.is_alive = False
        self.tree.is_forgotten = True
        broker, self.broker, self._has_started, self._serving = self.broker, None, False, None
        if broker is not None:
            broker.logs._directories.unlock()  # the kernel does it for a dead process
            self.graves.append(broker)

    def lose_power(self) -> int:
        """The machine: what was not synced is lost. Bytes lost."""
        self.kill()
        self._machine_boots += 1
        return self.disk.lose_power(self.directory / "logs", self._chance)

    async def stop(self) -> None:
        """SIGTERM: a controlled shutdown."""
        assert self.broker is not None
        context = contextvars.Context()
        context.run(NODE.set, self.state)
        await asyncio.Task(self.broker.stop(), loop=self._loop, context=context)
        self.state.is_alive = False
        self.broker, self._has_started, self._serving = None, False, None

    def pause(self) -> None:
        """SIGSTOP."""
        self.state.is_paused = True

    def resume(self) -> None:
        """SIGCONT."""
        self._loop.thaw(self.state)

    def bury(self) -> None:
        """At the end of the history everything may come to its end."""
        for state in self.states:
            state.is_alive, state.is_paused = True, False

    def _is_heard(self, state: NodeState) -> bool:
        return state.is_alive and not state.is_paused and self._is_reachable(self.node_id)
