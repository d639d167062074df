"""Deadlines by key, pure: the clock's owner asks when the next one is and collects those that are due."""

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Timers(Generic[K]):
    """At most one deadline per key; keys must be comparable among each other.

    A heartbeat moves its member's deadline back thousands of times for each time it is met, so moving later
    only notes the new time; the heap learns of it when the old one comes up.
    """

    def __init__(self) -> None:
        self._deadlines: dict[K, int] = {}
        self._heap: list[tuple[int, K]] = []
        self._queued: dict[K, int] = {}
        """The earliest heap entry of each key: every key with a deadline has one, not later than it."""

    def __len__(self) -> int:
        return len(self._deadlines)

    def set(self, key: K, deadline_ms: int) -> None:
        """Replace the key's deadline."""
        self._deadlines[key] = deadline_ms
        queued_ms = self._queued.get(key)
        if queued_ms is None or deadline_ms < queued_ms:
            self._push(key, deadline_ms)

    def has(self, key: K) -> bool:
        """Whether the key has a deadline that is not met."""
        return key in self._deadlines

    def deadline_ms(self, key: K) -> int | None:
        """The key's deadline, if it has one."""
        return self._deadlines.get(key)

    def cancel(self, key: K) -> None:
        """Forget the key's deadline, if it has one."""
        self._deadlines.pop(key, None)

    def _push(self, key: K, deadline_ms: int) -> None:
        self._queued[key] = deadline_ms
        heapq.heappush(self._heap, (deadline_ms, key))

    def _settle(self) -> None:
        """Bring the heap's head in line with the deadlines."""
        while self._heap:
            queued_ms, key = self._heap[0]
            deadline_ms = self._deadlines.get(key)
            if deadline_ms == queued_ms == self._queued.get(key):
                return
            heapq.heappop(self._heap)
            if self._queued.get(key) != queued_ms:
                continue  # a later entry of a key that was moved earlier
            del self._queued[key]
            if deadline_ms is not None:
                self._push(key, deadline_ms)

    def next_ms(self) -> int | None:
        """The earliest deadline, None when there is none."""
        self._settle()
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> K | None:
        """Remove and return a key whose deadline is reached, earliest first, or None."""
        self._settle()
        if not self._heap or self._heap[0][0] > now_ms:
            return None
        _, key = heapq.heappop(self._heap)
        del self._queued[key]
        del self._deadlines[key]
        return key
