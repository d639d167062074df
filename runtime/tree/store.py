"""The SQLite file of a local tree. Called from one thread at a time."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from runtime.tree.pure import Record

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS nodes (
    path TEXT PRIMARY KEY, data BLOB NOT NULL, version INTEGER NOT NULL, czxid INTEGER NOT NULL,
    sequence INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS starts (epoch INTEGER NOT NULL);
"""


class StoreFailed(Exception):  # noqa: N818 - what SQLite says, in one type
    """The file cannot be read or written."""


class TreeStore:
    """Persistent nodes of a tree; ephemeral ones end with the process and are never here."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None

    def open(self) -> int:
        """Open the file; returns the number of this start, larger than any before. Raises: StoreFailed."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
            connection.executescript(_SCHEMA)
            row = connection.execute("SELECT max(epoch) FROM starts").fetchone()
            epoch = int(row[0] or 0) + 1
            with _transaction(connection):
                connection.execute("DELETE FROM starts")
                connection.execute("INSERT INTO starts VALUES (?)", (epoch,))
        except (sqlite3.Error, OSError) as error:
            raise StoreFailed(f"{self._path}: {error}") from error
        self._connection = connection
        return epoch

    def records(self) -> list[tuple[str, Record]]:
        """Everything in the file. Raises: StoreFailed."""
        query = "SELECT path, data, version, czxid, sequence FROM nodes"
        try:
            rows = self._open.execute(query).fetchall()
        except sqlite3.Error as error:
            raise StoreFailed(f"{self._path}: {error}") from error
        return [
            (path, Record(data, version, czxid, 0, sequence, 0))
            for path, data, version, czxid, sequence in rows
        ]

    def write(self, rows: Mapping[str, Record | None]) -> None:
        """Keep the outcome of commits, all or nothing, on the disk when it returns. Raises: StoreFailed."""
        gone = [(path,) for path, record in rows.items() if record is None or record.owner]
        kept = [
            (path, record.data, record.version, record.czxid, record.sequence)
            for path, record in rows.items()
            if record is not None and not record.owner
        ]
        try:
            with _transaction(self._open) as connection:
                connection.executemany("DELETE FROM nodes WHERE path = ?", gone)
                connection.executemany("INSERT OR REPLACE INTO nodes VALUES (?, ?, ?, ?, ?)", kept)
        except sqlite3.Error as error:
            raise StoreFailed(f"{self._path}: {error}") from error

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @property
    def _open(self) -> sqlite3.Connection:
        assert self._connection is not None, "the store is not open"
        return self._connection


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """BEGIN IMMEDIATE, then COMMIT, or ROLLBACK when anything fails, the COMMIT included."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
