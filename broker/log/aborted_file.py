"""The `.txnindex` file of one segment: in memory once it was asked for, written with the other indexes."""

import errno
import os
from pathlib import Path

from broker.log.files import FileHandle, LogFiles, write_fully
from broker.log.txn_index import (
    ENTRY_SIZE,
    AbortedTransaction,
    TxnIndexCorrupt,
    encode_txn_index,
    parse_txn_index,
)


class AbortedFile:
    """Aborted transactions whose markers are in the segment. Without any there is no file."""

    __slots__ = ("_base_offset", "_entries", "_files", "_is_unsynced", "_path", "_written")

    def __init__(self, path: Path, base_offset: int, files: LogFiles, *, is_new: bool) -> None:
        self._path = path
        self._base_offset = base_offset
        self._files = files
        self._entries: list[AbortedTransaction] | None = [] if is_new else None
        self._written = 0
        self._is_unsynced = False

    @property
    def entries(self) -> list[AbortedTransaction]:
        """In the order of markers. Raises: OSError, also where the file is damaged."""
        if self._entries is None:
            try:
                self._entries = parse_txn_index(self._content(), self._base_offset)
            except TxnIndexCorrupt as error:
                raise OSError(errno.EIO, f"{self._path.name}: {error}") from error
            self._written = len(self._entries)
        return self._entries

    def is_sound(self) -> bool:
        """Whether the file parses. Raises: OSError."""
        try:
            parse_txn_index(self._content(), self._base_offset)
        except TxnIndexCorrupt:
            return False
        return True

    def _content(self) -> bytes:
        try:
            return self._path.read_bytes()
        except FileNotFoundError:
            return b""

    def note(self, transaction: AbortedTransaction) -> None:
        """One more, whose marker is behind all others."""
        self.entries.append(transaction)

    def truncate(self, offset: int) -> None:
        """Drop those whose markers are at `offset` or later. Raises: OSError."""
        kept = [entry for entry in self.entries if entry.last_offset < offset]
        if len(kept) < len(self.entries):
            self._rewrite(kept)

    def clear(self) -> None:
        """Make a file that is not sound anew. Raises: OSError."""
        self._rewrite([])

    def _rewrite(self, kept: list[AbortedTransaction]) -> None:
        self._entries = kept
        self._written = min(self._written, len(kept))
        if self._path.exists():
            os.ftruncate(self._files.get(self._path).fd, self._written * ENTRY_SIZE)
            self._is_unsynced = True

    def write(self) -> None:
        """Bring the file up to date. Raises: OSError; nothing is forgotten then."""
        if self._entries is None or len(self._entries) == self._written:
            return
        data = encode_txn_index(self._entries[self._written :])
        handle = self._files.get(self._path, create=True)
        write_fully(handle.fd, data, self._written * ENTRY_SIZE)
        self._written = len(self._entries)
        self._is_unsynced = True

    def take_handle(self) -> FileHandle | None:
        """The file where it is not synced. Recovery takes what it says below the recovery point as it is, so
        it must be durable before that moves. Raises: OSError."""
        if not self._is_unsynced:
            return None
        handle = FileHandle(self._path)
        self._is_unsynced = False
        return handle

    @property
    def count_in_memory(self) -> int:
        return len(self._entries or ())

    def drop(self) -> None:
        """Free the memory; it loads again when needed."""
        if self._entries and len(self._entries) == self._written:
            self._entries = None
