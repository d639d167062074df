"""Step 1 of the rule: how much an instance stores, and whether its producers are blocked."""

from dataclasses import dataclass


def is_blocked(blocked: bool, stored_bytes: int, capacity_bytes: int, unblock_fraction: float) -> bool:
    """Block at capacity; unblock only below `unblock_fraction` of it, so that it does not flap."""
    if stored_bytes >= capacity_bytes:
        return True
    return blocked and stored_bytes >= int(capacity_bytes * unblock_fraction)


@dataclass(slots=True)
class Fill:
    """How full one instance is, from one decision to the next.

    While leaders move, a log may be counted twice or not at all: then the last sum that counted every
    partition once holds, for `hold_ms` at most, so that a move neither blocks nor frees anybody.
    """

    blocked: bool = False
    stored_bytes: int = 0
    _known: bool = False
    _since_ms: int | None = None
    """When every partition was counted once, or else when this began."""

    def update(
        self,
        counted_bytes: int,
        *,
        reported_blocked: bool,
        is_settled: bool,
        capacity_bytes: int,
        unblock_fraction: float,
        hold_ms: int,
        now_ms: int,
    ) -> None:
        """Take what the points' logs add up to. `reported_blocked`: some point blocks by itself."""
        if self._since_ms is None:
            self._since_ms = now_ms
        self.blocked = self.blocked or reported_blocked
        if is_settled:
            self._known, self._since_ms = True, now_ms
        elif now_ms - self._since_ms < hold_ms:
            if not self._known:
                self.stored_bytes = max(counted_bytes, capacity_bytes) if self.blocked else counted_bytes
            return
        self.stored_bytes = counted_bytes
        self.blocked = is_blocked(self.blocked, counted_bytes, capacity_bytes, unblock_fraction)
