"""The seven figures a policy is judged by, from what one run recorded. Pure; rates in parts of T."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

WITHIN: Final = 0.05
"""Converged: of what the fair shares add up to, no more than this is missing, and none is too much."""
STAYS_ROUNDS: Final = 3
"""... for so many rounds on end."""


@dataclass(slots=True)
class Round:
    """One round (one report period): per broker, in parts of T."""

    demand: tuple[float, ...]
    """Offered, with what waited from before; 0 for a broker that is down."""
    delivered: tuple[float, ...]
    issued: tuple[float, ...]
    """sum(q) as the brokers applied it, sampled."""
    churn: float
    """sum |dq|."""
    wrongful: float
    """Part of the time in which some broker held clients back while the total was below T."""
    allocated: tuple[float, ...] = ()
    """q of each broker at the end."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """Figures of one run, in the order of the specification. Rates and sums in parts of T."""

    utilisation: float
    """Delivered / min(T, demand)."""
    overshoot_peak: float
    """The highest delivered / T - 1 of one round."""
    overshoot_integral: float
    """Sum over the rounds: seconds of T that were too much."""
    over_issue_peak: float
    over_issue_mean: float
    """sum(q) / T."""
    jain: float
    """Mean over the rounds of Jain's index of delivered / max-min fair share."""
    convergence_rounds: int | None
    """The longest time after a disturbance until within 5 % of the fair shares; None: not before the next."""
    churn: float
    """sum |dq| / T per round."""
    wrongful: float
    """Part of the time in which somebody was throttled while the total was below T."""


@dataclass(slots=True)
class Record:
    """What a run recorded. `disturbed_at` are the rounds before which something changed, 0 among them."""

    rounds: list[Round] = field(default_factory=list)
    disturbed_at: tuple[int, ...] = (0,)


def max_min_fair(demand: Sequence[float], total: float = 1.0) -> tuple[float, ...]:
    """Nobody gets more than it wants; nobody gets less than another, but for wanting less."""
    shares = [0.0] * len(demand)
    left = total
    waiting = sorted((index for index, want in enumerate(demand) if want > 0), key=lambda i: demand[i])
    for position, index in enumerate(waiting):
        shares[index] = min(demand[index], left / (len(waiting) - position))
        left -= shares[index]
    return tuple(shares)


def jain_index(values: Sequence[float]) -> float:
    """1: all alike; 1/n: one has everything."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


def judge(record: Record) -> Metrics:
    """All figures. Overshoot leaves the first round out: every bucket is full then, whatever the policy."""
    rounds = record.rounds
    assert rounds
    wanted = sum(min(1.0, sum(each.demand)) for each in rounds)
    delivered = sum(min(sum(each.delivered), min(1.0, sum(each.demand))) for each in rounds)
    excess = [max(0.0, sum(each.delivered) - 1) for each in rounds[1:]]
    issued = [value for each in rounds for value in each.issued]
    fairness = [index for each in rounds if (index := _fairness(each)) is not None]
    return Metrics(
        utilisation=delivered / wanted if wanted else 1.0,
        overshoot_peak=max(excess, default=0.0),
        overshoot_integral=sum(excess),
        over_issue_peak=max(issued, default=0.0),
        over_issue_mean=sum(issued) / len(issued) if issued else 0.0,
        jain=sum(fairness) / len(fairness) if fairness else 1.0,
        convergence_rounds=_convergence(record),
        churn=sum(each.churn for each in rounds) / len(rounds),
        wrongful=sum(each.wrongful for each in rounds) / len(rounds),
    )


def _fairness(each: Round) -> float | None:
    fair = max_min_fair(each.demand)
    parts = [got / due for got, due in zip(each.delivered, fair, strict=True) if due > 0.001]
    return jain_index(parts) if parts else None


def _is_within(each: Round) -> bool:
    fair = max_min_fair(each.demand)
    missing = sum(max(0.0, due - got) for got, due in zip(each.delivered, fair, strict=True))
    too_much = sum(max(0.0, got - due) for got, due in zip(each.delivered, fair, strict=True))
    return max(missing, too_much) <= WITHIN * sum(fair)


def _convergence(record: Record) -> int | None:
    """Rounds that were not yet within, after each disturbance; the worst."""
    ends = [*record.disturbed_at[1:], len(record.rounds)]
    worst = 0
    for start, end in zip(record.disturbed_at, ends, strict=True):
        within = [_is_within(each) for each in record.rounds[start:end]]
        stays = min(STAYS_ROUNDS, len(within))
        taken = next((i for i in range(len(within) - stays + 1) if all(within[i : i + stays])), None)
        if taken is None:
            return None
        worst = max(worst, taken)
    return worst
