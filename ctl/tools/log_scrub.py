"""Reads every batch of every log in a log directory, and says what is not as it was written.

The broker may run: closed segments do not change, and of the newest one only what is on the disk for certain
is judged. Nothing is written but where the scrub has come to, and what it has found, for the broker to take.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from broker.log.batch_scan import is_whole, scan_valid
from broker.log.checkpoint_text import CheckpointCorrupt, parse_offsets
from broker.log.damage import Damage, DamageKind, merged, within
from broker.log.files import write_atomically
from broker.log.offset_index import OffsetIndex
from broker.log.partition_metadata import NO_TOPIC_ID, read_topic_id
from broker.log.scrub_findings import ScrubFinding, leave_findings
from broker.log.sealed_segments import SealedSegments
from broker.log.segment import INDEX_SUFFIX, LOG_SUFFIX, offset_file_name
from broker.storage.log_directory import DELETE_SUFFIX, LOG_STARTS, RECOVERY_POINTS
from wire.batch import HEADER_SIZE, BatchHeader, parse_header

PROGRESS_FILE: Final = "scrub-progress.json"
"""In the log directory."""
_PAUSE_S_MIN: Final = 0.01

Take = Callable[[int], None]
"""Told of bytes that were read; may wait."""


class Place(NamedTuple):
    """One log on the disk."""

    directory: Path
    topic: str
    partition: int

    @property
    def name(self) -> str:
        """The log's name as people say it."""
        return f"{self.topic}-{self.partition}"


class Scrubbed(NamedTuple):
    """One log that was read to its end."""

    place: Place
    damage: tuple[Damage, ...]


class Throttle:
    """So many bytes a second, on the average. 0: no bound."""

    def __init__(self, bytes_per_s: int) -> None:
        self._bytes_per_s = bytes_per_s
        self._started_s = time.monotonic()
        self.read_bytes = 0

    def take(self, count: int) -> None:
        """Wait until they may have been read."""
        self.read_bytes += count
        if not self._bytes_per_s:
            return
        ahead_s = self.read_bytes / self._bytes_per_s - (time.monotonic() - self._started_s)
        if ahead_s > _PAUSE_S_MIN:
            time.sleep(ahead_s)


class Progress(msgspec.Struct):
    """Where a scrub has come to; kept in a file, so that the next one goes on there."""

    finished: list[str] = []
    """Directories of logs."""
    log: str = ""
    """The one under way."""
    segment: int = 0
    """Its first segment that is not read."""
    damage: dict[str, list[Damage]] = {}
    """What was found, by the log's directory."""

    @classmethod
    def load(cls, path: Path) -> "Progress":
        """From the start where there is none."""
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except (OSError, msgspec.MsgspecError):
            return cls()


def places_in(log_directory: Path) -> list[Place]:
    """Every log of a log directory."""
    found = []
    for path in sorted(log_directory.iterdir()):
        topic, dash, partition = path.name.rpartition("-")
        is_log = dash and partition.isascii() and partition.isdigit() and path.is_dir()
        if is_log and not path.name.endswith(DELETE_SUFFIX):
            found.append(Place(path, topic, int(partition)))
    return found


def scrub(log_directory: Path, progress_file: Path, take: Take, *, tell: bool) -> Iterator[Scrubbed]:
    """Read the logs of one directory, from where the last scrub was ended. `tell`: leave what is found for
    the broker. Raises: OSError."""
    progress = Progress.load(progress_file)
    ends = _offsets(log_directory / RECOVERY_POINTS)
    starts = _offsets(log_directory / LOG_STARTS)
    for place in places_in(log_directory):
        key, directory = (place.topic, place.partition), str(place.directory)
        damage = progress.damage.get(directory, [])
        if directory in progress.finished:
            if damage:
                yield Scrubbed(place, merged(damage))
            continue
        if progress.log != directory:
            progress.log, progress.segment = directory, 0
        for base_offset, found in _scrub_log(place.directory, progress.segment, ends.get(key, 0), take):
            damage += within(found, starts.get(key, 0), max(ends.get(key, 0), base_offset))
            if found:
                progress.damage[directory] = damage
                if tell:
                    _tell(log_directory, place, damage)
            progress.segment = base_offset + 1
            write_atomically(progress_file, msgspec.json.encode(progress))
        progress.finished.append(directory)
        write_atomically(progress_file, msgspec.json.encode(progress))
        yield Scrubbed(place, merged(damage))
    progress_file.unlink(missing_ok=True)


def _tell(log_directory: Path, place: Place, damage: list[Damage]) -> None:
    topic_id = read_topic_id(place.directory)
    if topic_id == NO_TOPIC_ID:
        return
    findings = [
        ScrubFinding(place.topic, place.partition, topic_id, each.first_offset, each.next_offset)
        for each in merged(damage)
    ]
    leave_findings(log_directory, findings)


def _offsets(path: Path) -> dict[tuple[str, int], int]:
    try:
        return parse_offsets(path.read_text())
    except (FileNotFoundError, CheckpointCorrupt, UnicodeDecodeError):
        return {}


def _scrub_log(
    directory: Path, first_segment: int, recovery_point: int, take: Take
) -> Iterator[tuple[int, list[Damage]]]:
    """(base offset, damage) of each segment from `first_segment` on."""
    bases = sorted(int(path.name.removesuffix(LOG_SUFFIX)) for path in directory.glob(f"*{LOG_SUFFIX}"))
    sealed = SealedSegments.load(directory)  # afterwards: it forgets a segment before the files go
    known = sorted({*bases, *sealed.sizes})
    missing = [
        Damage(base, following, DamageKind.MISSING)
        for base, following in pairwise(known)
        if base not in bases and not (directory / offset_file_name(base, LOG_SUFFIX)).exists()
    ]
    epoch = -1
    for number, base in enumerate(bases):
        following = next((other for other in known[number:] if other > base), None)
        found = [each for each in missing if following is None or each.first_offset < following]
        missing = missing[len(found) :]
        if base < first_segment:
            continue
        path = directory / offset_file_name(base, LOG_SUFFIX)
        reader = _SegmentReader(path, base, recovery_point if following is None else following, epoch, take)
        with suppress(FileNotFoundError):  # retention or a compaction has taken it meanwhile
            found += reader.read(None if following is None else sealed.sizes.get(base))
        epoch = reader.epoch
        yield base, found


class _SegmentReader:
    """One segment up to `end_offset`, batch by batch."""

    def __init__(self, path: Path, base_offset: int, end_offset: int, epoch: int, take: Take) -> None:
        self._path = path
        self._next_offset = base_offset
        self._base_offset = base_offset
        self._end_offset = end_offset
        self.epoch = epoch
        """The epoch of the last batch."""
        self._take = take
        self._damage: list[Damage] = []

    def read(self, known_bytes: int | None) -> list[Damage]:
        """`known_bytes`: what the file was closed with. Raises: OSError."""
        fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size_bytes = os.fstat(fd).st_size
            if known_bytes is not None:
                size_bytes = min(size_bytes, known_bytes)
            position = 0
            while position < size_bytes and self._next_offset < self._end_offset:
                position = self._follow(fd, position, size_bytes)
                if position < size_bytes and self._next_offset < self._end_offset:
                    position = self._skip(fd, position, size_bytes)
        finally:
            os.close(fd)
        if known_bytes is not None and size_bytes < known_bytes:
            self._lost(self._next_offset, self._end_offset, DamageKind.SHORT)
        return self._damage

    def _follow(self, fd: int, position: int, size_bytes: int) -> int:
        """Where the sound batches end."""
        for at, header in scan_valid(fd, position, size_bytes):
            if self._next_offset >= self._end_offset or not self._fits(header):
                return at
            self._next_offset, self.epoch = header.next_offset, header.partition_leader_epoch
            self._take(header.size_bytes)
            position = at + header.size_bytes
        return position

    def _fits(self, header: BatchHeader) -> bool:
        return (
            self._next_offset <= header.base_offset
            and header.next_offset <= self._end_offset
            and header.partition_leader_epoch >= self.epoch
        )

    def _skip(self, fd: int, position: int, size_bytes: int) -> int:
        """Behind what is damaged at `position`: the next batch if this one's length is believable, else one
        that the index names, else the end."""
        raw = os.pread(fd, HEADER_SIZE, position)
        if len(raw) == HEADER_SIZE:
            header = parse_header(raw)
            behind = position + header.size_bytes
            if (
                is_whole(header, size_bytes - position)
                and self._next_offset <= header.base_offset
                and header.next_offset <= self._end_offset
                and (behind == size_bytes or self._is_sound(fd, behind, size_bytes, header.next_offset))
            ):
                self._lost(header.base_offset, header.next_offset)
                self._next_offset = header.next_offset
                self._take(header.size_bytes)
                return behind
        for at in self._indexed(position):
            if self._is_sound(fd, at, size_bytes, self._next_offset):
                first = parse_header(os.pread(fd, HEADER_SIZE, at)).base_offset
                self._lost(self._next_offset, first)
                self._next_offset = first
                return at
        self._lost(self._next_offset, self._end_offset)
        self._next_offset = self._end_offset
        return size_bytes

    def _is_sound(self, fd: int, position: int, size_bytes: int, from_offset: int) -> bool:
        for at, header in scan_valid(fd, position, size_bytes):
            return at == position and from_offset <= header.base_offset < self._end_offset
        return False

    def _indexed(self, behind: int) -> list[int]:
        path = self._path.with_suffix(INDEX_SUFFIX)
        try:
            index = OffsetIndex(self._base_offset, path.read_bytes())
        except FileNotFoundError:
            return []
        return [position for position in index.positions() if position > behind]

    def _lost(self, first: int, following: int, kind: DamageKind = DamageKind.CONTENT) -> None:
        if first < following:
            self._damage.append(Damage(first, following, kind))
