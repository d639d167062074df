"""How the control plane connects to Postgres: bounds on every wait, so that a lost server is noticed."""

import select
from typing import Any, Final

import psycopg
from sqlalchemy import URL, Engine, create_engine, event
from sqlalchemy.exc import InvalidatePoolError

from runtime.clock import monotonic_ms

CONNECT_TIMEOUT_S: Final = 5
POOL_TIMEOUT_S: Final = 5.0
"""A request waits so long for one of the process's connections."""
_CONNECTIONS: Final = 8
_CONNECTIONS_MORE: Final = 16
_UNANSWERED_MS: Final = 10_000
"""A server that does not take what was sent for so long is gone."""
_STATEMENT_MS: Final = 30_000
_LOCK_MS: Final = 5_000
"""A writer waits so long for the writer before it."""
_RESTED_MS: Final = 1_000
"""A connection that nobody used for so long is asked for a sign of life before it is used: each time, that
would cost as much as what most requests ask. One that was used just now is only looked at: a server that ends
it says so. When one turns out lost, all are made anew."""
_USED_MS: Final = "used_ms"
_IDLE_IN_TRANSACTION_MS: Final = 15_000
"""A writer that stopped half-way (a paused process) gives its turn up after so long."""


def session_arguments(**settings: int | str) -> dict[str, Any]:
    """What a connection is opened with; `settings` are the server's own, for this session."""
    options = " ".join(f"-c {name}={value}" for name, value in settings.items())
    return {
        "connect_timeout": CONNECT_TIMEOUT_S,
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 3,
        "tcp_user_timeout": _UNANSWERED_MS,
        "options": options,
    }


def make_engine(url: str) -> Engine:
    """The engine of a Postgres. A writer takes its lock first and sees what was committed before it."""
    arguments = session_arguments(
        statement_timeout=_STATEMENT_MS,
        lock_timeout=_LOCK_MS,
        idle_in_transaction_session_timeout=_IDLE_IN_TRANSACTION_MS,
        timezone="UTC",
    )
    engine = create_engine(
        url,
        connect_args={"application_name": "portico", **arguments},
        isolation_level="READ COMMITTED",
        pool_size=_CONNECTIONS,
        max_overflow=_CONNECTIONS_MORE,
        pool_timeout=POOL_TIMEOUT_S,
    )
    _look_at_rested(engine)
    return engine


def _look_at_rested(engine: Engine) -> None:
    """Lost connections are noticed before they are used, unless they were used just now."""

    @event.listens_for(engine, "checkin")
    def _on_checkin(_connection: Any, record: Any) -> None:
        record.info[_USED_MS] = monotonic_ms()

    @event.listens_for(engine, "checkout")
    def _on_checkout(connection: Any, record: Any, _proxy: Any) -> None:
        used_ms = record.info.get(_USED_MS)
        if used_ms is None:
            return
        if monotonic_ms() - used_ms < _RESTED_MS and not _has_news(connection):
            return
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as error:
            raise InvalidatePoolError from error  # the pool makes another one


def _has_news(connection: psycopg.Connection[Any]) -> bool:
    """Whether a connection on which nothing is asked has something to read: it was ended, most likely."""
    waiting = select.poll()
    waiting.register(connection.fileno(), select.POLLIN)
    return bool(waiting.poll(0))


def driver_arguments(url: URL) -> dict[str, Any]:
    """A URL as psycopg itself takes it, for sessions beside the pool."""
    query = {name: value for name, value in url.query.items() if isinstance(value, str)}
    named = {"host": url.host, "port": url.port, "user": url.username, "password": url.password}
    known = {name: value for name, value in named.items() if value is not None}
    return {**known, "dbname": url.database, **query}
