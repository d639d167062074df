"""All logs of a broker: loading, creating, deleting, and the ticks that flush, checkpoint and retain.

Work that may block for long comes as a job: the loop takes it (`begin_...`), a thread runs it (`run`), the
loop hands it back (`complete_...`). Logs themselves are touched by the loop only.
"""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from broker.log.damage import Damage, DamageKind
from broker.log.errors import LogError, StorageFailed
from broker.log.files import LogFiles
from broker.log.instance_shares import InstanceShares
from broker.log.load_report import LoadReport
from broker.log.loading import load_log, new_log
from broker.log.log_config import LogConfig
from broker.log.partition_log import PartitionLog
from broker.log.partition_metadata import PARTITION_METADATA, read_topic_id, sync_file, write_topic_id
from broker.log.scrub_findings import TakenFindings
from broker.storage.checkpointing import Checkpointing
from broker.storage.flushing import Flushing
from broker.storage.jobs import CheckpointJob, CreationJob, FlushRound, NewPartition, RemovalJob, unmake_files
from broker.storage.log_directories import LogDirectories
from broker.storage.log_directory import Checkpoints, LogDirectory
from runtime.machine import machine_boot_id

Key = tuple[str, int]
OnOffline = Callable[[Path, list[Key], str], None]


class LogManager:
    """The logs under one or several directories, each locked for this process.

    A directory that fails takes only its own logs offline: they leave `logs`, answer StorageFailed to who
    still holds them, and stay known in `offline`, so that nobody begins them anew elsewhere.
    """

    def __init__(
        self,
        directories: Sequence[Path],
        *,
        cluster_id: str,
        node_id: int,
        files: LogFiles | None = None,
        boot_id: str | None = None,
        full_is_failure: bool = False,
        producers_per_instance_max: int = 20_000,
        on_offline: OnOffline | None = None,
    ) -> None:
        """`boot_id` (default: asked of the kernel) names this run of the machine, "" when it is not known.
        `full_is_failure`: other brokers can take over, so a full disk is a failed one. `on_offline` hears
        of a directory that fails while it serves, its logs and why; it is called in the middle of what
        failed, so it should only take note.

        Raises: LogDirectoryUnusable; OSError when no directory can be opened.
        """
        self._boot_id = machine_boot_id() if boot_id is None else boot_id
        self.logs: dict[Key, PartitionLog] = {}
        self.offline: dict[Key, str] = {}
        """Logs that exist and cannot be used, and why."""
        self.files = LogFiles() if files is None else files
        self._on_offline = on_offline
        self.shares = InstanceShares(producers_per_instance_max)
        self._flushing = Flushing(self._is_mine)
        self._scrub_findings = TakenFindings()
        self._damaged_anew: set[Key] = set()
        """Of what reads have found since it was asked for last."""
        self._deleted: list[Path] = []
        self._directories = LogDirectories(
            directories, cluster_id=cluster_id, node_id=node_id, full_is_failure=full_is_failure
        )
        self._checkpointing = Checkpointing(self._directories, self.logs)

    @property
    def directories(self) -> list[Path]:
        """Those that serve."""
        return self._directories.paths

    @property
    def offline_directories(self) -> dict[Path, str]:
        """And why they have failed."""
        return self._directories.offline

    def get(self, topic: str, partition: int) -> PartitionLog | None:
        return self.logs.get((topic, partition))

    # Loading

    def load(self, config_of: Callable[[str], LogConfig], now_ms: int) -> LoadReport:
        """Open every partition found on disk."""
        report = LoadReport()
        for directory in self._directories:
            try:
                self._load_directory(directory, config_of, now_ms, report)
            except OSError as error:
                self._fail(directory.path, str(error))
        for directory in self._directories:
            try:
                for log in self._take_scrub_findings(directory.path):
                    report.found_damage(log)
            except OSError as error:
                self._fail(directory.path, str(error))
        report.failures.update(self.offline)
        return report

    def _load_directory(
        self,
        directory: LogDirectory,
        config_of: Callable[[str], LogConfig],
        now_ms: int,
        report: LoadReport,
    ) -> None:
        broker_epoch = directory.take_clean_marker()
        clean = broker_epoch is not None
        report.clean &= clean
        report.broker_epoch = max(report.broker_epoch, -1 if broker_epoch is None else broker_epoch)
        report.page_cache_lost |= not clean and not directory.knows_boot(self._boot_id)
        checkpoints = self._checkpointing.read(directory)
        live, deleted = directory.partitions()
        self._deleted += deleted
        for key in live:
            if key in self.logs:
                report.failures[key] = f"it is in {self.logs[key].directory.parent} and in {directory.path}"
                continue
            try:
                log = self._open(directory, key, config_of(key[0]), checkpoints, clean=clean, now_ms=now_ms)
            except OSError as error:
                if self._directories.is_failure(error):
                    raise
                self.offline[key] = f"{error}"
                continue
            report.opened(log)
            committed = checkpoints.high_watermarks.get(key, 0)
            report.check_end(key, log.log_end_offset, committed)
            log.reading.note_damage([Damage(log.log_end_offset, committed, DamageKind.END)])
            report.found_damage(log)
        for key in checkpoints.high_watermarks.keys() - set(live):
            report.check_end(key, 0, checkpoints.high_watermarks[key])

    def remember_boot(self) -> None:
        """Note which run of the machine the page cache belongs to: once this start has been registered, for
        until then the next one must find the same facts. Raises: OSError."""
        for directory in self._directories:
            directory.remember_boot(self._boot_id)

    def _open(
        self,
        directory: LogDirectory,
        key: Key,
        config: LogConfig,
        checkpoints: Checkpoints,
        *,
        clean: bool,
        now_ms: int,
    ) -> PartitionLog:
        path = directory.partition_path(*key)
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
            *key,
            read_topic_id(path),
            config,
            loaded,
            high_watermark=high_watermark,
            recovery_point=recovery_point or 0,
            cleaned_to=checkpoints.cleaned_to.get(key, -1),
            owner=self,
        )
        log.reading.recall_damage(checkpoints.damage.get(key, ()))
        log.durability.settle()
        self._serve(key, log)
        return log

    def _serve(self, key: Key, log: PartitionLog) -> None:
        self.logs[key] = log
        self.shares.log_added(log.topic, log.producers.states)

    # What logs say (LogOwner)

    def log_dirty(self, log: PartitionLog) -> None:
        self._flushing.add(log)

    def log_shrinks(self, log: PartitionLog) -> None:
        self._checkpointing.lower(log)

    def small_segments_max(self, log: PartitionLog) -> int:
        return self.shares.small_segments_max(log.topic)

    def log_refused(self, log: PartitionLog, error: OSError) -> None:
        if self._directories.is_failure(error):
            self._fail(log.directory.parent, error.strerror or str(error))

    def log_damaged(self, log: PartitionLog) -> None:
        self._damaged_anew.add((log.topic, log.partition))

    def _fail(self, path: Path, reason: str) -> None:
        if not self._directories.fail(path, reason):
            return
        keys = [key for key, log in self.logs.items() if log.directory.parent == path]
        for key in keys:
            log = self.logs.pop(key)
            self.shares.log_removed(log.topic, log.producers.states)
            self._flushing.discard(log)
            log.go_offline(f"log directory {path} has failed: {reason}")
            self.offline[key] = f"log directory {path} has failed: {reason}"
        if self._on_offline is not None:
            self._on_offline(path, keys, reason)

    # Creating and deleting

    def begin_creation(self, topic_ids: Mapping[Key, uuid.UUID]) -> CreationJob | None:
        """Of partitions that may not be here yet, before `create` is asked for those; None: there is nothing
        to be made."""
        in_use = [log.directory.parent for log in self.logs.values()] if len(self._directories) > 1 else []
        wanted: dict[Key, NewPartition] = {}
        for key, topic_id in topic_ids.items():
            if key in self.logs or key in self.offline:
                continue
            directory = self._directories.emptiest(in_use)
            if directory is None:
                break
            wanted[key] = NewPartition(directory, directory.partition_path(*key), topic_id)
            in_use.append(directory.path)
        return CreationJob(wanted) if wanted else None

    def complete_creation(self, job: CreationJob) -> None:
        """Undo what was made and not taken."""
        for new in job.made.values():
            unmake_files(new.path)

    def create(
        self,
        topic: str,
        partition: int,
        topic_id: uuid.UUID,
        config: LogConfig,
        now_ms: int,
        *,
        is_new: bool = True,
        begun: CreationJob | None = None,
    ) -> PartitionLog:
        """A new, empty partition, in the directory with the fewest; durable with the next flush.

        Without `is_new` the replica may have existed: then it is not begun anew while a directory that may
        hold it is offline. What `begun` has made or met is not tried again. Raises: StorageFailed, with
        nothing left behind.
        """
        key = (topic, partition)
        assert key not in self.logs
        if key in self.offline:
            raise StorageFailed(f"{topic}-{partition}: {self.offline[key]}")
        if self._directories.offline and not is_new:
            raise StorageFailed(f"{topic}-{partition}: it may be in a log directory that has failed")
        while True:
            directory = self._directories.emptiest(log.directory.parent for log in self.logs.values())
            if directory is None:
                raise StorageFailed(f"{topic}-{partition}: every log directory has failed")
            made = None
            try:
                if begun is not None and (new := begun.wanted.pop(key, None)) is not None:
                    if self._directories.get(new.directory.path) is None:
                        continue  # it has failed meanwhile
                    directory = new.directory
                    if key in begun.errors:
                        raise begun.errors[key]
                    made = begun.made.pop(key, None)
                return self._create_in(directory, key, topic_id, config, now_ms, is_made=made is not None)
            except OSError as error:
                if not self._directories.is_failure(error):
                    raise StorageFailed(f"{topic}-{partition}: {error.strerror or error}") from error
                self._fail(directory.path, error.strerror or str(error))

    def _create_in(
        self,
        directory: LogDirectory,
        key: Key,
        topic_id: uuid.UUID,
        config: LogConfig,
        now_ms: int,
        *,
        is_made: bool,
    ) -> PartitionLog:
        path = directory.partition_path(*key)
        if not is_made:
            path.mkdir()
        try:
            metadata = f"{path}/{PARTITION_METADATA}" if is_made else write_topic_id(path, topic_id)
            loaded = new_log(path, self.files, now_ms)
        except OSError:
            unmake_files(path)
            raise
        log = PartitionLog(*key, topic_id, config, loaded, owner=self)
        self._serve(key, log)
        log.durability.sync_with_first_flush(lambda: sync_file(metadata), directory.path)
        return log

    def delete(self, topic: str, partition: int) -> None:
        """Take a partition away; its files go with the next removal job. Raises: StorageFailed, KeyError."""
        log = self.logs[topic, partition]
        target = self._directory_of(log).deleted_path(topic, partition, log.topic_id)
        self._take_away(topic, partition, target)
        self._deleted.append(target)

    def set_aside(self, topic: str, partition: int) -> Path:
        """Take a partition away and keep its files, under the name that is returned: nobody has ordered their
        deletion. Raises: StorageFailed, KeyError."""
        log = self.logs[topic, partition]
        target = self._directory_of(log).stray_path(topic, partition, log.topic_id)
        self._take_away(topic, partition, target)
        return target

    def _directory_of(self, log: PartitionLog) -> LogDirectory:
        directory = self._directories.get(log.directory.parent)
        assert directory is not None
        return directory

    def _take_away(self, topic: str, partition: int, target: Path) -> None:
        log = self.logs[topic, partition]
        log.release_files()
        try:
            log.directory.rename(target)
        except OSError as error:
            raise StorageFailed(f"{topic}-{partition}: {error.strerror or error}") from error
        log.go_offline("the partition is deleted")
        del self.logs[topic, partition]
        self.shares.log_removed(topic, log.producers.states)
        self._flushing.discard(log)

    def forget_offline(self, topic: str, partition: int) -> None:
        """The topic is deleted: its name may be used anew. What can be reached of it is removed."""
        if self.offline.pop((topic, partition), None) is not None:
            for directory in self._directories:
                path = directory.partition_path(topic, partition)
                if path.exists():
                    self._deleted.append(path)

    def begin_removal(self) -> RemovalJob | None:
        """What is left of deleted partitions and segments."""
        if not self._deleted and not self.files.discarded:
            return None
        paths, self._deleted = self._deleted, []
        handles, self.files.discarded = self.files.discarded, []
        return RemovalJob(paths, handles)

    # Flushing and checkpoints

    def begin_flush(self, now_ms: int, *, within_ms: int = 0) -> FlushRound | None:
        """The logs whose `flush.ms` or `flush.messages` is reached, or will be by the next tick."""
        return self._flushing.begin(now_ms + within_ms)

    def _is_mine(self, log: PartitionLog) -> bool:
        return self.logs.get((log.topic, log.partition)) is log

    def complete_flush(self, round_: FlushRound) -> list[LogError]:
        """Move the recovery points; what went wrong."""
        return self._flushing.complete(round_)

    def begin_checkpoint(self) -> CheckpointJob | None:
        """The offset checkpoints of the directories where anything moved since the last ones."""
        job = self._checkpointing.begin()
        if job is None:
            self._scrub_findings.remove(self._scrub_findings.held())
        else:
            job.covered = self._scrub_findings.held()
        return job

    def complete_checkpoint(self, job: CheckpointJob) -> None:
        """Raises: StorageFailed; the next checkpoint tries again."""
        errors = self._checkpointing.complete(job)
        for path, error in errors.items():
            if self._directories.is_failure(error):
                self._fail(path, error.strerror or str(error))
        if errors:
            raise StorageFailed(f"checkpoints: {'; '.join(map(str, errors.values()))}")
        self._scrub_findings.remove(job.covered)

    # Other ticks

    def retain(
        self, now_ms: int, is_held: Callable[[str], bool], readable_ms: int = 0
    ) -> Iterator[tuple[PartitionLog, int | StorageFailed]]:
        """Apply retention and roll what is due, one log per step; what was freed or went wrong.

        `is_held` says of a topic that its logs stay as they are; of `readable_ms` see `segments_to_delete`.
        """
        for log in list(self.logs.values()):
            if not self._is_mine(log) or is_held(log.topic):
                continue
            outcome: int | StorageFailed
            try:
                outcome = log.retention.apply(now_ms, readable_ms)
                log.rolling.roll_if_due(now_ms)
            except StorageFailed as error:
                outcome = error
            yield log, outcome

    def take_damage(self) -> list[PartitionLog]:
        """The logs of which something is news: what reads have found, and what a scrub has left for us.

        Raises: OSError.
        """
        found = {key: self.logs[key] for key in sorted(self._damaged_anew) if key in self.logs}
        self._damaged_anew.clear()
        for path in self._directories.paths:
            found |= {(log.topic, log.partition): log for log in self._take_scrub_findings(path)}
        return [*found.values()]

    def _take_scrub_findings(self, directory: Path) -> list[PartitionLog]:
        news: dict[PartitionLog, None] = {}
        for finding in self._scrub_findings.take(directory):
            log = self.logs.get((finding.topic, finding.partition))
            if (
                log is not None
                and log.directory.parent == directory
                and log.topic_id == finding.topic_id
                and log.reading.note_damage([finding.damage])
            ):
                news[log] = None
        return list(news)

    def damaged(self) -> list[PartitionLog]:
        """Logs of which something is lost or damaged."""
        return [log for log in self.logs.values() if log.damage]

    def expire_producers(self, now_ms: int) -> int:
        return sum(log.expire_producers(now_ms) for log in self.logs.values())

    @property
    def segment_count(self) -> int:
        return sum(log.segment_count for log in self.logs.values())

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
        self._directories.unlock()
        return failures

    def _seal(self) -> list[LogError]:
        flush_round = self._flushing.begin_last(list(self.logs.values()))
        if flush_round is None:
            return []
        flush_round.run()
        return self._flushing.complete(flush_round)
