"""Rows of access-key pairs: what a secret key follows from, never the key."""

from dataclasses import asdict, dataclass

from sqlalchemy import Connection, delete, insert, select, update

from tenants.store.schema import access_keys as table


@dataclass(frozen=True, slots=True)
class AccessKey:
    """A pair without its secret key."""

    secret_id: str
    tenant: str
    name: str
    role: str
    salt: str
    secret_key_sha256: str
    created_at_ms: int
    last_used_at_ms: int | None


def add(connection: Connection, new: AccessKey) -> None:
    """Store a pair."""
    connection.execute(insert(table).values(asdict(new)))


def by_id(connection: Connection, secret_id: str) -> AccessKey | None:
    """One pair."""
    row = connection.execute(select(table).where(table.c.secret_id == secret_id)).mappings().first()
    return None if row is None else AccessKey(**row)


def page(connection: Connection, tenant: str, after: str | None, limit: int) -> list[AccessKey]:
    """The pairs of a tenant, by id."""
    query = select(table).where(table.c.tenant == tenant).order_by(table.c.secret_id).limit(limit)
    if after is not None:
        query = query.where(table.c.secret_id > after)
    return [AccessKey(**row) for row in connection.execute(query).mappings()]


def touch(connection: Connection, secret_id: str, now_ms: int) -> None:
    """Remember that a pair was used."""
    connection.execute(update(table).where(table.c.secret_id == secret_id).values(last_used_at_ms=now_ms))


def remove(connection: Connection, secret_id: str) -> None:
    """Revoke a pair."""
    connection.execute(delete(table).where(table.c.secret_id == secret_id))
