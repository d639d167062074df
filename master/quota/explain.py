"""Why q is what it is, in one sentence with the numbers, for the dashboard."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from contracts.quota import Direction
from contracts.quota_view import Rule
from contracts.units import format_bytes, format_cpu
from master.quota.allocation import GATE_PERCENT, SharedOut, reaches_gate
from master.quota.cpu_decision import CpuDecision
from master.quota.decision import InstanceDecision, side_of


@dataclass(frozen=True, slots=True)
class _Case:
    """A decision in the words of its unit. All sequences are in one order."""

    shared: SharedOut
    names: Sequence[str]
    rates: Sequence[int]
    silent: Sequence[bool]
    noun: str
    """The word for one point."""
    uses: str
    """What it does with its rate."""
    are_used: str
    text: Callable[[int], str]
    has_idle: bool = False
    """Beside these there are points that use nothing."""

    @property
    def active(self) -> list[int]:
        return [index for index, silent in enumerate(self.silent) if not silent]


def explain(decision: InstanceDecision, direction: Direction) -> str:
    """The sentence for one direction of bytes."""
    case = _Case(
        shared=decision.shared_out(direction),
        names=[str(entry.node_id) for entry in decision.entries],
        rates=[side_of(entry, direction).rate_per_s or 0 for entry in decision.entries],
        silent=decision.silent,
        noun="broker",
        uses="carries",
        are_used="are carried",
        text=lambda rate: format_bytes(rate, rate=True),
    )
    sentence = _sentence(case) + _about_silent(case)
    if direction is Direction.PRODUCE and decision.blocked:
        full = f"{decision.stored_bytes} of {decision.spec.capacity_bytes}"
        sentence += f" Produce is blocked: {full} bytes are stored."
    return sentence


def explain_cpu(decision: CpuDecision) -> str:
    """The sentence for request time."""
    case = _Case(
        shared=decision.shared,
        names=[entry.point for entry in decision.entries],
        rates=[entry.flow.rate_per_s or 0 for entry in decision.entries],
        silent=decision.silent,
        noun="point",
        uses="spends",
        are_used="are spent",
        text=format_cpu,
        has_idle=decision.idle_points > 0,
    )
    if not decision.entries:
        return "Nothing was spent lately: every point keeps its share F."
    return _sentence(case) + _about_silent(case)


def _sentence(case: _Case) -> str:
    result, noun = case.shared.decision, case.noun
    if result.rule is Rule.NO_BROKERS:
        return "No broker that leads a partition is reporting: every broker keeps its share F."
    if result.rule is Rule.HOLD:
        return f"The master has not yet seen two reports of every {noun}: each keeps the rate it applies."
    if result.rule is Rule.STATIC:
        return f"Policy static: every {noun} gets its share F."
    if result.rule is Rule.BELOW_GATE:
        return f"Every {noun} is below {GATE_PERCENT} % of its share F: q = F."
    if result.rule is Rule.ROOM:
        used = case.text(sum(case.rates[i] for i in case.active))
        return (
            f"Policy fair: {used} {case.are_used}, and all that is wanted fits: "
            "each gets what it wants and a part of what is left."
        )
    if result.rule is Rule.LEVEL:
        most = max((result.rates[i] for i in case.active), default=0)
        return (
            "Policy fair: more is wanted than T: each gets what it wants, "
            f"but none more than {case.text(most)}, the level at which all of it adds up to T."
        )
    return _in_proportion(case)


def _in_proportion(case: _Case) -> str:
    result, rates, active = case.shared.decision, case.rates, case.active
    at_gate = [i for i in active if reaches_gate(rates[i], result.shares[i])] or active
    first = max(at_gate, key=lambda i: rates[i])
    gate = (
        f"{case.noun.capitalize()} {case.names[first]} {case.uses} {case.text(rates[first])}, "
        f"{GATE_PERCENT} % or more of its share F of {case.text(result.shares[first])};"
    )
    used = [rates[i] for i in active] + [0] * case.has_idle
    slowest, busiest = min(used), max(used)
    ratio = slowest / busiest if busiest else 1.0
    found = f"{gate} Pmin / Pmax = {ratio:.3g}"
    if result.rule is Rule.RATIO_MET:
        return f"{found} is at least {GATE_PERCENT / 100:g}: q = P, in proportion to traffic."
    return (
        f"{found} is below {GATE_PERCENT / 100:g}: the busiest gets P, "
        "the others P + 0.1 Pmax, at most Pmax, so that they can show that they want more."
    )


def _about_silent(case: _Case) -> str:
    names = [name for name, silent in zip(case.names, case.silent, strict=True) if silent]
    if not names:
        return ""
    noun, are = case.noun.capitalize(), "is" if len(names) == 1 else "are"
    reserved = case.text(case.shared.reserved)
    return (
        f" {noun}{'' if len(names) == 1 else 's'} {', '.join(names)} {are} silent: "
        f"{reserved} stays reserved, the others share the rest."
    )
