"""Which partitions other brokers should lead, so that traffic falls evenly. Pure.

Traffic is known per broker; what each partition carries of its leader's is estimated from how its log grew,
else from its size, else taken as equal.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

MOVE_BELOW: Final = 0.8
"""The usable share, with clients held back, below which moves are advised."""
_EVEN_ENOUGH: Final = 0.9
_GAIN_MIN: Final = 0.01
"""Gain as a part of the hottest broker's load: less is not worth a move."""
MOVES_MAX: Final = 20


class Basis(StrEnum):
    """What the estimate of one partition's part rests on."""

    GROWTH = "how their logs grew"
    SIZE = "their sizes"
    COUNT = "their number"


class Led(NamedTuple):
    """One partition of the instance and its place."""

    topic: str
    partition: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    size_bytes: int
    grew_bytes: int
    """While the command watched."""


class Move(NamedTuple):
    """One partition gets another leader."""

    led: Led
    to: int
    replicas: tuple[int, ...]
    is_leadership_only: bool
    load_share: float
    usable_share_after: float

    @property
    def copied_bytes(self) -> int:
        """What the new leader copies before it leads."""
        return 0 if self.is_leadership_only else self.led.size_bytes


class Plan(NamedTuple):
    """All moves of one instance, in order."""

    moves: tuple[Move, ...]
    basis: Basis
    usable_share_before: float
    usable_share_after: float
    heaviest: Led
    heaviest_share: float
    """The part of all traffic that the heaviest partition carries: no move makes that smaller."""


def plan_moves(partitions: Sequence[Led], brokers: Iterable[int], loads: Mapping[int, float]) -> Plan | None:
    """The fewest moves, the best one first, until the load is even enough or no move makes it more so.

    `brokers` may take partitions; `loads` is what each one carries of the instance. None where nothing is led
    or carried. Invariant: each move lowers the load of the broker that is hottest then.
    """
    partitions = [led for led in partitions if led.leader >= 0]
    weights, basis = weigh(partitions, loads)
    layout = _Layout(dict.fromkeys(brokers, 0.0), {})
    for led, weight in zip(partitions, weights, strict=True):
        layout.place(led.leader, weight)
    if layout.total <= 0:
        return None
    before = layout.usable_share
    moves: list[Move] = []
    left = dict(enumerate(partitions))
    while len(moves) < MOVES_MAX and layout.usable_share < _EVEN_ENOUGH:
        best = _best(left, weights, layout)
        if best is None:
            break
        position, target = best
        led, weight = left.pop(position), weights[position]
        layout = layout.after(led.leader, target, weight)
        share = weight / layout.total
        moves.append(
            Move(led, target, _with_leader(led, target), target in led.isr, share, layout.usable_share)
        )
    heaviest = max(range(len(partitions)), key=lambda position: weights[position])
    share = weights[heaviest] / layout.total
    return Plan(tuple(moves), basis, before, layout.usable_share, partitions[heaviest], share)


class _Layout:
    """What brokers carry and how many partitions they lead."""

    def __init__(self, carried: dict[int, float], leads: dict[int, int]) -> None:
        self.carried = carried
        self._leads = leads

    @property
    def total(self) -> float:
        return sum(self.carried.values())

    @property
    def largest(self) -> float:
        return max(self.carried.values())

    @property
    def usable_share(self) -> float:
        """Over the brokers that lead something."""
        leading = sum(count > 0 for count in self._leads.values())
        return self.total / leading / self.largest

    def place(self, broker: int, weight: float) -> None:
        """One more partition."""
        self.carried[broker] = self.carried.get(broker, 0.0) + weight
        self._leads[broker] = self._leads.get(broker, 0) + 1

    def after(self, source: int, target: int, weight: float) -> "_Layout":
        """With one partition led by another broker."""
        moved = _Layout(dict(self.carried), dict(self._leads))
        moved.carried[source] = max(0.0, moved.carried[source] - weight)
        moved._leads[source] -= 1
        moved.place(target, weight)
        return moved


def weigh(partitions: Sequence[Led], loads: Mapping[int, float]) -> tuple[list[float], Basis]:
    """What each partition carries: its part of its leader's load. One basis for all, so that they compare."""
    for basis in Basis:
        parts = [_part(led, basis) for led in partitions]
        of_broker: dict[int, float] = {}
        for led, part in zip(partitions, parts, strict=True):
            of_broker[led.leader] = of_broker.get(led.leader, 0.0) + part
        busy = [broker for broker in of_broker if loads.get(broker, 0.0) > 0]
        if all(of_broker[broker] > 0 for broker in busy) or basis is Basis.COUNT:
            return [
                loads.get(led.leader, 0.0) * part / of_broker[led.leader] if of_broker[led.leader] else 0.0
                for led, part in zip(partitions, parts, strict=True)
            ], basis
    raise AssertionError("the last basis always holds")


def _part(led: Led, basis: Basis) -> float:
    if basis is Basis.GROWTH:
        return float(max(led.grew_bytes, 0))
    return float(led.size_bytes) if basis is Basis.SIZE else 1.0


def _best(left: Mapping[int, Led], weights: Sequence[float], layout: _Layout) -> tuple[int, int] | None:
    """(position, new leader) of the move after which the hottest broker is the least hot."""
    hottest = max(layout.carried, key=lambda broker: (layout.carried[broker], -broker))
    bound = layout.carried[hottest] * (1 - _GAIN_MIN)
    best: tuple[tuple[float, int, float, str, int, int], int, int] | None = None
    for position, led in left.items():
        if led.leader != hottest or weights[position] <= 0:
            continue
        for target, load in layout.carried.items():
            if target == hottest or load + weights[position] > bound:
                continue
            after = layout.after(hottest, target, weights[position])
            copied = 0 if target in led.isr else 1 + led.size_bytes
            key = (after.largest, copied, -after.usable_share, led.topic, led.partition, target)
            if best is None or key < best[0]:
                best = (key, position, target)
    return None if best is None else best[1:]


def _with_leader(led: Led, target: int) -> tuple[int, ...]:
    """The replicas with a new first one; who led gives up its copy to one that has none yet."""
    others = [broker for broker in led.replicas if broker != target]
    if target not in led.replicas:
        others = [broker for broker in others if broker != led.leader]
    return (target, *others)
