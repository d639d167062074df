"""One instance's request time shared out among the points that spend it, by the policies of bytes (ADR 0017).

Points that spent nothing lately take part as one: their static shares stay theirs, as that of an idle broker
does with bytes, but they need no lease. So an instance costs the master as many points as it uses.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from contracts.request_time import Weights
from contracts.specs import InstanceSpec
from master.quota.allocation import Decision, Policy, SharedOut
from master.quota.cpu_ledger import CpuEntry
from master.quota.decision import Sharer, share_flows
from master.quota.flows import FlowEntry
from master.quota.leadership import Leadership


@dataclass(frozen=True, slots=True)
class Topology:
    """The points of the instance's cluster: `led` has every broker, `gateways` are all there are."""

    led: Mapping[str, int]
    gateways: int

    @property
    def weights(self) -> Weights:
        """The static shares."""
        return Weights(brokers=len(self.led), partitions=sum(self.led.values()), gateways=self.gateways)

    @property
    def points(self) -> int:
        """All points."""
        return len(self.led) + self.gateways


def topology(led: Leadership, brokers: frozenset[str], gateways: int) -> Topology:
    """`brokers` of the cluster that were heard of lately; silent ones count while they lead something."""
    counted = dict.fromkeys(brokers, 0) | {entry.point: entry.partitions_led for entry in led.entries}
    return Topology(counted, gateways)


@dataclass(frozen=True, slots=True)
class CpuDecision:
    """What every active point may spend now. All sequences are in the order of `entries`."""

    spec: InstanceSpec
    entries: tuple[CpuEntry, ...]
    silent: tuple[bool, ...]
    shared: SharedOut
    idle_points: int
    """Points at which the tenant may turn up, and where nothing was spent lately."""
    idle_share_us_per_s: int
    """The sum of their static shares, which they apply without a lease."""

    @property
    def purchased(self) -> int:
        """T; at least 1, so that no spec, however wrong, stops the master for all others."""
        return max(1, self.spec.cpu_us_per_s)


def decide_cpu(
    spec: InstanceSpec,
    entries: Sequence[CpuEntry],
    *,
    places: Topology,
    policy: Policy,
    age_of: Callable[[str], int],
    silent_ms: int,
    gone_ms: int,
) -> CpuDecision:
    """Steps 2 to 5 of the rule, with `contracts.request_time.Weights` for n.

    A point silent for `silent_ms` leaves the rule with its share reserved. After `gone_ms` it is not counted;
    a broker that no longer leads anything not even so long: the cluster has given up on it.
    """
    weights = places.weights
    active = []
    for entry in entries:
        age_ms = age_of(entry.point)
        is_silent = age_ms >= silent_ms
        led = 0 if entry.is_gateway else places.led.get(entry.point, 0)
        is_gone = is_silent and not led and (age_ms >= gone_ms or not entry.is_gateway)
        if entry.is_active and not is_gone:
            weight = weights.gateway if entry.is_gateway else weights.broker(led)
            active.append((entry, Sharer(weight, entry.flow, age_ms, is_silent)))
    sharers = [sharer for _, sharer in active]
    idle_weight = weights.total - sum(sharer.weight for sharer in sharers)
    if idle_weight > 0:
        sharers.append(Sharer(idle_weight, FlowEntry(rate_per_s=0), 0, is_silent=False))
    shared = share_flows(policy, max(1, spec.cpu_us_per_s), sharers)
    count = len(active)
    return CpuDecision(
        spec=spec,
        entries=tuple(entry for entry, _ in active),
        silent=tuple(sharer.is_silent for _, sharer in active),
        shared=SharedOut(_first(shared.decision, count), shared.reserved),
        idle_points=max(0, places.points - count),
        idle_share_us_per_s=sum(shared.decision.shares[count:]),
    )


def _first(decision: Decision, count: int) -> Decision:
    return Decision(
        decision.rule, decision.shares[:count], decision.proportions[:count], decision.rates[:count]
    )
