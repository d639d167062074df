"""What instances use of this broker's group coordinators, over all partitions that it coordinates."""

from collections import Counter
from typing import Protocol


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

    def size_bytes(self, owner: str) -> int:
        """Memory that an instance's members and offsets take."""
        return sum(each.size_bytes(owner) for each in self._counted)
