"""The offset checkpoints of all directories: what they should say, what they say."""

from collections.abc import Mapping
from pathlib import Path

from broker.log.partition_log import PartitionLog
from broker.storage.jobs import CheckpointJob
from broker.storage.log_directories import LogDirectories
from broker.storage.log_directory import Checkpoints, LogDirectory


class Checkpointing:
    """Writes a directory's checkpoints when anything in them has moved."""

    def __init__(self, directories: LogDirectories, logs: Mapping[tuple[str, int], PartitionLog]) -> None:
        self._directories = directories
        self._logs = logs
        self._number = 0
        self._written: dict[Path, Checkpoints] = {}

    def read(self, directory: LogDirectory) -> Checkpoints:
        """Raises: OSError."""
        found = directory.read_checkpoints()
        self._written[directory.path] = found
        return found

    def begin(self) -> CheckpointJob | None:
        """What moved since the last ones were written."""
        current = self._current()
        moved = [d for d in self._directories if current[d.path] != self._written.get(d.path)]
        return CheckpointJob([(d, current[d.path]) for d in moved]) if moved else None

    def complete(self, job: CheckpointJob) -> dict[Path, OSError]:
        """What went wrong; the next checkpoint tries again."""
        for directory, checkpoints in job.writes:
            if directory.path in job.errors:
                self._written.pop(directory.path, None)
            else:
                self._written[directory.path] = checkpoints
        return job.errors

    def lower(self, log: PartitionLog) -> None:
        """A truncation below what is checkpointed, as after an unclean election: write it first.

        Raises: OSError.
        """
        directory = self._directories.get(log.directory.parent)
        key = (log.topic, log.partition)
        if directory is None or self._logs.get(key) is not log:
            return
        written = self._written.get(directory.path, Checkpoints())
        recovers_from = min(written.recovery_points.get(key, 0), written.high_watermarks.get(key, 0))
        if recovers_from > log.recovery_point or written.log_starts.get(key, 0) > log.log_start_offset:
            current = self._current()[directory.path]
            directory.write_checkpoints(current)
            self._written[directory.path] = current

    def _current(self) -> dict[Path, Checkpoints]:
        self._number += 1
        of_directory = {path: Checkpoints(number=self._number) for path in self._directories.paths}
        for key, log in self._logs.items():
            checkpoints = of_directory[log.directory.parent]
            checkpoints.recovery_points[key] = log.recovery_point
            checkpoints.high_watermarks[key] = log.high_watermark
            if log.log_start_offset > 0:
                checkpoints.log_starts[key] = log.log_start_offset
            kept = tuple(each for each in log.damage if not each.kind.shows_at_start)
            if kept:
                checkpoints.damage[key] = kept
            if log.compaction.cleaned_to >= 0:
                checkpoints.cleaned_to[key] = log.compaction.cleaned_to
        return of_directory
