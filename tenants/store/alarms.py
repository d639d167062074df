"""Rows of alarms: rules that somebody has set, what was looked at last, and history."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    Table,
    and_,
    bindparam,
    delete,
    func,
    insert,
    select,
    tuple_,
    update,
)

from tenants.rules.alarms import (
    DEPLOYMENT,
    HISTORY_MAX,
    Alarm,
    AlarmEvent,
    AlarmKind,
    AlarmState,
    Handling,
    Rule,
)
from tenants.store import instances, schema
from tenants.store.engine import put, setting

_LOOKED: Final = "alarms_looked_ms"
Key = tuple[str, AlarmKind, str]


class Kept(NamedTuple):
    """An alarm with what people did about it."""

    alarm: Alarm
    handling: Handling


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of an alarm's history."""

    at_ms: int
    instance_id: str
    kind: AlarmKind
    subject: str
    event: AlarmEvent
    says: str
    by: str | None
    """Who did it; None: the figures."""
    id: int = 0


# --- rules -----------------------------------------------------------------------------------------


def rules(connection: Connection, instance_id: str | None = None) -> dict[tuple[str, AlarmKind], Rule]:
    """What somebody has set: instance id, empty for the operators', and kind; of all, or of one instance
    with the operators'."""
    query = select(schema.alarm_rules)
    if instance_id is not None:
        query = query.where(schema.alarm_rules.c.instance_id.in_({instance_id, DEPLOYMENT}))
    rows = connection.execute(query).mappings()
    return {(row["instance_id"], AlarmKind(row["kind"])): _rule(row) for row in rows if _is_known(row)}


def put_rule(connection: Connection, instance_id: str, rule: Rule) -> None:
    """Set a rule."""
    key = {"instance_id": instance_id, "kind": rule.kind.value}
    names = ("enabled", "threshold", "window_minutes", "raise_after", "clear_after")
    put(connection, schema.alarm_rules, key, {name: getattr(rule, name) for name in names})


def remove_rule(connection: Connection, instance_id: str, kind: AlarmKind) -> bool:
    """The rule above holds again; whether there was one."""
    table = schema.alarm_rules
    its = (table.c.instance_id == instance_id) & (table.c.kind == kind.value)
    return connection.execute(delete(table).where(its)).rowcount > 0


def _rule(row: RowMapping) -> Rule:
    values = {name: value for name, value in row.items() if name != "instance_id"}
    return Rule(**{**values, "kind": AlarmKind(row["kind"])})


# --- alarms ----------------------------------------------------------------------------------------


def every(connection: Connection) -> list[Kept]:
    """All: an instance's are as many as there are kinds."""
    return [_kept(row) for row in connection.execute(select(schema.alarms)).mappings() if _is_known(row)]


def handled(connection: Connection) -> dict[Key, Handling]:
    """Those that somebody did something about."""
    table = schema.alarms
    is_handled = table.c.acked_at_ms.is_not(None) | table.c.silenced_until_ms.is_not(None)
    rows = connection.execute(select(table).where(is_handled)).mappings()
    return {one.alarm.key: one.handling for row in rows if _is_known(row) and (one := _kept(row))}


def of_instance(connection: Connection, instance_id: str) -> list[Kept]:
    """One instance's, or the operators' own."""
    table = schema.alarms
    query = select(table).where(table.c.instance_id == instance_id)
    return [_kept(row) for row in connection.execute(query).mappings() if _is_known(row)]


def one(connection: Connection, key: Key) -> Kept | None:
    """The alarm of a key."""
    row = connection.execute(select(schema.alarms).where(_is(key))).mappings().first()
    return None if row is None else _kept(row)


def raised(connection: Connection, tenant: str | None, after: Key | None, limit: int) -> list[Kept]:
    """Raised ones of a tenant's instances by key; None: everybody's and the operators' own."""
    table = schema.alarms
    keys = (table.c.instance_id, table.c.kind, table.c.subject)
    query = select(table).where(table.c.raised_at_ms.is_not(None)).order_by(*keys).limit(limit)
    if after is not None:
        query = query.where(tuple_(*keys) > tuple_(*after))
    query = query.where(_is_of(table, tenant), table.c.kind.in_(_KINDS))
    return [_kept(row) for row in connection.execute(query).mappings()]


def raised_by_kind(connection: Connection) -> dict[str, int]:
    """How many of each kind are raised."""
    table = schema.alarms
    query = select(table.c.kind, func.count()).where(table.c.raised_at_ms.is_not(None)).group_by(table.c.kind)
    return {row[0]: row[1] for row in connection.execute(query)}


_LOOKED_AT: Final = ("state", "since_ms", "raised_at_ms", "known_at_ms", "value", "says", "is_told")
_PLACES: Final = (schema.alarms.c.instance_id, schema.alarms.c.kind, schema.alarms.c.subject)


def save(connection: Connection, new: Sequence[Alarm], changed: Sequence[Alarm]) -> None:
    """What looks made of alarms; what people did about them stays."""
    if new:
        rows = [
            {"instance_id": one.instance_id, "kind": one.kind.value, "subject": one.subject, **_looked(one)}
            for one in new
        ]
        connection.execute(insert(schema.alarms), rows)
    if changed:
        names = ("of_instance", "of_kind", "of_subject")
        its = and_(*(column == bindparam(name) for column, name in zip(_PLACES, names, strict=True)))
        statement = update(schema.alarms).where(its).values({name: bindparam(name) for name in _LOOKED_AT})
        told = [
            {**dict(zip(names, (one.instance_id, one.kind.value, one.subject), strict=True)), **_looked(one)}
            for one in changed
        ]
        connection.execute(statement, told)


def handle(connection: Connection, key: Key, handling: Handling) -> None:
    """What people did about an alarm."""
    values = {name: getattr(handling, name) for name in Handling.__dataclass_fields__}
    connection.execute(update(schema.alarms).where(_is(key)).values(values))


def forget(connection: Connection, keys: Iterable[Key]) -> None:
    """Drop alarms whose subject is gone."""
    for key in keys:
        connection.execute(delete(schema.alarms).where(_is(key)))


def forget_instance(connection: Connection, instance_id: str) -> None:
    """Drop all of an instance that is purged: nobody can ask for it any more."""
    for table in (schema.alarms, schema.alarm_rules, schema.alarm_history):
        connection.execute(delete(table).where(table.c.instance_id == instance_id))


def looked_at_ms(connection: Connection) -> int | None:
    """When the runner looked last."""
    found = setting(connection, _LOOKED)
    return None if found is None else int(found)


def looked(connection: Connection, now_ms: int) -> None:
    """The runner has looked."""
    put(connection, schema.settings, {"key": _LOOKED}, {"value": str(now_ms)})


# --- history ---------------------------------------------------------------------------------------


def record(connection: Connection, entries: Sequence[Entry]) -> None:
    """Append, and forget the oldest of who has too many."""
    table = schema.alarm_history
    if not entries:
        return
    connection.execute(insert(table), [_of_entry(each) for each in entries])
    for instance_id in {each.instance_id for each in entries}:
        newest = select(table.c.id).where(table.c.instance_id == instance_id).order_by(table.c.id.desc())
        oldest = connection.scalar(newest.offset(HISTORY_MAX - 1).limit(1))
        if oldest is not None:
            surplus = (table.c.instance_id == instance_id) & (table.c.id < oldest)
            connection.execute(delete(table).where(surplus))


def history(connection: Connection, instance_id: str) -> list[Entry]:
    """Newest first."""
    table = schema.alarm_history
    query = select(table).where(table.c.instance_id == instance_id).order_by(table.c.id.desc())
    return [_to_entry(row) for row in connection.execute(query).mappings() if _is_known(row)]


def newest(connection: Connection, tenant: str | None) -> list[tuple[Entry, str | None]]:
    """The newest of a tenant's instances, newest first, and what they are called; None: everybody's and the
    operators' own."""
    table, named = schema.alarm_history, schema.instances
    query = select(table, named.c.name.label("instance_name"))
    query = query.join(named, named.c.id == table.c.instance_id, isouter=True)
    # Ids alone are sorted, which the index has; the rows of a few are read.
    ids = select(table.c.id).where(_is_of(table, tenant)).order_by(table.c.id.desc()).limit(HISTORY_MAX)
    query = query.where(table.c.id.in_(ids), table.c.kind.in_(_KINDS)).order_by(table.c.id.desc())
    rows = connection.execute(query).mappings()
    return [(_to_entry(row), row["instance_name"]) for row in rows]


def _is_of(table: Table, tenant: str | None) -> ColumnElement[bool]:
    """Of visible instances of a tenant; None: of all, and the operators' own."""
    its = table.c.instance_id.in_(instances.visible_ids(tenant))
    return its if tenant is not None else its | (table.c.instance_id == DEPLOYMENT)


def _to_entry(row: RowMapping) -> Entry:
    values = {name: row[name] for name in Entry.__dataclass_fields__}
    return Entry(**{**values, "kind": AlarmKind(row["kind"]), "event": AlarmEvent(row["event"])})


def _of_entry(each: Entry) -> dict[str, object]:
    return {
        **{name: getattr(each, name) for name in ("at_ms", "instance_id", "subject", "says", "by")},
        "kind": each.kind.value,
        "event": each.event.value,
    }


# --- rows ------------------------------------------------------------------------------------------


def _is_known(row: RowMapping) -> bool:
    """Whether this release knows the kind: a newer one may have looked."""
    return row["kind"] in _KINDS


_KINDS: Final = frozenset(kind.value for kind in AlarmKind)


def _is(key: Key) -> ColumnElement[bool]:
    return and_(*(column == value for column, value in _pairs(key)))


def _pairs(key: Key) -> Iterator[tuple[ColumnElement[str], str]]:
    return zip(_PLACES, (key[0], key[1].value, key[2]), strict=True)


def _looked(alarm: Alarm) -> dict[str, object]:
    values = {name: getattr(alarm, name) for name in _LOOKED_AT}
    value = alarm.value
    # Infinity is no number of JSON: what is never reached is not shown.
    return {**values, "state": alarm.state.value, "value": None if value in (None, float("inf")) else value}


def _kept(row: RowMapping) -> Kept:
    handling = Handling(**{name: row[name] for name in Handling.__dataclass_fields__})
    alarm = Alarm(
        instance_id=row["instance_id"],
        kind=AlarmKind(row["kind"]),
        subject=row["subject"],
        **{**{name: row[name] for name in _LOOKED_AT}, "state": AlarmState(row["state"])},
    )
    return Kept(alarm, handling)
