"""`partition.metadata`: which topic a partition's directory belongs to."""

import os
import uuid
from pathlib import Path
from typing import Final

from broker.log.checkpoint_text import CheckpointCorrupt, format_partition_metadata, parse_partition_metadata
from broker.log.files import write_fully

PARTITION_METADATA: Final = "partition.metadata"
NO_TOPIC_ID: Final = uuid.UUID(int=0)
_SMALL_FILE_BYTES: Final = 4096


def read_topic_id(path: Path) -> uuid.UUID:
    """NO_TOPIC_ID where the file is missing or damaged. Raises: OSError."""
    try:
        return parse_partition_metadata(_read_file(f"{path}/{PARTITION_METADATA}").decode())
    except (FileNotFoundError, CheckpointCorrupt, UnicodeDecodeError):
        return NO_TOPIC_ID


def write_topic_id(path: Path, topic_id: uuid.UUID) -> str:
    """The file's path; not synced. Raises: OSError."""
    metadata = f"{path}/{PARTITION_METADATA}"
    _write_file(metadata, format_partition_metadata(topic_id).encode())
    return metadata


def sync_file(path: str) -> None:
    """Raises: OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _read_file(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, _SMALL_FILE_BYTES)
    finally:
        os.close(fd)


def _write_file(path: str, content: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        write_fully(fd, content, 0)
    finally:
        os.close(fd)
