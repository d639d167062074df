"""The rate at which one instance creates and deletes partitions, as a worker holds it: the bucket that its
machine's workers share, and what became of what was asked for."""

from collections.abc import Callable
from enum import StrEnum
from typing import Final

from contracts.specs import Limits
from gateway.served import ServedInstance
from gateway.shared_buckets import SharedBuckets
from traffic.mutation_rate import MutationRate

_US_NS: Final = 1000


class Outcome(StrEnum):
    """What became of partitions that clients wanted to create or delete; a metric's label."""

    CHARGED = "charged"
    THROTTLED = "throttled"
    """Charged while the instance was in debt, to clients that know no refusal: they are held back instead."""
    RETURNED = "returned"
    """Charged before, and nothing came of them."""
    REFUSED = "refused"


class MutationBucket:
    """Implements `Mutations` of a session's surroundings."""

    __slots__ = ("_buckets", "_now_ns", "_rate_of", "_served")

    def __init__(
        self,
        served: ServedInstance,
        buckets: SharedBuckets,
        rate_of: Callable[[Limits], MutationRate],
        now_ns: Callable[[], int],
    ) -> None:
        """`now_ns` is monotonic, of a clock that all workers of the machine share."""
        self._served = served
        self._buckets = buckets
        self._rate_of = rate_of
        self._now_ns = now_ns

    @property
    def _rate(self) -> MutationRate:
        return self._rate_of(self._served.spec.limits)

    def wait_ms(self) -> int:
        """How long until it is out of debt, a begun millisecond whole."""
        full_at_us = self._buckets.full_at_us(self._served.instance_id)
        return self._rate.wait_ms(full_at_us, self._now_ns() // _US_NS)

    def charge(self, partitions: int) -> None:
        """So many are created, or deleted."""
        name, now_us = self._served.instance_id, self._now_ns() // _US_NS
        rate, full_at_us = self._rate, self._buckets.full_at_us(name)
        outcome = Outcome.THROTTLED if rate.wait_us(full_at_us, now_us) else Outcome.CHARGED
        self._served.mutations[outcome] += partitions
        self._buckets.set(name, rate.charged(full_at_us, partitions, now_us))

    def give_back(self, partitions: int) -> None:
        """So many were charged, and nothing has come of them."""
        name = self._served.instance_id
        self._served.mutations[Outcome.RETURNED] += partitions
        self._buckets.set(name, self._rate.given_back(self._buckets.full_at_us(name), partitions))

    def refuse(self, partitions: int) -> None:
        """Count so many as refused."""
        self._served.mutations[Outcome.REFUSED] += partitions
