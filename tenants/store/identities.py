"""Rows of people as an identity provider knows them, and where its groups lead."""

from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass

from sqlalchemy import Connection, delete, func, insert, select, update

from tenants.store import schema


@dataclass(frozen=True, slots=True)
class Identity:
    """Whom a provider means by a subject."""

    issuer: str
    subject: str
    user_name: str
    groups: tuple[str, ...]
    """As it told them last; empty for who has a role of its own."""
    linked_at_ms: int


@dataclass(frozen=True, slots=True)
class GroupRole:
    """A group that is let in."""

    id: str
    group_name: str
    tenant: str
    role: str
    created_by: str
    created_at_ms: int


def identity(connection: Connection, issuer: str, subject: str) -> Identity | None:
    """One, by who it is."""
    table = schema.identities
    query = select(table).where(table.c.issuer == issuer, table.c.subject == subject)
    row = connection.execute(query).mappings().first()
    return None if row is None else _identity(row)


def identities_of(connection: Connection, user_name: str) -> list[Identity]:
    """Of a member."""
    table = schema.identities
    query = select(table).where(table.c.user_name == user_name).order_by(table.c.issuer)
    return [_identity(row) for row in connection.execute(query).mappings()]


def managed(connection: Connection) -> list[tuple[Identity, str, str]]:
    """(identity, tenant, role) of everybody whose role is that of the groups."""
    table, users = schema.identities, schema.users
    query = (
        select(table, users.c.tenant, users.c.role)
        .join(users, users.c.name == table.c.user_name)
        .where(users.c.is_managed)
    )
    return [(_identity(row), row["tenant"], row["role"]) for row in connection.execute(query).mappings()]


def add_identity(connection: Connection, new: Identity) -> None:
    """Add one that is not known."""
    connection.execute(insert(schema.identities).values(**{**asdict(new), "groups": list(new.groups)}))


def set_groups(connection: Connection, known: Identity, groups: Iterable[str]) -> None:
    """Remember the groups of the last sign-in."""
    table = schema.identities
    place = (table.c.issuer == known.issuer) & (table.c.subject == known.subject)
    connection.execute(update(table).where(place).values(groups=list(groups)))


def remove_identities(connection: Connection, user_name: str) -> int:
    """Of a member; how many."""
    table = schema.identities
    return connection.execute(delete(table).where(table.c.user_name == user_name)).rowcount


def group_roles(connection: Connection) -> list[GroupRole]:
    """All, by group."""
    table = schema.group_roles
    rows = connection.execute(select(table).order_by(table.c.group_name, table.c.tenant)).mappings()
    return [GroupRole(**row) for row in rows]


def roles_of(connection: Connection, groups: Collection[str]) -> list[GroupRole]:
    """Where some groups lead."""
    return [one for one in group_roles(connection) if one.group_name in groups]


def count_group_roles(connection: Connection) -> int:
    """How many there are."""
    return connection.scalar(select(func.count()).select_from(schema.group_roles)) or 0


def add_group_role(connection: Connection, new: GroupRole) -> None:
    """Add one that is not there."""
    connection.execute(insert(schema.group_roles).values(**asdict(new)))


def remove_group_role(connection: Connection, role_id: str) -> None:
    """Remove one."""
    connection.execute(delete(schema.group_roles).where(schema.group_roles.c.id == role_id))


def _identity(row: object) -> Identity:
    values = dict(row)  # type: ignore[call-overload]
    return Identity(
        values["issuer"],
        values["subject"],
        values["user_name"],
        tuple(values["groups"]),
        values["linked_at_ms"],
    )
