"""Reading a log by offset and by time, and what of it cannot be read."""

from collections.abc import Iterable
from dataclasses import dataclass

from broker.log.damage import Damage, DamageKind, KnownDamage, hole_at
from broker.log.damage_check import is_readable
from broker.log.errors import OffsetOutOfRange, RecordsDamaged
from broker.log.log_owner import OwnedLog
from broker.log.offsets import LogOffsets
from broker.log.results import LogSlice, TimestampOffset
from broker.log.segment_list import SegmentList
from broker.log.standing import LogStanding
from broker.log.time_lookup import Search, find_here, latest_search, time_search
from broker.log.txn_index import AbortedTransaction
from wire.batch import BatchHeader


@dataclass(slots=True, eq=False, repr=False)
class LogReading:
    """Changes nothing but what is known to be damaged."""

    standing: LogStanding
    offsets: LogOffsets
    segments: SegmentList
    damage: KnownDamage
    owned: OwnedLog[object]

    def read(self, offset: int, max_bytes: int, *, up_to: int, min_one_batch: bool) -> LogSlice | None:
        """Whole batches from the one that contains `offset` on, of one segment, the last perhaps cut off.

        Nothing at or behind `up_to` (the high watermark, read once per request) is in it. None when there
        is nothing yet, or when the first batch is larger than `max_bytes` and not asked for by
        `min_one_batch`. Raises: OffsetOutOfRange, RecordsDamaged, StorageFailed.
        """
        offsets = self.offsets
        end = offsets.log_end_offset
        if offset < offsets.log_start_offset or offset > end:
            raise OffsetOutOfRange(offset, offsets.log_start_offset, end)
        if offset >= up_to or offset == end or (max_bytes <= 0 and not min_one_batch):
            return None
        try:
            tail = self.segments.tail
            if tail is not None and tail[0] == offset and up_to >= end:
                _, position, size_bytes = tail
                if size_bytes > max_bytes and not min_one_batch:
                    return None
                return LogSlice(self.segments.active.handle(), position, size_bytes, offset)
            return self._find_slice(offset, max_bytes, up_to, min_one_batch)
        except OSError as error:
            raise self.standing.refused(error) from error

    def _find_slice(self, offset: int, max_bytes: int, up_to: int, min_one_batch: bool) -> LogSlice | None:
        damage = self.damage.ranges
        if damage:
            if hole_at(damage, offset) is not None:
                raise RecordsDamaged(self.standing.name, offset)
            up_to = min([up_to, *(each[0] for each in damage if each[0] > offset and each[2].is_hole)])
        found = self.segments.find(offset)
        if found is None:
            return None
        number, position, header = found
        segment = self.segments[number]
        handle = segment.handle()
        on_disk_bytes = handle.size_bytes
        if header is None or on_disk_bytes < segment.size_bytes:
            if self._is_damage_news(number, position, on_disk_bytes, header, offset):
                return self._find_slice(offset, max_bytes, up_to, min_one_batch)
            if header is None:
                raise RecordsDamaged(self.standing.name, offset)
        end = self.segments.end_position(number, up_to, self.offsets.log_end_offset)
        first_bytes = header.size_bytes
        size_bytes = min(max_bytes, end - position)
        if position + first_bytes > end or (size_bytes < first_bytes and not min_one_batch):
            return None
        return LogSlice(handle, position, max(size_bytes, first_bytes), header.base_offset)

    def _is_damage_news(
        self, number: int, position: int, on_disk_bytes: int, header: BatchHeader | None, offset: int
    ) -> bool:
        """A look-up of `offset` has met a segment that has become shorter, or cannot be followed beyond
        `position`: whether that was not known. Then it is, and told. Raises: OSError."""
        segment = self.segments[number]
        first = offset if header is None else header.base_offset
        for _, whole in segment.headers_until(position, on_disk_bytes):
            first = whole.next_offset
        kind = DamageKind.SHORT if on_disk_bytes < segment.size_bytes else DamageKind.CONTENT
        next_base = self.segments.next_base(number, self.offsets.log_end_offset)
        is_news = self.note_damage([Damage(first, next_base, kind)])
        if is_news:
            self.owned.damaged()
        return is_news

    def note_damage(self, found: Iterable[Damage]) -> bool:
        """More of the log is known to be damaged; whether that is news."""
        self.segments.tail = None
        return self.damage.note(found, self.offsets.log_start_offset, self.offsets.log_end_offset)

    def recall_damage(self, known: Iterable[Damage]) -> None:
        """What was known of its damage before a restart, unless its files were put back since. Raises:
        OSError."""
        self.note_damage(
            each
            for each in known
            if each.kind is not DamageKind.CONTENT or not is_readable(self.segments, each)
        )

    def read_bytes(self, offset: int, max_bytes: int, *, up_to: int, min_one_batch: bool) -> bytes:
        """What `read` finds, as bytes; empty where it finds nothing. Raises: OffsetOutOfRange,
        StorageFailed."""
        found = self.read(offset, max_bytes, up_to=up_to, min_one_batch=min_one_batch)
        with self.standing.guarded():
            return b"" if found is None else found.read()

    def aborted(self, fetch_offset: int, upper_offset: int) -> list[AbortedTransaction]:
        """Aborted transactions in `fetch_offset`..`upper_offset`, exclusive. Raises: StorageFailed."""
        with self.standing.guarded():
            return self.segments.aborted(fetch_offset, upper_offset)

    def aborted_in(self, found: LogSlice, up_to: int) -> list[AbortedTransaction]:
        """Aborted transactions in a slice that was read up to `up_to` (the last stable offset).

        Perhaps a few more: the index says only about where the slice ends. Raises: StorageFailed.
        """
        with self.standing.guarded():
            segment = self.segments[self.segments.number_of(found.base_offset)]
            behind = segment.index.first_offset_from(found.position + found.size_bytes)
            upper_offset = up_to if behind is None else min(up_to, behind)
            return self.segments.aborted(found.base_offset, upper_offset)

    def offset_for_timestamp(
        self, timestamp_ms: int, *, up_to: int | None = None
    ) -> TimestampOffset | Search | None:
        """The first record at or after a time, below `up_to` (default: the high watermark); where finding it
        may be much work, what has to be searched elsewhere. Raises: StorageFailed."""
        limit = self.offsets.high_watermark if up_to is None else up_to
        with self.standing.guarded():
            search = time_search(self.segments, timestamp_ms, self.offsets.log_start_offset, limit)
            return find_here(search)

    def offset_of_latest(self, *, up_to: int) -> TimestampOffset | Search | None:
        """The first record with the largest timestamp below `up_to` (KIP-734); otherwise as
        `offset_for_timestamp`. Raises: StorageFailed."""
        with self.standing.guarded():
            return find_here(latest_search(self.segments, self.offsets.log_start_offset, up_to))

    def segment_starts(self) -> list[tuple[int, int]]:
        """(base offset, time of the latest record) of every segment, oldest first. Raises: StorageFailed."""
        with self.standing.guarded():
            return [(segment.base_offset, segment.age_timestamp_ms) for segment in self.segments]
