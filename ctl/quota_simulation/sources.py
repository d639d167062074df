"""What clients offer to one partition: an open-loop source that waits when its leader's bucket is in debt."""

from typing import Final

from contracts.quota import Direction
from ctl.quota_simulation.world import ID, Broker, World

STEP_MS: Final = 5
"""A source looks this often whether another request is complete."""
BACKLOG_MS: Final = 200
"""Clients buffer this long of what they offer; what comes on top is never produced."""


class Source:
    """Produces to one partition at a rate that may be changed, in requests of one size."""

    def __init__(self, world: World, leader: Broker, size_bytes: int) -> None:
        self.world = world
        self.leader = leader
        self.size_bytes = size_bytes
        self.rate_bytes_per_s = 0
        self.backlog_bytes = 0
        """Produced and not yet taken by the leader."""
        self.delivered_bytes = 0
        self._offered_ms = world.now_ms
        self._milli = 0
        """Thousandths of a byte that were produced and do not make a byte yet."""
        world.after(world.random.randrange(1, STEP_MS + 1), self._go_on)

    def set_rate(self, rate_bytes_per_s: int) -> None:
        """Produce so much from now on; of another rate's backlog what is too long now is given up."""
        self._produce()
        self.rate_bytes_per_s = rate_bytes_per_s
        self.backlog_bytes = min(self.backlog_bytes, self._room())

    def _room(self) -> int:
        if not self.rate_bytes_per_s:
            return 0
        return self.rate_bytes_per_s * BACKLOG_MS // 1000 + self.size_bytes

    def _produce(self) -> None:
        self._milli += self.rate_bytes_per_s * (self.world.now_ms - self._offered_ms)
        self._offered_ms = self.world.now_ms
        produced, self._milli = divmod(self._milli, 1000)
        self.backlog_bytes = max(self.backlog_bytes, min(self.backlog_bytes + produced, self._room()))

    def _go_on(self) -> None:
        world, leader = self.world, self.leader
        self._produce()
        while leader.running and self.backlog_bytes >= self.size_bytes:
            self.backlog_bytes -= self.size_bytes
            self.delivered_bytes += self.size_bytes
            if leader.point.charge_produce(ID, self.size_bytes, world.now_ms):
                self._wait(leader, leader.point.ticket(ID, Direction.PRODUCE))
                return
        world.after(STEP_MS, self._go_on)

    def _wait(self, leader: Broker, ticket: int) -> None:
        """Waits in the way that the module docstring of `traffic.point` asks for."""
        now_ms = self.world.now_ms
        if not leader.running or leader is not self.leader:
            self.world.after(STEP_MS, self._go_on)
            return
        due_ms = leader.point.unmute_at_ms(ID, Direction.PRODUCE, now_ms, ticket)
        if due_ms <= now_ms:
            self._go_on()
        else:
            self.world.after(min(100, due_ms - now_ms), lambda: self._wait(leader, ticket))
