"""What one instance may hold of what all logs of a broker share: producers in memory, small files. Pure.

Kafka bounds both per log at best; a tenant has many logs, and chooses its producer ids and timestamps freely.
"""

import sys
from collections import Counter
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Final

from broker.log.producer_state import ProducerStates
from contracts.names import owner_of

SMALL_SEGMENTS_PER_LOG: Final = 256
"""Segments below `SMALL_SEGMENT_BYTES` that are closed for their time: a week of hourly ones fits. See
`SegmentList.small_count`."""
SMALL_SEGMENTS_PER_INSTANCE: Final = 10_240
"""Small segments of all logs of an instance together."""
SMALL_SEGMENTS_MIN: Final = 16
"""Every log may have so many, however many logs its instance has."""
_EVICTED_AT_ONCE: Final = 16
"""One in so many goes when an instance has too many: to look for the oldest costs a walk over all."""
_ENDS_PER_LOOK: Final = 64
"""One in so many ends where there were not enough idle ones to forget."""


@dataclass(slots=True)
class EvictedProducers:
    """How many were forgotten before they expired, and how many new ones were refused."""

    forgotten: int = 0
    refused: int = 0


@dataclass(slots=True)
class ProducerShare:
    """The producers of one instance, over all its logs here. The one idle for longest goes first, one with an
    open transaction never; where all have one, no other is let in."""

    entries_max: int
    counts: EvictedProducers
    entries: int = 0
    _members: dict[ProducerStates, None] = field(default_factory=dict)
    _ends_awaited: int = 0
    """So many transactions must end before it is worth looking for idle producers again."""

    def joined(self, states: ProducerStates) -> None:
        """A log's producers count from now on."""
        self._members[states] = None
        self.grew(len(states.entries))

    def left(self, states: ProducerStates) -> None:
        """The log is gone, or looks at its producers anew."""
        if states in self._members:
            del self._members[states]
            self.shrank(len(states.entries))

    def grew(self, count: int) -> None:
        self.entries += count
        if self.entries > self.entries_max and not self._ends_awaited:
            self._evict(self.entries_max - self.entries_max // _EVICTED_AT_ONCE)

    def shrank(self, count: int) -> None:
        self.entries -= count

    def transaction_ended(self) -> None:
        """A producer may be forgotten that could not be before."""
        if self._ends_awaited:
            self._ends_awaited -= 1

    def admits(self) -> bool:
        """Whether one more may come, by forgetting others if need be."""
        if self.entries < self.entries_max:
            return True
        if not self._ends_awaited:
            self._evict(self.entries_max - max(1, self.entries_max // _EVICTED_AT_ONCE))
        if self.entries < self.entries_max:
            return True
        self.counts.refused += 1
        return False

    def _evict(self, keep: int) -> None:
        """Forget the oldest idle until so many are left."""
        idle = nsmallest(
            self.entries - keep,
            (
                (entry.active_ms, number, states, producer_id)
                for number, states in enumerate(self._members)
                for producer_id, entry in states.entries.items()
                if states.transactions.first_offset(producer_id) is None
            ),
            key=lambda each: each[:2],
        )
        for _, _, states, producer_id in idle:
            del states.entries[producer_id]
        self.entries -= len(idle)
        self.counts.forgotten += len(idle)
        if self.entries > keep:
            self._ends_awaited = max(1, self.entries_max // _ENDS_PER_LOOK)


class InstanceShares:
    """Every instance's share on this broker. Topics of no instance, the cluster's own among them, have no
    bound in common."""

    def __init__(self, producers_max: int) -> None:
        self.evicted = EvictedProducers()
        self._producers_max = producers_max
        self._logs: Counter[str | None] = Counter()
        self._producers: dict[str | None, ProducerShare] = {}

    def log_added(self, topic: str, producers: ProducerStates) -> None:
        """A log is served from now on."""
        owner = owner_of(topic)
        self._logs[owner] += 1
        share = self._producers.get(owner)
        if share is None:
            entries_max = sys.maxsize if owner is None else self._producers_max
            share = self._producers[owner] = ProducerShare(entries_max, self.evicted)
        producers.join(share)

    def log_removed(self, topic: str, producers: ProducerStates) -> None:
        """A log is deleted, or its directory has failed."""
        owner = owner_of(topic)
        producers.leave()
        self._logs[owner] -= 1
        if self._logs[owner] == 0:
            del self._logs[owner], self._producers[owner]

    def small_segments_max(self, topic: str) -> int:
        """How many small segments a log may have before it stops rolling by time."""
        owner = owner_of(topic)
        if owner is None:
            return SMALL_SEGMENTS_PER_LOG
        share = SMALL_SEGMENTS_PER_INSTANCE // max(1, self._logs[owner])
        return max(SMALL_SEGMENTS_MIN, min(SMALL_SEGMENTS_PER_LOG, share))

    @property
    def producers(self) -> int:
        """Remembered now, of all logs."""
        return sum(share.entries for share in self._producers.values())
