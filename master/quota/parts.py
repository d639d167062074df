"""Parts of one broker's rates that gateway workers hold, where the broker is not ours (ADR 0044). Pure.

1. What a worker wants is what it carried, or more where its bucket held clients back.
2. The water level is the largest L with sum(min(wanted, L)) <= q_i. A worker gets what it wants, up to L.
3. What nobody wants is shared out evenly: whoever begins has something to begin with.
4. A part is a fortieth of q_i at least where there are two workers: together such parts are a twentieth.
5. A part falls at once. It rises into what the others have let go, which their next reports show: answers may
   be lost. So together they never hold more than a twentieth above q_i, whenever who reports. A worker that
   tells of an instance no more carries nothing for it and is taken to have let go.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

from contracts.quota import FlowCounters, InstanceTraffic
from master.quota.client_quotas import Entity, Rates
from master.quota.demand import Sample
from master.quota.fair import water_level
from master.quota.flows import ELAPSED_MS_MIN

FLOOR_PART: Final = 20
"""All floors together are a twentieth of the rate."""
_LEAST_PART: Final = 1_000
"""Without room a worker has a thousandth of the rate, for the second until the others let go."""


def parts_of(rate_per_s: int, wanted_per_s: Sequence[int]) -> list[int]:
    """What each worker may have of a rate when nobody holds anything yet."""
    level = water_level(rate_per_s, wanted_per_s)
    bases = [min(wanted, level) for wanted in wanted_per_s]
    spare = (rate_per_s - sum(bases)) // len(bases)
    return [base + spare for base in bases]


def grown(rate_per_s: int, part: int, held_by_others: int, workers: int) -> int:
    """How much of its part a worker gets now, beside what the others hold."""
    floors = rate_per_s // FLOOR_PART
    room = rate_per_s + floors - held_by_others
    return max(1, rate_per_s // _LEAST_PART, min(max(part, floors // workers), room))


@dataclass(slots=True)
class _Way:
    """One direction on one worker."""

    last: Sample | None = None
    before: Sample | None = None
    told_per_s: int = 0
    """What it applies, as it said."""
    granted_per_s: int = 0
    """What it was told since, if the answer came."""

    @property
    def held_per_s(self) -> int:
        """What it may apply now."""
        return max(self.told_per_s, self.granted_per_s)

    def take(self, counters: FlowCounters, base: FlowCounters | None, elapsed_ms: int) -> None:
        """What it counted since `base`; None: since when is not known."""
        self.told_per_s = self.granted_per_s = counters.rate_per_s
        if base is not None:
            charged = counters.used + counters.overhead - base.used - base.overhead
            held_back_ms = min(elapsed_ms, counters.throttled_ms - base.throttled_ms)
            self.measured(Sample(charged * 1000 // elapsed_ms, held_back_ms, elapsed_ms))

    def measured(self, sample: Sample) -> None:
        """Of the last report."""
        self.before, self.last = self.last, sample

    @property
    def wanted_per_s(self) -> int:
        """A worker of which no two reports are known goes on as it does."""
        if self.last is None:
            return self.held_per_s
        return max(self.last.wanted_per_s, 0 if self.before is None else self.before.wanted_per_s)


@dataclass(slots=True)
class _Holding:
    """What one worker has of one instance at one broker."""

    reported_ms: int
    holds_until_ms: int
    asks: bool = True
    """Whether its last report told of it."""
    produce: _Way = field(default_factory=_Way)
    consume: _Way = field(default_factory=_Way)


Place = tuple[str, Entity]
"""Cluster, and an instance at one of its brokers."""


class Parts:
    """Those of one run of the master."""

    def __init__(self, lease_ms: int) -> None:
        self.lease_ms = lease_ms
        self._held: dict[Place, dict[str, _Holding]] = {}
        self._of_worker: dict[str, set[Place]] = {}

    def take(
        self,
        worker: str,
        key: Place,
        traffic: InstanceTraffic,
        base: InstanceTraffic | None,
        window_ms: int,
        now_ms: int,
    ) -> None:
        """A worker has told of it. `base` is what it had told before, None: that is not known; its report is
        about `window_ms`."""
        holders = self._held.setdefault(key, {})
        holding = holders.get(worker)
        if holding is None:
            holding = holders[worker] = _Holding(now_ms - window_ms, now_ms + self.lease_ms)
            self._of_worker.setdefault(worker, set()).add(key)
        elapsed_ms = max(ELAPSED_MS_MIN, now_ms - holding.reported_ms)
        holding.produce.take(traffic.produce, None if base is None else base.produce, elapsed_ms)
        holding.consume.take(traffic.consume, None if base is None else base.consume, elapsed_ms)
        holding.reported_ms = now_ms
        holding.asks = True

    def rest(self, worker: str, told: Collection[Place], now_ms: int) -> list[Place]:
        """What else a worker holds it holds for nobody, and is to be told to let go: the answer. What it had
        for as long as a lease is forgotten."""
        resting = []
        for key in self._of_worker.get(worker, set()).difference(told):
            holding = self._held[key][worker]
            holding.asks = False
            for way in (holding.produce, holding.consume):
                way.told_per_s = 0
                way.measured(Sample(0, 0, max(ELAPSED_MS_MIN, now_ms - holding.reported_ms)))
            holding.reported_ms = now_ms
            if now_ms >= holding.holds_until_ms:
                self._drop(worker, key)
            else:
                resting.append(key)
        return resting

    def grant(self, worker: str, key: Place, rates: Rates, now_ms: int) -> Rates:
        """Its parts of the broker's rates: of what its last report told, for `lease_ms` from now on, of what
        rests as long as it held it before."""
        holders = self._held[key]
        for other in [name for name, each in holders.items() if now_ms >= each.holds_until_ms]:
            if other != worker:
                self._drop(other, key)
        own = holders[worker]
        produce = _granted([(each.produce, each.asks) for each in holders.values()], own.produce, rates[0])
        consume = _granted([(each.consume, each.asks) for each in holders.values()], own.consume, rates[1])
        if own.asks:
            own.holds_until_ms = now_ms + self.lease_ms
        return Rates(produce, consume)

    def left_ms(self, worker: str, key: Place, now_ms: int) -> int:
        """How long a worker holds its part from now on."""
        return self._held[key][worker].holds_until_ms - now_ms

    def forget_worker(self, worker: str) -> None:
        """It is gone, or has started anew."""
        for key in [*self._of_worker.get(worker, ())]:
            self._drop(worker, key)

    def _drop(self, worker: str, key: Place) -> None:
        del self._held[key][worker]
        if not self._held[key]:
            del self._held[key]
        self._of_worker[worker].discard(key)
        if not self._of_worker[worker]:
            del self._of_worker[worker]


def _granted(ways: Sequence[tuple[_Way, bool]], own: _Way, rate_per_s: int) -> int:
    asking = [way for way, asks in ways if asks]
    position = next((at for at, way in enumerate(asking) if way is own), None)
    part = 0 if position is None else parts_of(rate_per_s, [way.wanted_per_s for way in asking])[position]
    if own.last is None:
        part = min(part, own.held_per_s)  # who else holds how much is not known yet
    others = sum(way.held_per_s for way, _ in ways if way is not own)
    own.granted_per_s = grown(rate_per_s, part, others, len(ways))
    return own.granted_per_s
