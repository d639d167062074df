"""The `.snapshot` files of one log: which there are, the newest that can be read, which may go."""

from collections.abc import Collection
from pathlib import Path
from typing import Final

from broker.log.producer_snapshot import SnapshotCorrupt, decode_snapshot, encode_snapshot
from broker.log.producer_state import ProducerStates
from broker.log.segment import SNAPSHOT_SUFFIX, offset_file_name

STRAYS_KEPT: Final = 2
"""Snapshots kept besides those that stand at a segment's base offset."""


class SnapshotFiles:
    """Named by the offset up to which, exclusive, they hold. `offsets` is sorted."""

    __slots__ = ("directory", "offsets")

    def __init__(self, directory: Path, offsets: Collection[int] = ()) -> None:
        self.directory = directory
        self.offsets = sorted(offsets)

    def path(self, offset: int) -> Path:
        return self.directory / offset_file_name(offset, SNAPSHOT_SUFFIX)

    @property
    def newest(self) -> int:
        """-1 without one."""
        return self.offsets[-1] if self.offsets else -1

    def write(self, offset: int, states: ProducerStates) -> None:
        """Raises: OSError. Not synced: its CRC tells a torn one, and the log rebuilds it."""
        self.path(offset).write_bytes(encode_snapshot(states))
        if offset not in self.offsets:
            self.offsets = sorted([*self.offsets, offset])

    def remove_after(self, offset: int) -> None:
        """Remove snapshots of what the log does not hold. Raises: OSError."""
        for found in [found for found in self.offsets if found > offset]:
            self._remove(found)

    def load_newest(self, up_to: int) -> tuple[int, ProducerStates] | None:
        """(offset, states) of the newest readable one at or below `up_to`; corrupt ones are removed.

        Raises: OSError.
        """
        for offset in [offset for offset in reversed(self.offsets) if offset <= up_to]:
            try:
                return offset, decode_snapshot(self.path(offset).read_bytes())
            except (SnapshotCorrupt, FileNotFoundError):
                self._remove(offset)  # the state is rebuilt from an older one and the log
        return None

    def prune(self, base_offsets: Collection[int]) -> None:
        """Keep those of the log's segments and the newest strays. Raises: OSError."""
        kept = set(base_offsets)
        strays = [offset for offset in self.offsets if offset not in kept]
        first = min(kept)
        for offset in strays[:-STRAYS_KEPT]:
            self._remove(offset)
        for offset in [offset for offset in self.offsets if offset < first]:
            self._remove(offset)

    def remove_all(self) -> None:
        """Raises: OSError."""
        for offset in self.offsets.copy():
            self._remove(offset)

    def _remove(self, offset: int) -> None:
        self.path(offset).unlink(missing_ok=True)
        self.offsets.remove(offset)
