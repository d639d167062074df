"""What the log manager hands out for a thread to run: flushes, checkpoints, removals."""

import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from broker.log.errors import LogError
from broker.log.files import FileHandle
from broker.log.partition_log import PartitionLog
from broker.log.results import FlushJob
from broker.storage.log_directory import Checkpoints, LogDirectory

_SIDE_BY_SIDE: Final = 8


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


def _run_side_by_side(jobs: Sequence[FlushJob]) -> None:
    """Run flush jobs side by side: the file system commits what comes together at once. Never raises."""
    synced: set[Path] = set()
    if len(jobs) < _SIDE_BY_SIDE:
        for job in jobs:
            job.run(synced)
        return
    with ThreadPoolExecutor(_SIDE_BY_SIDE, thread_name_prefix="flush") as threads:
        list(threads.map(lambda job: job.run(synced), jobs))
