"""Whose work the loop does: CPU time of what is done for instances, and turns among them (`runtime.pacing`).

A readable connection, a reply that became ready, the rest of a long request are steps of the instance that
pays. Brokers of the cluster and tools of ours, for whom nobody pays, wait for nothing.
"""

import asyncio
from collections.abc import Container
from functools import partial
from typing import Final

from broker.requests.call import Channel
from contracts.quota import Direction
from runtime.clock import Clock
from runtime.pacing import Pacing
from traffic.flow import REPORTED_THROTTLE_MS_MAX
from traffic.point import TrafficPoint
from traffic.turns import Hold, Step, Turn

_HELD_MS: Final = 5_000


class RequestTime:
    """The instances of this broker's loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, traffic: TrafficPoint, clock: Clock) -> None:
        self._pacing = Pacing(loop, traffic, clock=clock)
        self._traffic = traffic
        self._now_ms = clock.monotonic_ms
        self._turns: dict[str, Turn] = {}
        self.held: dict[Turn, int] = {}
        """Instances that waited for a debt lately, and when."""
        self.may_begin = self._pacing.may_begin
        self.is_over = self._pacing.is_over
        self.is_stepping = False
        """Whether what is done now is on some instance's account."""

    def turn(self, instance_id: str) -> Turn:
        """An instance's place in the order."""
        turn = self._turns.get(instance_id)
        if turn is None:
            turn = self._turns[instance_id] = self._pacing.join(instance_id)
        return turn

    def step(self, turn: Turn, work: Step) -> None:
        """Do something for an instance, now."""
        pacing = self._pacing
        self.is_stepping = True
        pacing.began_ns = pacing.clock_ns()
        try:
            work()
        finally:
            pacing.end(turn)
            self.is_stepping = False

    def step_of_stranger(self, channel: Channel, work: Step) -> None:
        """Read a connection that has not logged in: if it does, its instance pays for that."""
        self.is_stepping = True
        self._pacing.begin()
        try:
            work()
        finally:
            if channel.turn is not None:
                self._pacing.end(channel.turn)
            self.is_stepping = False

    def wait(self, turn: Turn, work: Step, *, begins: bool) -> None:
        """Do something for an instance when it is its turn."""
        if turn.hold is not Hold.NONE:
            self.held[turn] = self._now_ms()
        self._pacing.wait(turn, partial(self._in_turn, work), begins=begins)

    def go_on(self, turn: Turn | None, work: Step) -> None:
        """Go on with what was begun for an instance, now or when it is its turn."""
        if turn is None or self.is_stepping:
            work()
        elif turn.may_go_on or self._pacing.may_go_on(turn):
            self.step(turn, work)
        else:
            self.wait(turn, work, begins=False)

    def _in_turn(self, work: Step) -> None:
        self.is_stepping = True
        try:
            work()
        finally:
            self.is_stepping = False

    def helped(self, instance_id: str, cpu_us: int) -> None:
        """Another process or thread has worked for an instance."""
        turn = self._turns.get(instance_id)
        if turn is not None:
            self._pacing.add_helper_time(turn, cpu_us * 1000)
        else:
            self._traffic.charge_cpu(instance_id, cpu_us, self._now_ms())

    def throttle_ms(self, turn: Turn) -> int:
        """throttle_time_ms of an answer, for what its instance owes in request time.

        What the answer itself has cost is billed before, where that may bring the instance into debt: to all
        others it would cost more than it tells.
        """
        if not self.held or turn not in self.held:
            return 0
        if self.is_stepping:
            return self._pacing.throttle_ms(turn)
        now_ms = self._now_ms()
        due_ms = self._traffic.unmute_at_ms(turn.name, Direction.CPU, now_ms)
        return min(due_ms - now_ms, REPORTED_THROTTLE_MS_MAX)

    def look_again(self) -> None:
        """Rates have changed."""
        self._pacing.look_again(list(self._turns.values()))

    def bill(self, served: Container[str]) -> None:
        """Before a report: what is not billed yet. Instances without a connection or a debt have no place."""
        self._pacing.bill_all(self._turns.values())
        since_ms = self._now_ms() - _HELD_MS
        self.held = {turn: at_ms for turn, at_ms in self.held.items() if at_ms > since_ms}
        for instance_id, turn in list(self._turns.items()):
            if instance_id not in served and turn.hold is Hold.NONE and not turn.waiting:
                self._pacing.leave(self._turns.pop(instance_id))
