"""Rows of tenants, users, API keys and sessions. Secrets arrive here hashed."""

from dataclasses import asdict, dataclass

from sqlalchemy import Connection, RowMapping, delete, func, insert, select, update

from tenants.store import schema


@dataclass(frozen=True, slots=True)
class User:
    """A person who logs in."""

    name: str
    tenant: str
    role: str
    password_hash: str


@dataclass(frozen=True, slots=True)
class Key:
    """An API key."""

    id: str
    tenant: str
    name: str
    role: str
    created_at_ms: int
    last_used_at_ms: int | None


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


def user(connection: Connection, name: str) -> User | None:
    """One user."""
    row = connection.execute(select(schema.users).where(schema.users.c.name == name)).mappings().first()
    return None if row is None else User(row["name"], row["tenant"], row["role"], row["password_hash"])


def add_user(connection: Connection, new: User, now_ms: int) -> None:
    """Add a user that does not exist."""
    connection.execute(insert(schema.users).values(**asdict(new), created_at_ms=now_ms))


def set_password_hash(connection: Connection, name: str, password_hash: str) -> list[str]:
    """Change a password and log the user out everywhere: the tokens, hashed, that have ended."""
    sessions = schema.sessions
    rehash_password(connection, name, password_hash)
    mine = sessions.c.user_name == name
    ended = list(connection.scalars(select(sessions.c.token_sha256).where(mine)))
    connection.execute(delete(sessions).where(mine))
    return ended


def rehash_password(connection: Connection, name: str, password_hash: str) -> None:
    """Store the same password under newer hash parameters."""
    table = schema.users
    connection.execute(update(table).where(table.c.name == name).values(password_hash=password_hash))


def add_session(
    connection: Connection, token_sha256: str, owner: User, now_ms: int, expires_at_ms: int
) -> None:
    """Log a user in, and drop sessions that ended."""
    table = schema.sessions
    connection.execute(delete(table).where(table.c.expires_at_ms <= now_ms))
    connection.execute(
        insert(table).values(
            token_sha256=token_sha256,
            user_name=owner.name,
            tenant=owner.tenant,
            created_at_ms=now_ms,
            expires_at_ms=expires_at_ms,
        )
    )


def session(connection: Connection, token_sha256: str, now_ms: int) -> tuple[User, int] | None:
    """(whose session a token is, when it ends in epoch ms), if it has not ended."""
    sessions, users = schema.sessions, schema.users
    row = connection.execute(
        select(users.c.name, users.c.tenant, users.c.role, users.c.password_hash, sessions.c.expires_at_ms)
        .join(users, users.c.name == sessions.c.user_name)
        .where(sessions.c.token_sha256 == token_sha256, sessions.c.expires_at_ms > now_ms)
    ).first()
    return None if row is None else (User(*row[:4]), row.expires_at_ms)


def end_session(connection: Connection, token_sha256: str) -> None:
    """Log out."""
    connection.execute(delete(schema.sessions).where(schema.sessions.c.token_sha256 == token_sha256))


def add_key(connection: Connection, new: Key, secret_sha256: str) -> None:
    """Store a key."""
    connection.execute(insert(schema.api_keys).values(**asdict(new), secret_sha256=secret_sha256))


def key_by_secret(connection: Connection, secret_sha256: str) -> Key | None:
    """The key of a secret."""
    table = schema.api_keys
    row = connection.execute(select(table).where(table.c.secret_sha256 == secret_sha256)).mappings().first()
    return None if row is None else _key(row)


def key_by_id(connection: Connection, key_id: str) -> Key | None:
    """One key."""
    row = connection.execute(select(schema.api_keys).where(schema.api_keys.c.id == key_id)).mappings().first()
    return None if row is None else _key(row)


def keys(connection: Connection, tenant: str, after: str | None, limit: int) -> list[Key]:
    """The keys of a tenant, by id."""
    table = schema.api_keys
    query = select(table).where(table.c.tenant == tenant).order_by(table.c.id).limit(limit)
    if after is not None:
        query = query.where(table.c.id > after)
    return [_key(row) for row in connection.execute(query).mappings()]


def touch_key(connection: Connection, key_id: str, now_ms: int) -> None:
    """Remember that a key was used."""
    table = schema.api_keys
    connection.execute(update(table).where(table.c.id == key_id).values(last_used_at_ms=now_ms))


def delete_key(connection: Connection, key_id: str) -> list[str]:
    """Revoke a key: the secrets, hashed, that have ended."""
    table = schema.api_keys
    ended = list(connection.scalars(select(table.c.secret_sha256).where(table.c.id == key_id)))
    connection.execute(delete(table).where(table.c.id == key_id))
    return ended


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
    values = dict(row)
    del values["secret_sha256"]
    return Key(**values)
