"""One log directory: its lock, its identity, its checkpoints, the marker of a clean shutdown."""

import fcntl
import os
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from broker.log.checkpoint_text import (
    CheckpointCorrupt,
    encode_uuid,
    format_offsets,
    format_properties,
    parse_offsets,
    parse_properties,
)
from broker.log.damage import Damage, format_damage, parse_damage
from broker.log.errors import LogDirectoryUnusable
from broker.log.files import sync_directory, write_atomically
from runtime.process import close_to_others

LOCK: Final = ".lock"
META_PROPERTIES: Final = "meta.properties"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
BOOT_ID: Final = "boot-id"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
CLEANED_TO: Final = "cleaner-offset-checkpoint"
DAMAGE: Final = "damage-checkpoint"
DELETE_SUFFIX: Final = "-delete"
STRAY_SUFFIX: Final = "-stray"
"""Kafka's too, of partitions that are set aside: never loaded, never removed but by a person."""
NAME_BYTES_MAX: Final = 255


class _CleanShutdown(msgspec.Struct, frozen=True):
    version: int = 0
    brokerEpoch: int = -1  # noqa: N815 - Kafka's name


Offsets = dict[tuple[str, int], int]


@dataclass(slots=True)
class Checkpoints:
    """The offset checkpoints of a directory."""

    recovery_points: Offsets = field(default_factory=dict)
    log_starts: Offsets = field(default_factory=dict)
    high_watermarks: Offsets = field(default_factory=dict)
    cleaned_to: Offsets = field(default_factory=dict)
    damage: dict[tuple[str, int], tuple[Damage, ...]] = field(default_factory=dict)
    number: int = field(default=0, compare=False)
    """Grows; an older one never replaces a newer one."""


class LogDirectory:
    """Locked from construction until `unlock`; one process at a time."""

    def __init__(self, path: Path, *, cluster_id: str, node_id: int) -> None:
        """Raises: LogDirectoryUnusable, OSError."""
        self.path = path
        self._checkpoint_lock = threading.Lock()
        self._checkpoint_number = 0
        path.mkdir(parents=True, exist_ok=True)
        close_to_others(path)
        self._lock_fd = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise LogDirectoryUnusable(f"{path} is in use by another broker") from error
            self._check_identity(cluster_id, node_id)
        except BaseException:
            self.unlock()
            raise

    def _check_identity(self, cluster_id: str, node_id: int) -> None:
        path = self.path / META_PROPERTIES
        wanted = {"cluster.id": cluster_id, "node.id": str(node_id)}
        try:
            found = parse_properties(path.read_text())
        except FileNotFoundError:
            identity = {**wanted, "directory.id": encode_uuid(uuid.uuid4()), "version": "1"}
            write_atomically(path, format_properties(identity).encode())
            return
        found.setdefault("node.id", found.get("broker.id", ""))
        for key, value in wanted.items():
            if found.get(key) != value:
                raise LogDirectoryUnusable(
                    f"{self.path} belongs to {key} {found.get(key)!r}, this broker has {value!r}"
                )

    def take_clean_marker(self) -> int | None:
        """The broker epoch that a clean shutdown noted, -1 when it noted none, None after a crash.

        Asked once: a crash while loading is a crash (KAFKA-10471). Raises: OSError.
        """
        marker = self.path / CLEAN_SHUTDOWN
        try:
            content = marker.read_bytes()
        except FileNotFoundError:
            return None
        marker.unlink()
        sync_directory(self.path)  # a power cut must not bring it back
        try:
            return msgspec.json.decode(content, type=_CleanShutdown).brokerEpoch
        except msgspec.DecodeError:
            return -1  # Kafka before 3.7 left the file empty

    def leave_clean_marker(self, broker_epoch: int) -> None:
        """Raises: OSError."""
        write_atomically(self.path / CLEAN_SHUTDOWN, msgspec.json.encode(_CleanShutdown(0, broker_epoch)))

    def knows_boot(self, boot_id: str) -> bool:
        """Whether the machine has run through since `remember_boot`, so that its page cache is intact."""
        try:
            return bool(boot_id) and (self.path / BOOT_ID).read_text() == boot_id
        except (FileNotFoundError, UnicodeDecodeError):
            return False

    def remember_boot(self, boot_id: str) -> None:
        """Raises: OSError."""
        if not self.knows_boot(boot_id):
            write_atomically(self.path / BOOT_ID, boot_id.encode())

    def read_checkpoints(self) -> Checkpoints:
        """A missing or unreadable file counts as empty: then everything is recovered from the log."""
        return Checkpoints(
            self._read(RECOVERY_POINTS),
            self._read(LOG_STARTS),
            self._read(HIGH_WATERMARKS),
            self._read(CLEANED_TO),
            self._read_damage(),
        )

    def _read_damage(self) -> dict[tuple[str, int], tuple[Damage, ...]]:
        try:
            return parse_damage((self.path / DAMAGE).read_text())
        except (FileNotFoundError, CheckpointCorrupt, UnicodeDecodeError):
            return {}

    def _read(self, name: str) -> Offsets:
        try:
            return parse_offsets((self.path / name).read_text())
        except (FileNotFoundError, CheckpointCorrupt, UnicodeDecodeError):
            return {}

    def write_checkpoints(self, checkpoints: Checkpoints) -> None:
        """Safe on any thread. A recovery point must not be written before what lies below it was synced.

        Raises: OSError.
        """
        with self._checkpoint_lock:
            if checkpoints.number < self._checkpoint_number:
                return
            self._checkpoint_number = checkpoints.number
            self._write(RECOVERY_POINTS, checkpoints.recovery_points)
            self._write(LOG_STARTS, checkpoints.log_starts)
            self._write(HIGH_WATERMARKS, checkpoints.high_watermarks)
            self._write(CLEANED_TO, checkpoints.cleaned_to)
            if checkpoints.damage or (self.path / DAMAGE).exists():
                write_atomically(self.path / DAMAGE, format_damage(checkpoints.damage).encode())

    def _write(self, name: str, offsets: Mapping[tuple[str, int], int]) -> None:
        write_atomically(self.path / name, format_offsets(offsets).encode())

    def partition_path(self, topic: str, partition: int) -> Path:
        return self.path / f"{topic}-{partition}"

    def deleted_path(self, topic: str, partition: int, topic_id: uuid.UUID) -> Path:
        """Where a deleted partition waits; long topic names are cut as Kafka does."""
        return self._renamed(topic, f"-{partition}.{topic_id.hex}{DELETE_SUFFIX}")

    def stray_path(self, topic: str, partition: int, topic_id: uuid.UUID) -> Path:
        """Where a partition that was set aside stays."""
        return self._renamed(topic, f"-{partition}.{topic_id.hex}{STRAY_SUFFIX}")

    def _renamed(self, topic: str, suffix: str) -> Path:
        return self.path / (topic[: NAME_BYTES_MAX - len(suffix)] + suffix)

    def partitions(self) -> tuple[list[tuple[str, int]], list[Path]]:
        """(partitions, directories of deleted ones)."""
        live, deleted = [], []
        for entry in os.scandir(self.path):
            topic, dash, partition = entry.name.rpartition("-")
            if not entry.is_dir() or not dash:
                continue
            if entry.name.endswith(DELETE_SUFFIX):
                deleted.append(Path(entry.path))
            elif partition.isascii() and partition.isdigit():
                live.append((topic, int(partition)))
        return sorted(live), deleted

    def unlock(self) -> None:
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1
