"""The audit log: one row per write, in the same transaction."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, Select, and_, func, insert, select

from tenants.rules.model import Caller, Instance
from tenants.store import idempotency, schema

_NAME: Final = "instance_name"
_LOOKED_THROUGH: Final = 5_000
"""Newest entries among which those of all subjects are looked for."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Who did what."""

    actor: str
    tenant: str | None
    action: str
    subject: str
    detail: str = ""
    address: str | None = None


@dataclass(frozen=True, slots=True)
class Recorded:
    """An entry as stored."""

    id: int
    at_ms: int
    entry: Entry
    instance_name: str | None = None
    """How the instance is called that it is about."""


def record(connection: Connection, entry: Entry, now_ms: int) -> None:
    """Append an entry, and mark the request that asks for this. Group names may hold a NUL, which Postgres
    does not store."""
    idempotency.mark(connection, entry.subject.replace("\0", ""))
    connection.execute(
        insert(schema.audit).values(
            at_ms=now_ms,
            actor=entry.actor[:160],
            tenant=entry.tenant,
            action=entry.action,
            subject=entry.subject[:300].replace("\0", ""),
            detail=entry.detail.replace("\0", ""),
            address=entry.address,
        )
    )


def record_of(
    connection: Connection, caller: Caller, instance: Instance, action: str, detail: str, now_ms: int
) -> None:
    """Append what a caller did to an instance."""
    entry = Entry(caller.actor, instance.tenant, action, instance.id, detail, caller.address)
    record(connection, entry, now_ms)


def happened(
    connection: Connection,
    subject: str | None,
    actions: Collection[str],
    from_ms: int,
    to_ms: int,
    limit: int,
) -> list[Recorded]:
    """Entries of a span, newest first: of a subject, or (None) of all among the newest that there are."""
    table = schema.audit
    query = select(table).where(table.c.action.in_(actions), table.c.at_ms >= from_ms, table.c.at_ms < to_ms)
    if subject is not None:
        query = query.where(table.c.subject == subject)
    else:
        newest = connection.scalar(select(func.max(table.c.id))) or 0
        query = query.where(table.c.id > newest - _LOOKED_THROUGH)
    return _recorded(connection, query.order_by(table.c.id.desc()).limit(limit))


def page(connection: Connection, tenant: str | None, before_id: int | None, limit: int) -> list[Recorded]:
    """Entries with the names of their instances, newest first; `tenant` None: everybody's."""
    table, named = schema.audit, schema.instances
    # A subject may be what a tenant typed: only an instance of his own is named by it.
    its = and_(named.c.id == table.c.subject, named.c.tenant == table.c.tenant)
    query = select(table, named.c.name.label(_NAME)).outerjoin(named, its)
    query = query.order_by(table.c.id.desc()).limit(limit)
    if tenant is not None:
        query = query.where(table.c.tenant == tenant)
    if before_id is not None:
        query = query.where(table.c.id < before_id)
    return _recorded(connection, query)


def _recorded(connection: Connection, query: Select[tuple[object, ...]]) -> list[Recorded]:
    return [
        Recorded(
            row["id"],
            row["at_ms"],
            Entry(row["actor"], row["tenant"], row["action"], row["subject"], row["detail"], row["address"]),
            row.get(_NAME),
        )
        for row in connection.execute(query).mappings()
    ]
