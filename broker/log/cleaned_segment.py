"""The segment that a compaction writes: `.log.cleaned` and its indexes, durable when it is finished."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from broker.log.offset_index import OffsetIndex
from broker.log.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_file_name,
)
from broker.log.time_index import TimeIndex
from broker.log.txn_index import AbortedTransaction, encode_txn_index
from wire.batch import NO_TIMESTAMP, BatchHeader, Buffer

CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
SEGMENT_SUFFIXES: Final = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, LOG_SUFFIX)
"""The `.log` file comes last: where it is, the others are."""
_WRITE_BYTES: Final = 1024 * 1024


def remove_cleaned(directory: Path, base_offset: int) -> None:
    """Raises: OSError."""
    for suffix in SEGMENT_SUFFIXES:
        (directory / (offset_file_name(base_offset, suffix) + CLEANED_SUFFIX)).unlink(missing_ok=True)


class CleanedSegment:
    """Batches in, files out. The files must not exist: two compactions never write the same one."""

    def __init__(self, directory: Path, base_offset: int, index_interval_bytes: int) -> None:
        self._directory = directory
        self._base_offset = base_offset
        self._index_interval_bytes = index_interval_bytes
        self._index = OffsetIndex(base_offset)
        self._time_index = TimeIndex(base_offset)
        self._largest = (NO_TIMESTAMP, base_offset)
        self._bytes_since_index = 0
        self._pending = bytearray()
        self._fd = os.open(self._path(LOG_SUFFIX), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self.size_bytes = 0

    def _path(self, suffix: str) -> Path:
        return self._directory / (offset_file_name(self._base_offset, suffix) + CLEANED_SUFFIX)

    def add(self, header: BatchHeader, batch: Buffer) -> None:
        """Raises: OSError."""
        if self._bytes_since_index > self._index_interval_bytes:
            self._index.append(header.last_offset, self.size_bytes)
            self._time_index.maybe_append(*self._largest)
            self._bytes_since_index = 0
        self._bytes_since_index += len(batch)
        self.size_bytes += len(batch)
        if header.max_timestamp_ms > self._largest[0] and header.record_count > 0:
            self._largest = (header.max_timestamp_ms, header.last_offset)
        self._pending += batch
        if len(self._pending) >= _WRITE_BYTES:
            self._write()

    def _write(self) -> None:
        with memoryview(self._pending) as view:
            written = 0
            while written < len(view):
                written += os.write(self._fd, view[written:])
        self._pending.clear()

    def finish(self, aborted: Iterable[AbortedTransaction], modified_ns: int) -> None:
        """Write what is left and sync it all. Raises: OSError."""
        self._write()
        os.fsync(self._fd)
        os.utime(self._fd, ns=(modified_ns, modified_ns))  # age of records that have no timestamp
        self._time_index.maybe_append(*self._largest)
        self._write_index(INDEX_SUFFIX, self._index.to_bytes())
        self._write_index(TIME_INDEX_SUFFIX, self._time_index.to_bytes())
        entries = encode_txn_index(aborted)
        if entries:
            self._write_index(TXN_INDEX_SUFFIX, entries)

    def _write_index(self, suffix: str, data: bytes) -> None:
        with self._path(suffix).open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def close(self) -> None:
        os.close(self._fd)
