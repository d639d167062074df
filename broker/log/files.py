"""File access of the log: handles that outlive their owner, a bounded cache of them, atomic replacement."""

import errno
import os
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from wire.batch import Buffer

HANDLES_MAX: Final = 4096
INDEX_BYTES_MAX: Final = 32 * 1024 * 1024


class HoldsIndexes(Protocol):
    """Something whose indexes can be dropped from memory and load again."""

    @property
    def index_bytes_in_memory(self) -> int: ...

    def drop_indexes(self) -> None: ...


class FileHandle:
    """An open file. It closes when the last holder lets go, so a slice on its way to a socket keeps its file
    even when the segment is deleted or the cache drops it, and its number is never another file's
    meanwhile."""

    __slots__ = ("fd",)

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self.fd = -1
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        self.fd = os.open(path, flags, 0o600)

    @property
    def size_bytes(self) -> int:
        """What is on the disk. Raises: OSError."""
        return os.fstat(self.fd).st_size

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class LogFiles:
    """What all logs of a process share: the most recently used handles, so that thousands of partitions do
    not need thousands of descriptors, and the most recently used indexes of sealed segments, bounded in
    bytes."""

    def __init__(
        self,
        handles_max: int = HANDLES_MAX,
        index_bytes_max: int = INDEX_BYTES_MAX,
        sync: Callable[[int], None] = os.fdatasync,
    ) -> None:
        self.sync: Final = sync
        """Has the content of an open file survive a power cut. Raises: OSError."""
        self._handles: OrderedDict[Path, FileHandle] = OrderedDict()
        self._handles_max = handles_max
        self._warm: OrderedDict[HoldsIndexes, int] = OrderedDict()
        self._warm_bytes = 0
        self._index_bytes_max = index_bytes_max
        self.discarded: list[FileHandle] = []
        """Descriptors of removed files; to be let go on a thread, for freeing their blocks takes time."""

    def get(self, path: Path, *, create: bool = False) -> FileHandle:
        """Keep the handle while its number is in use: the cache may drop it meanwhile. Raises: OSError."""
        handle = self._handles.get(path)
        if handle is not None:
            self._handles.move_to_end(path)
            return handle
        try:
            handle = FileHandle(path, create=create)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._handles:
                raise
            self._handles.clear()  # connections took the descriptors; files open again as they are needed
            handle = FileHandle(path, create=create)
        self._handles[path] = handle
        if len(self._handles) > self._handles_max:
            self._handles.popitem(last=False)
        return handle

    def forget(self, path: Path) -> None:
        """Before a file is renamed or removed: its path may soon mean another file."""
        self._handles.pop(path, None)

    def keep_warm(self, segment: HoldsIndexes) -> None:
        """A sealed segment's indexes were used; those used least recently are dropped beyond the bound."""
        self._warm_bytes -= self._warm.pop(segment, 0)
        self._warm[segment] = segment.index_bytes_in_memory
        self._warm_bytes += self._warm[segment]
        while self._warm_bytes > self._index_bytes_max and len(self._warm) > 1:
            coldest, size_bytes = self._warm.popitem(last=False)
            self._warm_bytes -= size_bytes
            coldest.drop_indexes()

    def forget_indexes(self, segment: HoldsIndexes) -> None:
        self._warm_bytes -= self._warm.pop(segment, 0)


def write_fully(fd: int, data: Buffer, position: int) -> None:
    """Write all of `data` at `position`.

    Raises: OSError; how much of it is in the file then is not known.
    """
    written = os.pwrite(fd, data, position)
    if written == len(data):
        return
    with memoryview(data) as view:
        while written < len(data):
            with view[written:] as rest:
                count = os.pwrite(fd, rest, position + written)
            if count == 0:
                raise OSError(f"pwrite wrote nothing of {len(data) - written} bytes")
            written += count


def sync_directory(path: Path) -> None:
    """Make creations, renames and removals in the directory durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file so that a crash leaves the old content or the new: temporary file, fsync, rename."""
    temporary = path.with_name(path.name + ".tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        write_fully(fd, content, 0)
        os.fsync(fd)
    finally:
        os.close(fd)
    temporary.replace(path)
    sync_directory(path.parent)


def replace_file(path: Path, content: bytes) -> None:
    """Like `write_atomically` as far as a crash of the process goes; not synced."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_bytes(content)
    temporary.replace(path)
