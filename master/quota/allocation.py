"""The quota rule: how T is shared out among the brokers of one instance, for one direction (docs/quota.md).

All policies (`master/quota/policies.py`) have one type, so that the simulator can compare them. Everything is
in integers: the gates of the rule are exact, and a share never rounds up, so sums never exceed T by rounding.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from contracts.quota_view import Rule
from master.quota.demand import Demand


@dataclass(frozen=True, slots=True)
class Decision:
    """F, P and q in the order of the demands, and the rule that made q of the others."""

    rule: Rule
    shares: tuple[int, ...]
    proportions: tuple[int, ...]
    rates: tuple[int, ...]

    @property
    def p_max(self) -> int:
        return max(self.proportions, default=0)


Policy = Callable[[int, Sequence[Demand]], Decision]
"""(T, one demand per broker that reports) -> the decision."""


def shares_of(purchased: int, demands: Sequence[Demand]) -> tuple[int, ...]:
    """F_i = T * n_i / sum(n)."""
    total = sum(demand.weight for demand in demands)
    return tuple(purchased * demand.weight // total for demand in demands)


def proportions_of(purchased: int, demands: Sequence[Demand]) -> tuple[int, ...]:
    """P_i = T * r_i / sum(r); all zero while nothing flows."""
    total = sum(demand.rate_per_s for demand in demands)
    if total == 0:
        return (0,) * len(demands)
    return tuple(purchased * demand.rate_per_s // total for demand in demands)


GATE_PERCENT: Final = 80


def reaches_gate(part: int, whole: int) -> bool:
    """part >= 0.8 * whole, exactly: with floats a broker that is precisely at its gate is misjudged."""
    return 100 * part >= GATE_PERCENT * whole


def is_below_gate(purchased: int, demand: Demand, weights_total: int) -> bool:
    """r_i < 0.8 * F_i."""
    return not reaches_gate(demand.rate_per_s * weights_total, purchased * demand.weight)


def seed(purchased: int, demands: Sequence[Demand]) -> Decision:
    """The rule of the founding design, steps 2 to 5. May issue up to T + 0.1 (n - 1) Pmax in sum."""
    assert purchased > 0 and demands and all(demand.weight > 0 for demand in demands)
    shares = shares_of(purchased, demands)
    proportions = proportions_of(purchased, demands)
    weights_total = sum(demand.weight for demand in demands)
    if all(is_below_gate(purchased, demand, weights_total) for demand in demands):
        return Decision(Rule.BELOW_GATE, shares, proportions, shares)
    rates = [demand.rate_per_s for demand in demands]
    busiest = max(rates)
    if reaches_gate(min(rates), busiest):
        return Decision(Rule.RATIO_MET, shares, proportions, proportions)
    p_max = max(proportions)
    # For the busiest this is P itself, which is Pmax.
    allocated = tuple(min(proportion + p_max // 10, p_max) for proportion in proportions)
    return Decision(Rule.HEADROOM, shares, proportions, allocated)


def capped_by(epsilon_permille: int) -> Policy:
    """`seed` with its headroom scaled down so that sum(q) <= (1 + eps) T."""
    assert epsilon_permille >= 0

    def capped(purchased: int, demands: Sequence[Demand]) -> Decision:
        decision = seed(purchased, demands)
        if decision.rule is not Rule.HEADROOM:
            return decision
        headrooms = [q - p for q, p in zip(decision.rates, decision.proportions, strict=True)]
        wanted = sum(headrooms)
        allowed = min(wanted, purchased * epsilon_permille // 1000)
        allocated = tuple(
            p + headroom * allowed // max(1, wanted)
            for p, headroom in zip(decision.proportions, headrooms, strict=True)
        )
        return Decision(decision.rule, decision.shares, decision.proportions, allocated)

    return capped


def static(purchased: int, demands: Sequence[Demand]) -> Decision:
    """Always F_i, as published managed services do."""
    shares = shares_of(purchased, demands)
    return Decision(Rule.STATIC, shares, proportions_of(purchased, demands), shares)


@dataclass(frozen=True, slots=True)
class SharedOut:
    """A decision over all brokers of an instance, silent ones included, and what was kept for those."""

    decision: Decision
    reserved: int


def share_out(policy: Policy, purchased: int, demands: Sequence[Demand], silent: Sequence[bool]) -> SharedOut:
    """Apply a policy; a silent broker's F_i stays reserved and the others share T - sum of those.

    Demands that lead nothing get nothing. Without any broker that reports nothing is decided: each keeps F_i.
    """
    leading = [index for index, demand in enumerate(demands) if demand.weight > 0]
    shares = [0] * len(demands)
    proportions = [0] * len(demands)
    rates = [0] * len(demands)
    reserved = 0
    if leading:
        for index, share in zip(leading, shares_of(purchased, [demands[i] for i in leading]), strict=True):
            if silent[index]:
                shares[index] = rates[index] = share
                reserved += share
    active = [index for index in leading if not silent[index]]
    rule = Rule.NO_BROKERS
    if active:
        decision = policy(purchased - reserved, [demands[i] for i in active])
        rule = decision.rule
        for position, index in enumerate(active):
            shares[index] = decision.shares[position]
            proportions[index] = decision.proportions[position]
            rates[index] = decision.rates[position]
    return SharedOut(Decision(rule, tuple(shares), tuple(proportions), tuple(rates)), reserved)
