"""Databases for tests, one way for each kind that the control plane runs on."""

import sqlite3
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Protocol

from sqlalchemy import make_url

from tenants.config import sqlite_url
from tests.servers.postgres import PostgresServer


class Databases(Protocol):
    """Makes databases and copies of them; a database is named by its URL."""

    def new(self) -> str:
        """An empty one."""
        ...

    def copy(self, url: str) -> str:
        """A copy of one that may be in use."""
        ...

    def replace(self, url: str, source: str) -> None:
        """Have a database be what another one is, as a restore does; who uses it notices."""
        ...

    def drop(self, url: str) -> None:
        """Remove one."""
        ...


class SqliteDatabases:
    """Files in a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._names = count(1)

    def new(self) -> str:
        return sqlite_url(str(self._directory / f"{next(self._names)}.db"))

    def copy(self, url: str) -> str:
        target = self.new()
        self.replace(target, url)
        return target

    def replace(self, url: str, source: str) -> None:
        with (
            closing(sqlite3.connect(str(make_url(source).database))) as one,
            closing(sqlite3.connect(str(make_url(url).database))) as other,
        ):
            one.backup(other)

    def drop(self, url: str) -> None:
        path = Path(str(make_url(url).database))
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)


class PostgresDatabases:
    """Databases of one server."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server

    def new(self) -> str:
        return self._server.url(self._server.new_database())

    def copy(self, url: str) -> str:
        return self._server.url(self._server.new_database(str(make_url(url).database)))

    def replace(self, url: str, source: str) -> None:
        name = str(make_url(url).database)
        self._server.drop(name)
        self._server.create(name, str(make_url(source).database))

    def drop(self, url: str) -> None:
        self._server.drop(str(make_url(url).database))
