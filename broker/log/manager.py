"""All logs of a broker: loading, creating, deleting, and the ticks that flush, checkpoint and retain.

Work that may block for long comes as a job: the loop takes it (`begin_...`), a thread runs it (`run`), the
loop hands it back (`complete_...`). Logs themselves are touched by the loop only.
"""

import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from broker.log.checkpoint_text import CheckpointCorrupt, format_partition_metadata, parse_partition_metadata
from broker.log.config import LogConfig
from broker.log.errors import LogError, StorageFailed
from broker.log.files import LogFiles, machine_boot_id
from broker.log.jobs import CheckpointJob, FlushRound, RemovalJob
from broker.log.loading import load_log
from broker.log.log_base import LogBase
from broker.log.log_directory import Checkpoints, LogDirectory
from broker.log.partition_log import PartitionLog
from broker.log.results import FlushJob

PARTITION_METADATA: Final = "partition.metadata"
EMPTY_LOGS_PER_FLUSH: Final = 256
"""Thousands of new partitions must not delay the flush of records."""
NO_TOPIC_ID: Final = uuid.UUID(int=0)


@dataclass(slots=True)
class LoadReport:
    """What starting found."""

    clean: bool = True
    """Every directory was left by a clean shutdown."""
    broker_epoch: int = -1
    """That the last clean shutdown noted, -1 without one."""
    page_cache_lost: bool = False
    """No clean shutdown, and the machine is not known to be the same since: what was not synced is gone."""
    short: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    """Logs that end in front of their checkpointed high watermark: (log end offset, high watermark)."""
    partitions: int = 0
    recovered_bytes: int = 0
    truncated_bytes: int = 0
    failures: dict[tuple[str, int], str] = field(default_factory=dict)
    """Partitions that could not be opened, and why; they are offline."""

    @property
    def is_unclean(self) -> bool:
        """Whether committed records may be missing here, so that other replicas must be preferred."""
        return self.page_cache_lost or bool(self.short)


class LogManager:
    """The logs under one or several directories, each locked for this process."""

    def __init__(
        self,
        directories: Sequence[Path],
        *,
        cluster_id: str,
        node_id: int,
        files: LogFiles | None = None,
        boot_id: str | None = None,
    ) -> None:
        """`boot_id` (default: asked of the kernel) names this run of the machine, "" when it is not known.

        Raises: LogDirectoryUnusable, OSError.
        """
        self._boot_id = machine_boot_id() if boot_id is None else boot_id
        self.logs: dict[tuple[str, int], PartitionLog] = {}
        self.files = LogFiles() if files is None else files
        self._directories: list[LogDirectory] = []
        self._dirty: dict[LogBase, None] = {}
        self._checkpoint_number = 0
        self._written: dict[Path, Checkpoints | None] = {}
        self._deleted: list[Path] = []
        try:
            for path in directories:
                self._directories.append(LogDirectory(path, cluster_id=cluster_id, node_id=node_id))
        except BaseException:
            self._unlock()
            raise

    @property
    def directories(self) -> list[Path]:
        return [directory.path for directory in self._directories]

    def get(self, topic: str, partition: int) -> PartitionLog | None:
        return self.logs.get((topic, partition))

    # Loading

    def load(self, config_of: Callable[[str], LogConfig], now_ms: int) -> LoadReport:
        """Open every partition found on disk. Raises: OSError when a directory itself is unreadable."""
        report = LoadReport()
        for directory in self._directories:
            broker_epoch = directory.take_clean_marker()
            clean = broker_epoch is not None
            report.clean &= clean
            report.broker_epoch = max(report.broker_epoch, -1 if broker_epoch is None else broker_epoch)
            report.page_cache_lost |= not clean and not directory.knows_boot(self._boot_id)
            checkpoints = directory.read_checkpoints()
            self._written[directory.path] = checkpoints
            live, deleted = directory.partitions()
            self._deleted += deleted
            for topic, partition in live:
                try:
                    log = self._open(
                        directory, topic, partition, config_of(topic), checkpoints, clean=clean, now_ms=now_ms
                    )
                except OSError as error:
                    report.failures[topic, partition] = f"{error}"
                    continue
                report.partitions += 1
                report.recovered_bytes += log.recovered_bytes
                report.truncated_bytes += log.truncated_bytes
                committed = checkpoints.high_watermarks.get((topic, partition), 0)
                if log.log_end_offset < committed:
                    report.short[topic, partition] = (log.log_end_offset, committed)
        return report

    def remember_boot(self) -> None:
        """Note which run of the machine the page cache belongs to: once this start has been registered, for
        until then the next one must find the same facts. Raises: OSError."""
        for directory in self._directories:
            directory.remember_boot(self._boot_id)

    def _open(
        self,
        directory: LogDirectory,
        topic: str,
        partition: int,
        config: LogConfig,
        checkpoints: Checkpoints,
        *,
        clean: bool,
        now_ms: int,
    ) -> PartitionLog:
        path = directory.partition_path(topic, partition)
        key = (topic, partition)
        recovery_point = checkpoints.recovery_points.get(key)
        high_watermark = checkpoints.high_watermarks.get(key, 0)
        if recovery_point is not None:
            # Behind the high watermark a truncation may be newer than the checkpoint of the recovery point.
            recovery_point = min(recovery_point, checkpoints.high_watermarks.get(key, recovery_point))
        loaded = load_log(
            path,
            self.files,
            config,
            recovery_point=recovery_point,
            log_start_offset=checkpoints.log_starts.get(key, 0),
            clean=clean,
            now_ms=now_ms,
        )
        log = PartitionLog(
            topic,
            partition,
            _read_topic_id(path),
            config,
            loaded,
            high_watermark=high_watermark,
            recovery_point=recovery_point or 0,
            cleaned_to=checkpoints.cleaned_to.get(key, -1),
            on_dirty=self._note_dirty,
            before_shrinking=self._lower_checkpoint,
        )
        log.settle()
        self.logs[key] = log
        return log

    def _note_dirty(self, log: LogBase) -> None:
        self._dirty[log] = None

    # Creating and deleting

    def create(
        self, topic: str, partition: int, topic_id: uuid.UUID, config: LogConfig, now_ms: int
    ) -> PartitionLog:
        """A new, empty partition, in the directory with the fewest; durable with the next flush.

        Raises: StorageFailed, with nothing left behind.
        """
        assert (topic, partition) not in self.logs
        directory = self._emptiest()
        path = directory.partition_path(topic, partition)
        try:
            path.mkdir()
            try:
                metadata = path / PARTITION_METADATA
                metadata.write_text(format_partition_metadata(topic_id))
                log = self._open(
                    directory, topic, partition, config, Checkpoints(), clean=True, now_ms=now_ms
                )
            except OSError:
                shutil.rmtree(path, ignore_errors=True)
                raise
        except OSError as error:
            raise StorageFailed(f"{topic}-{partition}: {error.strerror or error}") from error
        log.sync_with_first_flush(lambda: _sync_file(metadata), path.parent)
        return log

    def _emptiest(self) -> LogDirectory:
        if len(self._directories) == 1:
            return self._directories[0]
        counts = dict.fromkeys(self.directories, 0)
        for log in self.logs.values():
            counts[log.directory.parent] += 1
        return min(self._directories, key=lambda directory: counts[directory.path])

    def delete(self, topic: str, partition: int) -> None:
        """Take a partition away; its files go with the next removal job. Raises: StorageFailed, KeyError."""
        log = self.logs[topic, partition]
        directory = next(d for d in self._directories if d.path == log.directory.parent)
        target = directory.deleted_path(topic, partition, log.topic_id)
        log.release_files()
        try:
            log.directory.rename(target)
        except OSError as error:
            raise StorageFailed(f"{topic}-{partition}: {error.strerror or error}") from error
        log.abandon()
        del self.logs[topic, partition]
        self._dirty.pop(log, None)
        self._deleted.append(target)

    def begin_removal(self) -> RemovalJob | None:
        """What is left of deleted partitions and segments."""
        if not self._deleted and not self.files.discarded:
            return None
        paths, self._deleted = self._deleted, []
        handles, self.files.discarded = self.files.discarded, []
        return RemovalJob(paths, handles)

    # Flushing and checkpoints

    def begin_flush(self, now_ms: int, *, within_ms: int = 0) -> FlushRound | None:
        """The logs whose `flush.ms` or `flush.messages` is reached, or will be `within_ms` (the next
        tick)."""
        due = [log for log in self._dirty if log.flush_due(now_ms + within_ms)]
        empty = [log for log in due if log.recovery_point == log.log_end_offset]
        for log in empty[EMPTY_LOGS_PER_FLUSH:]:
            due.remove(log)
        round_ = FlushRound([], [])
        for log in due:
            del self._dirty[log]
            try:
                job = log.begin_flush()
            except StorageFailed as error:
                self._dirty[log] = None
                round_.failures.append(error)
                continue
            if job is not None:
                round_.jobs.append((log, job))
        return round_ if round_.jobs or round_.failures else None

    def complete_flush(self, round_: FlushRound) -> list[LogError]:
        """Move the recovery points; what went wrong."""
        failures = list(round_.failures)
        for log, job in round_.jobs:
            if self.logs.get((log.topic, log.partition)) is not log:
                continue  # deleted meanwhile
            try:
                log.complete_flush(job)
            except StorageFailed as error:
                failures.append(error)
        return failures

    def begin_checkpoint(self) -> CheckpointJob | None:
        """The offset checkpoints of the directories where anything moved since the last ones."""
        current = self._checkpoints()
        moved = [d for d in self._directories if current[d.path] != self._written.get(d.path)]
        return CheckpointJob([(d, current[d.path]) for d in moved]) if moved else None

    def _checkpoints(self) -> dict[Path, Checkpoints]:
        self._checkpoint_number += 1
        of_directory = {d.path: Checkpoints(number=self._checkpoint_number) for d in self._directories}
        for key, log in self.logs.items():
            checkpoints = of_directory[log.directory.parent]
            checkpoints.recovery_points[key] = log.recovery_point
            checkpoints.high_watermarks[key] = log.high_watermark
            if log.log_start_offset > 0:
                checkpoints.log_starts[key] = log.log_start_offset
            if log.cleaned_to >= 0:
                checkpoints.cleaned_to[key] = log.cleaned_to
        return of_directory

    def _lower_checkpoint(self, log: LogBase) -> None:
        """A truncation below what is checkpointed, as after an unclean election: write it first."""
        directory = next(d for d in self._directories if d.path == log.directory.parent)
        written, key = self._written.get(directory.path), (log.topic, log.partition)
        if written is None or self.logs.get(key) is not log:
            return
        recovers_from = min(written.recovery_points.get(key, 0), written.high_watermarks.get(key, 0))
        if recovers_from > log.recovery_point or written.log_starts.get(key, 0) > log.log_start_offset:
            current = self._checkpoints()[directory.path]
            directory.write_checkpoints(current)
            self._written[directory.path] = current

    def complete_checkpoint(self, job: CheckpointJob) -> None:
        """Raises: StorageFailed; the next checkpoint tries again."""
        for directory, checkpoints in job.writes:
            self._written[directory.path] = checkpoints if job.error is None else None
        if job.error is not None:
            raise StorageFailed(f"checkpoints: {job.error}") from job.error

    # Other ticks

    def retain(self, now_ms: int) -> Iterator[tuple[PartitionLog, int | StorageFailed]]:
        """Apply retention and roll what is due, one log per step; what was freed or went wrong."""
        for log in list(self.logs.values()):
            if self.logs.get((log.topic, log.partition)) is not log:
                continue
            outcome: int | StorageFailed
            try:
                outcome = log.apply_retention(now_ms)
                log.roll_if_due(now_ms)
            except StorageFailed as error:
                outcome = error
            yield log, outcome

    def expire_producers(self, now_ms: int) -> int:
        return sum(log.expire_producers(now_ms) for log in self.logs.values())

    @property
    def size_bytes(self) -> int:
        return sum(log.size_bytes for log in self.logs.values())

    # Closing

    def close(self, *, clean: bool = True, broker_epoch: int = -1) -> list[LogError]:
        """Close every log, then the checkpoints, then the clean-shutdown marker (which holds the broker
        epoch of the registration that ends); what went wrong.

        Without `clean` (or when anything failed) the next start recovers.
        """
        failures = self._seal() if clean else []
        for log in self.logs.values():
            log.release_files()
        if clean:
            job = self.begin_checkpoint()
            try:
                if job is not None:
                    job.run()
                    self.complete_checkpoint(job)
            except StorageFailed as error:
                failures.append(error)
            if not failures:
                for directory in self._directories:
                    directory.leave_clean_marker(broker_epoch)
        self._unlock()
        return failures

    def _seal(self) -> list[LogError]:
        failures: list[LogError] = []
        jobs: list[tuple[LogBase, FlushJob]] = []
        for log in self.logs.values():
            try:
                job = log.begin_close()
            except StorageFailed as error:
                failures.append(error)
                continue
            if job is not None:
                jobs.append((log, job))
        flush_round = FlushRound(jobs, failures)
        flush_round.run()
        return self.complete_flush(flush_round)

    def _unlock(self) -> None:
        for directory in self._directories:
            directory.unlock()


def _read_topic_id(path: Path) -> uuid.UUID:
    try:
        return parse_partition_metadata((path / PARTITION_METADATA).read_text())
    except (FileNotFoundError, CheckpointCorrupt, UnicodeDecodeError):
        return NO_TOPIC_ID


def _sync_file(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
