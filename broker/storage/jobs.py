"""What the log manager hands out for a thread to run: new directories, flushes, checkpoints, removals."""

import errno
import shutil
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from broker.log.errors import LogError
from broker.log.files import FileHandle
from broker.log.partition_log import PartitionLog
from broker.log.partition_metadata import PARTITION_METADATA, write_topic_id
from broker.log.results import FlushJob
from broker.log.segment import LOG_SUFFIX, offset_file_name
from broker.storage.log_directory import Checkpoints, LogDirectory

_SIDE_BY_SIDE: Final = 8


class NewPartition(NamedTuple):
    """Where a partition's files will be, and of which topic."""

    directory: LogDirectory
    path: Path
    topic_id: uuid.UUID


@dataclass(slots=True)
class CreationJob:
    """The files of partitions that are to be made. `run` belongs on a thread: each of these calls may wait
    for the file system to commit what others have it sync."""

    wanted: dict[tuple[str, int], NewPartition]
    made: dict[tuple[str, int], NewPartition] = field(default_factory=dict)
    """Not taken over yet. What is in neither was left to be made later: descriptors were short."""
    errors: dict[tuple[str, int], OSError] = field(default_factory=dict)

    def run(self) -> None:
        """Never raises. What could not be made leaves nothing behind."""
        for key, new in self.wanted.items():
            try:
                make_files(new.path, new.topic_id)
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE):
                    self.errors[key] = error
            else:
                self.made[key] = new


@dataclass(slots=True)
class FlushRound:
    """The logs of one flush. `run` belongs on a thread."""

    jobs: list[tuple[PartitionLog, FlushJob]]
    failures: list[LogError]
    """Logs that could not even begin."""

    def run(self) -> None:
        _run_side_by_side([job for _, job in self.jobs])


@dataclass(slots=True)
class CheckpointJob:
    """The checkpoint files as of its creation. `run` belongs on a thread."""

    writes: list[tuple[LogDirectory, Checkpoints]]
    covered: list[Path] = field(default_factory=list)
    """Files that are not needed once these are written."""
    errors: dict[Path, OSError] = field(default_factory=dict)
    """By directory."""

    def run(self) -> None:
        """Never raises."""
        for directory, checkpoints in self.writes:
            try:
                directory.write_checkpoints(checkpoints)
            except OSError as error:
                self.errors[directory.path] = error


@dataclass(slots=True)
class RemovalJob:
    """Directories of deleted partitions, blocks of removed segments. `run` belongs on a thread."""

    paths: list[Path]
    handles: list[FileHandle]
    errors: list[OSError] = field(default_factory=list)

    def run(self) -> None:
        """Never raises. What could not be removed is found again at the next start."""
        self.handles.clear()
        for path in self.paths:
            try:
                shutil.rmtree(path)
            except FileNotFoundError:
                continue
            except OSError as error:
                self.errors.append(error)


def make_files(path: Path, topic_id: uuid.UUID) -> None:
    """A partition's directory and what is in it before the first record.

    Raises: OSError, with nothing left behind.
    """
    path.mkdir()
    try:
        write_topic_id(path, topic_id)
        FileHandle(path / offset_file_name(0, LOG_SUFFIX), create=True)
    except OSError:
        unmake_files(path)
        raise


def unmake_files(path: Path) -> None:
    """Undo that, as far as the disk lets us: also without a descriptor, which `shutil.rmtree` would need."""
    with suppress(OSError):
        for name in (offset_file_name(0, LOG_SUFFIX), PARTITION_METADATA):
            (path / name).unlink(missing_ok=True)
        path.rmdir()


def _run_side_by_side(jobs: Sequence[FlushJob]) -> None:
    """Run flush jobs side by side: the file system commits what comes together at once. Never raises."""
    synced: set[Path] = set()
    if len(jobs) < _SIDE_BY_SIDE:
        for job in jobs:
            job.run(synced)
        return
    with ThreadPoolExecutor(_SIDE_BY_SIDE, thread_name_prefix="flush") as threads:
        list(threads.map(lambda job: job.run(synced), jobs))
