"""Who works when: jobs of instances in turns by CPU time. Pure but for the clock it is given.

At most one job of an instance is begun, and what begun jobs hold in memory is bounded: while that is used up,
none begins.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from broker.scanning.jobs import Steps, begun
from broker.scanning.messages import Answer, Failed, Request, Result
from traffic.turns import Turn, Turns

BEGUN_MAX: Final = 8
"""Jobs that are under way at once. Each holds a decompressed payload of 32 MiB at most."""
_REMEMBERED_MAX: Final = 1_000
"""Instances without a job whose debts are kept."""


class _Instance:
    __slots__ = ("cpu_ns", "job", "number", "queue", "steps", "turn")

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.queue: deque[Request] = deque()
        self.job: Steps | None = None
        self.number = 0
        self.steps = 0
        self.cpu_ns = 0


class Bench:
    """All jobs that are here. `run_step` does a little of one."""

    def __init__(self, cpu_ns: Callable[[], int], answer: Callable[[Answer], None]) -> None:
        self._cpu_ns = cpu_ns
        self._answer = answer
        self._turns = Turns()
        self._instances: dict[str, _Instance] = {}
        self._jobs = 0
        self.begun = 0
        self._waiting: deque[_Instance] = deque()
        """Whose job would have begun, but for `BEGUN_MAX`."""
        self._current: Turn | None = None

    @property
    def is_busy(self) -> bool:
        """Whether there is a step to run."""
        return self._jobs > 0

    def take(self, request: Request) -> None:
        """A job has come."""
        instance = self._instances.pop(request.instance_id, None)
        if instance is None:
            instance = _Instance(self._turns.join(request.instance_id))
            self._forget_idle()
        self._instances[request.instance_id] = instance
        is_idle = instance.job is None and not instance.queue
        instance.queue.append(request)
        self._jobs += 1
        if is_idle:
            self._wait(instance)

    def _forget_idle(self) -> None:
        """The one whose last job came longest ago, unless it is under way."""
        if len(self._instances) >= _REMEMBERED_MAX:
            name, oldest = next(iter(self._instances.items()))
            if oldest.job is None and not oldest.queue:
                del self._instances[name]

    def _wait(self, instance: _Instance) -> None:
        self._turns.wait(instance.turn, lambda: self._step(instance), begins=True)

    def run_step(self) -> None:
        """A step of whose turn it is."""
        turns = self._turns
        while True:
            if self._current is None:
                self._current = turns.next()
            turn = self._current
            assert turn is not None, "whoever is here has a step waiting, or a place among those who begin"
            step = turns.take(turn)
            if step is not None:
                break
            self._current = None
        began_ns = self._cpu_ns()
        step()
        turn.spent(self._cpu_ns() - began_ns)

    def _step(self, instance: _Instance) -> None:
        if instance.job is None:
            if self.begun >= BEGUN_MAX:
                self._waiting.append(instance)
                return
            self._begin(instance)
        job = instance.job
        assert job is not None
        began_ns = self._cpu_ns()
        try:
            next(job)
        except StopIteration as end:
            self._end(instance, end.value, began_ns)
        except Exception as error:  # noqa: BLE001 - a bug costs one job, not the process
            self._end(instance, Failed(f"{type(error).__name__}: {error}"), began_ns)
        else:
            instance.steps += 1
            instance.cpu_ns += self._cpu_ns() - began_ns
            self._wait(instance)

    def _begin(self, instance: _Instance) -> None:
        request = instance.queue.popleft()
        instance.number, instance.job = request.number, begun(request.job)
        instance.steps = instance.cpu_ns = 0
        self.begun += 1

    def _end(self, instance: _Instance, result: Result, began_ns: int) -> None:
        instance.job = None
        self.begun -= 1
        self._jobs -= 1
        cpu_us = (instance.cpu_ns + self._cpu_ns() - began_ns) // 1000
        self._answer(Answer(instance.number, result, cpu_us, instance.steps + 1))
        if instance.queue:
            self._wait(instance)
        if self._waiting:
            self._wait(self._waiting.popleft())
