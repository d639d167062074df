"""What leaves a log by its age, its size, or DeleteRecords."""

from dataclasses import dataclass
from typing import Final

from broker.log.damage import KnownDamage
from broker.log.durability import Durability
from broker.log.errors import OffsetOutOfRange
from broker.log.leader_epochs import LeaderEpochs
from broker.log.log_compaction import Compaction
from broker.log.log_config import LogConfig
from broker.log.log_producers import LogProducers
from broker.log.offsets import LogOffsets
from broker.log.retention import segments_to_delete
from broker.log.segment_list import SegmentList
from broker.log.standing import LogStanding

_NOTHING_EXPIRES: Final = LogConfig(cleanup_policy=frozenset())


@dataclass(slots=True, eq=False, repr=False)
class Retention:
    """Frees whole segments, from the oldest on, at once."""

    config: LogConfig
    standing: LogStanding
    offsets: LogOffsets
    segments: SegmentList
    producers: LogProducers
    epochs: LeaderEpochs
    damage: KnownDamage
    durability: Durability
    compaction: Compaction

    def delete_records_before(self, offset: int) -> int:
        """Raise the log start offset to `offset` and free the segments below it; the new log start offset.

        A log whose start reaches its end gives up its active segment too.
        Raises: OffsetOutOfRange above the high watermark, StorageFailed.
        """
        offsets = self.offsets
        if offset < 0 or offset > offsets.high_watermark:
            raise OffsetOutOfRange(offset, offsets.log_start_offset, offsets.high_watermark)
        if offset > offsets.log_start_offset:
            self.compaction.cancel()
            self._start_at(offset)
            self._free(now_ms=None)
        return offsets.log_start_offset

    def apply(self, now_ms: int, readable_ms: int = 0) -> int:
        """Delete what `retention.ms`, `retention.bytes` and the log start offset give up; bytes freed.

        Of `readable_ms` see `segments_to_delete`. Nothing while segments are being compacted. Raises:
        StorageFailed.
        """
        return 0 if self.compaction.is_running else self._free(now_ms, readable_ms)

    def _free(self, now_ms: int | None, readable_ms: int = 0) -> int:
        """Without `now_ms` only what lies below the log start goes."""
        offsets, segments = self.offsets, self.segments
        config = _NOTHING_EXPIRES if now_ms is None else self.config
        with self.standing.guarded():
            count = segments_to_delete(
                segments.facts(offsets.log_end_offset, config, now_ms or 0),
                config,
                log_start_offset=offsets.log_start_offset,
                high_watermark=offsets.high_watermark,
                now_ms=now_ms or 0,
                readable_ms=readable_ms,
            )
            if count == 0:
                return 0
            are_all = count == len(segments)
            freed = segments.drop_first(count - are_all)
            if are_all:
                segments.begin_anew(offsets.log_end_offset, now_ms or segments.active.created_ms)
                freed += segments.drop_first(1)
        self._start_at(max(offsets.log_start_offset, segments.first.base_offset))
        self.durability.directory_changed()
        self.producers.outlive(offsets.log_end_offset)
        return freed

    def _start_at(self, offset: int) -> None:
        self.offsets.start_at(offset)
        self.damage.stay_within(offset, self.offsets.log_end_offset)
        self.epochs.begin_at(offset)
        self.durability.changed()
