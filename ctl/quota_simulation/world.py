"""Brokers and a master made of the real cores on a virtual clock; the network loses and delays reports.

One event heap, one seeded random source, no threads: the same seed gives the same run.
"""

import heapq
import random
from collections.abc import Callable
from typing import Final

import msgspec

from contracts.quota import Direction, ReportAnswer, TrafficReport
from contracts.specs import InstanceSpec, InstanceState
from master.journal import IN_MEMORY, Journal
from master.service import MasterService
from master.settings import MasterSettings
from traffic.point import TrafficPoint

ID: Final = "iabcdefghijk"
WALL_START_MS: Final = 1_700_000_000_000
_LATENCY_MS: Final = (1, 20)
"""Latency of one message, least and most (excluded)."""


class World:
    """The clock, the network, and everything on it."""

    def __init__(self, seed: int = 1, settings: MasterSettings | None = None) -> None:
        self.random = random.Random(seed)
        self.now_ms = 1_000
        self.specs: dict[str, InstanceSpec] = {}
        self.settings = settings or MasterSettings()
        self.journal = Journal(IN_MEMORY)
        self.master: MasterService | None = None
        self.report_loss = 0.0
        """The share of reports that are lost, and again of answers."""
        self.report_delay_ms = 0
        """Reports arrive this much later than the network takes."""
        self.brokers: dict[int, Broker] = {}
        self._term = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self._ticks = 0
        self.start_master()
        self.after(1, self._tick)

    # -- time -----------------------------------------------------------------------------------------

    def after(self, delay_ms: int, work: Callable[[], None]) -> None:
        """Do something later."""
        self._count += 1
        heapq.heappush(self._events, (self.now_ms + delay_ms, self._count, work))

    def run(self, duration_ms: int) -> None:
        """Let time pass."""
        until_ms = self.now_ms + duration_ms
        while self._events and self._events[0][0] <= until_ms:
            self.now_ms, _, work = heapq.heappop(self._events)
            work()
        self.now_ms = until_ms

    def wall_ms(self) -> int:
        """Epoch time."""
        return WALL_START_MS + self.now_ms

    def latency_ms(self) -> int:
        """What one message takes."""
        return self.random.randrange(*_LATENCY_MS)

    # -- the master -------------------------------------------------------------------------------------

    def start_master(self, *, keep_journal: bool = True) -> MasterService:
        """A new run of the master, by default over the journal of the one before."""
        self._term += 1
        if not keep_journal:
            self.journal.close()
            self.journal = Journal(IN_MEMORY)
        self.master = MasterService(
            lambda: self.specs,
            self.journal,
            self.settings,
            term=self._term,
            now_ms=lambda: self.now_ms,
            wall_ms=self.wall_ms,
        )
        return self.master

    def stop_master(self) -> None:
        """kill -9: nothing more is written."""
        self.master = None

    def _tick(self) -> None:
        self._ticks += 1
        if self.master is not None:
            self.master.tick()
            if self._ticks % self.settings.journal_periods == 0:
                self.journal.save(self.master.saved_allocations())
        self.after(self.settings.period_ms, self._tick)

    # -- instances, brokers -------------------------------------------------------------------------------

    def add_instance(self, rate: int, capacity: int = 10**15, **changes: object) -> InstanceSpec:
        """The instance, or another revision of it, known to all."""
        spec = InstanceSpec(
            revision=len(self.specs) + 1,
            instance_id=ID,
            tenant="t",
            name="n",
            state=InstanceState.ACTIVE,
            cluster_id="c",
            produce_rate_bytes_per_s=rate,
            consume_rate_bytes_per_s=rate,
            capacity_bytes=capacity,
        )
        self.specs[ID] = msgspec.structs.replace(spec, **changes)
        for broker in self.brokers.values():
            broker.point.set_spec(self.specs[ID], self.now_ms)
        return self.specs[ID]

    def add_broker(self, node_id: int, partitions_led: int = 1) -> "Broker":
        """A broker that leads some partitions."""
        self.brokers[node_id] = Broker(self, node_id, partitions_led)
        return self.brokers[node_id]

    def move_leaders(self, partitions: int, source: int, target: int) -> None:
        """The controller's decision: that many partitions get another leader, their logs' bytes with them."""
        old, new = self.brokers[source], self.brokers[target]
        stored = old.stored_bytes * partitions // old.partitions_led
        for broker, sign in ((old, -1), (new, 1)):
            broker.partitions_led += sign * partitions
            broker.stored_bytes += sign * stored
            broker.leader_epoch += partitions
            if broker.running:
                broker.point.move_leadership(ID, sign * partitions, sign * stored)

    def leaders(self) -> tuple[dict[int, int], int]:
        """What every broker's metadata says, and its version."""
        led = {node_id: one.partitions_led for node_id, one in self.brokers.items() if one.partitions_led}
        return led, sum(broker.leader_epoch for broker in self.brokers.values())

    def allocated(self) -> int:
        """sum(q) of produce, as the brokers apply it now."""
        return sum(broker.applied_rate for broker in self.brokers.values() if broker.running)


class Broker:
    """A traffic point with its reporter, and logs that are a number."""

    def __init__(self, world: World, node_id: int, partitions_led: int) -> None:
        self.world = world
        self.node_id = node_id
        self.partitions_led = partitions_led
        self.leader_epoch = partitions_led
        self.stored_bytes = 0
        self.boots = 0
        self.running = False
        self.saved: bytes | None = None
        self.start()
        world.after(world.random.randrange(world.settings.period_ms), self._report)

    def start(self) -> None:
        """A new run of the broker, with what the last one kept on disk."""
        self.boots += 1
        world = self.world
        self.point = TrafficPoint(
            point=f"broker-{self.node_id}",
            node_id=self.node_id,
            cluster_id="c",
            boot_id=f"{self.node_id}-{self.boots}",
            now_ms=world.now_ms,
        )
        if self.saved is not None:
            self.point.restore_leases(self.saved, world.now_ms, world.wall_ms())
        for spec in world.specs.values():
            self.point.set_spec(spec, world.now_ms)
        self.running = True

    def stop(self) -> None:
        """kill -9."""
        self.running = False

    @property
    def applied_rate(self) -> int:
        """q of produce."""
        flow = self.point.flow(ID, Direction.PRODUCE)
        return flow.rate_per_s if flow is not None else 0

    def _report(self) -> None:
        world = self.world
        world.after(self.point.period_ms, self._report)
        if not self.running:
            return
        self.point.set_leaders(ID, *world.leaders())
        self.point.set_all_led({ID: (self.partitions_led, self.stored_bytes)} if self.partitions_led else {})
        report = self.point.report(world.now_ms, world.wall_ms())
        self.saved = self.point.save_leases(world.now_ms, world.wall_ms())
        if world.random.random() >= world.report_loss:
            world.after(world.report_delay_ms + world.latency_ms(), lambda: self._deliver(report))

    def _deliver(self, report: TrafficReport) -> None:
        world = self.world
        if world.master is None or not self.running:
            return
        answer = world.master.receive(report)
        if world.random.random() >= world.report_loss:
            point = self.point
            world.after(world.latency_ms(), lambda: self._answered(point, answer))

    def _answered(self, point: TrafficPoint, answer: ReportAnswer) -> None:
        point.apply(answer, self.world.now_ms)
