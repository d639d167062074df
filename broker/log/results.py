"""What a partition's log answers with."""

import enum
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from broker.log.files import FileHandle, sync_directory


class AppendOrigin(enum.Enum):
    """Who made the records, which decides what is checked."""

    CLIENT = "client"
    """A Produce request: one batch, every rule of Kafka's."""
    COORDINATOR = "coordinator"
    """Our own records (offsets, markers): structure and CRC only."""
    REPLICATION = "replication"
    """Fetched from the leader: offsets and leader epochs stay as they are."""


class AppendResult(NamedTuple):
    """Where the records are."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    """-1 with timestamp type CreateTime."""
    log_start_offset: int
    appended_bytes: int
    """0 for a repeated batch of an idempotent producer, which keeps its first offsets."""
    flush_due: bool
    """`flush.messages` is reached: acknowledge only when `recovery_point` has passed `last_offset`."""

    @property
    def is_duplicate(self) -> bool:
        return self.appended_bytes == 0


@dataclass(frozen=True, slots=True)
class LogSlice:
    """Bytes of one segment file for os.sendfile. The file stays open while the slice lives, whatever
    happens to the segment. The last batch may be cut off, the first is whole."""

    handle: FileHandle
    position: int
    size_bytes: int
    base_offset: int
    """Offset of the first batch: at or below the offset asked for."""

    @property
    def fd(self) -> int:
        return self.handle.fd

    def read(self) -> bytes:
        """The bytes, for slices too small to be worth a sendfile. Raises: OSError."""
        return os.pread(self.handle.fd, self.size_bytes, self.position)


class TimestampOffset(NamedTuple):
    """The first record at or after a timestamp."""

    timestamp_ms: int
    offset: int


@dataclass(slots=True)
class FlushJob:
    """Files to sync. `run` may block and belongs on a thread; hand the job back to `complete_flush`
    afterwards."""

    up_to_offset: int
    """The recovery point once the job ran."""
    lineage: int
    """The log's when the job began: a truncation meanwhile makes `up_to_offset` meaningless."""
    handles: list[FileHandle]
    actions: list[Callable[[], None]]
    """Small files to write and sync."""
    directories: list[Path]
    """Whose entries changed."""
    sync: Callable[[int], None]
    error: OSError | None = None
    data_refused: bool = False
    """fdatasync itself failed."""

    def run(self, synced: set[Path] | None = None) -> None:
        """Never raises: `error` says what went wrong. `synced` are directories that need no second sync."""
        try:
            for handle in self.handles:
                self.sync(handle.fd)
        except OSError as error:
            self.error = error
            self.data_refused = True
            return
        synced = set() if synced is None else synced
        try:
            for action in self.actions:
                action()
            for directory in self.directories:
                if directory not in synced:
                    sync_directory(directory)
                    synced.add(directory)
        except OSError as error:
            self.error = error
