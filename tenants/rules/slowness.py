"""Why clients of an instance are slow, as far as its quota is the reason: what held whom back in the last
minutes, and what another size would change. Pure.

A client that is held back sends on when it may, so the part of the time that is free is what it may send over
what it wants to: free = q / wanted. With k times as much bought each q is k times as large, whatever step of
the rule sets it, and free becomes k times as large, up to all of the time.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from contracts.quota_view import DirectionQuota, HistoryDirection, QuotaView

MINUTES: Final = 5
FACTORS: Final = (1.5, 2.0, 4.0)
"""Sizes of which is told what they would change, in times the present one."""
HELD_BACK_PERCENT: Final = 1.0
"""A smaller part of the time is not worth a word."""
TOLD_MAX: Final = 5
"""Brokers, topics and clients that are named."""


class Flow(StrEnum):
    """What an instance buys by the second."""

    PRODUCE = "produce"
    CONSUME = "consume"
    CPU = "cpu"
    """Request time."""


class Verdict(StrEnum):
    """What holds clients back."""

    FULL = "full"
    """Producers are refused or wait, for the instance is at its capacity."""
    THROTTLED = "throttled"
    CALM = "calm"
    """Nothing of the quota."""


class Held(NamedTuple):
    """A broker or gateway worker, over the minutes."""

    point: str
    throttled_percent: float
    """Of the time."""
    rate_per_s: int
    allocated_per_s: int


class Effect(NamedTuple):
    """What another size would do."""

    factor: float
    purchased_per_s: int
    throttled_percent: float
    arithmetic: str


class FlowWhy(NamedTuple):
    """One flow."""

    flow: Flow
    throttled_percent: float
    """Of the time; where it is longest."""
    decision: DirectionQuota
    """Of now, with the step of the rule that holds."""
    held: list[Held]
    """Who held back, the longest first."""
    effects: list[Effect]


class Busy(NamedTuple):
    """A topic."""

    name: str
    records_per_s: int


class Why(NamedTuple):
    """The answer."""

    verdict: Verdict
    says: str
    seconds: int
    """Of which something is known."""
    full_percent: float
    flows: list[FlowWhy]
    """The one that holds back longest first."""


def why(view: QuotaView) -> Why:
    """From a view with the history of the last minutes."""
    history = view.history
    seconds = max(1, round((history.at_ms[-1] - history.at_ms[0]) / 1000)) if history.at_ms else 0
    full_percent = _percent(sum(history.blocked), len(history.blocked))
    points = {one.node_id: f"broker-{one.node_id}" for one in history.brokers}  # some are gone by now
    points |= {one.node_id: one.point for one in view.brokers}
    flows = [
        _flow(Flow.PRODUCE, view.produce, [(points[one.node_id], one.produce) for one in history.brokers]),
        _flow(Flow.CONSUME, view.consume, [(points[one.node_id], one.consume) for one in history.brokers]),
        _flow(Flow.CPU, view.cpu.total, [(one.point, one.flow) for one in history.cpu]),
    ]
    flows.sort(key=lambda one: -one.throttled_percent)
    worst = flows[0]
    if view.blocked:
        return Why(Verdict.FULL, _full(view, full_percent, seconds), seconds, full_percent, flows)
    if worst.throttled_percent >= HELD_BACK_PERCENT:
        return Why(Verdict.THROTTLED, _throttled(worst, seconds), seconds, full_percent, flows)
    says = f"clients were not held back in the last {_minutes(seconds)}"
    return Why(Verdict.CALM, says, seconds, full_percent, flows)


def busiest(topics: Iterable[tuple[str, Sequence[int | None]]]) -> list[Busy]:
    """Topics by the records that were written to them each second, the busiest first."""
    found = []
    for name, values in topics:
        known = [value for value in values if value is not None]
        if name and known and (mean := sum(known) / len(known)) >= 1:
            found.append(Busy(name, round(mean)))
    return sorted(found, key=lambda one: (-one.records_per_s, one.name))[:TOLD_MAX]


def _flow(flow: Flow, decision: DirectionQuota, points: Iterable[tuple[str, HistoryDirection]]) -> FlowWhy:
    held = sorted(
        (
            Held(
                point,
                round(_mean(series.throttled_ms_per_s) / 10, 1),
                round(_mean(series.rate_per_s)),
                round(_mean(series.allocated_per_s)),
            )
            for point, series in points
        ),
        key=lambda one: (-one.throttled_percent, one.point),
    )
    throttled = held[0].throttled_percent if held else 0.0
    effects = []
    if throttled >= HELD_BACK_PERCENT:
        effects = [_effect(decision.purchased_per_s, throttled, factor) for factor in FACTORS]
    named = [one for one in held if one.throttled_percent >= HELD_BACK_PERCENT]
    return FlowWhy(flow, throttled, decision, named[:TOLD_MAX], effects)


def _effect(purchased_per_s: int, throttled_percent: float, factor: float) -> Effect:
    free = 100 - throttled_percent
    after = round(max(0.0, 100 - factor * free), 1)
    arithmetic = f"100 - {factor:g} x (100 - {throttled_percent:g}) = {100 - factor * free:.1f}"
    return Effect(factor, round(purchased_per_s * factor), after, arithmetic)


def _throttled(worst: FlowWhy, seconds: int) -> str:
    what = {Flow.PRODUCE: "producers", Flow.CONSUME: "consumers", Flow.CPU: "requests"}[worst.flow]
    where = f" at {worst.held[0].point}" if worst.held else ""
    share = f"throttled {worst.throttled_percent:.0f} % of the last {_minutes(seconds)}"
    return f"{share}: {what} were held back{where}. {worst.decision.explanation}"


def _full(view: QuotaView, full_percent: float, seconds: int) -> str:
    return (
        f"the instance is full, and was for {full_percent:.0f} % of the last {_minutes(seconds)}: "
        f"producers are blocked until less than {view.unblock_below_bytes:,} bytes are stored, "
        f"now {view.stored_bytes:,}"
    )


def _minutes(seconds: int) -> str:
    return f"{round(seconds / 60)} min" if seconds >= 60 else f"{seconds} s"


def _mean(values: Sequence[int | None]) -> float:
    """Where it took no part it held nobody back."""
    return sum(value or 0 for value in values) / len(values) if values else 0.0


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 1) if whole else 0.0
