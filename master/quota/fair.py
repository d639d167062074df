"""Policy `fair`: T goes to the brokers by max-min fairness over what their clients want (ADR 0008).

1. What a broker's clients want is what it carried, or more if it held them back (`master.quota.demand`).
2. Everybody wants less than 80 % of F: q = F, as in the seed's rule.
3. The water level is the largest L with sum(min(wanted, L)) <= T. A broker gets what is wanted, up to L.
4. What is left of T is spread in proportion.
5. Headroom: a broker that is not held back gets a twentieth of T on top, but not more than F, so that it can
   show that it wants more. Together that is at most T, however many brokers there are.
6. A fall is at once. A rise takes the room that the others leave: `_room_for`.
"""

from collections.abc import Sequence
from typing import Final

from contracts.quota_view import Rule
from master.quota.allocation import Decision, is_below_gate, proportions_of, shares_of
from master.quota.demand import Demand

_HEADROOM_PART: Final = 20
"""Headroom as a part of T: a twentieth."""


def fair(purchased: int, demands: Sequence[Demand]) -> Decision:
    """Decide for one direction."""
    assert purchased > 0 and demands and all(demand.weight > 0 for demand in demands)
    shares = shares_of(purchased, demands)
    wants = [min(purchased, demand.wanted_per_s) for demand in demands]
    headrooms = [min(purchased // _HEADROOM_PART, share) for share in shares]
    if _nobody_wants_much(purchased, demands, wants):
        rule, targets = Rule.BELOW_GATE, list(shares)
    else:
        level = water_level(purchased, wants)
        rule = Rule.ROOM if sum(wants) < purchased else Rule.LEVEL
        targets = _targets(purchased, wants, level, headrooms)
    rates = []
    for index, (target, demand) in enumerate(zip(targets, demands, strict=True)):
        rise = target - demand.applied_per_s
        if rise > 0:
            room = _room_for(index, purchased, headrooms[index], targets, demands)
            target = demand.applied_per_s + max(0, min(rise, room))
        rates.append(target)
    return Decision(rule, shares, proportions_of(purchased, demands), tuple(rates))


def _nobody_wants_much(purchased: int, demands: Sequence[Demand], wants: Sequence[int]) -> bool:
    total = sum(demand.weight for demand in demands)
    return all(
        is_below_gate(purchased, demand._replace(rate_per_s=want), total)
        for demand, want in zip(demands, wants, strict=True)
    )


def water_level(total: int, wants: Sequence[int]) -> int:
    """The largest L with sum(min(want, L)) <= total; the largest want when all of them fit."""
    left = total
    for position, want in enumerate(sorted(wants)):
        waiting = len(wants) - position
        if want * waiting >= left:
            return min(max(wants), left // waiting)
        left -= want
    return max(wants)


def _targets(purchased: int, wants: Sequence[int], level: int, headrooms: Sequence[int]) -> list[int]:
    bases = [min(want, level) for want in wants]
    used = sum(bases)
    left = purchased - used
    assert left >= 0
    return [
        min(
            purchased, base + left * base // max(1, used) + (headroom if want <= level else 0)
        )  # nobody wants more than T
        for base, headroom, want in zip(bases, headrooms, wants, strict=True)
    ]


def _room_for(
    index: int, purchased: int, headroom: int, targets: Sequence[int], demands: Sequence[Demand]
) -> int:
    """How much more a broker may be given before the others have less.

    What the others may carry meanwhile is counted. Three quarters of their falls to come are lent: without,
    T would lie idle for the round between fall and rise; with all of it, it would be given twice.
    """
    demand = demands[index]
    used = lent = 0
    for position, (other, target) in enumerate(zip(demands, targets, strict=True)):
        if position != index:
            may_use = _may_use(other, demand.waiting_ms)
            used += may_use
            lent += max(0, may_use - target)
    return purchased + headroom + lent * 3 // 4 - used - demand.applied_per_s


def _may_use(other: Demand, waiting_ms: int) -> int:
    """What a broker may carry now, as one sees it whose clients have waited so long.

    What it carried since they wait it will go on to carry, if its report covers a part of that time. If it
    has not reported since, it may have woken up too: half of what it did not use is counted.
    """
    since_ms = min(waiting_ms - other.age_ms, other.window_ms)
    if since_ms > 0:
        return min(other.applied_per_s, other.wanted_per_s * other.window_ms // since_ms)
    used = min(other.applied_per_s, other.wanted_per_s)
    return used + (other.applied_per_s - used) // 2
