"""Connections to Postgres: those that are lost are noticed, and a live one is not asked each time."""

import time
from collections.abc import Callable, Iterator

import pytest

from tenants.store import accounts
from tenants.store.engine import Store, StoreFault
from tenants.store.shared_session import SharedSession
from tests.servers.postgres import PostgresServer

PATIENCE_S = 60.0


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[str]:
    name = postgres.new_database()
    yield name
    postgres.drop(name)


@pytest.fixture
def url(postgres: PostgresServer, database: str) -> str:
    return postgres.url(database)


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    made = Store.open(url)
    yield made
    made.close()


@pytest.fixture
def pings(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """One entry for each sign of life that was asked for."""
    dialect, asked = store.engine.dialect, list[bool]()
    ping = dialect.do_ping
    monkeypatch.setattr(dialect, "do_ping", lambda connection: asked.append(True) or ping(connection))
    return asked


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _reads(store: Store) -> None:
    for look in (store.read, store.glance):
        with look() as connection:
            assert not accounts.tenant_exists(connection, "nobody")


def test_one_that_was_used_just_now_is_not_asked(
    store: Store, pings: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenants.store.postgres._RESTED_MS", 60_000)
    for _ in range(3):
        _reads(store)
    assert pings == []


def test_one_that_was_lost_while_it_rested_costs_no_request(
    store: Store,
    pings: list[bool],
    postgres: PostgresServer,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tenants.store.postgres._RESTED_MS", 0)
    _reads(store)
    assert postgres.disconnect(database, "portico") > 0
    _reads(store)
    assert pings


def test_those_that_are_ended_just_after_use_cost_no_request(
    store: Store,
    pings: list[bool],
    postgres: PostgresServer,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tenants.store.postgres._RESTED_MS", 60_000)
    with store.read(), store.read():
        pass  # two wait in the pool
    assert postgres.disconnect(database, "portico") == 2
    _reads(store)
    assert pings == [True], "all are made anew when one is lost"


def test_those_that_are_lost_in_use_cost_their_request(
    store: Store, postgres: PostgresServer, database: str
) -> None:
    def _is_lost() -> None:
        with store.read() as connection:
            assert postgres.disconnect(database, "portico") == 1
            accounts.tenant_exists(connection, "nobody")

    with pytest.raises(StoreFault):
        _is_lost()
    _reads(store)


def test_a_session_says_whether_it_would_hear_of_news(
    store: Store, url: str, postgres: PostgresServer, database: str
) -> None:
    session = SharedSession(
        store, url, "one", tell=lambda: "{}", hear=lambda _others: None, changed=lambda: None
    )
    assert not session.is_listening
    session.start()
    try:
        _until(lambda: session.is_listening)
        with postgres.connect() as operator:
            operator.execute(f"ALTER DATABASE {database} ALLOW_CONNECTIONS false")
            postgres.disconnect(database, "portico-session%")
            _until(lambda: not session.is_listening)
            operator.execute(f"ALTER DATABASE {database} ALLOW_CONNECTIONS true")
        _until(lambda: session.is_listening)
    finally:
        session.close()
    assert not session.is_listening
