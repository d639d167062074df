"""The audit log: one row per write, in the same transaction."""

from dataclasses import dataclass

from sqlalchemy import Connection, insert, select

from tenants.rules.model import Caller, Instance
from tenants.store import idempotency, schema


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


def page(connection: Connection, tenant: str | None, before_id: int | None, limit: int) -> list[Recorded]:
    """Entries, newest first; `tenant` None: everybody's."""
    table = schema.audit
    query = select(table).order_by(table.c.id.desc()).limit(limit)
    if tenant is not None:
        query = query.where(table.c.tenant == tenant)
    if before_id is not None:
        query = query.where(table.c.id < before_id)
    return [
        Recorded(
            row["id"],
            row["at_ms"],
            Entry(row["actor"], row["tenant"], row["action"], row["subject"], row["detail"], row["address"]),
        )
        for row in connection.execute(query).mappings()
    ]
