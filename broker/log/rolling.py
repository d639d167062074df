"""When a log's active segment is closed and the next one begun."""

from dataclasses import dataclass
from typing import Final

from broker.log.durability import Durability
from broker.log.log_config import LogConfig
from broker.log.log_owner import OwnedLog
from broker.log.log_producers import LogProducers
from broker.log.offset_index import RELATIVE_MAX
from broker.log.offsets import LogOffsets
from broker.log.segment import SMALL_SEGMENT_BYTES
from broker.log.segment_list import SegmentList
from broker.log.standing import LogStanding

ROLL_AGE_MIN_MS: Final = 600_000
"""How old a small segment must be by our clock to be closed for its records' timestamps, which clients choose
freely: who makes them leap would get files for every batch. `segment.ms` where that is less."""


@dataclass(slots=True, eq=False, repr=False)
class Rolling:
    """Its parts are the log's."""

    config: LogConfig
    standing: LogStanding
    offsets: LogOffsets
    segments: SegmentList
    producers: LogProducers
    durability: Durability
    owned: OwnedLog[object]

    def make_room(
        self, size_bytes: int, first_offset: int, last_offset: int, timestamp_ms: int, now_ms: int
    ) -> None:
        """For records that are about to be appended. Raises: OSError; the log goes on as it was then."""
        active, config = self.segments.active, self.config
        if active.size_bytes == 0:
            if last_offset - active.base_offset > RELATIVE_MAX:  # a compacted leader's log has such gaps
                self.segments.replace_empty(first_offset, now_ms)
            return
        fits = active.has_room(size_bytes, last_offset, config.segment_bytes, config.segment_index_bytes)
        if not fits or (
            active.waited_ms(timestamp_ms, now_ms) > config.roll_ms and self._may_by_time(now_ms)
        ):
            self.roll(first_offset, now_ms)

    def roll_if_due(self, now_ms: int) -> bool:
        """Close an active segment that is older than `segment.ms` without waiting for the next append.

        Raises: StorageFailed.
        """
        active = self.segments.active
        if active.size_bytes == 0 or active.waited_ms(now_ms, now_ms) <= self.config.roll_ms:
            return False
        if not self._may_by_time(now_ms):
            return False
        with self.standing.guarded():
            self.roll(self.offsets.log_end_offset, now_ms)
        return True

    def _may_by_time(self, now_ms: int) -> bool:
        """Whether a segment whose time has come may be closed: a small one must be of some age, and one of
        few. What waits goes with the next size or the next time that allows it."""
        active = self.segments.active
        if active.size_bytes >= SMALL_SEGMENT_BYTES:
            return True
        age_ms = abs(now_ms - active.created_ms)  # a clock that was set back must not stop it for long
        return (
            age_ms >= min(self.config.roll_ms, ROLL_AGE_MIN_MS)
            and self.segments.small_count < self.owned.small_segments_max()
        )

    def roll(self, base_offset: int, now_ms: int) -> None:
        """Raises: OSError; the log goes on in its active segment then."""
        self.producers.rolls(base_offset)
        self.segments.roll(base_offset, now_ms)
        self.durability.directory_changed()
        self.producers.rolled()
