"""Instances that are deleted or absent: nobody is served, and nothing of theirs expires.

After a restore nothing of anybody expires for a while: limits and configs are older than what was sold since.
"""

from collections.abc import Callable, Iterator

from contracts.names import owner_of


class HeldInstances:
    """Who is held. What time alone would remove (retention, expired offsets) stays while it is."""

    def __init__(self, epoch_ms: Callable[[], int]) -> None:
        self._ids: set[str] = set()
        self._epoch_ms = epoch_ms
        self._all_until_ms = 0

    def keep_all(self, until_ms: int) -> None:
        """Keep everybody's until then; everybody is served."""
        self._all_until_ms = until_ms

    @property
    def all_kept_for_ms(self) -> int:
        """How long nothing of anybody expires; 0: it may now."""
        return max(0, self._all_until_ms - self._epoch_ms())

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
        """Whether what a physical name names is kept from expiring."""
        return self.all_kept_for_ms > 0 or (bool(self._ids) and owner_of(name) in self._ids)
