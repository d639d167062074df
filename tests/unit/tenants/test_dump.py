"""Rows out of one database into another: SQLite and Postgres in all four directions."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from sqlalchemy import JSON, BigInteger, Boolean, Column, Float, Integer, LargeBinary, Table, insert, select

from contracts.client_metrics import MetricsSubscription
from contracts.injected_faults import InjectedFault
from contracts.oauth import OauthSpec
from contracts.specs import Limits
from contracts.users import KafkaUser
from tenants.rules.lifecycle import State
from tenants.store import dump, migrating, schema
from tenants.store.engine import Store, feed_position
from tests.servers.databases import Databases, PostgresDatabases, SqliteDatabases
from tests.servers.postgres import PostgresServer

LARGE: Final = 2**40 + 1
_PARTICULAR: Final[dict[str, dict[str, Any]]] = {
    "instances": {
        "full_behaviour": "stall",
        "limits": msgspec.to_builtins(Limits(connections_max=7)),
        "topic_whitelists": {"ü": ["10.0.0.0/8"]},
        "whitelist": ["::1/128"],
        "deletion": None,
        "state": State.PURGING.value,
        "security_protocols": "plain,sasl_ssl",
        "users": msgspec.to_builtins([KafkaUser(name="ü", credentials=())]),
        "oauth": msgspec.to_builtins(OauthSpec(issuer="ü", audience="a", keys='{"keys":[]}')),
        "acls": [[2, 3, "ü", "User:ü", "*", 3, 3]],
        "metric_subscriptions": msgspec.to_builtins([MetricsSubscription(name="ü", interval_ms=1000)]),
    },
    "ports": {"security_protocol": "sasl_ssl"},
    "injected_faults": {
        "told": msgspec.to_builtins(InjectedFault(id="f", kind="latency", begins_at_ms=1, ends_at_ms=LARGE)),
    },
}
"""What is read as more than a column's kind."""
BEHIND: Final = {
    *("sessions", "invitations", "followers", "control_processes", "idempotency_keys"),
    *("series_steps", "series_blocks"),
}


@pytest.fixture(params=["sqlite", "postgres"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    yield from _database(request, tmp_path / "source")


@pytest.fixture(params=["sqlite", "postgres"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    yield from _database(request, tmp_path / "target")


def _database(request: pytest.FixtureRequest, directory: Path) -> Iterator[str]:
    directory.mkdir()
    databases: Databases = SqliteDatabases(directory)
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        databases = PostgresDatabases(server)
    url = databases.new()
    yield url
    databases.drop(url)


def _value(column: "Column[Any]", number: int) -> Any:
    """Of a column's kind, and for its keys one that differs with each row."""
    if column.nullable and number % 2:
        return None
    if isinstance(column.type, JSON):
        return {"text": "ü\n\"'", "numbers": [LARGE, 0.5, None, True]}
    if isinstance(column.type, Boolean):
        return bool(number % 2)
    if isinstance(column.type, BigInteger):
        return LARGE + number
    if isinstance(column.type, Integer):
        return number + 1
    if isinstance(column.type, LargeBinary):
        return bytes([number])
    if isinstance(column.type, Float):
        return number + 0.1
    return f"{number}-ü\u2028"[: getattr(column.type, "length", None) or 20]


def _fill(store: Store, rows: int) -> None:
    with store.write() as connection:
        for table in schema.metadata.sorted_tables:
            for number in range(rows):
                connection.execute(insert(table).values(_row(table, number)))


def _row(table: Table, number: int) -> dict[str, Any]:
    row = {column.name: _value(column, number) for column in table.columns}
    for column in table.columns:
        for key in column.foreign_keys:  # what it refers to was made of the same number
            row[column.name] = _value(key.column, number) if row[column.name] is not None else None
    return row | _PARTICULAR.get(table.name, {}) | ({"id": number + 100} if table.name == "audit" else {})


def _rows(store: Store) -> dict[str, list[Any]]:
    with store.read() as connection:
        return {name: list(dump.rows(connection, name)) for name in dump.table_names()}


def _load(store: Store, rows: dict[str, list[Any]]) -> str:
    told = msgspec.json.decode(msgspec.json.encode(rows))  # as an archive holds them
    with store.write() as connection:
        load = dump.Load(connection)
        load.begin(migrating.head())
        assert {name: load.add(name, some) for name, some in told.items()} == {
            name: len(some) for name, some in rows.items()
        }
        return load.finish(now_ms=5)


def test_what_comes_out_goes_in_anywhere(source: str, target: str) -> None:
    with closing(Store.open(source)) as one, closing(Store.attach(target)) as other:
        _fill(one, rows=3)
        rows = _rows(one)
        assert rows.keys() == {table.name for table in schema.metadata.sorted_tables} - BEHIND
        feed_id = _load(other, rows)
        found = _rows(other)
        for name in rows.keys() - {"settings", "lineages", "instances", "outbox"}:
            assert found[name] == rows[name], name
        with one.read() as before, other.read() as after:
            parent, revision = feed_position(before)
            assert feed_position(after)[0] == feed_id != parent
            [lineage] = [row for row in found["lineages"] if row["feed_id"] == feed_id]
            assert (lineage["parent_feed_id"], lineage["parent_revision"]) == (parent, revision)
            assert dump.first_feed(after) == dump.first_feed(before) == parent
            for table in BEHIND:
                assert after.execute(select(schema.metadata.tables[table])).all() == []
        # what was being purged waits for somebody who knows
        assert {row["state"] for row in found["instances"]} == {State.DELETED.value}
        assert _without_change(found["instances"]) == _without_change(rows["instances"])


def _without_change(rows: list[Any]) -> list[Any]:
    return [{k: v for k, v in row.items() if k not in ("state", "revision", "updated_at_ms")} for row in rows]


def test_rows_that_come_after_have_numbers_of_their_own(source: str) -> None:
    with closing(Store.open(source)) as one:
        _fill(one, rows=2)
        rows = _rows(one)
    rows = {name: [] if name != "audit" else some for name, some in rows.items()}
    rows["settings"] = [
        {"key": k, "value": v} for k, v in (("feed_id", "a"), ("revision", "1"), ("mark", ""))
    ]
    with closing(Store.attach(source)) as one:
        schema.metadata.drop_all(one.engine)
        with one.write() as connection:
            connection.exec_driver_sql("DROP TABLE alembic_version")
        _load(one, rows)
        with one.write() as connection:
            entry = {k: v for k, v in rows["audit"][0].items() if k != "id"} | {"tenant": None}
            connection.execute(insert(schema.audit).values(entry))
            assert sorted(connection.scalars(select(schema.audit.c.id))) == [100, 101, 102]


def test_an_older_schema_is_migrated_and_a_newer_one_refused(tmp_path: Path) -> None:
    databases = SqliteDatabases(tmp_path)
    with closing(Store.attach(databases.new())) as store, store.write() as connection:
        load = dump.Load(connection)
        load.begin("0007")
        for key, value in (("feed_id", "a"), ("revision", "1"), ("mark", "")):
            load.add("settings", [{"key": key, "value": value}])
        load.finish(now_ms=5)
        assert migrating.current(connection) == migrating.head()
    with (
        closing(Store.attach(databases.new())) as store,
        store.write() as connection,
        pytest.raises(migrating.SchemaIsNewer),
    ):
        dump.Load(connection).begin("9999")
