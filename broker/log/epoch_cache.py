"""Which leader epoch began at which offset. Pure.

Invariant: epochs and start offsets strictly increase; no start offset is at or behind the log end offset once
`truncate_end` ran. Epoch 0 is an epoch like any other (KAFKA-10432).
Source: Kafka LeaderEpochFileCache, KIP-101, KIP-279.
"""

from collections.abc import Iterable
from typing import Final

UNDEFINED_EPOCH: Final = -1
UNDEFINED_OFFSET: Final = -1


class EpochCache:
    """The lineage of one log."""

    __slots__ = ("entries", "latest")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self.entries: list[tuple[int, int]] = []
        self.latest = UNDEFINED_EPOCH
        """The newest epoch, -1 without one."""
        for epoch, start_offset in entries:
            self.assign(epoch, start_offset)

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that `epoch` starts here; whether that was news.

        An entry that the new one contradicts (not older, or not before it) is dropped, as Kafka does.
        """
        if epoch < 0 or (
            self.entries and self.entries[-1][0] == epoch and self.entries[-1][1] <= start_offset
        ):
            return False
        while self.entries and (self.entries[-1][0] >= epoch or self.entries[-1][1] >= start_offset):
            self.entries.pop()
        self.entries.append((epoch, start_offset))
        self.latest = epoch
        return True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(largest epoch <= `epoch`, the offset where it ended), (-1, -1) when unknown (KIP-279)."""
        if epoch == UNDEFINED_EPOCH or not self.entries:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self.latest:
            return epoch, log_end_offset
        floor = epoch
        for known, start_offset in self.entries:
            if known > epoch:
                return floor, start_offset
            floor = known
        return UNDEFINED_EPOCH, UNDEFINED_OFFSET

    def epoch_of(self, offset: int) -> int:
        """The epoch that `offset` was written in, -1 when unknown."""
        found = UNDEFINED_EPOCH
        for epoch, start_offset in self.entries:
            if start_offset > offset:
                break
            found = epoch
        return found

    def truncate_end(self, end_offset: int) -> bool:
        """Forget epochs that start at or behind the new log end; whether any did."""
        kept = [entry for entry in self.entries if entry[1] < end_offset]
        changed = len(kept) != len(self.entries)
        self.entries = kept
        self.latest = kept[-1][0] if kept else UNDEFINED_EPOCH
        return changed

    def truncate_start(self, start_offset: int) -> bool:
        """Forget what ended below the new log start; the epoch that spans it now starts there."""
        below = [entry for entry in self.entries if entry[1] < start_offset]
        if not below:
            return False
        kept = self.entries[len(below) :]
        if not kept or kept[0][1] > start_offset:
            kept.insert(0, (below[-1][0], start_offset))
        self.entries = kept
        return True
