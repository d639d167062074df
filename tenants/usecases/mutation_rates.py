"""The rate at which partitions of an instance are created and deleted through the console: as much as its
clients may at a gateway, in a bucket of its own. Moves, restores and purges are not the tenant's doing."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from contracts.topic_policy import mutation_rate_fault
from runtime.clock import monotonic_ns
from tenants.rules.errors import Refused, TooMany, Unavailable
from tenants.rules.model import Instance
from traffic.mutation_rate import MutationRate

_US_NS: Final = 1_000


class MutationRates:
    """Of all instances, as long as their buckets are not full."""

    def __init__(self, now_ns: Callable[[], int] = monotonic_ns) -> None:
        self._now_ns = now_ns
        self._full_at_us: dict[str, int] = {}

    @contextmanager
    def charged(self, instance: Instance, partitions: int) -> Iterator[None]:
        """While so many are created, or deleted; what is refused then costs nothing. Raises: TooMany."""
        name, now_us = instance.id, self._now_ns() // _US_NS
        rate = MutationRate(instance.limits.controller_mutation_rate_max)
        full_at_us = self._full_at_us.get(name, 0)
        wait_ms = rate.wait_ms(full_at_us, now_us)
        if wait_ms:
            raise TooMany(mutation_rate_fault(instance.limits, wait_ms), -(-wait_ms // 1000))
        self._full_at_us[name] = rate.charged(full_at_us, partitions, now_us)
        self._forget_full(now_us)
        try:
            yield
        except Unavailable:
            raise  # it may be done all the same
        except Refused:
            if name in self._full_at_us:
                self._full_at_us[name] = rate.given_back(self._full_at_us[name], partitions)
            raise

    def _forget_full(self, now_us: int) -> None:
        full = [name for name, full_at_us in self._full_at_us.items() if full_at_us <= now_us]
        for name in full:
            del self._full_at_us[name]
