"""Whose step an event loop runs next: deficit round robin over instances, by the time their steps took.

No clock, no IO. The loop's shell (`runtime/pacing.py`) runs steps and tells what each has cost. A step that
may run at once never enters a queue: an instance holds what is left of its quantum, and only when that is
used up do its steps wait for a round. Nobody else waiting, the next round begins at once.

What holds, Q being an instance's quantum and L the longest step:
- two instances that always have steps waiting are served times that differ by less than Q + L per weight;
- an instance that has not used up its quantum of the round waits for at most Q + L of each other one, however
  many steps those have waiting: nothing here grows with the number of connections;
- an instance without steps costs nothing and saves up nothing: what it has left is never above Q.
"""

from collections import deque
from collections.abc import Callable
from enum import IntEnum
from typing import Final, TypeAlias

Step: TypeAlias = Callable[[], None]

QUANTUM_NS: Final = 250_000
"""What an instance may use in a round while others are about: some five small requests, or a read of a
megabyte. A request passes four loops, and may wait for as much of each other instance at every one."""
QUANTUM_ALONE_NS: Final = 2_000_000
"""The quantum while nobody else is about: a round costs a look at all sockets."""


class Hold(IntEnum):
    """Which steps of an instance wait for something else than their turn, whoever else has none."""

    NONE = 0
    BEGINNINGS = 1
    """Nothing new is begun; what was begun goes on."""
    ALL = 2


class Turn:
    """One instance's place in the order of one loop.

    Below zero `left_ns` is owed. `may_begin` and `may_go_on` say that a step need
    not wait; when they say no, `Turns.refreshed` knows better.
    """

    __slots__ = (
        "beginnings",
        "billed_at_ns",
        "going_on",
        "hold",
        "in_ring",
        "left_ns",
        "may_begin",
        "may_go_on",
        "name",
        "owed_lately",
        "round",
        "weight",
    )

    def __init__(self, name: str, weight: int, quantum_ns: int, round_number: int) -> None:
        self.name = name
        self.weight = weight
        self.left_ns = quantum_ns
        self.owed_lately = False
        """Whether the account was in debt not long ago: then every answer counts what it costs itself."""
        self.billed_at_ns = quantum_ns
        """What `left_ns` was, or would have been, when the account was settled last."""
        self.round = round_number
        """The last round that it was given a quantum for."""
        self.hold = Hold.NONE
        self.may_begin = self.may_go_on = True
        self.in_ring = False
        self.beginnings: deque[Step] = deque()
        self.going_on: deque[Step] = deque()

    def spent(self, cost_ns: int) -> None:
        """A step of this instance has run."""
        self.left_ns -= cost_ns
        if self.left_ns <= 0:
            self.close()

    def close(self) -> None:
        """Its quantum is used up: the next step waits."""
        self.may_begin = self.may_go_on = False

    @property
    def unbilled_ns(self) -> int:
        """Spent and not yet on the account."""
        return self.billed_at_ns - self.left_ns

    def billed(self, spent_ns: int) -> None:
        """So much of it is on the account now."""
        self.billed_at_ns -= spent_ns

    def passed(self, cost_ns: int) -> None:
        """Time of its turn has gone by, on nobody's account."""
        self.billed_at_ns -= cost_ns
        self.spent(cost_ns)

    @property
    def waiting(self) -> int:
        """How many steps wait."""
        return len(self.beginnings) + len(self.going_on)

    @property
    def has_eligible(self) -> bool:
        """Whether a step waits for nothing but its turn."""
        if self.hold is Hold.ALL:
            return False
        return bool(self.going_on) or (self.hold is Hold.NONE and bool(self.beginnings))


class Turns:
    """The instances of one loop. Every operation is O(1), but for a step that cost many quanta."""

    def __init__(self, quantum_ns: int = QUANTUM_NS, quantum_alone_ns: int = QUANTUM_ALONE_NS) -> None:
        assert 0 < quantum_ns <= quantum_alone_ns
        self._quanta_ns = (quantum_ns, quantum_alone_ns)
        self._quantum_ns = quantum_ns
        self._ring: deque[Turn] = deque()
        """Who has eligible steps. In front, those that have not had this round's quantum."""
        self._round = 0

    def join(self, name: str, weight: int = 1) -> Turn:
        """An instance comes; its quantum is `weight` times that of others."""
        assert weight > 0
        return Turn(name, weight, self._quantum_ns * weight, self._round)

    def meet(self, instances: int) -> None:
        """So many had steps lately: the rounds that come are as long as that allows."""
        self._quantum_ns = self._quanta_ns[instances <= 1]

    def leave(self, turn: Turn) -> None:
        """An instance is gone, and what waited with it."""
        turn.beginnings.clear()
        turn.going_on.clear()
        if turn in self._ring:  # not while it is its turn
            self._ring.remove(turn)
        turn.in_ring = False

    @property
    def is_backlogged(self) -> bool:
        """Whether anybody waits for nothing but a turn."""
        return bool(self._ring)

    def refreshed(self, turn: Turn) -> Turn:
        """The instance with what rounds have brought it since it was looked at last."""
        if turn.round != self._round and not turn.in_ring:
            self._grant(turn)
            self._open(turn)
        return turn

    def wait(self, turn: Turn, step: Step, *, begins: bool) -> None:
        """Keep a step for later. `begins` is new work, which a hold keeps back first."""
        (turn.beginnings if begins else turn.going_on).append(step)
        self._queue(turn)

    def hold(self, turn: Turn, hold: Hold) -> None:
        """Keep back more, or less, of an instance."""
        if hold is turn.hold:
            return
        turn.hold = hold
        self._queue(turn)
        self._open(turn)

    def next(self) -> Turn | None:
        """Whose turn it is: `take` its steps until there is none. Nobody waiting, a round begins for all."""
        ring = self._ring
        if not ring:
            self._round += 1
        while ring:
            turn = ring.popleft()
            if turn.round == self._round:
                self._round += 1
            self._grant(turn)
            if turn.left_ns > 0:
                return turn
            ring.append(turn)
        return None

    def take(self, turn: Turn) -> Step | None:
        """The next step of whose turn it is; None: the turn is over."""
        if turn.left_ns > 0 and turn.hold is not Hold.ALL:
            if turn.going_on:
                return turn.going_on.popleft()
            if turn.beginnings and turn.hold is Hold.NONE:
                return turn.beginnings.popleft()
        turn.in_ring = turn.has_eligible
        if turn.in_ring:
            self._ring.append(turn)
        self._open(turn)
        return None

    def _queue(self, turn: Turn) -> None:
        if not turn.in_ring and turn.has_eligible:
            turn.in_ring = True
            self._ring.append(turn)
            turn.may_begin = turn.may_go_on = False

    def _grant(self, turn: Turn) -> None:
        """A quantum for each round since the last: it pays what is owed, and what is left over is lost."""
        rounds = self._round - turn.round
        turn.round = self._round
        quantum_ns = self._quantum_ns * turn.weight
        granted_ns = min(quantum_ns - turn.left_ns, rounds * quantum_ns)
        turn.left_ns += granted_ns
        turn.billed_at_ns += granted_ns

    @staticmethod
    def _open(turn: Turn) -> None:
        """Say whether the next step need not wait: not in front of others that do."""
        is_free = turn.left_ns > 0 and not turn.in_ring
        turn.may_go_on = is_free and turn.hold is not Hold.ALL
        turn.may_begin = is_free and turn.hold is Hold.NONE
