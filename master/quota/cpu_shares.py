"""The request time of all instances: decisions kept for a part of a period, leases of the points that ask.

A decision costs as much as it has points, and every point asks once a period: made anew each time, that is
quadratic in gateway workers.
"""

from collections.abc import Callable, Mapping
from typing import Final

from contracts.quota import CpuAllocation
from contracts.specs import InstanceSpec
from master.quota.allocation import Policy
from master.quota.cpu_decision import CpuDecision, Topology, decide_cpu
from master.quota.cpu_ledger import CpuLedger
from master.quota.leases import LeaseBook, cpu_offer

GONE_PERIODS: Final = 60
"""After so many without a report a point is no longer counted."""
_KEPT_PART: Final = 4
"""A decision is kept for a fourth of a period."""


class CpuShares:
    """Request time that one run of the master shares out."""

    def __init__(
        self,
        ledger: CpuLedger,
        leases: LeaseBook[CpuAllocation],
        *,
        specs: Callable[[], Mapping[str, InstanceSpec]],
        policy: Callable[[], Policy],
        places_of: Callable[[InstanceSpec, int], Topology],
        age_of: Callable[[str, int], int],
        period_ms: int,
        silent_periods: int,
    ) -> None:
        """`places_of` (spec, now): the points of its cluster; `age_of` (point, now): of its last report."""
        self._ledger = ledger
        self._leases = leases
        self._specs = specs
        self._policy = policy
        self._places_of = places_of
        self._age_of = age_of
        self._kept_ms = period_ms // _KEPT_PART
        self._silent_ms = silent_periods * period_ms
        self._gone_ms = GONE_PERIODS * period_ms
        self._kept: dict[str, tuple[int, Policy, CpuDecision]] = {}

    def decide(self, spec: InstanceSpec, now_ms: int) -> CpuDecision:
        """The decision as of a part of a period ago at most."""
        instance_id = spec.instance_id
        policy = self._policy()
        kept = self._kept.get(instance_id)
        if kept is not None and now_ms - kept[0] < self._kept_ms:
            _, kept_policy, decision = kept
            if kept_policy is policy and decision.spec is spec:
                return decision
        decision = decide_cpu(
            spec,
            self._ledger.entries_of(instance_id),
            places=self._places_of(spec, now_ms),
            policy=policy,
            age_of=lambda point: self._age_of(point, now_ms),
            silent_ms=self._silent_ms,
            gone_ms=self._gone_ms,
        )
        self._kept[instance_id] = (now_ms, policy, decision)
        return decision

    def grant(
        self, point: str, listed: frozenset[str], now_ms: int, *, only_listed: bool
    ) -> list[CpuAllocation]:
        """Leases for what a point's report listed and, unless `only_listed`, what else it is active in."""
        granted = []
        for instance_id in self._ledger.active_on(point):
            if only_listed and instance_id not in listed:
                continue  # the rate it applies is not known: its lease goes on
            offer = self._offer(point, instance_id, now_ms)
            if offer is None:
                continue
            lease = self._leases.grant(point, offer, now_ms, unasked=instance_id not in listed)
            if lease is not None:
                self._ledger.granted(point, instance_id, lease.rate_us_per_s)
                granted.append(lease)
        return granted

    def _offer(self, point: str, instance_id: str, now_ms: int) -> CpuAllocation | None:
        spec = self._specs().get(instance_id)
        if spec is None or spec.state.is_gone:
            return None
        for _ in range(2):
            decision = self.decide(spec, now_ms)
            for index, entry in enumerate(decision.entries):
                if entry.point == point:
                    return cpu_offer(decision, index)
            del self._kept[instance_id]  # it was decided before the point spent anything
        return None

    def forget_instance(self, instance_id: str) -> None:
        """The instance is deleted."""
        self._kept.pop(instance_id, None)
        self._leases.forget_instance(instance_id)

    def forget_point(self, point: str) -> None:
        """The point is gone for good."""
        self._kept.clear()
        self._leases.forget_point(point)

    def granted_to(self, point: str) -> list[CpuAllocation]:
        """The last leases of a point."""
        return self._leases.granted_to(point)

    def epoch_of(self, point: str, instance_id: str) -> int:
        """The epoch of the last lease; 0: none."""
        return self._leases.epoch_of(point, instance_id)
