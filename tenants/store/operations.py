"""Rows of operations: the newest of each tenant."""

from typing import Any, Final

from sqlalchemy import Connection, delete, insert, select, tuple_, update

from tenants.rules.model import Instance
from tenants.rules.operations import Operation
from tenants.store.schema import operations as table

OPERATIONS_MAX_PER_TENANT: Final = 1_000
"""Operations that are remembered of one tenant; the oldest go first."""
_RUNNING_MAX: Final = 1_000
"""Looked at in one turn."""


def begin(connection: Connection, operation_id: str, instance: Instance, kind: str, now_ms: int) -> None:
    """What an instance was changed to is to be followed from here on."""
    beyond = (
        select(table.c.started_at_ms)
        .where(table.c.tenant == instance.tenant)
        .order_by(table.c.started_at_ms.desc())
        .offset(OPERATIONS_MAX_PER_TENANT - 1)
        .limit(1)
    )
    oldest_ms = connection.scalar(beyond)
    if oldest_ms is not None:
        too_old = (table.c.tenant == instance.tenant, table.c.started_at_ms <= oldest_ms)
        connection.execute(delete(table).where(*too_old))
    connection.execute(
        insert(table).values(
            id=operation_id,
            tenant=instance.tenant,
            kind=kind,
            instance_id=instance.id,
            revision=instance.revision,
            started_at_ms=now_ms,
        )
    )


def by_id(connection: Connection, operation_id: str) -> Operation | None:
    """One operation."""
    return next(iter(_load(connection, select(table).where(table.c.id == operation_id))), None)


def of_change(connection: Connection, instance_id: str, revision: int) -> Operation | None:
    """The operation of a change of an instance."""
    change = (table.c.instance_id == instance_id, table.c.revision == revision)
    query = select(table).where(*change).order_by(table.c.started_at_ms.desc()).limit(1)
    return next(iter(_load(connection, query)), None)


def page(
    connection: Connection,
    tenant: str | None,
    instance_id: str | None,
    before: tuple[int, str] | None,
    limit: int,
) -> list[Operation]:
    """Newest first; `tenant` None: everybody's."""
    query = select(table).order_by(table.c.started_at_ms.desc(), table.c.id.desc()).limit(limit)
    if tenant is not None:
        query = query.where(table.c.tenant == tenant)
    if instance_id is not None:
        query = query.where(table.c.instance_id == instance_id)
    if before is not None:
        query = query.where(tuple_(table.c.started_at_ms, table.c.id) < before)
    return _load(connection, query)


def running(connection: Connection) -> list[Operation]:
    """Operations that have not ended, the oldest first."""
    query = select(table).where(table.c.ended_at_ms.is_(None)).order_by(table.c.started_at_ms)
    return _load(connection, query.limit(_RUNNING_MAX))


def end(connection: Connection, operation_id: str, error: str | None, now_ms: int) -> None:
    """Once: what has ended stays as it ended."""
    first = (table.c.id == operation_id, table.c.ended_at_ms.is_(None))
    connection.execute(update(table).where(*first).values(ended_at_ms=now_ms, error=error))


def _load(connection: Connection, query: Any) -> list[Operation]:
    return [Operation(**row) for row in connection.execute(query).mappings()]
