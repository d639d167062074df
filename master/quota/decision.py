"""One instance's decision: capacity first, then the rule for each direction of bytes."""

from collections.abc import Sequence
from dataclasses import dataclass

from contracts.quota import Direction
from contracts.quota_view import Rule
from contracts.specs import InstanceSpec
from master.quota.allocation import Decision, Policy, SharedOut, share_out
from master.quota.demand import Demand
from master.quota.flows import FlowEntry
from master.quota.leadership import Leadership
from master.quota.ledger import Entry


@dataclass(frozen=True, slots=True)
class InstanceDecision:
    """What every broker of an instance may do now. All sequences are in the order of `entries`."""

    spec: InstanceSpec
    entries: tuple[Entry, ...]
    silent: tuple[bool, ...]
    produce: SharedOut
    consume: SharedOut
    stored_bytes: int
    blocked: bool

    @property
    def partitions_total(self) -> int:
        """sum(n)."""
        return sum(entry.partitions_led for entry in self.entries)

    @property
    def stored_left_bytes(self) -> int:
        """Capacity less stored; negative when more is stored than that."""
        return self.spec.capacity_bytes - self.stored_bytes

    def shared_out(self, direction: Direction) -> SharedOut:
        """The decision for one direction."""
        return self.produce if direction is Direction.PRODUCE else self.consume

    def purchased(self, direction: Direction) -> int:
        """T."""
        return _purchased(self.spec, direction)


def side_of(entry: Entry, direction: Direction) -> FlowEntry:
    """One direction of an entry."""
    return entry.produce if direction is Direction.PRODUCE else entry.consume


def _purchased(spec: InstanceSpec, direction: Direction) -> int:
    """T; at least 1, so that no spec, however wrong, stops the master for all others."""
    if direction is Direction.PRODUCE:
        return max(1, spec.produce_rate_bytes_per_s)
    return max(1, spec.consume_rate_bytes_per_s)


def decide(
    spec: InstanceSpec, led: Leadership, *, policy: Policy, stored_bytes: int, blocked: bool
) -> InstanceDecision:
    """The five steps, the first of them done."""

    def share(direction: Direction) -> SharedOut:
        return share_flows(
            policy,
            _purchased(spec, direction),
            [
                Sharer(entry.partitions_led, side_of(entry, direction), age_ms, is_silent)
                for entry, age_ms, is_silent in zip(led.entries, led.ages_ms, led.silent, strict=True)
            ],
        )

    return InstanceDecision(
        spec=spec,
        entries=led.entries,
        silent=led.silent,
        produce=share(Direction.PRODUCE),
        consume=share(Direction.CONSUME),
        stored_bytes=stored_bytes,
        blocked=blocked,
    )


@dataclass(frozen=True, slots=True)
class Sharer:
    """One point, as the rule sees it."""

    weight: int
    flow: FlowEntry
    age_ms: int
    is_silent: bool


def share_flows(policy: Policy, purchased: int, sharers: Sequence[Sharer]) -> SharedOut:
    """Share out T of one direction by a policy; while a rate is unknown, hold what is applied."""
    silent = [each.is_silent for each in sharers]
    demands = [
        Demand(
            weight=each.weight,
            rate_per_s=each.flow.rate_per_s or 0,
            wanted_per_s=each.flow.wanted_per_s,
            applied_per_s=each.flow.applied_per_s,
            age_ms=each.age_ms,
            window_ms=each.flow.window_ms,
            waited_ms=each.flow.waited_ms,
        )
        for each in sharers
    ]
    shared = share_out(policy, purchased, demands, silent)
    unknown = any(each.flow.rate_per_s is None and not each.is_silent for each in sharers)
    return _hold(shared, purchased, sharers) if unknown else shared


def _hold(shared: SharedOut, purchased: int, sharers: Sequence[Sharer]) -> SharedOut:
    """A rate is still unknown: everyone keeps the q it reported, so that a new master jolts no one.

    A point that applies none yet gets its share; none keeps more than T, whatever it bought before.
    """
    decision = shared.decision
    rates = tuple(
        share
        if each.is_silent or not each.flow.counters.rate_per_s
        else min(each.flow.counters.rate_per_s, purchased)
        for share, each in zip(decision.shares, sharers, strict=True)
    )
    held = Decision(Rule.HOLD, decision.shares, decision.proportions, rates)
    return SharedOut(held, shared.reserved)
