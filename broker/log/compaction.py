"""What of a log may be compacted, whether it is worth it, and which segments become one. Pure.

Source: Kafka LogCleanerManager.cleanableOffsets, LogToClean, Cleaner.groupSegmentsBySize, KIP-354.
"""

from collections.abc import Sequence
from typing import NamedTuple

from broker.log.log_config import LogConfig
from broker.log.offset_index import RELATIVE_MAX


class SealedSegment(NamedTuple):
    """A segment that is not written to any more."""

    base_offset: int
    next_offset: int
    """Base offset of the segment behind it."""
    size_bytes: int
    index_bytes: int
    """Size of the larger index."""
    first_timestamp_ms: int
    largest_timestamp_ms: int


class Cleanable(NamedTuple):
    """`first_dirty`..`up_to` is what the last compaction did not see."""

    first_dirty: int
    up_to: int
    clean_bytes: int
    dirty_bytes: int
    overdue: bool
    """`max.compaction.lag.ms` has passed for a record."""

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def is_worth_it(self, config: LogConfig) -> bool:
        return self.dirty_bytes > 0 and (self.overdue or self.dirty_ratio > config.min_cleanable_dirty_ratio)


def find_cleanable(
    sealed: Sequence[SealedSegment], config: LogConfig, *, cleaned_to: int, stable_to: int, now_ms: int
) -> Cleanable:
    """`sealed` are the segments from the log start on, without the active one; nothing from `stable_to` on
    (last stable offset, recovery point) is touched."""
    start = sealed[0].base_offset if sealed else 0
    end = sealed[-1].next_offset if sealed else 0
    first_dirty = cleaned_to if start <= cleaned_to <= end else start
    up_to = min(end, stable_to)
    dirty = [segment for segment in sealed if segment.next_offset > first_dirty]
    if config.min_compaction_lag_ms > 0:
        for segment in dirty:
            if segment.largest_timestamp_ms > now_ms - config.min_compaction_lag_ms:
                up_to = min(up_to, segment.base_offset)
                break
    clean_until_ms = now_ms - config.max_compaction_lag_ms
    overdue = any(0 <= s.first_timestamp_ms < clean_until_ms for s in dirty if s.base_offset < up_to)
    return Cleanable(
        first_dirty,
        max(first_dirty, up_to),
        sum(segment.size_bytes for segment in sealed if segment.next_offset <= first_dirty),
        sum(segment.size_bytes for segment in dirty if segment.base_offset < up_to),
        overdue,
    )


def group_segments(
    sealed: Sequence[SealedSegment], *, segment_bytes: int, index_bytes: int
) -> list[list[SealedSegment]]:
    """Neighbours that fit into one segment together: compaction leaves small ones."""
    groups: list[list[SealedSegment]] = []
    size = indexes = 0
    for segment in sealed:
        fits = (
            bool(groups)
            and size + segment.size_bytes <= segment_bytes
            and indexes + segment.index_bytes <= index_bytes
            and segment.next_offset - 1 - groups[-1][0].base_offset <= RELATIVE_MAX
        )
        if fits:
            groups[-1].append(segment)
            size, indexes = size + segment.size_bytes, indexes + segment.index_bytes
        else:
            groups.append([segment])
            size, indexes = segment.size_bytes, segment.index_bytes
    return groups
