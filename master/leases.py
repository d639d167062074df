"""Leases: allocations with an epoch that only grows, also from one master to the next."""

from dataclasses import dataclass
from typing import Final

from contracts.quota import Allocation
from master.decision import InstanceDecision

TERM_FACTOR: Final = 2**32
"""An epoch is term * 2^32 + a counter; the journal gives every run of a master the next term. Terms below
2^21 keep epochs exact in JSON readers that use doubles."""


@dataclass(frozen=True, slots=True)
class Grant:
    """The lease a point was given last, and when."""

    allocation: Allocation
    granted_at_ms: int


class LeaseBook:
    """The last lease of every point and instance.

    Invariant: every grant has a larger epoch than all before it, those of earlier terms included.
    """

    def __init__(self, *, term: int, lease_ms: int, renew_after_ms: int) -> None:
        assert term > 0 and 0 < renew_after_ms < lease_ms
        self._epoch = term * TERM_FACTOR
        self._lease_ms = lease_ms
        self._renew_after_ms = renew_after_ms
        self._grants: dict[str, dict[str, Grant]] = {}

    def grant(
        self, decision: InstanceDecision, index: int, now_ms: int, *, unasked: bool
    ) -> Allocation | None:
        """The lease of the `index`-th broker of a decision.

        `unasked` (the point's report did not list the instance): None while the last one is fresh and says
        the same.
        """
        entry = decision.entries[index]
        grants = self._grants.setdefault(entry.point, {})
        last = grants.get(entry.instance_id)
        allocation = Allocation(
            instance_id=entry.instance_id,
            lease_epoch=self._epoch + 1,
            lease_ms=self._lease_ms,
            produce_rate_bytes_per_s=decision.produce.decision.rates[index],
            consume_rate_bytes_per_s=decision.consume.decision.rates[index],
            partitions_total=decision.partitions_total,
            blocked=decision.blocked,
            stored_bytes=decision.stored_bytes,
            stored_left_bytes=decision.stored_left_bytes,
        )
        is_fresh = last is not None and now_ms - last.granted_at_ms < self._renew_after_ms
        if unasked and last is not None and is_fresh and _terms(last.allocation) == _terms(allocation):
            return None
        self._epoch += 1
        grants[entry.instance_id] = Grant(allocation, now_ms)
        return allocation

    def granted_to(self, point: str) -> list[Allocation]:
        """The last leases of a point, in order of instance id."""
        grants = self._grants.get(point, {})
        return [grants[instance_id].allocation for instance_id in sorted(grants)]

    def epoch_of(self, point: str, instance_id: str) -> int:
        """The epoch granted last in this term; 0: none."""
        grant = self._grants.get(point, {}).get(instance_id)
        return grant.allocation.lease_epoch if grant is not None else 0

    def forget_instance(self, instance_id: str) -> None:
        """The instance is deleted."""
        for grants in self._grants.values():
            grants.pop(instance_id, None)

    def forget_point(self, point: str) -> None:
        """The broker is gone for good."""
        self._grants.pop(point, None)


def _terms(allocation: Allocation) -> tuple[int, int, int, bool]:
    """What a point must hear of at once. Stored bytes can wait: a point that appends is always asking."""
    return (
        allocation.produce_rate_bytes_per_s,
        allocation.consume_rate_bytes_per_s,
        allocation.partitions_total,
        allocation.blocked,
    )
