"""One session of a control process at a Postgres that several share: office, wake-ups, and what others say.

The office (who runs the jobs) is an advisory lock of this session: a lost connection is a lost office. The
server ends the session of a process that stands still, and every job's transaction checks its term, so one
that comes to itself again does nothing in an office that it has lost.
"""

import contextlib
import threading
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

import psycopg
from sqlalchemy import Connection, make_url
from sqlalchemy.exc import SQLAlchemyError

from runtime.clock import epoch_ms, monotonic_ms
from runtime.logs import get_logger
from tenants.store import migrating, postgres, schema
from tenants.store.engine import Store, StoreFault, put, setting
from tenants.store.instances import FEED_CHANNEL

_log = get_logger(__name__)
_OFFICE_LOCK: Final = 7_274_002
_TERM: Final = "office_term"
_TICK_S: Final = 1.0
_IDLE_MS: Final = 3_000
"""The server ends a session that says nothing for so long: its process stands still, or is gone."""
_FRESH_MS: Final = 3_000
"""A server that answered within this still tells of news."""
_BACKOFF_FIRST_S: Final = 0.2
_BACKOFF_LAST_S: Final = 2.0
LIVES_MS: Final = 10_000
"""A control process that said something within this lives."""
_FORGET_MS: Final = 600_000
_NOW: Final = "(extract(epoch from clock_timestamp()) * 1000)::bigint"


class Said(NamedTuple):
    """What another process was told, and how long ago it said so."""

    told: str
    age_ms: int


class Office(Protocol):
    """Who runs what only one control process may run."""

    @property
    def since_ms(self) -> int | None:
        """Epoch time since which this process holds it; 0: since its start; None: it does not."""
        ...

    def holds(self, connection: Connection) -> bool:
        """Whether it still does, in a write transaction: true until that commits."""
        ...


class SoleOffice:
    """The office of a process that has its database for itself."""

    since_ms: int | None = 0

    def holds(self, connection: Connection) -> bool:  # noqa: ARG002 - there is nobody to ask about
        """Nobody else could."""
        return True


class SharedSession:
    """The session, on a thread of its own. `tell` is asked each second, `hear` gets what others told."""

    def __init__(
        self,
        store: Store,
        url: str,
        identity: str,
        *,
        tell: Callable[[], str],
        hear: Callable[[list[Said]], None],
        changed: Callable[[], None],
    ) -> None:
        self.schema_moved = ""
        """What is to be said of a schema that is newer than this process knows."""
        self.must_end = threading.Event()
        """Set when the schema left out what this process uses."""
        self._store = store
        self._url = make_url(url)
        self._identity = identity
        self._tell, self._hear, self._changed = tell, hear, changed
        self._since_ms: int | None = None
        self._term = 0
        self._was_connected = False
        self._answered_ms: int | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="shared-session", daemon=True)

    @property
    def since_ms(self) -> int | None:
        """Epoch time since which this process holds the office; 0: since its start; None: it does not."""
        return self._since_ms

    @property
    def is_listening(self) -> bool:
        """Whether what others commit is heard at once."""
        answered_ms = self._answered_ms
        return answered_ms is not None and monotonic_ms() - answered_ms < _FRESH_MS

    def holds(self, connection: Connection) -> bool:
        """Whether nobody took the office since, in a write transaction."""
        return self._since_ms is not None and setting(connection, _TERM) == str(self._term)

    def start(self) -> None:
        """Connect, and stay connected."""
        self._thread.start()

    def close(self) -> None:
        """Give the office up, and say that this process is gone."""
        self._stopping.set()
        if self._thread.is_alive():
            with contextlib.suppress(SQLAlchemyError), self._store.engine.begin() as connection:
                connection.exec_driver_sql(f"NOTIFY {FEED_CHANNEL}")  # it waits for news
            self._thread.join(2 * postgres.CONNECT_TIMEOUT_S)

    def _run(self) -> None:
        backoff_s = _BACKOFF_FIRST_S
        while not self._stopping.is_set():
            try:
                with psycopg.connect(**self._arguments()) as session:
                    backoff_s = _BACKOFF_FIRST_S
                    self._serve(session)
            except (psycopg.Error, StoreFault) as error:
                _log.warning("no session at the shared database, trying again", error=str(error).strip())
            finally:
                if self._since_ms is not None:
                    _log.warning("jobs are another process's business now")
                self._since_ms = self._answered_ms = None
            self._stopping.wait(backoff_s)
            backoff_s = min(backoff_s * 2, _BACKOFF_LAST_S)

    def _arguments(self) -> dict[str, Any]:
        session = postgres.session_arguments(
            statement_timeout=_IDLE_MS,
            idle_session_timeout=_IDLE_MS,
            tcp_keepalives_idle=1,
            tcp_keepalives_interval=1,
            tcp_keepalives_count=3,
        )
        named = {"application_name": f"portico-session {self._identity}", "autocommit": True}
        return {**postgres.driver_arguments(self._url), **session, **named}

    def _serve(self, session: "psycopg.Connection[tuple[Any, ...]]") -> None:
        session.execute(f"LISTEN {FEED_CHANNEL}")
        self._answered_ms = monotonic_ms()
        self._changed()  # what was told while nobody listened
        next_ms = 0
        while not self._stopping.is_set():
            if monotonic_ms() >= next_ms:
                next_ms = monotonic_ms() + round(_TICK_S * 1000)
                self._tick(session)
            left_s = max(0.0, (next_ms - monotonic_ms()) / 1000)
            for _news in session.notifies(timeout=left_s, stop_after=1):
                self._changed()
        session.execute("DELETE FROM control_processes WHERE id = %s", (self._identity,))

    def _tick(self, session: "psycopg.Connection[tuple[Any, ...]]") -> None:
        self._say(session)
        rows = session.execute(
            f"SELECT told, {_NOW} - heard_at_ms FROM control_processes"
            f" WHERE id <> %s AND {_NOW} - heard_at_ms < %s",
            (self._identity, _FORGET_MS),
        ).fetchall()
        self._answered_ms = monotonic_ms()
        self._hear([Said(told, max(0, age_ms)) for told, age_ms in rows])
        self._watch_schema(session)
        if self._since_ms is None:
            row = session.execute("SELECT pg_try_advisory_lock(%s)", (_OFFICE_LOCK,)).fetchone()
            if row == (True,):
                self._take_office()
        self._was_connected = True

    def _say(self, session: "psycopg.Connection[tuple[Any, ...]]") -> None:
        session.execute(
            f"INSERT INTO control_processes (id, url, known_schema, heard_at_ms, told)"
            f" VALUES (%s, '', %s, {_NOW}, %s) ON CONFLICT (id) DO UPDATE SET"
            " known_schema = excluded.known_schema, heard_at_ms = excluded.heard_at_ms, told = excluded.told",
            (self._identity, migrating.head(), self._tell()),
        )

    def _take_office(self) -> None:
        with self._store.write() as connection:
            self._term = int(setting(connection, _TERM) or 0) + 1
            put(connection, schema.settings, {"key": _TERM}, {"value": str(self._term)})
        self._since_ms = epoch_ms() if self._was_connected else 0
        _log.info("this process runs the jobs", term=self._term)

    def _watch_schema(self, session: "psycopg.Connection[tuple[Any, ...]]") -> None:
        row = session.execute(
            "SELECT version_num, (SELECT value FROM settings WHERE key = %s) FROM alembic_version",
            (migrating.OLDEST,),
        ).fetchone()
        found, oldest = (str(row[0]), str(row[1] or "")) if row is not None else ("", "")
        if found <= migrating.head():
            self.schema_moved = ""
            return
        said = f"the database's schema is {found} now, this process knows {migrating.head()}: upgrade it"
        if oldest > migrating.head():
            _log.error("the database was migrated beyond what this process can use: it ends", schema=found)
            self.must_end.set()
        elif said != self.schema_moved:
            _log.warning(said)
        self.schema_moved = said


def others_live(connection: Connection, identity: str) -> bool:
    """Whether another control process said something lately."""
    found = connection.exec_driver_sql(
        f"SELECT count(*) FROM control_processes WHERE id <> %s AND {_NOW} - heard_at_ms < %s",
        (identity, LIVES_MS),
    )
    return bool(found.scalar())
