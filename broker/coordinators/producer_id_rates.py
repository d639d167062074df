"""How many producer ids one instance may draw. Pure.

An id costs its client nothing, and a thousand of them a write to the metadata tree, which all brokers share.
Clients take COORDINATOR_LOAD_IN_PROGRESS for "ask again soon", as Kafka answers while it has no block of ids.
"""

from typing import Final

IDS_PER_S: Final = 50
"""Producer ids that one instance may draw at each broker."""
IDS_AT_ONCE: Final = 1_000
"""Drawn at once, before the rate counts: a fleet of producers that starts anew."""
_BUCKETS_SWEPT: Final = 1_000


class ProducerIdRates:
    """A token bucket per instance, kept while it is not full."""

    def __init__(self) -> None:
        self.refused = 0
        self._drawn: dict[str, tuple[float, int]] = {}
        """What each instance drew: (ids that count against it, as of when)."""

    def __len__(self) -> int:
        return len(self._drawn)

    def allow(self, instance_id: str | None, now_ms: int) -> bool:
        """Whether one more id may be drawn now; None asks for nobody in particular."""
        if instance_id is None:
            return True
        drawn = self._counting(instance_id, now_ms)
        if drawn + 1 > IDS_AT_ONCE:
            self.refused += 1
            return False
        if instance_id not in self._drawn and len(self._drawn) >= _BUCKETS_SWEPT:
            self._sweep(now_ms)
        self._drawn[instance_id] = (drawn + 1, now_ms)
        return True

    def _counting(self, instance_id: str, now_ms: int) -> float:
        drawn, at_ms = self._drawn.get(instance_id, (0.0, now_ms))
        return max(0.0, drawn - (now_ms - at_ms) * IDS_PER_S / 1000)

    def _sweep(self, now_ms: int) -> None:
        for instance_id in list(self._drawn):
            if self._counting(instance_id, now_ms) == 0:
                del self._drawn[instance_id]
