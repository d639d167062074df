"""Brokers, clients and a master made of the real cores on a virtual clock, over a network that loses reports.

One event heap, one seeded random source, no threads: the same seed gives the same run.
"""

import heapq
import random
from collections.abc import Callable

import msgspec

from contracts.quota import Direction, TrafficReport
from contracts.specs import InstanceSpec, InstanceState
from master.journal import Journal
from master.service import MasterService
from master.settings import MasterSettings
from traffic.point import TrafficPoint
from traffic.verdict import Admit

ID = "iabcdefghijk"
WALL_START_MS = 1_700_000_000_000


class World:
    """The clock, the network, and everything on it."""

    def __init__(self, seed: int = 1, **settings: object) -> None:
        print(f"seed {seed}")
        self.random = random.Random(seed)
        self.now_ms = 1_000
        self.specs: dict[str, InstanceSpec] = {}
        self.settings = MasterSettings(**settings)  # type: ignore[arg-type]
        self.journal = Journal("sqlite://")
        self.master: MasterService | None = None
        self.report_loss = 0.0
        self.brokers: dict[int, Broker] = {}
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self.start_master()
        self.after(1, self._tick)

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

    def start_master(self) -> MasterService:
        """A new run of the master over the same journal."""
        self.master = MasterService(
            lambda: self.specs, self.journal, self.settings, now_ms=lambda: self.now_ms, wall_ms=self.wall_ms
        )
        return self.master

    def stop_master(self) -> None:
        """kill -9: nothing more is written."""
        self.master = None

    def _tick(self) -> None:
        if self.master is not None:
            self.master.tick()
            self.journal.save(self.master.saved_allocations())
        self.after(self.settings.period_ms, self._tick)

    def add_instance(self, rate: int, capacity: int = 10**15, **changes: object) -> InstanceSpec:
        """An instance, or another revision of it, known to all."""
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

    def allocated(self) -> int:
        """sum(q) of produce, as the brokers apply it now."""
        return sum(broker.applied_rate for broker in self.brokers.values() if broker.running)


class Broker:
    """A traffic point with its reporter, and logs that are a number."""

    def __init__(self, world: World, node_id: int, partitions_led: int) -> None:
        self.world = world
        self.node_id = node_id
        self.partitions_led = partitions_led
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
        entry = self.point._instances.get(ID)
        return entry.produce.rate_bytes_per_s if entry is not None else 0

    def _report(self) -> None:
        world = self.world
        world.after(self.point.period_ms, self._report)
        if not self.running:
            return
        self.point.set_all_led({ID: (self.partitions_led, self.stored_bytes)} if self.partitions_led else {})
        report = self.point.report(world.now_ms, world.wall_ms())
        self.saved = self.point.save_leases(world.now_ms, world.wall_ms())
        if world.random.random() >= world.report_loss:
            world.after(world.random.randrange(1, 20), lambda: self._deliver(report))

    def _deliver(self, report: TrafficReport) -> None:
        if self.world.master is None or not self.running:
            return
        answer = self.world.master.receive(report)
        if self.world.random.random() >= self.world.report_loss:
            point = self.point
            self.world.after(
                self.world.random.randrange(1, 20), lambda: point.apply(answer, self.world.now_ms) and None
            )


class Client:
    """One connection that sends Produce requests (or asks for Fetch answers) of one size, as fast as it may.

    `rate_bytes_per_s` bounds what it offers; None is greedy. The next request is on its way while the answer
    to the last one is not read: exactly what a muted channel holds back.
    """

    def __init__(
        self,
        broker: Broker,
        size_bytes: int,
        *,
        direction: Direction = Direction.PRODUCE,
        rate_bytes_per_s: int | None = None,
        latency_ms: int = 2,
    ) -> None:
        self.broker = broker
        self.world = broker.world
        self.size_bytes = size_bytes
        self.direction = direction
        self.rate_bytes_per_s = rate_bytes_per_s
        self.latency_ms = latency_ms
        self.delivered = 0
        self.refused = 0
        self.throttles: list[int] = []
        self._next_due_ms = float(self.world.now_ms)
        self.world.after(self.world.random.randrange(1, 10), self._send)

    def _send(self) -> None:
        world = self.world
        if not self.broker.running:
            world.after(100, self._send)
            return
        throttle_ms = self._carry()
        self.throttles.append(throttle_ms)
        point = self.broker.point
        ticket = point.ticket(ID, self.direction)
        if throttle_ms:
            self._muted(point, ticket)
        else:
            self._go_on()

    def _carry(self) -> int:
        point, now_ms = self.broker.point, self.world.now_ms
        if self.direction is Direction.CONSUME:
            size = max(1, min(self.size_bytes, point.fetch_allowance(ID, now_ms)))
            self.delivered += size
            return point.charge_fetch(ID, size, now_ms)
        if isinstance(point.produce_verdict(ID), Admit):
            self.broker.stored_bytes += self.size_bytes
            point.count_appended(ID, self.size_bytes)
            self.delivered += self.size_bytes
        else:
            self.refused += 1
        return point.charge_produce(ID, self.size_bytes, now_ms)

    def _muted(self, point: TrafficPoint, ticket: int) -> None:
        """As the module docstring of `traffic.point` asks."""
        now_ms = self.world.now_ms
        due_ms = point.unmute_at_ms(ID, self.direction, now_ms, ticket)
        if due_ms <= now_ms or point is not self.broker.point:
            self._go_on()
        else:
            self.world.after(min(1_000, due_ms - now_ms), lambda: self._muted(point, ticket))

    def _go_on(self) -> None:
        delay_ms = self.latency_ms
        if self.rate_bytes_per_s is not None:
            self._next_due_ms = max(self._next_due_ms, self.world.now_ms - 1_000)
            self._next_due_ms += self.size_bytes * 1000 / self.rate_bytes_per_s
            delay_ms = max(delay_ms, round(self._next_due_ms) - self.world.now_ms)
        self.world.after(delay_ms, self._send)


def measure(world: World, clients: list[Client], duration_ms: int) -> float:
    """Bytes per second that the clients together moved while time passes."""
    before = sum(client.delivered for client in clients)
    world.run(duration_ms)
    return (sum(client.delivered for client in clients) - before) * 1000 / duration_ms
