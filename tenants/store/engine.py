"""The store's engine and transactions.

Calls block, so they run in threads, never on the event loop. Writers take turns from beginning to commit
(SQLite: the file's lock, Postgres: an advisory lock), so what a writer has read stays true until it commits,
and revisions become visible in order. A reader sees one state from its first statement to its last.
"""

import secrets
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from alembic.util.exc import CommandError
from sqlalchemy import Connection, Engine, Table, create_engine, event, insert, select, update
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from tenants.rules.errors import Unavailable
from tenants.store import migrating, postgres, schema
from tenants.store.database_url import DatabaseUrl
from tenants.store.migrating import SchemaIsNewer

_WRITE_OPTION: Final = "portico_write"
_WRITER_LOCK: Final = 7_274_001
"""Writers of several control planes on one Postgres take turns by this advisory lock."""
_TURN_S: Final = 6.0
_WAL_RETRY_S: Final = 0.01
"""A writer waits so long for the other writers of its process."""
_READ_ONLY: Final = "25006"
"""Postgres' code for a write to a server that only reads: a standby, after its primary was exchanged."""
_FEED_ID: Final = "feed_id"
_REVISION: Final = "revision"
_MARK: Final = "mark"
"""Marks the newest revision."""


class Drawn(NamedTuple):
    """A revision and its mark. A store that went back draws the same numbers again, other marks."""

    revision: int
    mark: str


class StoreUnavailable(Exception):  # noqa: N818 - a state of the database
    """The database cannot be opened or migrated."""


class StoreFault(Unavailable):
    """The database does not work now: the server is gone, the disk is full, a lock does not come free.

    What was to be written may have been committed, when the connection was lost just then.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(
            "the console's database does not work now, instances do: see its log, try again later"
        )
        self.reason = reason


class Store:
    """One database. `read` and `write` are transactions, as context managers; both raise StoreFault."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._write_turn = threading.Lock()
        is_postgres = engine.dialect.name == "postgresql"
        snapshot = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        self._reader = engine.execution_options(**snapshot) if is_postgres else engine
        self._glancer = engine.execution_options(isolation_level="AUTOCOMMIT") if is_postgres else engine

    @classmethod
    def open(cls, url: str) -> "Store":
        """Open and migrate. Raises: StoreUnavailable with a sentence."""
        store = cls.attach(url)
        engine = store.engine
        try:
            with store.write() as connection:
                migrating.upgrade(connection)
                _first_settings(connection)
        except (StoreFault, SQLAlchemyError, CommandError, SchemaIsNewer) as error:
            engine.dispose()
            where = engine.url.render_as_string(hide_password=True)
            reason = error.reason if isinstance(error, StoreFault) else sentence(error)
            raise StoreUnavailable(f"the console's database {where} cannot be opened: {reason}") from error
        return store

    @classmethod
    def attach(cls, url: str) -> "Store":
        """A database as it is: whoever asks looks at its schema first. A SQLite file is made if there is
        none."""
        return cls(postgres.make_engine(url) if DatabaseUrl(url).is_postgres else _sqlite(url))

    @property
    def engine(self) -> Engine:
        """For sessions beside the transactions."""
        return self._engine

    @property
    def is_shared(self) -> bool:
        """Whether other control processes may use this database too."""
        return self._engine.dialect.name == "postgresql"

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A consistent view."""
        with _faults(), self._reader.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def glance(self) -> Iterator[Connection]:
        """For one query, which sees one state by itself: Postgres is asked once, not thrice."""
        with _faults(), self._glancer.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that commits at the end, or leaves no trace."""
        if not self._write_turn.acquire(timeout=_TURN_S):
            raise StoreFault(f"other writers of this process have waited for more than {_TURN_S:.0f} s")
        try:
            with _faults(), self._engine.connect() as connection:
                connection = connection.execution_options(**{_WRITE_OPTION: True})
                with connection.begin():
                    if self.is_shared:
                        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_WRITER_LOCK})")
                    yield connection
        finally:
            self._write_turn.release()

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()


@contextmanager
def _faults() -> Iterator[None]:
    """What is the database's state and not our mistake, as StoreFault."""
    try:
        yield
    except (OperationalError, InterfaceError, PoolTimeout) as error:
        raise StoreFault(sentence(error)) from error
    except DBAPIError as error:
        if error.connection_invalidated or getattr(error.orig, "sqlstate", None) == _READ_ONLY:
            raise StoreFault(sentence(error)) from error
        raise


@contextmanager
def part(connection: Connection) -> Iterator[None]:
    """A part of a write transaction: where it fails it leaves no trace, and the others may go on.

    Raises: StoreFault, after which none can; what the database said of the part itself.
    """
    with _faults(), connection.begin_nested():
        yield


def sentence(error: Exception) -> str:
    """The first line of what a database said."""
    return str(getattr(error, "orig", None) or error).strip().partition("\n")[0]


def _sqlite(url: str) -> Engine:
    engine = create_engine(url)
    _prepare_sqlite(engine)
    return engine


def _prepare_sqlite(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def _on_connect(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # we say BEGIN ourselves: the driver would begin too late
        cursor = connection.cursor()
        cursor.execute("PRAGMA busy_timeout = 5000")
        _write_ahead(cursor)
        cursor.execute("PRAGMA synchronous = FULL")
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _on_begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get(_WRITE_OPTION, False)
        # A reader that turns writer half-way fails with "database is locked" whatever the timeout.
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _write_ahead(cursor: sqlite3.Cursor) -> None:
    """SQLite does not wait `busy_timeout` here: of several that open a new file at once, the others fail.

    Raises: sqlite3.OperationalError where somebody holds the file for longer than writers may.
    """
    deadline = time.monotonic() + _TURN_S
    while True:
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(_WAL_RETRY_S)
        else:
            return


def _first_settings(connection: Connection) -> None:
    for key, value in ((_FEED_ID, new_feed_id()), (_REVISION, "0"), (_MARK, "")):
        if setting(connection, key) is None:
            connection.execute(insert(schema.settings).values(key=key, value=value))


def new_feed_id() -> str:
    """The name of a history that nobody has written yet."""
    return secrets.token_hex(8)


def setting(connection: Connection, key: str) -> str | None:
    """A single value."""
    return connection.scalar(select(schema.settings.c.value).where(schema.settings.c.key == key))


def feed_position(connection: Connection) -> tuple[str, int]:
    """(feed id, newest revision)."""
    feed_id, revision = setting(connection, _FEED_ID), setting(connection, _REVISION)
    assert feed_id is not None and revision is not None, "the store was opened without its settings"
    return feed_id, int(revision)


def newest(connection: Connection) -> Drawn:
    """The newest revision."""
    return Drawn(feed_position(connection)[1], setting(connection, _MARK) or "")


def next_revision(connection: Connection) -> Drawn:
    """Draw the next revision, in a write transaction."""
    drawn = Drawn(newest(connection).revision + 1, secrets.token_hex(8))
    _set(connection, _REVISION, str(drawn.revision))
    _set(connection, _MARK, drawn.mark)
    return drawn


def set_feed_id(connection: Connection, feed_id: str) -> None:
    """Go on under another name, in a write transaction."""
    _set(connection, _FEED_ID, feed_id)


def _set(connection: Connection, key: str, value: str) -> None:
    put(connection, schema.settings, {"key": key}, {"value": value})


def put(connection: Connection, table: Table, key: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Write the row of a key, which may be there already, in a write transaction."""
    its = (table.c[name] == value for name, value in key.items())
    if connection.execute(update(table).where(*its).values(**values)).rowcount == 0:
        connection.execute(insert(table).values(**key, **values))
