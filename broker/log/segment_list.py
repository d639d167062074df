"""The segments of one log, oldest first; the last one is the active segment, which is written to."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Final

from broker.log.cleaned_segment import SEGMENT_SUFFIXES, SWAP_SUFFIX
from broker.log.files import LogFiles
from broker.log.log_config import LogConfig
from broker.log.retention import SegmentFacts, timestamps_expired
from broker.log.sealed_segments import SealedSegments
from broker.log.segment import SMALL_SEGMENT_BYTES, Segment
from broker.log.txn_index import AbortedTransaction, find_aborted
from contracts import invariants
from wire.batch import BatchHeader, Buffer

_BASE_OFFSET = attrgetter("base_offset")


class SegmentList:
    """Never empty; `sealed` knows how large the closed ones are. Invariant: base offsets strictly increase;
    each segment ends where the next begins, or before."""

    __slots__ = (
        "_segments",
        "_small_count",
        "active",
        "directory",
        "files",
        "sealed",
        "size_bytes",
        "tail",
    )

    def __init__(
        self, directory: Path, files: LogFiles, segments: list[Segment], sealed: SealedSegments
    ) -> None:
        assert segments, "a log has at least its active segment"
        self.directory = directory
        self.files = files
        self.sealed: Final = sealed
        self._segments = segments
        self.active = segments[-1]
        self.size_bytes = sum(segment.size_bytes for segment in segments)
        self.tail: tuple[int, int, int] | None = None
        """(offset, position, size) of the last batch, in the active segment: what waiting fetches read."""
        self._small_count: int | None = None

    def check(self) -> None:
        """Assert what the class says."""
        bases = self.base_offsets()
        assert all(base < following for base, following in pairwise(bases)), str(bases)
        assert self.active is self._segments[-1]
        assert self.size_bytes == sum(segment.size_bytes for segment in self._segments)
        assert bases[-1] not in self.sealed.sizes, "only closed segments have a final size"

    def _changed(self) -> None:
        self.active = self._segments[-1]
        self.tail = None
        self._small_count = None
        if invariants.are_checked:
            self.check()

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    @property
    def first(self) -> Segment:
        return self._segments[0]

    @property
    def small_count(self) -> int:
        """Segments below `SMALL_SEGMENT_BYTES`, but for the active one."""
        if self._small_count is None:
            sealed = self._segments[:-1]
            self._small_count = sum(segment.size_bytes < SMALL_SEGMENT_BYTES for segment in sealed)
        return self._small_count

    def base_offsets(self) -> list[int]:
        return [segment.base_offset for segment in self._segments]

    def write(self, records: Buffer) -> None:
        """Raises: OSError; nothing changed then."""
        self.active.write(records)
        self.size_bytes += len(records)

    def grow(self, size_bytes: int) -> None:
        """Bytes that did not come by `write`."""
        self.size_bytes += size_bytes

    def roll(self, base_offset: int, now_ms: int) -> None:
        """Seal the active segment and start another. Raises: OSError; the log goes on as it was then."""
        active = self._segments[-1]
        assert base_offset > active.base_offset, "an empty segment is not rolled"
        active.seal()
        self._segments.append(Segment.create(self.directory, base_offset, self.files, now_ms))
        active.drop_indexes()
        self.sealed.add(active.base_offset, active.size_bytes)
        self._changed()

    def begin_anew(self, base_offset: int, now_ms: int) -> None:
        """Start another segment without finishing the active one, which is to be dropped: on a full disk
        there may be no room for its indexes. Raises: OSError."""
        assert base_offset > self._segments[-1].base_offset
        self._segments.append(Segment.create(self.directory, base_offset, self.files, now_ms))
        self._changed()

    def replace_empty(self, base_offset: int, now_ms: int) -> None:
        """Begin the active segment, which holds nothing, at a later offset. Raises: OSError."""
        assert self._segments[-1].size_bytes == 0 and base_offset > self._segments[-1].base_offset
        empty, self._segments[-1] = (
            self.active,
            Segment.create(self.directory, base_offset, self.files, now_ms),
        )
        self._changed()
        empty.remove()

    def number_of(self, offset: int) -> int:
        """Which segment would hold the offset."""
        if offset >= self._segments[-1].base_offset:
            return len(self._segments) - 1
        return max(0, bisect_right(self._segments, offset, key=_BASE_OFFSET) - 1)

    def find(self, offset: int) -> tuple[int, int, BatchHeader | None] | None:
        """(segment number, position, header) of the first batch that ends at `offset` or later; no header
        where the segment cannot be followed up to its end. Raises: OSError."""
        for number in range(self.number_of(offset), len(self._segments)):
            segment = self._segments[number]
            position, header = segment.locate(offset)
            if number < len(self._segments) - 1:
                self.files.keep_warm(segment)
            if header is not None or position != segment.size_bytes:
                return number, position, header
        return None

    def aborted(self, fetch_offset: int, upper_offset: int) -> list[AbortedTransaction]:
        """Aborted transactions with records in `fetch_offset`..`upper_offset`, exclusive. Raises: OSError."""
        found = []
        for number in range(self.number_of(fetch_offset), len(self._segments)):
            here, is_complete = find_aborted(
                self._segments[number].aborted_file.entries, fetch_offset, upper_offset
            )
            found += here
            if is_complete:
                break
        return found

    def end_position(self, number: int, up_to: int, log_end_offset: int) -> int:
        """Where the bytes below offset `up_to` end in a segment. Raises: OSError."""
        segment = self._segments[number]
        if up_to >= self.next_base(number, log_end_offset):
            return segment.size_bytes
        return segment.locate(up_to)[0]

    def next_base(self, number: int, log_end_offset: int) -> int:
        """The offset behind a segment's last one."""
        is_last = number == len(self._segments) - 1
        return log_end_offset if is_last else self._segments[number + 1].base_offset

    def __getitem__(self, number: int) -> Segment:
        return self._segments[number]

    def facts(self, log_end_offset: int, config: LogConfig, now_ms: int) -> list[SegmentFacts]:
        """What retention decides by. Raises: OSError."""
        ends = [*self.base_offsets()[1:], log_end_offset]
        return [
            SegmentFacts(
                end,
                segment.size_bytes,
                aged_ms := segment.age_timestamp_ms,
                segment.written_ms() if timestamps_expired(aged_ms, config, now_ms) else aged_ms,
            )
            for end, segment in zip(ends, self._segments, strict=True)
        ]

    def since(self, offset: int) -> list[Segment]:
        """The segments that hold anything at or behind `offset`."""
        return self._segments[self.number_of(offset) :]

    def drop_first(self, count: int) -> int:
        """Delete the oldest segments' files, one after the other; bytes freed. Raises: OSError.

        The active one is never dropped: roll first.
        """
        assert 0 <= count < len(self._segments)
        self.sealed.forget_outside(self._segments[count].base_offset, self.active.base_offset)
        freed = 0
        for _ in range(count):
            segment = self._segments[0]
            segment.remove()
            del self._segments[0]
            self._small_count = None
            self.size_bytes -= segment.size_bytes
            freed += segment.size_bytes
        return freed

    def first_from(self, offset: int) -> int:
        """Number of the first segment that begins at `offset` or later."""
        return bisect_left(self._segments, offset, key=_BASE_OFFSET)

    def drop_from(self, number: int) -> int:
        """Delete this segment and the later ones, the last one first, so that a crash leaves no hole; bytes
        freed. The one in front becomes the active segment. Raises: OSError."""
        assert number > 0
        self.sealed.forget_outside(0, self._segments[number - 1].base_offset)
        freed = 0
        while len(self._segments) > number:
            segment = self._segments[-1]
            segment.remove()
            self._segments.pop()
            self.active, self.tail = self._segments[-1], None
            self.size_bytes -= segment.size_bytes
            freed += segment.size_bytes
        self.files.forget_indexes(self._segments[-1])
        self._changed()
        return freed

    def replace_all(self, base_offset: int, now_ms: int) -> None:
        """Delete every segment, the last one first, and begin an empty one. Raises: OSError."""
        self.sealed.forget_outside(0, 0)
        self.drop_from(1)
        self._segments[0].remove()
        self.size_bytes = 0
        self._segments[0] = Segment.create(self.directory, base_offset, self.files, now_ms)
        self._changed()

    def adopt_cleaned(self, replaced: list[int], size_bytes: int) -> None:
        """Put a compacted segment, whose files end in `.swap`, in the place of these. Raises: OSError; a
        restart finishes what was begun."""
        first = self.first_from(replaced[0])
        old = self._segments[first : first + len(replaced)]
        assert [segment.base_offset for segment in old] == replaced, "nothing else changed sealed segments"
        self.sealed.forget(replaced)
        for segment in old:
            segment.remove()
        for suffix in SEGMENT_SUFFIXES:
            path = old[0].path(suffix)
            swap = path.with_name(path.name + SWAP_SUFFIX)
            if swap.exists():
                swap.rename(path)
        created_ms = old[0].path().stat().st_mtime_ns // 1_000_000
        self._segments[first : first + len(replaced)] = [
            Segment(self.directory, replaced[0], self.files, size_bytes=size_bytes, created_ms=created_ms)
        ]
        self.size_bytes += size_bytes - sum(segment.size_bytes for segment in old)
        self.sealed.add(replaced[0], size_bytes)
        self._small_count = None

    def release(self) -> None:
        for segment in self._segments:
            segment.release()
