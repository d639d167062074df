"""What leaves a log by its age, its size, or DeleteRecords."""

from typing import Final

from broker.log.config import LogConfig
from broker.log.errors import OffsetOutOfRange
from broker.log.log_base import SNAPSHOT_BYTES, LogBase
from broker.log.retention import segments_to_delete

_NOTHING_EXPIRES: Final = LogConfig(cleanup_policy=frozenset())


class RetainedLog(LogBase):
    """A log that frees space: whole segments, from the oldest on, at once."""

    def delete_records_before(self, offset: int) -> int:
        """Raise the log start offset to `offset` and free the segments below it; the new log start offset.

        A log whose start reaches its end gives up its active segment too.
        Raises: OffsetOutOfRange above the high watermark, StorageFailed.
        """
        if offset < 0 or offset > self.high_watermark:
            raise OffsetOutOfRange(offset, self.log_start_offset, self.high_watermark)
        if offset > self.log_start_offset:
            self._cancel_cleaning()
            self._start_at(offset)
            self._free(now_ms=None)
        return self.log_start_offset

    def apply_retention(self, now_ms: int) -> int:
        """Delete what `retention.ms`, `retention.bytes` and the log start offset give up; bytes freed.

        Nothing while segments are being compacted. Raises: StorageFailed.
        """
        return self._free(now_ms) if self._cleaning is None else 0

    def _free(self, now_ms: int | None) -> int:
        """Without `now_ms` only what lies below the log start goes."""
        try:
            facts = self._segments.facts(self.log_end_offset)
            config = self.config if now_ms is not None else _NOTHING_EXPIRES
            count = segments_to_delete(
                facts,
                config,
                log_start_offset=self.log_start_offset,
                high_watermark=self.high_watermark,
                now_ms=now_ms or 0,
            )
            if count == 0:
                return 0
            self.sealed.forget_outside(facts[count - 1].next_offset, self.log_end_offset)
            freed = self._segments.drop_first(min(count, len(facts) - 1))
            if count == len(facts):
                self._segments.begin_anew(self.log_end_offset, now_ms or self._segments.active.created_ms)
                self._tail = None
                freed += self._segments.drop_first(1)
        except OSError as error:
            raise self._storage_failed(error) from error
        self._start_at(max(self.log_start_offset, self._segments.first.base_offset))
        self._directory_dirty = True
        self._renew_snapshots()
        return freed

    def _renew_snapshots(self) -> None:
        """Producers must outlive the segments that went."""
        try:
            if self._snapshots.newest < self._segments.first.base_offset:
                self._write_snapshot()
            self._prune_snapshots()
        except OSError:
            # A full disk must not keep records from being deleted; the next flush writes the snapshot.
            self._bytes_since_snapshot = SNAPSHOT_BYTES

    def _start_at(self, offset: int) -> None:
        assert self.log_start_offset <= offset <= self.high_watermark
        self.log_start_offset = offset
        self._damage_stays()
        if self._epochs.truncate_start(offset):
            self._epochs_dirty = True
        self._mark_dirty()
