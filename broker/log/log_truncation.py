"""What a replica gives up because the leader has something else, or nothing, at those offsets."""

from dataclasses import dataclass

from broker.log.damage import KnownDamage
from broker.log.durability import Durability
from broker.log.leader_epochs import LeaderEpochs
from broker.log.log_compaction import Compaction
from broker.log.log_config import LogConfig
from broker.log.log_owner import OwnedLog
from broker.log.log_producers import LogProducers
from broker.log.offsets import LogOffsets
from broker.log.rewind import rewind
from broker.log.segment_list import SegmentList
from broker.log.standing import LogStanding


@dataclass(slots=True, eq=False, repr=False)
class Truncation:
    """Moves the end of a log back. Where it may move to is the caller's decision (leader epochs)."""

    config: LogConfig
    standing: LogStanding
    offsets: LogOffsets
    segments: SegmentList
    producers: LogProducers
    epochs: LeaderEpochs
    damage: KnownDamage
    durability: Durability
    compaction: Compaction
    owned: OwnedLog[object]

    def truncate_to(self, offset: int) -> bool:
        """Make `offset` the log end offset; whether anything changed.

        A batch that contains `offset` goes as a whole, so the log may end in front of it: go on from
        `log_end_offset`. Below the log start offset the log starts anew at `offset`. The high watermark and
        the recovery point never stay above the end. Raises: StorageFailed.
        """
        if offset >= self.offsets.log_end_offset:
            with self.standing.guarded():
                self._forget_epochs_from(offset)  # one that began at our end without a record (KAFKA-10706)
            return False
        if offset < self.offsets.log_start_offset:
            self.truncate_fully_and_start_at(offset)
            return True
        self.standing.check_usable()
        self._announce(offset)
        with self.standing.guarded(f"truncating to {offset}"):
            end = self._cut(offset)
            self.offsets.end_at(end)
            self._ended()
            self.producers.return_to(end, self.offsets.high_watermark)
        return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything; log start, high watermark and log end are `offset` then. Raises: StorageFailed."""
        self.standing.check_usable()
        self.compaction.cancel()
        self._announce(offset)
        with self.standing.guarded(f"starting anew at {offset}"):
            self.segments.replace_all(offset, self.segments.active.created_ms)
            self.producers.forget_all()
            self._forget_epochs_from(0)
            self.offsets.begin_anew_at(offset)
            self._ended()
            self.damage.forget_all()

    def _announce(self, offset: int) -> None:
        """Before anything goes: no checkpoint on the disk may claim more than what will be left."""
        self.compaction.end_moves_to(offset)
        self.offsets.claim_no_more_than(offset)
        with self.standing.guarded():
            self.owned.shrinks()

    def _cut(self, offset: int) -> int:
        """Where the log ends then. Raises: OSError."""
        segments = self.segments
        containing = segments[segments.number_of(offset)].locate(offset)[1]
        if containing is not None:
            offset = min(offset, containing.base_offset)
        segments.drop_from(max(1, segments.first_from(offset)))
        active = segments.active
        before_bytes = active.size_bytes
        end = active.locate(offset)[0]
        active.cut(end)
        position, next_offset = rewind(active, self.config, offset, end)
        for _, header in active.headers_until(position, end):
            active.note(header, self.config.index_interval_bytes)
            next_offset = header.next_offset
        if active.size_bytes != end:  # damage in front of the cut: what is behind it goes, too
            end, offset = active.size_bytes, min(offset, next_offset)
            active.cut(end)
        active.aborted_file.truncate(offset)
        segments.grow(end - before_bytes)
        return offset

    def _ended(self) -> None:
        """Raises: OSError."""
        offsets = self.offsets
        self.damage.stay_within(offsets.log_start_offset, offsets.log_end_offset)
        self._forget_epochs_from(offsets.log_end_offset)
        self.durability.records_changed()
        self.durability.directory_changed()

    def _forget_epochs_from(self, offset: int) -> None:
        """Raises: OSError."""
        if self.epochs.forget_from(offset):
            self.durability.changed()
