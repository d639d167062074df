"""What a replica gives up because the leader has something else, or nothing, at those offsets."""

from broker.log.checkpoint_text import format_epochs
from broker.log.files import replace_file
from broker.log.loading import EPOCH_CHECKPOINT
from broker.log.log_retention import RetainedLog
from broker.log.producer_loading import load_producers
from broker.log.producer_state import ProducerStates
from broker.log.rewind import rewind


class TruncatedLog(RetainedLog):
    """A log whose end can move back. Where it may move to is the caller's decision (leader epochs)."""

    def truncate_to(self, offset: int) -> bool:
        """Make `offset` the log end offset; whether anything changed.

        A batch that contains `offset` goes as a whole, so the log may end in front of it: go on from
        `log_end_offset`. Below the log start offset the log starts anew at `offset`. The high watermark and
        the recovery point never stay above the end. Raises: StorageFailed.
        """
        if offset >= self.log_end_offset:
            self._forget_epochs_from(offset)  # one that began at our end without a record (KAFKA-10706)
            return False
        if offset < self.log_start_offset:
            self.truncate_fully_and_start_at(offset)
            return True
        self._check_usable()
        self._announce_end(offset)
        try:
            self._cut(offset)
        except OSError as error:
            self.failure = f"truncating to {offset} failed half way: {error.strerror or error}"
            raise self._storage_failed(error) from error
        return True

    def _cut(self, offset: int) -> None:
        containing = self._segments[self._segments.number_of(offset)].locate(offset)[1]
        if containing is not None:
            offset = min(offset, containing.base_offset)
        number = max(1, self._segments.first_from(offset))
        self.sealed.forget_outside(0, self._segments[number - 1].base_offset)
        self._segments.drop_from(number)
        active = self._segments.active
        before_bytes = active.size_bytes
        end = active.locate(offset)[0]
        active.cut(end)
        position, next_offset = rewind(active, self.config, offset, end)
        for _, header in active.headers_until(position, end):
            active.note(header, header.last_offset, self.config.index_interval_bytes)
            next_offset = header.next_offset
        if active.size_bytes != end:  # damage in front of the cut: what is behind it goes, too
            end, offset = active.size_bytes, min(offset, next_offset)
            active.cut(end)
        active.aborted_file.truncate(offset)
        self._segments.grow(end - before_bytes)
        self._end_at(offset)
        self._renew_producers()

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything; log start, high watermark and log end are `offset` then. Raises: StorageFailed."""
        self._check_usable()
        self._cancel_cleaning()
        self._announce_end(offset)
        created_ms = self._segments.active.created_ms
        try:
            self.sealed.forget_outside(0, 0)
            self._segments.replace_all(offset, created_ms)
            self._take_producers(ProducerStates())
            self._snapshots.remove_all()
            self._forget_epochs_from(0)
            self._end_at(offset)
            self.log_start_offset = self.high_watermark = offset
            self.damage = ()
        except OSError as error:
            self.failure = f"starting anew at {offset} failed half way: {error.strerror or error}"
            raise self._storage_failed(error) from error

    def _announce_end(self, offset: int) -> None:
        """Before anything goes: no checkpoint on the disk may claim more than what will be left."""
        if self._cleaning is not None and offset < self._cleaning.task.up_to:
            self._cancel_cleaning()
        self.cleaned_to = min(self.cleaned_to, offset)
        self.high_watermark = min(self.high_watermark, offset)
        self.recovery_point = min(self.recovery_point, offset)
        self.log_start_offset = min(self.log_start_offset, offset)
        try:
            self._owner.log_shrinks(self)
        except OSError as error:
            raise self._storage_failed(error) from error

    def _end_at(self, offset: int) -> None:
        self.log_end_offset = offset
        self.high_watermark = min(self.high_watermark, offset)  # the end may lie in front of what was asked
        self.recovery_point = min(self.recovery_point, offset)
        self._lineage += 1
        self._damage_stays()
        self._tail = None
        self._forget_epochs_from(offset)
        self._directory_dirty = self._unsealed = True
        self._mark_dirty()

    def _forget_epochs_from(self, offset: int) -> None:
        if self._epochs.truncate_end(offset):
            # Not synced: recovery reads the epochs of what was not flushed from the batches.
            replace_file(self.directory / EPOCH_CHECKPOINT, format_epochs(self._epochs.entries).encode())
            self._epochs_dirty = True
            self._mark_dirty()

    def _take_producers(self, producers: ProducerStates) -> None:
        producers.replace(self._producers)
        self._producers = producers

    def _renew_producers(self) -> None:
        before = self._producers
        latest_ms = max((entry.active_ms for entry in before.entries.values()), default=0)
        end = self.log_end_offset
        self._take_producers(
            load_producers(self._segments, self._snapshots, end, latest_ms, index_from=end, until=end)
        )
        self._producers.transactions.committed_to(self.high_watermark)
        for producer_id, entry in self._producers.entries.items():
            if producer_id in before.entries:
                entry.active_ms = before.entries[producer_id].active_ms
