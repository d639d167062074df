"""Schema versions: migrations up and down, and whether this release may use a database.

A migration either expands (adds what older releases need not know) or contracts (takes away what an older
release uses). One that contracts says so with `contract`, and processes older than that stop (ADR-0023).
"""

from functools import cache
from importlib.resources import as_file, files
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text

VERSION_TABLE: Final = "alembic_version"
OLDEST: Final = "oldest_schema"
"""The setting that names the oldest schema whose release may go on with this database."""


class SchemaIsNewer(Exception):  # noqa: N818 - a state of the database
    """The database was migrated by a newer release."""

    def __init__(self, found: str) -> None:
        super().__init__(
            f"its schema {found} is newer than this release knows (up to {head()}): start the newer release, "
            "or restore a backup that this one made"
        )
        self.found = found


@cache
def head() -> str:
    """The newest schema that this release knows. Every migration is run as a module to find it, once."""
    with as_file(files("tenants.store") / "migrations") as folder:
        newest = ScriptDirectory(str(folder)).get_current_head()
    assert newest is not None, "there are migrations"
    return newest


def current(connection: Connection) -> str | None:
    """The schema of a database; None: it has none yet."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    found = connection.scalar(text(f"SELECT version_num FROM {VERSION_TABLE}"))
    return None if found is None else str(found)


class SchemaIsOther(Exception):  # noqa: N818 - a state of the database
    """The database has not the schema that this release uses."""


def check(connection: Connection) -> None:
    """For who uses a database and does not migrate it. Raises: SchemaIsOther."""
    found = current(connection)
    if found != head():
        raise SchemaIsOther(
            f"the console's database has schema {found or 'none'}, this release knows {head()}"
        )


def contract(connection: Connection, version: str) -> None:
    """Called by a migration that takes away what releases before schema `version` use."""
    for statement in (
        text("DELETE FROM settings WHERE key = :key"),
        text("INSERT INTO settings (key, value) VALUES (:key, :version)"),
    ):
        connection.execute(statement, {"key": OLDEST, "version": version})


def upgrade(connection: Connection, target: str | None = None) -> None:
    """Migrate in a write transaction: the writers' lock has one process do it. Raises: SchemaIsNewer."""
    if connection.dialect.name == "postgresql":  # tables may be large: only a lock that never comes ends it
        connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
        connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
    found = current(connection)
    if found is not None and found > head():
        raise SchemaIsNewer(found)
    if found != (target or head()):
        _run(connection, command.upgrade, target or "head")


def downgrade(connection: Connection, target: str) -> None:
    """Go back to an older schema, in a write transaction; what only newer ones hold is lost."""
    _run(connection, command.downgrade, target)


def _run(connection: Connection, what: object, target: str) -> None:
    assert callable(what)
    with as_file(files("tenants.store") / "migrations") as folder:
        config = Config()
        config.set_main_option("script_location", str(folder))
        config.attributes["connection"] = connection
        what(config, target)
