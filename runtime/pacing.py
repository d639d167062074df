"""Runs the steps of one event loop in turns (`traffic/turns.py`) and keeps account of their CPU time.

What is done for an instance is a step of it: a readable socket, an accepted connection, a piece of a task.
Steps that need not wait run where they come up, between `begin` and `end`. The others wait for `_pump`, which
gives one instance its turn and goes back to the loop, so that sockets are looked at in between and whoever
has not used up its quantum comes first.

The account goes to the traffic point (direction `cpu`) when a quantum is used up. Steps are timed by the
clock that is cheap to read. The thread's CPU clock is sampled with each bill: where the thread has had less
than its steps took, because others had the processor, the bill is less.

An instance in debt begins nothing new until its debt is paid; replies and all that finishes what was begun go
on until the debt is more than `GOING_ON_DEBT_MS` of its rate. So an instance gets its rate, its burst, and so
much. The debt is the instance's: its connections wait for it in one queue.
"""

import asyncio
from collections.abc import Coroutine, Generator, Iterable
from types import CodeType
from typing import Any, Final, Protocol

from contracts.quota import Direction
from runtime.clock import SYSTEM_CLOCK, Clock
from traffic.flow import REPORTED_THROTTLE_MS_MAX
from traffic.turns import Hold, Step, Turn, Turns

BILL_NS: Final = 250_000
"""What an instance must have spent to be billed: a charge per step would cost more than the clock."""
GOING_ON_DEBT_MS: Final = 250
"""What was begun goes on (replies, mostly) until the debt is worth so much of the rate."""


class CpuAccount(Protocol):
    """What is asked of a traffic point."""

    def charge_cpu(self, instance_id: str, cpu_us: int, now_ms: int) -> int:
        """Count and charge; answers throttle_time_ms."""

    def unmute_at_ms(
        self, instance_id: str, direction: Direction, now_ms: int, ticket: int | None = None
    ) -> int:
        """When the debt is paid at today's rate; `now_ms` if it is."""


class Pacing:
    """One loop's turns and accounts, used on the loop's thread alone."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        account: CpuAccount,
        *,
        turns: Turns | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._loop = loop
        self._account = account
        self._turns = turns or Turns()
        self.clock_ns = clock.monotonic_ns
        self._cpu_ns = clock.cpu_ns
        self._sampled_ns = clock.cpu_ns()
        self._stepped_ns = 0
        """Duration of all steps since the CPU clock was sampled."""
        self._billed: set[Turn] = set()
        """Who has spent something since `bill_all`."""
        self._now_ms = clock.monotonic_ms
        self.began_ns = 0
        """When the step that runs began. Set it to `clock_ns()` where a call of `begin` is one too many."""
        self._pump_queued = False
        self._timers: dict[Turn, asyncio.TimerHandle] = {}
        """When to look again at instances in debt."""
        self.pumped_steps = 0
        """Steps that had to wait, of all instances."""

    def join(self, instance_id: str) -> Turn:
        """An instance comes."""
        return self._turns.join(instance_id)

    def leave(self, turn: Turn) -> None:
        """An instance is gone: what is not billed is, and what waited is dropped."""
        self._bill(turn)
        self._billed.discard(turn)
        self._turns.leave(turn)
        timer = self._timers.pop(turn, None)
        if timer is not None:
            timer.cancel()

    # -- steps ----------------------------------------------------------------------------------------

    def may_begin(self, turn: Turn) -> bool:
        """Whether a step that begins something may run now. Ask when `turn.may_begin` says no."""
        return self._turns.refreshed(turn).may_begin

    def may_go_on(self, turn: Turn) -> bool:
        """Whether a step that goes on with something may run now. Ask when `turn.may_go_on` says no."""
        return self._turns.refreshed(turn).may_go_on

    def begin(self) -> None:
        """A step starts now. Steps do not nest."""
        self.began_ns = self.clock_ns()

    def end(self, turn: Turn) -> None:
        """A step of this instance is over, or a part of it: the next part starts now."""
        now_ns = self.clock_ns()
        cost_ns = now_ns - self.began_ns
        self.began_ns = now_ns
        self._stepped_ns += cost_ns
        turn.left_ns = left_ns = turn.left_ns - cost_ns
        if left_ns <= 0:
            self._used_up(turn)

    def _used_up(self, turn: Turn) -> None:
        """Nothing is left of its quantum: it is billed, and has to wait until sockets were looked at."""
        turn.close()
        if turn.unbilled_ns >= BILL_NS:
            self._bill(turn)
        if not self._pump_queued:
            self._pump_queued = True
            self._loop.call_soon(self._pump)

    def end_unbilled(self, turn: Turn) -> int:
        """Ends a part that used the instance's turn, but is not for its account: its cost in ns."""
        now_ns = self.clock_ns()
        cost_ns = now_ns - self.began_ns
        self.began_ns = now_ns
        self._stepped_ns += cost_ns
        turn.passed(cost_ns)
        return cost_ns

    def is_over(self, turn: Turn) -> bool:
        """Whether the step that runs has used up what its instance had left; asked between its parts."""
        return self.clock_ns() - self.began_ns >= turn.left_ns

    def wait(self, turn: Turn, step: Step, *, begins: bool) -> None:
        """Have a step run when it is the instance's turn; it is not to call `begin` and `end`."""
        self._turns.wait(turn, step, begins=begins)
        self._queue_pump()

    def run(self, turn: Turn, step: Step, *, begins: bool) -> None:
        """Run a step now or when it may."""
        if self.may_begin(turn) if begins else self.may_go_on(turn):
            self.run_now(turn, step)
        else:
            self.wait(turn, step, begins=begins)

    def run_now(self, turn: Turn, step: Step) -> None:
        """Run what is too short to wait for a turn."""
        self.begin()
        try:
            step()
        finally:
            self.end(turn)

    def task(self, turn: Turn, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """A task whose every piece is a step of this instance."""
        return self._loop.create_task(_Paced(self, turn, work))

    def future(self) -> "asyncio.Future[None]":
        """One that a paced task waits for its turn with."""
        return self._loop.create_future()

    def _queue_pump(self) -> None:
        if not self._pump_queued and self._turns.is_backlogged:
            self._pump_queued = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        """Give one instance its turn, then let the loop look at its sockets."""
        self._pump_queued = False
        turns = self._turns
        turn = turns.next()
        if turn is not None:
            self.begin()
            while (step := turns.take(turn)) is not None:
                self.pumped_steps += 1
                try:
                    step()
                finally:
                    self.end(turn)
        self._queue_pump()

    # -- accounts -------------------------------------------------------------------------------------

    def throttle_ms(self, turn: Turn) -> int:
        """throttle_time_ms of an answer that leaves now, what it has cost so far included.

        Only to be asked within a step.
        """
        self.end(turn)
        if turn.owed_lately or turn.unbilled_ns >= BILL_NS:
            self._bill(turn)
        if turn.hold is Hold.NONE:
            return 0
        return min(self._debt_ms(turn), REPORTED_THROTTLE_MS_MAX)

    def add_helper_time(self, turn: Turn, spent_ns: int) -> None:
        """CPU time that another thread has spent on this instance."""
        turn.passed(spent_ns)
        self._charge(turn, spent_ns // 1000)

    def bill_all(self, turns: Iterable[Turn]) -> None:
        """Before a report: what is not billed yet. Quanta are from now on for as many as were about."""
        for turn in turns:
            self._bill(turn)
            turn.owed_lately = turn.hold is not Hold.NONE
        self._turns.meet(len(self._billed))
        self._billed.clear()

    def look_again(self, turns: Iterable[Turn]) -> None:
        """Rates have changed: debts may be paid earlier, or later."""
        for turn in turns:
            if turn.hold is not Hold.NONE:
                self._look(turn)

    def _bill(self, turn: Turn) -> None:
        spent_us = turn.unbilled_ns // 1000
        if not spent_us:
            return
        turn.billed(spent_us * 1000)
        self._billed.add(turn)
        now_ns = self._cpu_ns()
        had_ns, stepped_ns = now_ns - self._sampled_ns, self._stepped_ns
        self._sampled_ns, self._stepped_ns = now_ns, 0
        if had_ns < stepped_ns:
            spent_us = spent_us * had_ns // stepped_ns
        self._charge(turn, spent_us)

    def _charge(self, turn: Turn, spent_us: int) -> None:
        debt_ms = self._account.charge_cpu(turn.name, spent_us, self._now_ms())
        if debt_ms and (
            turn.hold is Hold.NONE or (turn.hold is Hold.BEGINNINGS and debt_ms > GOING_ON_DEBT_MS)
        ):
            self._look(turn)

    def _debt_ms(self, turn: Turn) -> int:
        now_ms = self._now_ms()
        return max(0, self._account.unmute_at_ms(turn.name, Direction.CPU, now_ms) - now_ms)

    def _look(self, turn: Turn) -> None:
        """Hold an instance in debt, let go of one that has paid; a timer looks again while there is debt."""
        timer = self._timers.pop(turn, None)
        if timer is not None:
            timer.cancel()
        debt_ms = self._debt_ms(turn)
        if not debt_ms:
            self._turns.hold(turn, Hold.NONE)
        else:
            turn.owed_lately = True
            too_much_ms = debt_ms - GOING_ON_DEBT_MS
            self._turns.hold(turn, Hold.ALL if too_much_ms > 0 else Hold.BEGINNINGS)
            wait_ms = too_much_ms if too_much_ms > 0 else debt_ms
            self._timers[turn] = self._loop.call_later(min(wait_ms, 1_000) / 1000, self._look, turn)
        self._queue_pump()


class _Paced(Coroutine[Any, Any, None]):
    """A coroutine whose pieces run as steps: each waits for its turn where it must."""

    def __init__(self, pacing: Pacing, turn: Turn, inner: Coroutine[Any, Any, None]) -> None:
        self._pacing = pacing
        self._turn = turn
        self._inner = inner
        self._has_waited = False
        self.__name__ = getattr(inner, "__name__", "")
        self.__qualname__ = getattr(inner, "__qualname__", "")

    @property
    def cr_code(self) -> CodeType:
        """Where tools find what the task runs."""
        code: CodeType = self._inner.cr_code  # type: ignore[attr-defined]
        return code

    def send(self, value: Any) -> Any:
        """The next piece. Raises: StopIteration at the end."""
        pacing, turn = self._pacing, self._turn
        if not (self._has_waited or pacing.may_go_on(turn)):
            return self._turn_comes()
        self._has_waited = False
        pacing.begin()
        try:
            return self._inner.send(value)
        finally:
            pacing.end(turn)

    def _turn_comes(self) -> "asyncio.Future[None]":
        """What the task awaits before this piece; tasks send nothing but None, so none is lost."""
        future = self._pacing.future()

        def come() -> None:
            if not future.done():
                future.set_result(None)

        self._pacing.wait(self._turn, come, begins=False)
        self._has_waited = True
        future._asyncio_future_blocking = True
        return future

    def throw(self, *error: Any) -> Any:
        """A failure, most often the task's end: it is not kept waiting."""
        self._has_waited = False
        self._pacing.begin()
        try:
            return self._inner.throw(*error)
        finally:
            self._pacing.end(self._turn)

    def close(self) -> None:
        """The task is gone."""
        self._inner.close()

    def __await__(self) -> Generator[Any, None, None]:
        return self._inner.__await__()
