"""What the log manager hands out for a thread to run: flushes, checkpoints, removals."""

import shutil
from dataclasses import dataclass, field
from pathlib import Path

from broker.log.errors import LogError
from broker.log.files import FileHandle
from broker.log.log_directory import Checkpoints, LogDirectory
from broker.log.partition_log import PartitionLog
from broker.log.results import FlushJob, run_jobs


@dataclass(slots=True)
class FlushRound:
    """The logs of one flush. `run` belongs on a thread."""

    jobs: list[tuple[PartitionLog, FlushJob]]
    failures: list[LogError]
    """Logs that could not even begin."""

    def run(self) -> None:
        run_jobs([job for _, job in self.jobs])


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
