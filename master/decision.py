"""One instance's decision: capacity first, then the rule for each direction, from what the ledger knows."""

from collections.abc import Sequence
from dataclasses import dataclass

from contracts.quota import Direction
from contracts.quota_view import Rule
from contracts.specs import InstanceSpec
from master.allocation import Decision, Demand, Policy, SharedOut, share_out
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
    spec: InstanceSpec,
    entries: Sequence[Entry],
    silent: Sequence[bool],
    *,
    policy: Policy,
    stored_bytes: int,
    blocked: bool,
) -> InstanceDecision:
    """The five steps, the first done. `entries` lead at least one partition each."""
    return InstanceDecision(
        spec=spec,
        entries=tuple(entries),
        silent=tuple(silent),
        produce=_share(
            policy, _purchased(spec, Direction.PRODUCE), [(e, e.produce) for e in entries], silent
        ),
        consume=_share(
            policy, _purchased(spec, Direction.CONSUME), [(e, e.consume) for e in entries], silent
        ),
        stored_bytes=stored_bytes,
        blocked=blocked,
    )


def _share(
    policy: Policy, purchased: int, sides: Sequence[tuple[Entry, DirectionEntry]], silent: Sequence[bool]
) -> SharedOut:
    demands = [Demand(entry.partitions_led, side.rate_bytes_per_s or 0) for entry, side in sides]
    shared = share_out(policy, purchased, demands, silent)
    unknown = any(
        side.rate_bytes_per_s is None and not is_silent
        for (_, side), is_silent in zip(sides, silent, strict=True)
    )
    return _hold(shared, purchased, [side for _, side in sides], silent) if unknown else shared


def _hold(
    shared: SharedOut, purchased: int, sides: Sequence[DirectionEntry], silent: Sequence[bool]
) -> SharedOut:
    """A rate is still unknown: everyone keeps the q it reported, so that a new master jolts no one.

    A broker that applies none yet gets its share; none keeps more than T, whatever it bought before.
    """
    decision = shared.decision
    rates = tuple(
        share
        if is_silent or not side.counters.rate_bytes_per_s
        else min(side.counters.rate_bytes_per_s, purchased)
        for share, side, is_silent in zip(decision.shares, sides, silent, strict=True)
    )
    held = Decision(Rule.HOLD, decision.shares, decision.proportions, rates)
    return SharedOut(held, shared.reserved)
