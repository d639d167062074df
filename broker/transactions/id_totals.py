"""How many transactional ids instances have on this broker, over all partitions that it coordinates."""

from collections import Counter


class IdTotals:
    """The counts of the partitions; one that goes takes its share with it."""

    def __init__(self) -> None:
        self._counted: list[Counter[str | None]] = []

    def add(self, ids_by_instance: Counter[str | None]) -> None:
        """A partition is coordinated here."""
        self._counted.append(ids_by_instance)

    def remove(self, ids_by_instance: Counter[str | None]) -> None:
        """It no longer is."""
        self._counted = [each for each in self._counted if each is not ids_by_instance]

    def ids(self, owner: str) -> int:
        """Transactional ids of an instance."""
        return sum(each.get(owner, 0) for each in self._counted)
