"""What survives a master: its term, the policy, and the last allocations, in SQL (SQLite by default).

A new master starts from these and from the q that the points report, so that failover jolts no one.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

SCHEMA_VERSION: Final = 1
IN_MEMORY: Final = "sqlite://"

_metadata = sa.MetaData()
_settings = sa.Table(
    "master_settings",
    _metadata,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
_allocations = sa.Table(
    "master_allocations",
    _metadata,
    sa.Column("point", sa.String(200), primary_key=True),
    sa.Column("instance_id", sa.String(200), primary_key=True),
    sa.Column("node_id", sa.Integer, nullable=False),
    sa.Column("partitions_led", sa.Integer, nullable=False),
    sa.Column("stored_bytes", sa.BigInteger, nullable=False),
    sa.Column("produce_rate_bytes_per_s", sa.BigInteger, nullable=False),
    sa.Column("consume_rate_bytes_per_s", sa.BigInteger, nullable=False),
    sa.Column("blocked", sa.Boolean, nullable=False),
)


@dataclass(frozen=True, slots=True)
class SavedAllocation:
    """One row: what a point led of an instance, and the q it was given."""

    point: str
    instance_id: str
    node_id: int
    partitions_led: int
    stored_bytes: int
    produce_rate_bytes_per_s: int
    consume_rate_bytes_per_s: int
    blocked: bool

    @property
    def key(self) -> tuple[str, str]:
        """What a row is found by."""
        return self.point, self.instance_id


class Journal:
    """Thread-safe for one caller at a time; blocks, so call `save` from a worker thread."""

    def __init__(self, url: str) -> None:
        """`url`: an SQLAlchemy URL such as `sqlite:///data/master.db`; `sqlite://` keeps it in memory.

        Raises: sqlalchemy.exc.SQLAlchemyError when it cannot be opened; ValueError for another schema.
        """
        memory = {"poolclass": sa.StaticPool, "connect_args": {"check_same_thread": False}}
        self._engine = sa.create_engine(url, **(memory if url == IN_MEMORY else {}))
        if self._engine.dialect.name == "sqlite":
            with self._engine.connect() as connection:
                connection.execute(sa.text("PRAGMA journal_mode=WAL"))
        _metadata.create_all(self._engine)
        version = self.setting("schema_version")
        if version is None:
            self.set_setting("schema_version", str(SCHEMA_VERSION))
        elif version != str(SCHEMA_VERSION):
            raise ValueError(f"the master's journal has schema {version}, this master needs {SCHEMA_VERSION}")
        self._saved = {row.key: row for row in self.allocations()}

    def next_term(self) -> int:
        """Begin a run: a number larger than that of every run before it, written before it is used."""
        term = self.last_term() + 1
        self.keep_term(term)
        return term

    def last_term(self) -> int:
        """The largest term that this journal knows of; 0: none."""
        return int(self.setting("term") or "0")

    def keep_term(self, term: int) -> None:
        """Remember a term before it is used."""
        assert term > self.last_term()
        self.set_setting("term", str(term))

    def note_term(self, term: int) -> None:
        """Remember a term that another journal has given away."""
        if term > self.last_term():
            self.keep_term(term)

    def setting(self, name: str) -> str | None:
        """A stored setting, or None."""
        with self._engine.connect() as connection:
            return self._read(connection, name)

    def set_setting(self, name: str, value: str) -> None:
        """Store a setting."""
        with self._engine.begin() as connection:
            self._write(connection, name, value)

    def allocations(self) -> list[SavedAllocation]:
        """The rows written last."""
        with self._engine.connect() as connection:
            return [SavedAllocation(**row._mapping) for row in connection.execute(sa.select(_allocations))]

    def save(self, rows: Iterable[SavedAllocation]) -> int:
        """Make the stored rows these; writes only what differs and returns how many rows that were."""
        wanted = {row.key: row for row in rows}
        changed = [row for key, row in wanted.items() if self._saved.get(key) != row]
        gone = [key for key in self._saved if key not in wanted]
        if changed or gone:
            with self._engine.begin() as connection:
                for key in [*gone, *(row.key for row in changed if row.key in self._saved)]:
                    connection.execute(
                        sa.delete(_allocations).where(
                            _allocations.c.point == key[0], _allocations.c.instance_id == key[1]
                        )
                    )
                if changed:
                    connection.execute(sa.insert(_allocations), [_columns(row) for row in changed])
            self._saved = wanted
        return len(changed) + len(gone)

    def close(self) -> None:
        """Close the database."""
        self._engine.dispose()

    @staticmethod
    def _read(connection: sa.Connection, name: str) -> str | None:
        value = connection.execute(
            sa.select(_settings.c.value).where(_settings.c.name == name)
        ).scalar_one_or_none()
        return None if value is None else str(value)

    @staticmethod
    def _write(connection: sa.Connection, name: str, value: str) -> None:
        updated = connection.execute(
            sa.update(_settings).where(_settings.c.name == name).values(value=value)
        ).rowcount
        if not updated:
            connection.execute(sa.insert(_settings).values(name=name, value=value))


def _columns(row: SavedAllocation) -> dict[str, object]:
    return {column.name: getattr(row, column.name) for column in _allocations.columns}
