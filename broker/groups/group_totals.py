"""What instances use of this broker's group coordinators, over all partitions that it coordinates."""

from collections import Counter
from typing import Final, Protocol

_QUEUES_KEPT: Final = 1_000


class Counted(Protocol):
    """The groups of one partition."""

    by_instance: Counter[str | None]
    movers: Counter[str | None]

    def size_bytes(self, owner: str) -> int:
        """What one instance takes in memory there."""


class GroupTotals:
    """Sums over the partitions; they count for themselves, so one that goes takes its share with it."""

    def __init__(self) -> None:
        self._counted: list[Counted] = []
        self._assigned_by_ms: dict[str, int] = {}
        """When the assignments of an instance that wait are through; those that are may be forgotten."""

    def add(self, counted: Counted) -> None:
        """A partition is coordinated here."""
        self._counted.append(counted)

    def remove(self, counted: Counted) -> None:
        """It no longer is."""
        self._counted.remove(counted)

    def groups(self, owner: str) -> int:
        """Live groups of an instance."""
        return sum(each.by_instance.get(owner, 0) for each in self._counted)

    def movers(self, owner: str | None) -> int:
        """Members of an instance's consumer groups that would give or take when one comes or goes."""
        return sum(each.movers.get(owner, 0) for each in self._counted)

    def queued_ms(self, owner: str, work_ms: int, now_ms: int) -> int:
        """Put an assignment behind those of all groups of an instance: how long until it is through."""
        if len(self._assigned_by_ms) >= _QUEUES_KEPT:
            self._assigned_by_ms = {key: at for key, at in self._assigned_by_ms.items() if at > now_ms}
        by_ms = max(now_ms, self._assigned_by_ms.get(owner, 0)) + work_ms
        self._assigned_by_ms[owner] = by_ms
        return by_ms - now_ms

    def size_bytes(self, owner: str) -> int:
        """Memory that an instance's members and offsets take."""
        return sum(each.size_bytes(owner) for each in self._counted)
