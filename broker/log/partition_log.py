"""One partition's log: append, read, look up. What else becomes of it is done by its parts.

Single-threaded. Invariants: those of `LogOffsets` and `SegmentList`; the base offset of an append is the log
end offset, or behind it where the leader's log has gaps; leader epochs never decrease along the log.

Appending costs one header check, one CRC-32C, one producer lookup and one write call per batch, never per
record.
"""

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from broker.log.batch_numbers import number_batches
from broker.log.damage import Damage, KnownDamage
from broker.log.durability import Durability
from broker.log.leader_epochs import LeaderEpochs
from broker.log.loading import LoadedLog
from broker.log.log_compaction import Compaction
from broker.log.log_config import LogConfig
from broker.log.log_owner import LogOwner, OwnedLog
from broker.log.log_producers import LogProducers
from broker.log.log_reading import LogReading
from broker.log.log_retention import Retention
from broker.log.log_truncation import Truncation
from broker.log.offsets import LogOffsets
from broker.log.payload import SAMPLE_EVERY, Look, check_payload, is_right, look_at
from broker.log.producer_loading import aborted_transaction
from broker.log.results import AppendOrigin, AppendResult, FlushJob
from broker.log.rolling import Rolling
from broker.log.standing import LogStanding
from broker.log.validation import (
    check_client_records,
    check_fetched_records,
    check_own_records,
)
from contracts import invariants
from wire.batch import CODEC_MASK, NO_TIMESTAMP, BatchHeader, Buffer, WritableBuffer, stamp_log_append_time
from wire.control import marker_at
from wire.record_lengths import WALKED_HERE_MAX


class PartitionLog:
    """A partition's parts, and what needs several of them at once."""

    __slots__ = (
        "_damage",
        "_until_sample",
        "compaction",
        "config",
        "durability",
        "epochs",
        "offsets",
        "partition",
        "producers",
        "read",
        "reading",
        "recovered_bytes",
        "retention",
        "rolling",
        "segments",
        "standing",
        "topic",
        "topic_id",
        "truncated_bytes",
        "truncation",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        topic_id: uuid.UUID,
        config: LogConfig,
        loaded: LoadedLog,
        *,
        high_watermark: int = 0,
        recovery_point: int = 0,
        cleaned_to: int = -1,
        owner: "LogOwner[PartitionLog]",
    ) -> None:
        self.topic: Final = topic
        self.partition: Final = partition
        self.topic_id: Final = topic_id
        self.config = config
        self.recovered_bytes: Final = loaded.recovered_bytes
        self.truncated_bytes: Final = loaded.truncated_bytes
        offsets = self.offsets = LogOffsets(
            loaded.log_start_offset, loaded.log_end_offset, high_watermark, recovery_point
        )
        segments = self.segments = loaded.segments
        owned = OwnedLog(self, owner)
        standing = self.standing = LogStanding(f"{topic}-{partition}", owned)
        epochs = self.epochs = LeaderEpochs(
            segments.directory, loaded.epochs, are_kept=loaded.are_epochs_kept
        )
        producers = self.producers = LogProducers(loaded.producers, loaded.snapshots, segments)
        producers.states.transactions.committed_to(offsets.high_watermark)
        core = (config, standing, offsets, segments, producers)
        durability = self.durability = Durability(*core, epochs, owned, loaded.sealed)
        self.rolling = Rolling(*core, durability, owned)
        compaction = self.compaction = Compaction(
            *core, durability, last_stable_offset=lambda: self.last_stable_offset, cleaned_to=cleaned_to
        )
        damage = self._damage = KnownDamage(loaded.damage)
        self.retention = Retention(*core, epochs, damage, durability, compaction)
        self.truncation = Truncation(*core, epochs, damage, durability, compaction, owned)
        self.reading = LogReading(standing, offsets, segments, damage, owned)
        self.read: Final = self.reading.read
        """Bound here: it is asked for with every fetch."""
        self._until_sample = 0
        """Compressed batches before one is looked into."""

    def check(self) -> None:
        """Assert what is true of several parts at once."""
        self.offsets.check()
        tail = self.segments.tail
        assert tail is None or tail[0] < self.offsets.log_end_offset
        assert tail is None or tail[1] + tail[2] == self.segments.active.size_bytes
        assert self.offsets.log_start_offset <= self.last_stable_offset <= self.offsets.high_watermark

    def __repr__(self) -> str:
        return f"<PartitionLog {self.topic}-{self.partition} {self.offsets}>"

    def reconfigure(self, config: LogConfig) -> None:
        self.config = config
        self.durability.config = self.rolling.config = config
        self.retention.config = self.truncation.config = self.compaction.config = config

    # What is known of it

    @property
    def directory(self) -> Path:
        return self.segments.directory

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    @property
    def segment_count(self) -> int:
        return len(self.segments)

    @property
    def log_start_offset(self) -> int:
        return self.offsets.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self.offsets.log_end_offset

    @property
    def high_watermark(self) -> int:
        return self.offsets.high_watermark

    @property
    def recovery_point(self) -> int:
        return self.offsets.recovery_point

    @property
    def last_stable_offset(self) -> int:
        """Everything committed in front of the first transaction that is open, or ended by a marker that is
        not committed. What read_committed consumers read."""
        offsets = self.offsets
        first_unstable = self.producers.states.transactions.first_unstable_offset
        if first_unstable is None or first_unstable >= offsets.high_watermark:
            return offsets.high_watermark
        return max(first_unstable, offsets.log_start_offset)

    @property
    def leader_epoch(self) -> int:
        """Epoch of the last batch, -1 in an empty log."""
        return self.epochs.cache.latest

    @property
    def damage(self) -> tuple[Damage, ...]:
        """Ranges of offsets that are known to be lost or damaged, sorted."""
        return self._damage.ranges

    # What becomes of it

    def advance_high_watermark(self, to: int | None = None) -> bool:
        """Raise the high watermark to `to`, or (one replica) to the log end offset; whether it moved."""
        offsets = self.offsets
        target = offsets.log_end_offset if to is None else min(to, offsets.log_end_offset)
        if target <= offsets.high_watermark:
            return False
        offsets.high_watermark = target
        transactions = self.producers.states.transactions
        if transactions.ended:
            transactions.committed_to(target)
        return True

    def begin_epoch(self, epoch: int) -> None:
        """We lead from here on in `epoch`: where older ones ended is known although nothing was appended."""
        if self.epochs.assign(epoch, self.offsets.log_end_offset):
            self.durability.changed()

    def expire_producers(self, now_ms: int) -> int:
        """Forget producers silent for `producer.id.expiration.ms`; how many."""
        return self.producers.states.expire(now_ms, self.config.producer_id_expiration_ms)

    def forget_ends_fetched_again(self) -> None:
        """What a restart had lost at the end is committed again."""
        self._damage.forget_ends(self.offsets.high_watermark)

    def begin_close(self) -> FlushJob | None:
        """Finish the files for a clean shutdown; None when they are. Run the job, then `complete_flush`.

        Raises: StorageFailed; the directory then needs recovery.
        """
        self.compaction.cancel()
        return self.durability.begin_close()

    def release_files(self) -> None:
        """Forget the open files, for the directory is about to be renamed; they open again when needed."""
        self.segments.release()

    def go_offline(self, reason: str) -> None:
        """Nothing is appended any more, and nothing written; slices being sent go on."""
        self.standing.failure = reason
        self.compaction.abandon()
        self.segments.release()

    # Appending

    def append(
        self,
        records: WritableBuffer,
        *,
        now_ms: int,
        leader_epoch: int,
        origin: AppendOrigin,
        verification: int | None = None,
        is_looked: bool = False,
        transaction_version: int = 0,
    ) -> AppendResult:
        """Check the records, number them in place and put them at the end of the log.

        A transactional batch needs a transaction that is open here, or the guard of `begin_verification`;
        `transaction_version` is that of what a marker of ours ends.

        With origin REPLICATION offsets and epochs stay as the leader wrote them, offsets may have gaps (its
        log may be compacted), a batch that is cut off at the end is left out, and `leader_epoch` is the one
        that the records were fetched in: no batch may be newer.
        Raises: AppendRefused, StorageFailed; nothing is in the log then, and the log goes on as before.
        """
        if self.standing.failure is not None:
            self.standing.check_usable()
        if origin is AppendOrigin.REPLICATION:
            return self._append_fetched(records, now_ms, leader_epoch)
        if origin is AppendOrigin.CLIENT:
            is_compacted = self.config.is_compacted
            walks = not (is_looked or is_compacted)
            header = check_client_records(records, self.config, now_ms, walks=walks)
            is_compressed = header.attributes & CODEC_MASK
            if is_compressed or is_compacted:
                look = None if is_looked else self._look(header)
                if look is not None:
                    check_payload(records, header, look)
                if is_compressed:
                    self._until_sample = (self._until_sample or SAMPLE_EVERY) - 1
            if header.producer_id >= 0:
                repeated = self.producers.states.check(header, verification)
                if repeated is not None:
                    time_ms = repeated.timestamp_ms if self.config.stamps_append_time else NO_TIMESTAMP
                    return self._result(repeated.base_offset, repeated.last_offset, time_ms, 0)
            if self.config.stamps_append_time:
                header = stamp_log_append_time(records, 0, header, now_ms)
            batches: Sequence[tuple[int, BatchHeader]] = ((0, header),)
        else:
            batches = check_own_records(records)
            self._check_own_producers(records, batches, verification, transaction_version)
        base_offset = self.offsets.log_end_offset
        batches = number_batches(records, batches, base_offset, leader_epoch)
        self._write(records, batches, now_ms)
        time_ms = now_ms if origin is AppendOrigin.CLIENT and self.config.stamps_append_time else NO_TIMESTAMP
        return self._result(base_offset, self.offsets.log_end_offset - 1, time_ms, len(records))

    def look_here(self, records: WritableBuffer, now_ms: int, *, are_many: bool) -> Look | bool:
        """What has to be asked elsewhere about a client's records before they are appended; else whether they
        need no look any more, because they had it or none is due. `are_many`: not compressed, and too many
        for `check_lengths` on an event loop. Raises: AppendRefused."""
        if self._until_sample and not (are_many or self.config.is_compacted):
            return True
        header = check_client_records(records, self.config, now_ms)
        look = self._look(header)
        return True if look is None else is_right(records, header, look) or look

    def _look(self, header: BatchHeader) -> Look | None:
        """Whether every record is looked at: of compacted topics, of one compressed batch in many (a client
        that was refused is looked at again), and of so many that going along them takes long."""
        is_due = not self._until_sample if header.codec else header.record_count > WALKED_HERE_MAX
        return look_at(header, self.config) if is_due or self.config.is_compacted else None

    def _check_own_producers(
        self,
        records: WritableBuffer,
        batches: Sequence[tuple[int, BatchHeader]],
        verification: int | None,
        transaction_version: int,
    ) -> None:
        for at, header in batches:
            if header.producer_id < 0:
                continue
            if not header.is_control:
                self.producers.states.check_own(header, verification)
                continue
            marker = marker_at(records, at, header)
            if marker is not None:
                marker = marker._replace(transaction_version=transaction_version)
                self.producers.states.check_marker(header, marker)

    def _append_fetched(self, records: WritableBuffer, now_ms: int, leader_epoch: int) -> AppendResult:
        batches = check_fetched_records(
            records,
            log_end_offset=self.offsets.log_end_offset,
            latest_epoch=self.epochs.cache.latest,
            leader_epoch=leader_epoch,
        )
        at, last = batches[-1]
        with memoryview(records) as view, view[: at + last.size_bytes] as whole:
            self._write(whole, batches, now_ms)
        return self._result(batches[0][1].base_offset, last.last_offset, NO_TIMESTAMP, at + last.size_bytes)

    def _result(self, base_offset: int, last_offset: int, time_ms: int, appended_bytes: int) -> AppendResult:
        flush_due = last_offset >= self.offsets.recovery_point and self.durability.are_many_unflushed
        return AppendResult(
            base_offset, last_offset, time_ms, self.offsets.log_start_offset, appended_bytes, flush_due
        )

    def _write(
        self, records: WritableBuffer, batches: Sequence[tuple[int, BatchHeader]], now_ms: int
    ) -> None:
        last = batches[-1][1]
        newest_ms = last.max_timestamp_ms
        if len(batches) > 1:
            newest_ms = max(header.max_timestamp_ms for _, header in batches)
        try:
            self.rolling.make_room(
                len(records), batches[0][1].base_offset, last.last_offset, newest_ms, now_ms
            )
            self.segments.write(records)
        except OSError as error:
            raise self.standing.refused(error) from error
        self._note(records, batches, now_ms)
        self.producers.bytes_since_snapshot += len(records)

    def _note(self, records: Buffer, batches: Sequence[tuple[int, BatchHeader]], now_ms: int) -> None:
        """Account for batches whose bytes are in the active segment, behind those it knows."""
        segments, epochs, producers = self.segments, self.epochs, self.producers.states
        segment, interval_bytes = segments.active, self.config.index_interval_bytes
        assert batches[0][1].base_offset >= self.offsets.log_end_offset, "records follow the log's end"
        for at, header in batches:
            position = segment.size_bytes
            segment.note(header, interval_bytes)
            if header.producer_id >= 0:
                if header.is_control:
                    self._note_marker(records, at, header, now_ms)
                else:
                    producers.record(header, header.base_offset, now_ms)
            if header.partition_leader_epoch > epochs.cache.latest:
                epochs.assign(header.partition_leader_epoch, header.base_offset)
            segments.tail = (header.base_offset, position, segment.size_bytes - position)
        self.offsets.log_end_offset = batches[-1][1].next_offset
        self.durability.records_changed(now_ms)
        if invariants.are_checked:
            self.check()

    def _note_marker(self, records: Buffer, at: int, header: BatchHeader, now_ms: int) -> None:
        marker = marker_at(records, at, header)
        if marker is None:
            return
        states = self.producers.states
        ended = states.record_marker(header, header.base_offset, now_ms, marker)
        if ended is not None and ended.is_aborted:
            self.segments.active.aborted_file.note(aborted_transaction(ended, states.transactions))

    # Looking up leader epochs

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(largest known epoch <= `epoch`, where it ended), (-1, -1) when unknown (OffsetForLeaderEpoch)."""
        return self.epochs.cache.end_offset_for(epoch, self.offsets.log_end_offset)

    def epoch_of(self, offset: int) -> int:
        """The leader epoch that `offset` was written in, -1 when unknown (ListOffsets)."""
        return self.epochs.cache.epoch_of(offset)
