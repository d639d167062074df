"""Which partitions other brokers should lead, so that traffic falls evenly, and why. Pure.

Traffic is known per broker; what each partition carries of its leader's is estimated from how its log grew,
else from its size, else taken as equal.
"""

import datetime
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from contracts.advice import MoveRow, SkewRow
from pipeline.advice.judging.judgement import Bought, duration

MOVE_BELOW: Final = 0.8
"""The usable share, with clients held back, below which moves are advised."""
_EVEN_ENOUGH: Final = 0.9
_GAIN_MIN: Final = 0.01
"""Gain as a part of the hottest broker's load: less is not worth a move."""
MOVES_MAX: Final = 20
_AT_THE_LIMIT: Final = 0.9


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
    """While the command watched; never negative."""


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
    total = sum(weights)
    if total <= 0:
        return None
    carried = dict.fromkeys(brokers, 0.0)
    for led, weight in zip(partitions, weights, strict=True):
        carried[led.leader] = carried.get(led.leader, 0.0) + weight
    layout = _Layout(carried, Counter(led.leader for led in partitions))
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
        replicas, is_free = _with_leader(led, target), target in led.isr
        moves.append(Move(led, target, replicas, is_free, weight / total, layout.usable_share))
    heaviest = partitions[weights.index(max(weights))]
    return Plan(tuple(moves), basis, before, layout.usable_share, heaviest, max(weights) / total)


class _Layout(NamedTuple):
    """What brokers carry and how many partitions they lead."""

    carried: Mapping[int, float]
    leads: Mapping[int, int]

    @property
    def usable_share(self) -> float:
        """Over the brokers that lead something."""
        leading = sum(count > 0 for count in self.leads.values())
        return sum(self.carried.values()) / leading / max(self.carried.values())

    def after(self, source: int, target: int, weight: float) -> "_Layout":
        """With one partition led by another broker."""
        carried = {
            source: max(0.0, self.carried[source] - weight),
            target: self.carried[target] + weight,
        }
        leads = {source: self.leads[source] - 1, target: self.leads.get(target, 0) + 1}
        return _Layout({**self.carried, **carried}, {**self.leads, **leads})


def weigh(partitions: Sequence[Led], loads: Mapping[int, float]) -> tuple[list[float], Basis]:
    """What each partition carries: its part of its leader's load. One basis for all, so that they compare."""
    estimates = (
        (Basis.GROWTH, [led.grew_bytes for led in partitions]),
        (Basis.SIZE, [led.size_bytes for led in partitions]),
        (Basis.COUNT, [1] * len(partitions)),
    )
    for basis, parts in estimates:
        of_broker: Counter[int] = Counter()
        for led, part in zip(partitions, parts, strict=True):
            of_broker[led.leader] += part
        busy = [broker for broker in of_broker if loads.get(broker, 0.0) > 0]
        if basis is Basis.COUNT or all(of_broker[broker] > 0 for broker in busy):
            break
    return [
        loads.get(led.leader, 0.0) * part / (of_broker[led.leader] or 1)
        for led, part in zip(partitions, parts, strict=True)
    ], basis


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
            key = (max(after.carried.values()), copied, -after.usable_share, led.topic, led.partition, target)
            if best is None or key < best[0]:
                best = (key, position, target)
    return None if best is None else best[1:]


def _with_leader(led: Led, target: int) -> tuple[int, ...]:
    """The replicas with a new first one; who led gives up its copy to one that has none yet."""
    others = [broker for broker in led.replicas if broker != target]
    if target not in led.replicas:
        others = [broker for broker in others if broker != led.leader]
    return (target, *others)


class Placement(NamedTuple):
    """Where one instance's partitions are, and which brokers could have them."""

    partitions: Sequence[Led]
    brokers: Sequence[int]


class Moves(NamedTuple):
    """Moves of one instance."""

    rows: tuple[MoveRow, ...] = ()
    reason: str = ""


def is_skewed(row: SkewRow) -> bool:
    """Whether one broker is so hot that clients were held back there."""
    return row.usable_share is not None and row.usable_share < MOVE_BELOW and row.throttled_total_ms > 0


def advise_moves(
    rows: Sequence[SkewRow], bought: Bought, placement: Placement | None, run_date: datetime.date
) -> Moves:
    """What to move of an instance, of its two rows of skew; None: nobody could say where partitions are."""
    hot = list(filter(is_skewed, rows))
    if not hot:
        return Moves()
    told = " and ".join(_hot_reason(row, bought) for row in hot)
    if placement is None:
        return Moves(reason=f"{told}; where its partitions are could not be asked, so no moves are advised")
    loads: dict[int, float] = {}
    for row in hot:
        total = sum(point.bytes for point in row.points)
        for point in row.points:
            loads[point.node_id] = loads.get(point.node_id, 0.0) + point.bytes / total
    plan = plan_moves(placement.partitions, placement.brokers, loads)
    if plan is None:
        return Moves(reason=f"{told}; the busy brokers lead none of its partitions any more")
    return Moves(_rows(plan, bought.instance_id, run_date), f"{told}; {_plan_reason(plan)}")


def _rows(plan: Plan, instance_id: str, run_date: datetime.date) -> tuple[MoveRow, ...]:
    return tuple(
        MoveRow(
            run_date=run_date,
            instance_id=instance_id,
            topic=move.led.topic,
            partition=move.led.partition,
            from_node_id=move.led.leader,
            to_node_id=move.to,
            replicas=list(move.replicas),
            is_leadership_only=move.is_leadership_only,
            moved_bytes=move.copied_bytes,
            load_share=move.load_share,
            usable_share_before=plan.usable_share_before,
            usable_share_after=move.usable_share_after,
            step=step,
        )
        for step, move in enumerate(plan.moves, 1)
    )


def _hot_reason(row: SkewRow, bought: Bought) -> str:
    hottest = max(row.points, key=lambda point: point.bytes)
    part = hottest.bytes / sum(point.bytes for point in row.points)
    text = (
        f"broker {hottest.node_id} carries {part:.0%} of its {row.direction} traffic (usable share "
        f"{row.usable_share:.2f}) and clients were held back for {duration(row.throttled_total_ms)} in the "
        "last 24 h"
    )
    limit = bought.produce_rate_bytes_per_s if row.direction == "produce" else bought.consume_rate_bytes_per_s
    if max(row.rate_bytes_per_s, default=0) >= _AT_THE_LIMIT * limit:
        text += ", while all of the rate it bought was used: a larger one helps first"
    return text


def _plan_reason(plan: Plan) -> str:
    heaviest = f"{plan.heaviest.topic}-{plan.heaviest.partition}"
    alone = (
        f"{heaviest} alone carries {plan.heaviest_share:.0%}: spread its keys or give the topic more "
        "partitions"
    )
    if not plan.moves:
        return f"no move makes it more even, {alone}"
    count = f"{len(plan.moves)} moves" if len(plan.moves) > 1 else "1 move"
    text = (
        f"{count} raise the usable share from {plan.usable_share_before:.2f} to "
        f"{plan.usable_share_after:.2f} (what partitions carry is estimated from {plan.basis})"
    )
    return text if plan.usable_share_after >= MOVE_BELOW else f"{text}; {alone}"
