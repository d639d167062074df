"""The control plane's rows as values that any database takes: out of one snapshot, into an empty database.

What was only true of running processes stays behind: sessions, what followers acknowledged, who runs, answers
that may be asked for again. So do invitations: one that was used since would be good again.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from sqlalchemy import Connection, MetaData, Table, delete, func, insert, inspect, select, text

from tenants.store import lineages, migrating, schema
from tenants.store.engine import feed_position

Row = Mapping[str, Any]
"""A table's row: texts, numbers, booleans, None, and what JSON holds."""

_OF_PROCESSES: Final = frozenset(
    {
        *("sessions", "invitations", "followers", "control_processes", "idempotency_keys"),
        *("series_steps", "series_blocks"),
    }
)
"""Idempotency keys: answers to be repeated for a day, new keys among them. Series: a copy is of what is, and
begins its history anew."""
_ROWS_PER_READ: Final = 500


def table_names() -> list[str]:
    """What is dumped, referred-to tables first."""
    return [table.name for table in schema.metadata.sorted_tables if table.name not in _OF_PROCESSES]


def rows(connection: Connection, table_name: str) -> Iterator[Row]:
    """A table's rows, a few at a time, in the order of their keys."""
    table = schema.metadata.tables[table_name]
    query = select(table).order_by(*table.primary_key.columns)
    found = connection.execute(query.execution_options(yield_per=_ROWS_PER_READ))
    for row in found.mappings():
        yield dict(row)


def has_tables(connection: Connection) -> bool:
    """Whether a database holds anything."""
    return bool(inspect(connection).get_table_names())


class Load:
    """Fills an empty database within one write transaction: `begin`, `add` for each table, `finish`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._tables = MetaData()

    def begin(self, schema_version: str) -> None:
        """Make the tables as they were when the rows were dumped. Raises: SchemaIsNewer."""
        if schema_version > migrating.head():
            raise migrating.SchemaIsNewer(schema_version)
        migrating.upgrade(self._connection, schema_version)
        self._tables.reflect(self._connection)
        for table in reversed(self._tables.sorted_tables):
            if table.name != migrating.VERSION_TABLE:
                self._connection.execute(delete(table))

    def add(self, table_name: str, found: Iterable[Row]) -> int:
        """Insert rows; how many. Raises: KeyError for a table that this schema has not."""
        table = self._tables.tables[table_name]
        count = 0
        left = iter(found)
        while some := [dict(row) for row in islice(left, _ROWS_PER_READ)]:
            self._connection.execute(insert(table), some)
            count += len(some)
        self._number_on(table)
        return count

    def _number_on(self, table: Table) -> None:
        """Postgres numbers rows by a sequence that does not see rows which bring their number."""
        column = table.autoincrement_column
        if column is None or self._connection.dialect.name != "postgresql":
            return
        sequence = func.pg_get_serial_sequence(table.name, column.name)
        largest = select(func.max(column)).scalar_subquery()
        self._connection.execute(select(func.setval(sequence, func.coalesce(largest, 0) + 1, text("false"))))

    def finish(self, now_ms: int) -> str:
        """Migrate to this release's schema, and go on as another feed: its id.

        No deletion of before the copy is an order after it, whoever is heard of first (ADR-0015, ADR-0029).
        """
        migrating.upgrade(self._connection)
        return lineages.begin(self._connection, now_ms)


def first_feed(connection: Connection) -> str:
    """The id of the feed that all others of a store go on from: what stays the same over restores."""
    feed_id, _revision = feed_position(connection)
    parents = {row[0]: row[1] for row in connection.execute(select(schema.lineages))}
    while feed_id in parents:
        feed_id = parents[feed_id]
    return feed_id
