"""The sparse `.index`: from offset to file position. Pure: bytes in, bytes out.

Entries of 8 bytes {relative offset u32, position u32}; the offset is the last one of the batch that starts
at the position. One word per entry in memory, compared as one number: both halves only grow.
Source: Kafka OffsetIndex.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

ENTRY_SIZE: Final = 8
RELATIVE_MAX: Final = 2**31 - 1
_POSITION_MASK: Final = 0xFFFFFFFF


class OffsetIndex:
    """Entries of one segment. Invariant: offsets and positions strictly increase, positions are above 0."""

    __slots__ = ("_entries", "base_offset")

    def __init__(self, base_offset: int, data: bytes = b"") -> None:
        """`data` is a file's content; a tail of zeros (preallocation) is dropped."""
        self.base_offset = base_offset
        entries = array("Q")
        entries.frombytes(data[: len(data) - len(data) % ENTRY_SIZE])
        if sys.byteorder == "little":
            entries.byteswap()
        while entries and not entries[-1] & _POSITION_MASK:
            entries.pop()
        self._entries = entries

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """(offset, position) of every entry."""
        for entry in self._entries:
            yield self.base_offset + (entry >> 32), entry & _POSITION_MASK

    def append(self, last_offset: int, position: int) -> None:
        relative = last_offset - self.base_offset
        assert 0 <= relative <= RELATIVE_MAX and 0 < position <= _POSITION_MASK
        entry = relative << 32 | position
        assert not self._entries or self._entries[-1] < entry, "index entries must increase"
        self._entries.append(entry)

    def lookup(self, offset: int) -> int:
        """The position to scan from for `offset`: of the last entry whose offset is at most it, else 0."""
        relative = offset - self.base_offset
        if relative < 0:
            return 0
        at = bisect_right(self._entries, relative << 32 | _POSITION_MASK)
        return self._entries[at - 1] & _POSITION_MASK if at else 0

    def floor_position(self, position: int) -> int:
        """The largest indexed position that is at most `position`, else 0."""
        at = bisect_right(self._entries, position, key=lambda entry: entry & _POSITION_MASK)
        return self._entries[at - 1] & _POSITION_MASK if at else 0

    def first_offset_from(self, position: int) -> int | None:
        """The last offset of the first indexed batch at `position` or behind it."""
        at = bisect_left(self._entries, position, key=lambda entry: entry & _POSITION_MASK)
        return self.base_offset + (self._entries[at] >> 32) if at < len(self._entries) else None

    @property
    def last(self) -> tuple[int, int] | None:
        """(offset, position) of the last entry."""
        if not self._entries:
            return None
        entry = self._entries[-1]
        return self.base_offset + (entry >> 32), entry & _POSITION_MASK

    def is_sound(self, log_size_bytes: int) -> bool:
        """Whether the entries increase and stay inside the log file. A power cut can leave pages of zeros."""
        entries = self._entries
        if not entries:
            return True
        if entries[-1] & _POSITION_MASK >= log_size_bytes or entries[-1] >> 32 > RELATIVE_MAX:
            return False
        if not all(before < after for before, after in pairwise(entries)):
            return False
        positions = [entry & _POSITION_MASK for entry in entries]
        return positions[0] > 0 and all(before < after for before, after in pairwise(positions))

    def positions(self) -> list[int]:
        """Positions of all entries, in order."""
        return [entry & _POSITION_MASK for entry in self._entries]

    def truncate(self, position: int) -> None:
        """Drop the entries that point at or behind `position`."""
        entries = self._entries
        while entries and entries[-1] & _POSITION_MASK >= position:
            entries.pop()

    def to_bytes(self, first_entry: int = 0) -> bytes:
        """The file's bytes from `first_entry` on."""
        entries = self._entries[first_entry:]
        if sys.byteorder == "little":
            entries.byteswap()
        return entries.tobytes()
