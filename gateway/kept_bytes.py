"""Bytes that would be made again and again, by what they are made of, within a bound."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final


class KeptBytes:
    """Of one instance on one worker. What was used longest ago goes first."""

    def __init__(self, size_max: int) -> None:
        self._size_max: Final = size_max
        self._kept: OrderedDict[Hashable, tuple[bytes, int]] = OrderedDict()
        self.size_bytes = 0
        """What all of it is said to take, `size_max` at most."""

    def get(self, key: Hashable) -> bytes | None:
        """What was kept for this; None: nothing is."""
        found = self._kept.get(key)
        if found is None:
            return None
        self._kept.move_to_end(key)
        return found[0]

    def keep(self, key: Hashable, made: bytes, size: int) -> None:
        """Keep what takes so much, its key included, unless that is more than all that may be kept."""
        if size > self._size_max or key in self._kept:
            return
        self._kept[key] = made, size
        self.size_bytes += size
        while self.size_bytes > self._size_max:
            _, (_, gone) = self._kept.popitem(last=False)
            self.size_bytes -= gone

    def forget(self) -> None:
        """What it was made of means something else now."""
        self._kept.clear()
        self.size_bytes = 0
