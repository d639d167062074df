"""Rows of people: members of tenants, invitations, sessions. Secrets arrive here hashed."""

from collections.abc import Collection
from dataclasses import asdict, dataclass

from sqlalchemy import ColumnElement, Connection, RowMapping, delete, func, insert, select, update

from tenants.store import schema


@dataclass(frozen=True, slots=True)
class User:
    """A person who logs in."""

    name: str
    tenant: str
    role: str
    password_hash: str
    is_managed: bool = False
    """Whether an identity provider's groups say the role; then no password is taken."""


@dataclass(frozen=True, slots=True)
class Member:
    """A person as others see them."""

    name: str
    tenant: str
    role: str
    created_at_ms: int
    last_login_at_ms: int | None
    is_managed: bool


@dataclass(frozen=True, slots=True)
class Invitation:
    """A member to be, until the link has been used or its time is over."""

    id: str
    tenant: str
    user_name: str
    role: str
    invited_by: str
    created_at_ms: int
    expires_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow:
    """A login that has not ended."""

    token_sha256: str
    created_at_ms: int
    expires_at_ms: int
    last_used_at_ms: int | None
    address: str | None
    agent: str | None

    @property
    def id(self) -> str:
        """What it is called where its token is not told."""
        return session_id(self.token_sha256)


def session_id(token_sha256: str) -> str:
    """The id of a session, by its token, hashed."""
    return f"s{token_sha256[:16]}"


def user(connection: Connection, name: str) -> User | None:
    """One user."""
    row = connection.execute(select(schema.users).where(schema.users.c.name == name)).mappings().first()
    return None if row is None else _user(row)


def _user(row: RowMapping) -> User:
    return User(row["name"], row["tenant"], row["role"], row["password_hash"], row["is_managed"])


def add_user(connection: Connection, new: User, now_ms: int) -> None:
    """Add a user that does not exist."""
    connection.execute(insert(schema.users).values(**asdict(new), created_at_ms=now_ms))


def page(
    connection: Connection, tenant: str, roles: Collection[str], after: str | None, limit: int
) -> list[Member]:
    """The members of a tenant that have one of some roles, by name."""
    table = schema.users
    query = select(*_member_columns()).where(table.c.tenant == tenant, table.c.role.in_(roles))
    if after is not None:
        query = query.where(table.c.name > after)
    found = connection.execute(query.order_by(table.c.name).limit(limit))
    return [_member(row) for row in found.mappings()]


def member(connection: Connection, name: str) -> Member:
    """One that is there."""
    query = select(*_member_columns()).where(schema.users.c.name == name)
    return _member(connection.execute(query).mappings().one())


def count(connection: Connection, tenant: str) -> int:
    """How many people a tenant has, invited ones included."""
    tables = (schema.users, schema.invitations)
    counted = (select(func.count()).select_from(one).where(one.c.tenant == tenant) for one in tables)
    return sum(connection.scalar(query) or 0 for query in counted)


def is_taken(connection: Connection, name: str) -> bool:
    """Whether a member has this name, or somebody is invited by it."""
    invited = select(schema.invitations.c.id).where(schema.invitations.c.user_name == name)
    return user(connection, name) is not None or connection.scalar(invited) is not None


def set_role(connection: Connection, name: str, role: str) -> None:
    """Give a member another role."""
    connection.execute(update(schema.users).where(schema.users.c.name == name).values(role=role))


def remove(connection: Connection, name: str) -> list[str]:
    """Remove a member: the tokens, hashed, that have ended."""
    ended = end_sessions(connection, name)
    connection.execute(delete(schema.identities).where(schema.identities.c.user_name == name))
    connection.execute(delete(schema.users).where(schema.users.c.name == name))
    return ended


def set_password_hash(connection: Connection, name: str, password_hash: str) -> None:
    """Store a password."""
    table = schema.users
    connection.execute(update(table).where(table.c.name == name).values(password_hash=password_hash))


# --- invitations ---------------------------------------------------------------------------------


def add_invitation(connection: Connection, new: Invitation, secret_sha256: str) -> None:
    """Store an invitation, and drop those whose time is over."""
    table = schema.invitations
    connection.execute(delete(table).where(table.c.expires_at_ms <= new.created_at_ms))
    connection.execute(insert(table).values(**asdict(new), secret_sha256=secret_sha256))


def invitations(connection: Connection, tenant: str, roles: Collection[str], now_ms: int) -> list[Invitation]:
    """Those of a tenant that are good, by name."""
    table = schema.invitations
    found = (table.c.tenant == tenant) & table.c.role.in_(roles) & (table.c.expires_at_ms > now_ms)
    query = select(table).where(found).order_by(table.c.user_name)
    return [_invitation(row) for row in connection.execute(query).mappings()]


def invitation_by_id(connection: Connection, invitation_id: str) -> Invitation | None:
    """One invitation."""
    table = schema.invitations
    row = connection.execute(select(table).where(table.c.id == invitation_id)).mappings().first()
    return None if row is None else _invitation(row)


def invitation_by_secret(connection: Connection, secret_sha256: str, now_ms: int) -> Invitation | None:
    """The invitation of a secret, if its time is not over."""
    table = schema.invitations
    query = select(table).where(table.c.secret_sha256 == secret_sha256, table.c.expires_at_ms > now_ms)
    row = connection.execute(query).mappings().first()
    return None if row is None else _invitation(row)


def drop_invitation(connection: Connection, user_name: str) -> None:
    """No link lets this member in any more."""
    table = schema.invitations
    connection.execute(delete(table).where(table.c.user_name == user_name))


def _member(row: RowMapping) -> Member:
    return Member(**{name: row[name] for name in Member.__slots__})


def _member_columns() -> list[ColumnElement[object]]:
    return [getattr(schema.users.c, name) for name in Member.__slots__]


def _invitation(row: RowMapping) -> Invitation:
    return Invitation(**{name: row[name] for name in Invitation.__slots__})


# --- sessions ------------------------------------------------------------------------------------


def add_session(connection: Connection, owner: User, new: SessionRow) -> None:
    """Log a user in, and drop sessions that ended."""
    table, users = schema.sessions, schema.users
    connection.execute(delete(table).where(table.c.expires_at_ms <= new.created_at_ms))
    connection.execute(insert(table).values(user_name=owner.name, tenant=owner.tenant, **asdict(new)))
    seen = update(users).where(users.c.name == owner.name)
    connection.execute(seen.values(last_login_at_ms=new.created_at_ms))


def session(connection: Connection, token_sha256: str, now_ms: int) -> tuple[User, SessionRow] | None:
    """Whose session a token is, and the session, if it has not ended."""
    table, users = schema.sessions, schema.users
    query = (
        select(*(getattr(users.c, name) for name in User.__slots__), *_session_columns())
        .join(users, users.c.name == table.c.user_name)
        .where(table.c.token_sha256 == token_sha256, table.c.expires_at_ms > now_ms)
    )
    row = connection.execute(query).mappings().first()
    return None if row is None else (_user(row), _session(row))


def sessions(connection: Connection, name: str, now_ms: int) -> list[SessionRow]:
    """The sessions of a user that have not ended, the newest first."""
    table = schema.sessions
    query = select(*_session_columns()).where(table.c.user_name == name, table.c.expires_at_ms > now_ms)
    found = connection.execute(query.order_by(table.c.created_at_ms.desc()))
    return [_session(row) for row in found.mappings()]


def touch_session(connection: Connection, token_sha256: str, now_ms: int) -> None:
    """Remember that a session was used."""
    table = schema.sessions
    connection.execute(
        update(table).where(table.c.token_sha256 == token_sha256).values(last_used_at_ms=now_ms)
    )


def end_session(connection: Connection, token_sha256: str) -> None:
    """Log out."""
    connection.execute(delete(schema.sessions).where(schema.sessions.c.token_sha256 == token_sha256))


def end_sessions(connection: Connection, name: str, *, but: str | None = None) -> list[str]:
    """Log a user out everywhere, but where `but` is the token: the tokens, hashed, that have ended."""
    table = schema.sessions
    gone = (table.c.user_name == name) & (table.c.token_sha256 != (but or ""))
    ended = list(connection.scalars(select(table.c.token_sha256).where(gone)))
    connection.execute(delete(table).where(gone))
    return ended


def tokens(connection: Connection, name: str) -> list[str]:
    """The tokens, hashed, of a user's sessions."""
    table = schema.sessions
    return list(connection.scalars(select(table.c.token_sha256).where(table.c.user_name == name)))


def _session_columns() -> list[ColumnElement[object]]:
    return [getattr(schema.sessions.c, name) for name in SessionRow.__slots__]


def _session(row: RowMapping) -> SessionRow:
    return SessionRow(**{name: row[name] for name in SessionRow.__slots__})
