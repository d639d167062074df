"""One segment: a `.log` file with its `.index` and `.timeindex`.

Index entries collect in memory and reach their files with a flush or when the segment is closed; recovery
rebuilds what a crash left out. Files are opened when needed and owned by a cache.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from broker.log.aborted_file import AbortedFile
from broker.log.batch_scan import walk_headers
from broker.log.files import FileHandle, LogFiles, write_fully
from broker.log.offset_index import ENTRY_SIZE as INDEX_ENTRY_SIZE
from broker.log.offset_index import RELATIVE_MAX, OffsetIndex
from broker.log.time_index import ENTRY_SIZE as TIME_ENTRY_SIZE
from broker.log.time_index import TimeIndex
from wire.batch import LOG_OVERHEAD, NO_TIMESTAMP, BatchHeader, Buffer

POSITION_MAX: Final = 2**31 - 1
_ABORTED_BYTES: Final = 240
"""In memory."""
SMALL_SEGMENT_BYTES: Final = 1024 * 1024
"""A segment of less is hardly worth its files; tenants may set no smaller `segment.bytes`."""
REMOVED_AT_ONCE_BYTES: Final = 8 * 1024 * 1024
LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TXN_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"


def offset_file_name(offset: int, suffix: str) -> str:
    """Kafka's 20-digit names."""
    return f"{offset:020d}{suffix}"


class Segment:
    """Batches from `base_offset` on. Invariant: `size_bytes` is the end of the last whole batch."""

    __slots__ = (
        "_aborted_file",
        "_bytes_since_index",
        "_directory",
        "_files",
        "_first_timestamp_ms",
        "_index",
        "_index_written",
        "_largest",
        "_paths",
        "_time_index",
        "_time_index_written",
        "base_offset",
        "created_ms",
        "size_bytes",
    )

    def __init__(
        self, directory: Path, base_offset: int, files: LogFiles, *, size_bytes: int, created_ms: int
    ) -> None:
        self.base_offset = base_offset
        self.size_bytes = size_bytes
        self.created_ms = created_ms
        """When it was made or last written before this process: age of records without timestamps."""
        self._files = files
        self._directory = directory
        self._paths: dict[str, Path] = {}
        self._index: OffsetIndex | None = None
        self._index_written = 0
        self._time_index: TimeIndex | None = None
        self._time_index_written = 0
        self._aborted_file: AbortedFile | None = None
        self._bytes_since_index = 0
        self._first_timestamp_ms: int | None = None
        self._largest: tuple[int, int] | None = None

    @classmethod
    def create(cls, directory: Path, base_offset: int, files: LogFiles, now_ms: int) -> "Segment":
        """A new segment; the `.log` file comes last, for it is what makes one. Raises: OSError."""
        segment = cls(directory, base_offset, files, size_bytes=0, created_ms=now_ms)
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, LOG_SUFFIX):
            path = segment.path(suffix)
            files.forget(path)
            os.ftruncate(files.get(path, create=True).fd, 0)
        segment.path(TXN_INDEX_SUFFIX).unlink(missing_ok=True)
        segment._begin_empty()
        return segment

    @classmethod
    def create_first(cls, directory: Path, base_offset: int, files: LogFiles, now_ms: int) -> "Segment":
        """The first one of a new log: only `.log`; indexes get files with their entries. Raises: OSError."""
        segment = cls(directory, base_offset, files, size_bytes=0, created_ms=now_ms)
        files.get(segment.path(), create=True)
        segment._begin_empty()
        return segment

    def _begin_empty(self) -> None:
        self._index = OffsetIndex(self.base_offset)
        self._time_index = TimeIndex(self.base_offset)
        self._aborted_file = AbortedFile(
            self.path(TXN_INDEX_SUFFIX), self.base_offset, self._files, is_new=True
        )
        self._largest = (NO_TIMESTAMP, self.base_offset)

    def path(self, suffix: str = LOG_SUFFIX) -> Path:
        path = self._paths.get(suffix)
        if path is None:
            path = self._paths[suffix] = self._directory / offset_file_name(self.base_offset, suffix)
        return path

    def handle(self) -> FileHandle:
        """The `.log` file. Raises: OSError."""
        return self._files.get(self._paths.get(LOG_SUFFIX) or self.path())

    # Indexes, loaded when first needed

    @property
    def index(self) -> OffsetIndex:
        if self._index is None:
            self._index = OffsetIndex(self.base_offset, self._content(INDEX_SUFFIX))
            self._index_written = len(self._index)
        return self._index

    @property
    def time_index(self) -> TimeIndex:
        if self._time_index is None:
            self._time_index = TimeIndex(self.base_offset, self._content(TIME_INDEX_SUFFIX))
            self._time_index_written = len(self._time_index)
        return self._time_index

    @property
    def aborted_file(self) -> AbortedFile:
        """Aborted transactions whose markers are in this segment."""
        if self._aborted_file is None:
            path = self.path(TXN_INDEX_SUFFIX)
            self._aborted_file = AbortedFile(path, self.base_offset, self._files, is_new=False)
        return self._aborted_file

    def _content(self, suffix: str) -> bytes:
        path = self.path(suffix)
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return b""

    @property
    def largest_timestamp(self) -> tuple[int, int]:
        """(timestamp, last offset of its batch) of the latest record, (-1, base offset) without
        timestamps."""
        if self._largest is None:
            self._largest = self._last_time_entry() if self._time_index is None else self._time_index.last
        return self._largest

    def _last_time_entry(self) -> tuple[int, int]:
        """The end of the time index without loading it: retention asks every segment."""
        path = self.path(TIME_INDEX_SUFFIX)
        with suppress(FileNotFoundError), path.open("rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            tail = os.pread(file.fileno(), TIME_ENTRY_SIZE, max(0, size - TIME_ENTRY_SIZE))
            if size % TIME_ENTRY_SIZE == 0 and any(tail):
                return TimeIndex(self.base_offset, tail).last
        return self.time_index.last

    @property
    def first_timestamp_ms(self) -> int:
        """Timestamp of the first batch, -1 without one. Raises: OSError."""
        if self._first_timestamp_ms is None and self.size_bytes:
            first = next(self.headers(0), None)
            self._first_timestamp_ms = first[1].max_timestamp_ms if first else NO_TIMESTAMP
        return NO_TIMESTAMP if self._first_timestamp_ms is None else self._first_timestamp_ms

    def index_file_bytes(self) -> int:
        """Size of the larger of its two indexes. Raises: OSError."""
        sizes = [0]
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            with suppress(FileNotFoundError):
                sizes.append(self.path(suffix).stat().st_size)
        return max(sizes)

    @property
    def age_timestamp_ms(self) -> int:
        """What retention by time goes by."""
        timestamp_ms = self.largest_timestamp[0]
        return timestamp_ms if timestamp_ms >= 0 else self.created_ms

    def written_ms(self) -> int:
        """When its file was last written, by the file system. Raises: OSError."""
        return self.path().stat().st_mtime_ns // 1_000_000

    # Writing

    def has_room(self, size_bytes: int, last_offset: int, segment_bytes: int, index_bytes: int) -> bool:
        """Whether a batch fits, by size, index and the 31 bits of relative offsets and positions."""
        size_bytes += self.size_bytes
        return (
            size_bytes <= segment_bytes
            and size_bytes <= POSITION_MAX
            and last_offset - self.base_offset <= RELATIVE_MAX
            and (len(self.index) + 1) * INDEX_ENTRY_SIZE <= index_bytes
            and (len(self.time_index) + 1) * TIME_ENTRY_SIZE <= index_bytes
        )

    def waited_ms(self, timestamp_ms: int, now_ms: int) -> int:
        """How long it has been filling: by record time where records have one, else by ours (KIP-33)."""
        first_ms = self._first_timestamp_ms
        if first_ms is None:
            first_ms = self.first_timestamp_ms
        if timestamp_ms >= 0 and first_ms >= 0:
            return timestamp_ms - first_ms
        return now_ms - self.created_ms

    def write(self, records: Buffer) -> None:
        """Put bytes at the end, in one call. Raises: OSError, with the file cut back where that is
        possible."""
        handle = self.handle()
        try:
            write_fully(handle.fd, records, self.size_bytes)
        except OSError as error:
            try:
                os.ftruncate(handle.fd, self.size_bytes)
            except OSError as second:
                # What is left behind the end is overwritten by the next batch or cut off by recovery.
                raise error from second
            raise

    def note(self, header: BatchHeader, index_interval_bytes: int) -> None:
        """Account for a batch that `write` put there (or recovery found): size, indexes, timestamps."""
        if self._bytes_since_index > index_interval_bytes:
            self.index.append(header.last_offset, self.size_bytes)
            self.time_index.maybe_append(*self.largest_timestamp)
            self._bytes_since_index = 0
        size_bytes = header.batch_length + LOG_OVERHEAD
        if self._first_timestamp_ms is None and self.size_bytes == 0:
            self._first_timestamp_ms = header.max_timestamp_ms
        self._bytes_since_index += size_bytes
        self.size_bytes += size_bytes
        largest = self._largest or self.largest_timestamp
        if header.max_timestamp_ms > largest[0] and header.record_count > 0:
            self._largest = (header.max_timestamp_ms, header.base_offset + header.last_offset_delta)

    def cut(self, size_bytes: int) -> None:
        """Shorten the `.log` file. Raises: OSError."""
        os.ftruncate(self.handle().fd, size_bytes)

    def reset_indexes(self, position: int, offset: int) -> None:
        """Drop what the indexes say of `position`, `offset` and later, before recovery notes those
        batches."""
        if position == 0:  # what a power cut left may be in no order that truncating could follow
            self._index, self._time_index = OffsetIndex(self.base_offset), TimeIndex(self.base_offset)
        self.index.truncate(position)
        self.time_index.truncate(offset)
        self._index_written = len(self.index)
        self._time_index_written = len(self.time_index)
        self._trim_index_files()
        self._largest = self.time_index.last
        if position == 0:
            self._first_timestamp_ms = None
        last = self.index.last
        self._bytes_since_index = position - (last[1] if last else 0)
        self.size_bytes = position

    def write_indexes(self) -> None:
        """Bring the index files up to date. Raises: OSError; nothing is forgotten then."""
        if self._index is not None and len(self._index) > self._index_written:
            data = self._index.to_bytes(self._index_written)
            self._write_index(INDEX_SUFFIX, data, self._index_written * INDEX_ENTRY_SIZE)
            self._index_written = len(self._index)
        if self._time_index is not None and len(self._time_index) > self._time_index_written:
            data = self._time_index.to_bytes(self._time_index_written)
            self._write_index(TIME_INDEX_SUFFIX, data, self._time_index_written * TIME_ENTRY_SIZE)
            self._time_index_written = len(self._time_index)
        if self._aborted_file is not None:
            self._aborted_file.write()

    def index_handles(self) -> list[FileHandle]:
        """The offset and the time index, to be synced once the segment is sealed. Raises: OSError."""
        return [FileHandle(self.path(suffix)) for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX)]

    def _write_index(self, suffix: str, data: bytes, position: int) -> None:
        write_fully(self._files.get(self.path(suffix), create=True).fd, data, position)

    def seal(self) -> None:
        """Finish the files: the last time index entry, no tail behind the entries. Raises: OSError."""
        self.time_index.maybe_append(*self.largest_timestamp)
        self.write_indexes()
        self._trim_index_files()

    def _trim_index_files(self) -> None:
        for suffix, size_bytes in (
            (INDEX_SUFFIX, self._index_written * INDEX_ENTRY_SIZE),
            (TIME_INDEX_SUFFIX, self._time_index_written * TIME_ENTRY_SIZE),
        ):
            os.ftruncate(self._files.get(self.path(suffix), create=True).fd, size_bytes)

    # Reading

    def headers(self, position: int) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of the batches from `position` on. Raises: OSError."""
        if position >= self.size_bytes:
            return
        handle = self.handle()  # held while the walk lasts: the cache may drop it meanwhile
        yield from walk_headers(handle.fd, position, self.size_bytes)

    def headers_until(self, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
        """Headers in `position`..`end`, whatever the segment knows of its size. Raises: OSError."""
        handle = self.handle()
        yield from walk_headers(handle.fd, position, end)

    def find(self, offset: int) -> tuple[int, BatchHeader] | None:
        """The first batch that ends at `offset` or later: the one that contains it, unless compaction took
        it."""
        position, header = self.locate(offset)
        return None if header is None else (position, header)

    def locate(self, offset: int) -> tuple[int, BatchHeader | None]:
        """Its position and header; without one where the walk from batch to batch has ended. That is the end
        of the segment unless something in it is damaged."""
        position = self.index.lookup(offset)
        found = self._walk(position, offset)
        if found[1] is None and found[0] != self.size_bytes and position > 0:
            found = self._walk(0, offset)  # it may be the index that is damaged
        return found

    def _walk(self, position: int, offset: int) -> tuple[int, BatchHeader | None]:
        for at, header in self.headers(position):
            if header.base_offset + header.last_offset_delta >= offset:
                return at, header
            position = at + header.batch_length + LOG_OVERHEAD
        return position, None

    def read(self, position: int, size_bytes: int) -> bytes:
        """Raises: OSError."""
        return os.pread(self.handle().fd, size_bytes, position)

    # Letting go

    @property
    def index_bytes_in_memory(self) -> int:
        index = 0 if self._index is None else len(self._index) * INDEX_ENTRY_SIZE
        times = 0 if self._time_index is None else len(self._time_index) * TIME_ENTRY_SIZE
        aborted = 0 if self._aborted_file is None else self._aborted_file.count_in_memory * _ABORTED_BYTES
        return index + times + aborted

    def drop_indexes(self) -> None:
        """Free the memory of a sealed segment's indexes; they load again when needed."""
        largest = self.largest_timestamp
        if self._index is not None and len(self._index) == self._index_written:
            self._index = None
        if self._time_index is not None and len(self._time_index) == self._time_index_written:
            self._time_index = None
        if self._aborted_file is not None:
            self._aborted_file.drop()
        self._largest = largest

    def release(self) -> None:
        """Forget the open files."""
        self._files.forget_indexes(self)
        for path in self._paths.values():
            self._files.forget(path)

    def remove(self) -> None:
        """Delete the files; slices being sent keep theirs. Raises: OSError.

        The blocks of a large file are given back when its last handle closes: a gigabyte takes a fifth of a
        second, so that is left to the next removal job.
        """
        if self.size_bytes > REMOVED_AT_ONCE_BYTES:
            self._files.discarded.append(self.handle())
        self.release()
        for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX):
            self.path(suffix).unlink(missing_ok=True)
