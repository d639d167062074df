"""How many requests a key and its tenant may send. Pure: times are arguments, in microseconds.

The generic cell rate algorithm: one number per bucket, the time at which it would be empty again.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple

_BUCKETS_MAX: Final = 10_000
_SECOND_US: Final = 1_000_000


class Quota(NamedTuple):
    """So many requests in so many seconds: at once, or spread."""

    name: str
    requests_max: int
    window_s: int

    @property
    def interval_us(self) -> int:
        """What one request takes of the bucket."""
        return self.window_s * _SECOND_US // self.requests_max

    @property
    def depth_us(self) -> int:
        """The whole bucket."""
        return self.interval_us * self.requests_max


class ApiRates(NamedTuple):
    """The quotas of the console's API."""

    key: Quota = Quota("key", 500, 10)
    """Requests of one API key, or of one user's sessions."""
    tenant: Quota = Quota("tenant", 1_000, 10)
    """Requests of everybody of a tenant together."""
    operator: Quota = Quota("key", 5_000, 10)
    """Requests of an operator's key or sessions; operators have no other."""


class Bucket(NamedTuple):
    """A quota of somebody."""

    key: str
    quota: Quota


class Verdict(NamedTuple):
    """Whether a request is admitted, and how its tightest bucket stands."""

    is_admitted: bool
    quota: Quota
    remaining: int
    full_after_us: int
    """Until the bucket is as it was at first."""
    retry_after_us: int
    """0 for one that is admitted."""


def judge(buckets: Sequence[Bucket], empty_at_us: Sequence[int], now_us: int) -> Verdict:
    """The verdict on one request, before it is charged; `empty_at_us` as stored, 0 for unknown buckets."""
    waits, left = [], []
    for bucket, stored_us in zip(buckets, empty_at_us, strict=True):
        after_us = max(stored_us, now_us) + bucket.quota.interval_us
        over_us = after_us - now_us - bucket.quota.depth_us
        waits.append(max(0, over_us))
        used_us = after_us - now_us if over_us <= 0 else max(stored_us - now_us, 0)
        left.append((max(0, bucket.quota.depth_us - used_us) // bucket.quota.interval_us, used_us))
    is_admitted = not any(waits)
    place = waits.index(max(waits)) if not is_admitted else left.index(min(left))
    remaining, used_us = left[place]
    return Verdict(is_admitted, buckets[place].quota, remaining, used_us, waits[place])


class RateLimit:
    """The buckets of one process; the longest unused are forgotten."""

    def __init__(self) -> None:
        self._empty_at_us: OrderedDict[str, int] = OrderedDict()

    def __len__(self) -> int:
        """How many buckets are held."""
        return len(self._empty_at_us)

    def take(self, buckets: Sequence[Bucket], now_us: int) -> Verdict:
        """Judge a request, and charge it to all its buckets when it is admitted."""
        verdict = judge(buckets, [self._empty_at_us.get(one.key, 0) for one in buckets], now_us)
        if verdict.is_admitted:
            for key, quota in buckets:
                stored_us = max(self._empty_at_us.get(key, 0), now_us)
                self._empty_at_us[key] = stored_us + quota.interval_us
                self._empty_at_us.move_to_end(key)
            while len(self._empty_at_us) > _BUCKETS_MAX:
                self._empty_at_us.popitem(last=False)
        return verdict
