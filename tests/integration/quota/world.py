"""Clients that send requests to the simulator's brokers, each on a connection of its own."""

from typing import Any

from contracts.quota import Direction
from ctl.quota_simulation.world import ID, Broker
from ctl.quota_simulation.world import World as SimulatedWorld
from master.settings import MasterSettings
from traffic.point import TrafficPoint
from traffic.verdict import Admit

__all__ = ["ID", "Client", "World", "measure"]


class World(SimulatedWorld):
    """A world that prints its seed; `settings` are the master's."""

    def __init__(self, seed: int = 1, **settings: Any) -> None:
        print(f"seed {seed}")
        super().__init__(seed, MasterSettings(**settings))


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
