"""Delayed fetches, watched by the partitions they wait for (Kafka: DelayedFetch). Pure.

An append tells how many bytes came; a fetch is due when what it misses has come, or at its deadline, which is
the caller's timer. What is due is handed back to the caller, which reads the logs again and decides.
"""

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Waiting(Generic[K]):
    """One delayed operation: the keys it watches and the bytes it still misses."""

    __slots__ = ("keys", "missing_bytes")

    def __init__(self, keys: Iterable[K], missing_bytes: int) -> None:
        self.keys = tuple(keys)
        self.missing_bytes = missing_bytes


W = TypeVar("W", bound="Waiting[tuple[str, int]]")


class Purgatory(Generic[W]):
    """Who waits for which partition."""

    def __init__(self) -> None:
        self._watchers: dict[tuple[str, int], dict[W, None]] = {}
        self.size = 0

    def add(self, waiting: W) -> None:
        """Begin to watch."""
        self.size += 1
        for key in waiting.keys:
            self._watchers.setdefault(key, {})[waiting] = None

    def remove(self, waiting: W) -> bool:
        """End to watch; False when it was not watching."""
        found = False
        for key in waiting.keys:
            watchers = self._watchers.get(key)
            if watchers is not None and waiting in watchers:
                found = True
                del watchers[waiting]
                if not watchers:
                    del self._watchers[key]
        self.size -= found
        return found

    def appended(self, key: tuple[str, int], size_bytes: int) -> list[W]:
        """Bytes came to a partition: who has enough now."""
        watchers = self._watchers.get(key)
        if not watchers:
            return []
        due = []
        for waiting in watchers:
            waiting.missing_bytes -= size_bytes
            if waiting.missing_bytes <= 0:
                due.append(waiting)
        return due

    def watching(self, key: tuple[str, int]) -> list[W]:
        """Everyone who waits for a partition: it was deleted, or its log start offset moved."""
        return list(self._watchers.get(key, ()))
