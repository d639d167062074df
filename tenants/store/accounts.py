"""Rows of tenants and API keys. Secrets arrive here hashed."""

from collections.abc import Collection
from dataclasses import asdict, dataclass

from sqlalchemy import Connection, RowMapping, delete, func, insert, select, update

from tenants.store import schema


@dataclass(frozen=True, slots=True)
class Key:
    """An API key."""

    id: str
    tenant: str
    name: str
    role: str
    created_at_ms: int
    last_used_at_ms: int | None
    expires_at_ms: int | None = None
    previous_until_ms: int | None = None
    """Until when the secret before the last rotation is good; None: there is none."""


def tenant_names(connection: Connection, after: str | None, limit: int) -> list[tuple[str, int]]:
    """(name, created at ms) of tenants by name."""
    table = schema.tenants
    query = select(table.c.name, table.c.created_at_ms).order_by(table.c.name).limit(limit)
    if after is not None:
        query = query.where(table.c.name > after)
    return [(name, created_at_ms) for name, created_at_ms in connection.execute(query)]


def tenant_exists(connection: Connection, name: str) -> bool:
    """Whether there is such a tenant."""
    return connection.scalar(select(schema.tenants.c.name).where(schema.tenants.c.name == name)) is not None


def add_tenant(connection: Connection, name: str, now_ms: int) -> None:
    """Add a tenant that does not exist."""
    connection.execute(insert(schema.tenants).values(name=name, created_at_ms=now_ms))


def add_key(connection: Connection, new: Key, secret_sha256: str) -> None:
    """Store a key."""
    connection.execute(insert(schema.api_keys).values(**asdict(new), secret_sha256=secret_sha256))


def key_by_secret(connection: Connection, secret_sha256: str, now_ms: int) -> tuple[Key, int | None] | None:
    """(the key of a secret, until when the secret is good), if it is."""
    table = schema.api_keys
    either = (table.c.secret_sha256 == secret_sha256) | (table.c.previous_sha256 == secret_sha256)
    row = connection.execute(select(table).where(either)).mappings().first()
    if row is None:
        return None
    is_previous = row["previous_sha256"] == secret_sha256
    ends = (row["expires_at_ms"], row["previous_until_ms"] if is_previous else None)
    until_ms = min((end for end in ends if end is not None), default=None)
    return None if until_ms is not None and until_ms <= now_ms else (_key(row), until_ms)


def key_by_id(connection: Connection, key_id: str) -> Key | None:
    """One key."""
    row = connection.execute(select(schema.api_keys).where(schema.api_keys.c.id == key_id)).mappings().first()
    return None if row is None else _key(row)


def keys(
    connection: Connection, tenant: str, roles: Collection[str], after: str | None, limit: int
) -> list[Key]:
    """The keys of a tenant that have one of some roles, by id."""
    table = schema.api_keys
    mine = (table.c.tenant == tenant) & table.c.role.in_(roles)
    query = select(table).where(mine).order_by(table.c.id).limit(limit)
    if after is not None:
        query = query.where(table.c.id > after)
    return [_key(row) for row in connection.execute(query).mappings()]


def touch_key(connection: Connection, key_id: str, now_ms: int) -> None:
    """Remember that a key was used."""
    table = schema.api_keys
    connection.execute(update(table).where(table.c.id == key_id).values(last_used_at_ms=now_ms))


def rotate_key(connection: Connection, key_id: str, secret_sha256: str, previous_until_ms: int) -> list[str]:
    """Give a key another secret; the one it had is good until a time. The secrets, hashed, that have to be
    looked up anew."""
    table = schema.api_keys
    mine = table.c.id == key_id
    had = connection.execute(select(table.c.secret_sha256, table.c.previous_sha256).where(mine)).one()
    connection.execute(
        update(table)
        .where(mine)
        .values(
            secret_sha256=secret_sha256,
            previous_sha256=had.secret_sha256,
            previous_until_ms=previous_until_ms,
        )
    )
    return [one for one in had if one is not None]


def delete_key(connection: Connection, key_id: str) -> list[str]:
    """Revoke a key: the secrets, hashed, that have ended."""
    table = schema.api_keys
    mine = table.c.id == key_id
    had = connection.execute(select(table.c.secret_sha256, table.c.previous_sha256).where(mine)).first()
    connection.execute(delete(table).where(mine))
    return [one for one in had or () if one is not None]


def drop_local_keys(connection: Connection, prefix: str, unused_since_ms: int, *, but: str) -> list[str]:
    """Revoke local operator keys that nobody has used since, but one: the secrets, hashed, that ended."""
    table = schema.api_keys
    is_local = (table.c.id == prefix) | table.c.id.startswith(f"{prefix}-", autoescape=True)
    used_at_ms = func.coalesce(table.c.last_used_at_ms, table.c.created_at_ms)
    gone = is_local & (table.c.id != but) & (used_at_ms <= unused_since_ms)
    ended = list(connection.scalars(select(table.c.secret_sha256).where(gone)))
    connection.execute(delete(table).where(gone))
    return ended


def _key(row: RowMapping) -> Key:
    return Key(**{name: row[name] for name in Key.__slots__})
