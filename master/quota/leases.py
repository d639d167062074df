"""Leases: allocations with an epoch that only grows, also from one master to the next."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import msgspec

from contracts.quota import Allocation, CpuAllocation
from master.quota.cpu_decision import CpuDecision
from master.quota.decision import InstanceDecision

TERM_FACTOR: Final = 2**32
"""An epoch is term * 2^32 + a counter; the journal gives every run of a master the next term. Terms below
2^21 keep epochs exact in JSON readers that use doubles."""
EPOCH_MAX: Final = 2**61
"""The largest epoch that a point may tell: nobody ever gave such a lease; a larger one hardly fits."""

A = TypeVar("A", Allocation, CpuAllocation)


@dataclass(frozen=True, slots=True)
class Grant(Generic[A]):
    """The lease a point was given last, and when."""

    allocation: A
    granted_at_ms: int


class LeaseBook(Generic[A]):
    """The last lease of every point and instance, of bytes or of request time.

    Invariant: every grant has a larger epoch than all before it, those of earlier terms included.
    """

    def __init__(
        self, terms: Callable[[A], object], *, term: int, lease_ms: int, renew_after_ms: int
    ) -> None:
        """`terms` is what of an allocation a point must hear of at once."""
        assert term > 0 and 0 < renew_after_ms < lease_ms
        self._terms: Callable[[A], object] = terms
        self._epoch = term * TERM_FACTOR
        self._lease_ms = lease_ms
        self._renew_after_ms = renew_after_ms
        self._grants: dict[str, dict[str, Grant[A]]] = {}

    def grant(self, point: str, offer: A, now_ms: int, *, unasked: bool) -> A | None:
        """Make an offer a lease.

        `unasked` (the point's report did not list the instance): None while the last one is fresh and says
        the same.
        """
        grants = self._grants.setdefault(point, {})
        last = grants.get(offer.instance_id)
        is_fresh = last is not None and now_ms - last.granted_at_ms < self._renew_after_ms
        if unasked and last is not None and is_fresh and self._terms(last.allocation) == self._terms(offer):
            return None
        self._epoch += 1
        lease = msgspec.structs.replace(offer, lease_epoch=self._epoch, lease_ms=self._lease_ms)
        grants[offer.instance_id] = Grant(lease, now_ms)
        return lease

    def has_given(self, epoch: int) -> bool:
        """Whether leases of this book are newer than the epoch, which a point says it has one of."""
        return epoch <= self._epoch or epoch > EPOCH_MAX

    def granted_to(self, point: str) -> list[A]:
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
        """The point is gone for good."""
        self._grants.pop(point, None)


def byte_terms(allocation: Allocation) -> object:
    """Stored bytes can wait: a point that appends is always asking."""
    return (
        allocation.produce_rate_bytes_per_s,
        allocation.consume_rate_bytes_per_s,
        allocation.partitions_total,
        allocation.blocked,
    )


def cpu_terms(allocation: CpuAllocation) -> object:
    """Its rate."""
    return allocation.rate_us_per_s


def byte_offer(decision: InstanceDecision, index: int) -> Allocation:
    """What the `index`-th broker of a decision may carry."""
    return Allocation(
        instance_id=decision.entries[index].instance_id,
        lease_epoch=0,
        lease_ms=0,
        produce_rate_bytes_per_s=decision.produce.decision.rates[index],
        consume_rate_bytes_per_s=decision.consume.decision.rates[index],
        partitions_total=decision.partitions_total,
        blocked=decision.blocked,
        stored_bytes=decision.stored_bytes,
        stored_left_bytes=decision.stored_left_bytes,
    )


def cpu_offer(decision: CpuDecision, index: int) -> CpuAllocation:
    """What the `index`-th point of a decision may spend."""
    return CpuAllocation(
        instance_id=decision.entries[index].instance_id,
        lease_epoch=0,
        lease_ms=0,
        rate_us_per_s=decision.shared.decision.rates[index],
    )
