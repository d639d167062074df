"""Instances that are deleted or absent: nobody is served, and nothing of theirs expires."""

from collections.abc import Iterator

from contracts.names import owner_of


class HeldInstances:
    """Who is held. What time alone would remove (retention, expired offsets) stays while it is."""

    def __init__(self) -> None:
        self._ids: set[str] = set()

    def hold(self, instance_id: str) -> None:
        """From now on."""
        self._ids.add(instance_id)

    def release(self, instance_id: str) -> None:
        """It is served again, or purged."""
        self._ids.discard(instance_id)

    def __contains__(self, instance_id: object) -> bool:
        """Whether an instance is held."""
        return instance_id in self._ids

    def __iter__(self) -> Iterator[str]:
        """The ids, in no order."""
        return iter(tuple(self._ids))

    def owns(self, name: str) -> bool:
        """Whether a physical name belongs to an instance that is held."""
        return bool(self._ids) and owner_of(name) in self._ids
