"""Why q is what it is, in one sentence with the numbers, for the dashboard."""

from collections.abc import Sequence

from contracts.quota import Direction
from contracts.quota_view import Rule
from contracts.units import format_bytes
from master.decision import InstanceDecision, side_of


def explain(decision: InstanceDecision, direction: Direction) -> str:
    """The sentence for one direction."""
    shared = decision.shared_out(direction)
    rates = [side_of(entry, direction).rate_bytes_per_s or 0 for entry in decision.entries]
    sentence = _sentence(decision, direction, rates)
    silent = [entry.node_id for entry, gone in zip(decision.entries, decision.silent, strict=True) if gone]
    if silent:
        reserved = _rate(shared.reserved)
        sentence += f" {_brokers(silent)} silent: {reserved} stays reserved, the others share the rest."
    if direction is Direction.PRODUCE and decision.blocked:
        full = f"{decision.stored_bytes} of {decision.spec.capacity_bytes}"
        sentence += f" Produce is blocked: {full} bytes are stored."
    return sentence


def _sentence(decision: InstanceDecision, direction: Direction, rates: Sequence[int]) -> str:
    result = decision.shared_out(direction).decision
    active = [i for i in range(len(rates)) if not decision.silent[i]]
    if result.rule is Rule.NO_BROKERS:
        return "No broker that leads a partition is reporting: every broker keeps its share F."
    if result.rule is Rule.HOLD:
        return "The master has not yet seen two reports of every broker: each keeps the rate it applies."
    if result.rule is Rule.STATIC:
        return "Policy static: every broker gets its share F."
    if result.rule is Rule.BELOW_GATE:
        return "Every broker is below 80 % of its share F: q = F."
    if result.rule is Rule.ROOM:
        return (
            f"Policy fair: {_rate(sum(rates[i] for i in active))} are carried, and all that is wanted fits: "
            "each gets what it wants and a part of what is left."
        )
    if result.rule is Rule.LEVEL:
        most = max(result.rates[i] for i in active)
        return (
            "Policy fair: more is wanted than T: each gets what it wants, "
            f"but none more than {_rate(most)}, the level at which all of it adds up to T."
        )
    at_gate = [i for i in active if 10 * rates[i] >= 8 * result.shares[i]] or active
    first = max(at_gate, key=lambda i: rates[i])
    gate = (
        f"Broker {decision.entries[first].node_id} carries {_rate(rates[first])}, "
        f"80 % or more of its share F of {_rate(result.shares[first])};"
    )
    slowest, busiest = min(rates[i] for i in active), max(rates[i] for i in active)
    ratio = slowest / busiest if busiest else 1.0
    if result.rule is Rule.RATIO_MET:
        return f"{gate} Pmin / Pmax = {ratio:.3g} is at least 0.8: q = P, in proportion to traffic."
    return (
        f"{gate} Pmin / Pmax = {ratio:.3g} is below 0.8: the busiest gets P, "
        "the others P + 0.1 Pmax, at most Pmax, so that they can show that they want more."
    )


def _brokers(node_ids: Sequence[int]) -> str:
    names = ", ".join(str(node_id) for node_id in node_ids)
    return f"Broker {names} is" if len(node_ids) == 1 else f"Brokers {names} are"


def _rate(bytes_per_s: int) -> str:
    return format_bytes(bytes_per_s, rate=True)
