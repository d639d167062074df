"""What happened in a drill, and when: told as it happens."""

import time
from collections.abc import Callable
from typing import NamedTuple


class Entry(NamedTuple):
    """One line."""

    at_s: float
    """Since the fault."""
    kind: str
    """`fault`, `alert`, `doctor`, `clients`, `sign`, `undo`, `repair`, `end`."""
    text: str


class Timeline:
    """Entries of one drill."""

    def __init__(self, show: Callable[[Entry], None]) -> None:
        self._show = show
        self._began_s = time.monotonic()
        self.entries: list[Entry] = []

    def begin(self) -> None:
        """Now is the time of the fault."""
        self._began_s = time.monotonic()

    def now_s(self) -> float:
        """Since the fault."""
        return time.monotonic() - self._began_s

    def tell(self, kind: str, text: str) -> None:
        """Something happened."""
        entry = Entry(self.now_s(), kind, text)
        self.entries.append(entry)
        self._show(entry)
