"""One instance's decision: capacity first, then the rule for each direction, from what the ledger knows."""

from collections.abc import Sequence
from dataclasses import dataclass

from contracts.quota import Direction
from contracts.quota_view import Rule
from contracts.specs import InstanceSpec
from master.allocation import Decision, Policy, SharedOut, share_out
from master.demand import Demand
from master.leadership import Leadership
from master.ledger import DirectionEntry, Entry


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


def side_of(entry: Entry, direction: Direction) -> DirectionEntry:
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
        sides = [side_of(entry, direction) for entry in led.entries]
        return _share(policy, _purchased(spec, direction), led, sides)

    return InstanceDecision(
        spec=spec,
        entries=led.entries,
        silent=led.silent,
        produce=share(Direction.PRODUCE),
        consume=share(Direction.CONSUME),
        stored_bytes=stored_bytes,
        blocked=blocked,
    )


def _share(policy: Policy, purchased: int, led: Leadership, sides: Sequence[DirectionEntry]) -> SharedOut:
    demands = [
        Demand(
            partitions_led=entry.partitions_led,
            rate_bytes_per_s=side.rate_bytes_per_s or 0,
            wanted_bytes_per_s=side.wanted_bytes_per_s,
            applied_bytes_per_s=side.applied_bytes_per_s,
            age_ms=age_ms,
            window_ms=side.window_ms,
            waited_ms=side.waited_ms,
        )
        for entry, side, age_ms in zip(led.entries, sides, led.ages_ms, strict=True)
    ]
    shared = share_out(policy, purchased, demands, led.silent)
    unknown = any(
        side.rate_bytes_per_s is None and not is_silent
        for side, is_silent in zip(sides, led.silent, strict=True)
    )
    return _hold(shared, purchased, sides, led.silent) if unknown else shared


def _hold(
    shared: SharedOut, purchased: int, sides: Sequence[DirectionEntry], silent: Sequence[bool]
) -> SharedOut:
    """A rate is still unknown: everyone keeps the q it reported, so that a new master jolts no one.

    A broker that applies none yet gets its share; none keeps more than T, whatever it bought before.
    """
    decision = shared.decision
    rates = tuple(
        share if is_silent or not side.counters.rate_per_s else min(side.counters.rate_per_s, purchased)
        for share, side, is_silent in zip(decision.shares, sides, silent, strict=True)
    )
    held = Decision(Rule.HOLD, decision.shares, decision.proportions, rates)
    return SharedOut(held, shared.reserved)
