"""Debezium's connector of Postgres, exactly once, whose worker is killed."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from json import loads
from pathlib import Path
from typing import Final

import psycopg
import pytest

from tests.ecosystem.certificate import Part, holds
from tests.ecosystem.connect import DEBEZIUM_VERSION, Worker
from tests.ecosystem.neighbour import beside
from tests.ecosystem.reading import KeyAndValue, Reader
from tests.integration.stack import Stack
from tests.servers.postgres import USER, PostgresServer

_THERE_BEFORE: Final = 200
_CHANGES: Final = 3_000
_CHANGES_PER_S: Final = 50
_KILLS: Final = 2
_TOPIC: Final = "shop.public.orders"
_CONNECTOR: Final = "shop"
Change = tuple[str, int, str | None]
"""Debezium's letter of the operation, the row's id, and its note afterwards."""


@pytest.fixture
def shop() -> Iterator[PostgresServer]:
    """A Postgres that tells what changes, with rows in a table."""
    server = PostgresServer({"wal_level": "logical"})
    try:
        server.start()
        with server.connect() as connection:
            connection.execute("CREATE TABLE orders (id int PRIMARY KEY, note text)")
            connection.execute("ALTER TABLE orders REPLICA IDENTITY FULL")
            connection.execute(
                "INSERT INTO orders SELECT id, 'before' FROM generate_series(1, %s) AS id", (_THERE_BEFORE,)
            )
        yield server
    finally:
        server.close()


def _snapshot() -> list[Change]:
    return [("r", number, "before") for number in range(1, _THERE_BEFORE + 1)]


def _changes() -> list[Change]:
    """Rows that come, change and go, in turns."""
    found: list[Change] = []
    for number in range(_CHANGES // 3):
        row = 1_000_000 + number
        found += [("c", row, "new"), ("u", row, f"changed {number}"), ("d", row, None)]
    return found


@contextmanager
def _changing(connection: "psycopg.Connection[tuple[object, ...]]") -> Iterator[threading.Event]:
    """The changes are made in another thread; from the event on without a pause."""
    hurry = threading.Event()

    def change() -> None:
        for operation, row, note in _changes():
            if operation == "c":
                connection.execute("INSERT INTO orders VALUES (%s, %s)", (row, note))
            elif operation == "u":
                connection.execute("UPDATE orders SET note = %s WHERE id = %s", (note, row))
            else:
                connection.execute("DELETE FROM orders WHERE id = %s", (row,))
            hurry.wait(1 / _CHANGES_PER_S)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield hurry
    finally:
        hurry.set()
        thread.join()


def _told(record: KeyAndValue) -> Change:
    value = loads(record[1] or b"")
    after = value["after"]
    return value["op"], (after or value["before"])["id"], after and after["note"]


@pytest.mark.ecosystem
@pytest.mark.timeout(1200)
def test_changes_of_a_database(stack: Stack, shop: PostgresServer, tmp_path: Path) -> None:
    """The rows that were there and then each change are told once, in order, though the worker is killed."""
    bootstrap = stack.create_instance("debezium")["bootstrap_servers"]
    beside_it = stack.create_instance("beside-debezium")["bootstrap_servers"]
    worker = Worker(bootstrap, tmp_path, "worker")
    with (
        beside(beside_it, (_TOPIC, "connect-offsets"), "connect"),
        Reader(bootstrap, _TOPIC) as reader,
        worker,
        shop.connect() as connection,
    ):
        worker.until_serving()
        worker.put(_CONNECTOR, _config(shop))
        reader.until(lambda read: len(read) >= _THERE_BEFORE, 180)
        with _changing(connection) as hurry:
            for _ in range(_KILLS):
                before = len(reader.read)
                reader.until(lambda read, before=before: len(read) >= before + 300, 180)  # type: ignore[misc]
                worker.kill()
                worker.start()
                worker.until_serving()
            hurry.set()
            reader.until(lambda read: len(read) >= _THERE_BEFORE + _CHANGES, 240)
            reader.to_the_end()
    assert [_told(record) for record in reader.read] == [*_snapshot(), *_changes()]
    holds(
        Part.DEBEZIUM,
        ran=f"Debezium {DEBEZIUM_VERSION}, connector of Postgres, `exactly.once.support=required`",
        records=_THERE_BEFORE + _CHANGES,
        killed=f"the worker, {_KILLS} times",
        held="the snapshot, then each change once and in order",
    )


def _config(shop: PostgresServer) -> dict[str, str]:
    converters = {
        f"{part}.converter{rest}": value
        for part in ("key", "value")
        for rest, value in (
            ("", "org.apache.kafka.connect.json.JsonConverter"),
            (".schemas.enable", "false"),
        )
    }
    return converters | {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": "1",
        "exactly.once.support": "required",
        "transaction.boundary": "poll",
        "database.hostname": "127.0.0.1",
        "database.port": str(shop.port),
        "database.user": USER,
        "database.password": "unused",
        "database.dbname": "postgres",
        "plugin.name": "pgoutput",
        "topic.prefix": "shop",
        "table.include.list": "public.orders",
        "tombstones.on.delete": "false",
        "poll.interval.ms": "100",
        "topic.creation.default.replication.factor": "-1",
        "topic.creation.default.partitions": "1",
    }
