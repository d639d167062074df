"""Rows of instances, and the outbox row that goes with each change."""

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    Select,
    delete,
    func,
    insert,
    or_,
    select,
    tuple_,
    update,
)

from contracts.acls import Acl
from contracts.client_metrics import MetricsSubscription
from contracts.oauth import OauthSpec
from contracts.specs import Deletion, FullBehaviour, Limits, Listener
from contracts.users import KafkaUser, SecurityProtocol
from tenants.rules.lifecycle import State
from tenants.rules.model import SYSTEM_TENANT, Instance
from tenants.store import injected_faults, schema
from tenants.store.engine import Drawn, next_revision
from tenants.store.injected_faults import Recorded

_PROTOCOLS = tuple(SecurityProtocol)
GONE = (State.DELETED.value, State.PURGING.value, State.PURGED.value)
OUTBOX_INSTANCE = "instance"
OUTBOX_CLUSTER = "cluster"
FEED_CHANNEL = "portico_feed"
"""Where Postgres tells that the feed has news."""
OUTBOX_KEPT = 10_000
"""Changes kept for followers that lag; one that lags more is sent everything."""


def append_outbox(
    connection: Connection, drawn: Drawn, kind: str, subject_id: str, tenant: str | None, now_ms: int
) -> None:
    """Record that a subject changed, and forget changes long past."""
    revision, mark = drawn
    connection.execute(
        insert(schema.outbox).values(
            revision=revision, mark=mark, kind=kind, subject_id=subject_id, tenant=tenant, at_ms=now_ms
        )
    )
    connection.execute(delete(schema.outbox).where(schema.outbox.c.revision <= revision - OUTBOX_KEPT))
    if connection.dialect.name == "postgresql":  # heard when this transaction commits, by all processes
        connection.execute(select(func.pg_notify(FEED_CHANNEL, "")))


def save(connection: Connection, instance: Instance, now_ms: int, *, new: bool = False) -> Instance:
    """Write an instance under the next revision, with its outbox row. Returns it with the revision."""
    drawn = next_revision(connection)
    saved = instance.with_(revision=drawn.revision, updated_at_ms=now_ms)
    table = schema.instances
    if new:
        connection.execute(insert(table).values(_values(saved)))
    else:
        connection.execute(update(table).where(table.c.id == saved.id).values(_values(saved)))
    append_outbox(connection, drawn, OUTBOX_INSTANCE, saved.id, saved.tenant, now_ms)
    return saved


def set_state(connection: Connection, instance_id: str, state: State, reason: str | None) -> None:
    """Record what became of an instance. Gateways need not hear of it, so there is no new revision."""
    table = schema.instances
    connection.execute(
        update(table).where(table.c.id == instance_id).values(state=state.value, state_reason=reason)
    )


def mark_served(connection: Connection, instance_id: str, now_ms: int) -> None:
    """Remember when gateways served an instance for the first time."""
    table = schema.instances
    first = (table.c.id == instance_id) & table.c.served_at_ms.is_(None)
    connection.execute(update(table).where(first).values(served_at_ms=now_ms))


def _values(instance: Instance) -> dict[str, Any]:
    """The columns are the instance's fields of their names."""
    return {column.name: getattr(instance, column.name) for column in schema.instances.columns} | {
        "state": instance.state.value,
        "limits": msgspec.to_builtins(instance.limits),
        "full_behaviour": instance.full_behaviour.value,
        "whitelist": list(instance.whitelist),
        "topic_whitelists": {topic: list(cidrs) for topic, cidrs in instance.topic_whitelists.items()},
        "users": msgspec.to_builtins(instance.users),
        "oauth": None if instance.oauth is None else msgspec.to_builtins(instance.oauth),
        "acls": msgspec.to_builtins(instance.acls),
        "metric_subscriptions": msgspec.to_builtins(instance.metric_subscriptions),
        "security_protocols": ",".join(instance.security_protocols),
        "deletion": None if instance.deletion is None else msgspec.to_builtins(instance.deletion),
    }


def again(connection: Connection, instance_id: str) -> Instance:
    """An instance that was written in this transaction, with its listeners and faults."""
    instance = by_id(connection, instance_id)
    assert instance is not None
    return instance


def by_id(connection: Connection, instance_id: str) -> Instance | None:
    """One instance, deleted ones too."""
    return next(iter(by_ids(connection, [instance_id])), None)


def by_ids(connection: Connection, instance_ids: Iterable[str]) -> list[Instance]:
    """Some instances, deleted ones too, in order of id."""
    ids = list(instance_ids)
    found: list[Instance] = []
    for start in range(0, len(ids), 500):
        wanted = schema.instances.c.id.in_(ids[start : start + 500])
        found += _load(connection, select(schema.instances).where(wanted))
    return sorted(found, key=lambda one: one.id)


def by_name(connection: Connection, tenant: str, name: str) -> Instance | None:
    """The visible instance of a tenant's name."""
    table = schema.instances
    query = select(table).where(table.c.tenant == tenant, table.c.name == name, table.c.state.not_in(GONE))
    return next(iter(_load(connection, query)), None)


def page(
    connection: Connection, tenant: str | None, after: tuple[str, str] | None, limit: int, search: str = ""
) -> list[Instance]:
    """Visible instances by tenant and name, behind the key `after`; `tenant` None: everybody's.

    `search` is a text that their name, id or tenant has, whatever its case.
    """
    table = schema.instances
    which: ColumnElement[bool] = table.c.state.not_in(GONE)
    if search:
        sought = (table.c.name, table.c.id, table.c.tenant)
        which &= or_(*(one.icontains(search, autoescape=True) for one in sought))
    return _page(connection, which, table.c.name, tenant, after, limit)


def _page(
    connection: Connection,
    which: ColumnElement[bool],
    then_by: ColumnElement[str],
    tenant: str | None,
    after: tuple[str, str] | None,
    limit: int,
) -> list[Instance]:
    table = schema.instances
    query = select(table).where(which)
    if tenant is not None:
        query = query.where(table.c.tenant == tenant)
    if after is not None:
        query = query.where(tuple_(table.c.tenant, then_by) > after)
    return _load(connection, query.order_by(table.c.tenant, then_by).limit(limit))


def in_states(connection: Connection, states: Iterable[State]) -> list[Instance]:
    """All instances in some states."""
    wanted = schema.instances.c.state.in_([state.value for state in states])
    return _load(connection, select(schema.instances).where(wanted))


def withheld(connection: Connection) -> list[Instance]:
    """Visible instances whose listeners are withheld."""
    table = schema.instances
    query = select(table).where(table.c.listeners_withheld, table.c.state.not_in(GONE))
    return _load(connection, query)


def lacking_listeners(connection: Connection, cluster_id: str, wanted: int) -> list[Instance]:
    """Visible instances of a cluster that have fewer listeners than wanted for each way of coming in."""
    table, ports = schema.instances, schema.ports
    protocols = table.c.security_protocols
    ways = func.length(protocols) - func.length(func.replace(protocols, ",", "")) + 1
    query = (
        select(table)
        .outerjoin(ports, (ports.c.instance_id == table.c.id) & ports.c.freed_at_ms.is_(None))
        .where(table.c.cluster_id == cluster_id, table.c.state.not_in(GONE))
        .group_by(table.c.id)
        .having(func.count(ports.c.port) < wanted * ways)
    )
    return _load(connection, query)


def of_cluster(connection: Connection, cluster_id: str) -> list[Instance]:
    """Visible instances placed on a cluster."""
    table = schema.instances
    query = select(table).where(table.c.cluster_id == cluster_id, table.c.state.not_in(GONE))
    return _load(connection, query.order_by(table.c.id))


def gone(
    connection: Connection, tenant: str | None, after: tuple[str, str] | None, limit: int
) -> list[Instance]:
    """Deleted instances that are not purged, by tenant and id, behind the key `after`."""
    return _page(connection, _is_kept(), schema.instances.c.id, tenant, after, limit)


def _is_kept() -> ColumnElement[bool]:
    return schema.instances.c.state.in_((State.DELETED.value, State.PURGING.value))


def gone_by_name(connection: Connection, tenant: str, name: str) -> list[Instance]:
    """Deleted instances that had a name and are not purged, in order of id."""
    table = schema.instances
    query = select(table).where(table.c.tenant == tenant, table.c.name == name, _is_kept())
    return _load(connection, query.order_by(table.c.id))


def due(connection: Connection, now_ms: int) -> list[str]:
    """The ids of deleted instances whose grace is over and that nobody was ordered to purge yet."""
    table = schema.instances
    rows = connection.execute(
        select(table.c.id, table.c.deletion).where(table.c.state == State.DELETED.value)
    )
    return [row[0] for row in rows if row[1] is not None and row[1]["purge_after_ms"] <= now_ms]


def states(connection: Connection, instance_ids: Iterable[str]) -> dict[str, State]:
    """Where these instances are; ids that the store does not know are left out."""
    table, ids = schema.instances, list(instance_ids)
    found: dict[str, State] = {}
    for start in range(0, len(ids), 500):
        query = select(table.c.id, table.c.state).where(table.c.id.in_(ids[start : start + 500]))
        found |= {row[0]: State(row[1]) for row in connection.execute(query)}
    return found


def not_purged(connection: Connection) -> list[Instance]:
    """Everything the data plane must know of: visible instances and those being deleted."""
    table = schema.instances
    return _load(connection, select(table).where(table.c.state != State.PURGED.value).order_by(table.c.id))


def names(connection: Connection) -> dict[str, tuple[str, str]]:
    """Instance id -> (tenant, name), of visible ones."""
    table = schema.instances
    query = select(table.c.id, table.c.tenant, table.c.name).where(table.c.state.not_in(GONE))
    return {row[0]: (row[1], row[2]) for row in connection.execute(query)}


class Place(NamedTuple):
    """Whose an instance is, how it is called, and where it is."""

    tenant: str
    name: str
    cluster_id: str


def places(connection: Connection) -> dict[str, Place]:
    """Instance id -> where it is, of visible ones but the system's."""
    table = schema.instances
    query = select(table.c.id, table.c.tenant, table.c.name, table.c.cluster_id)
    query = query.where(table.c.state.not_in(GONE), table.c.tenant != SYSTEM_TENANT)
    return {row[0]: Place(*row[1:]) for row in connection.execute(query)}


def deleted_places(connection: Connection, ids: Collection[str]) -> dict[str, Place]:
    """Instance id -> where it was, of those of `ids` that are deleted and not purged."""
    table = schema.instances
    if not ids:
        return {}
    query = select(table.c.id, table.c.tenant, table.c.name, table.c.cluster_id)
    rows = connection.execute(query.where(table.c.state.in_(GONE), table.c.tenant != SYSTEM_TENANT))
    return {row[0]: Place(*row[1:]) for row in rows if row[0] in ids}


def visible_ids(tenant: str | None) -> Select[tuple[str]]:
    """A query for the ids of a tenant's visible instances; None: of all but the system's."""
    table = schema.instances
    query = select(table.c.id).where(table.c.state.not_in(GONE))
    return query.where(table.c.tenant != SYSTEM_TENANT if tenant is None else table.c.tenant == tenant)


class Named(NamedTuple):
    """How an instance is called, by whom, and whether it is still there."""

    tenant: str
    name: str
    is_visible: bool


def all_names(connection: Connection, tenant: str | None) -> dict[str, Named]:
    """Instance id -> how it is called, deleted ones included; of a tenant, or of all but the system's."""
    table = schema.instances
    query = select(table.c.id, table.c.tenant, table.c.name, table.c.state)
    query = query.where(table.c.tenant != SYSTEM_TENANT if tenant is None else table.c.tenant == tenant)
    return {row[0]: Named(row[1], row[2], row[3] not in GONE) for row in connection.execute(query)}


def count_by_state(connection: Connection) -> dict[str, int]:
    """How many instances are in each state."""
    table = schema.instances
    rows = connection.execute(select(table.c.state, func.count()).group_by(table.c.state))
    return {row[0]: row[1] for row in rows}


def count_by_tenant(connection: Connection) -> dict[str, int]:
    """How many visible instances each tenant has."""
    table = schema.instances
    rows = connection.execute(
        select(table.c.tenant, func.count()).where(table.c.state.not_in(GONE)).group_by(table.c.tenant)
    )
    return {row[0]: row[1] for row in rows}


def _load(connection: Connection, query: Any) -> list[Instance]:
    rows = list(connection.execute(query).mappings())
    listeners = _listeners(connection, [row["id"] for row in rows])
    told = injected_faults.told(connection, [row["id"] for row in rows])
    return [_instance(row, listeners.get(row["id"], ()), told.get(row["id"], ())) for row in rows]


def _listeners(connection: Connection, instance_ids: list[str]) -> dict[str, tuple[Listener, ...]]:
    table = schema.ports
    found: dict[str, tuple[Listener, ...]] = {}
    for start in range(0, len(instance_ids), 500):
        wanted = table.c.instance_id.in_(instance_ids[start : start + 500])
        query = select(table).where(wanted, table.c.freed_at_ms.is_(None))
        for row in connection.execute(query).mappings():
            listener = Listener(
                node_id=row["node_id"],
                bind_host=row["bind_host"],
                advertised_host=row["advertised_host"],
                port=row["port"],
                security_protocol=SecurityProtocol(row["security_protocol"]),
            )
            found[row["instance_id"]] = (*found.get(row["instance_id"], ()), listener)
    return {key: tuple(sorted(value, key=_place)) for key, value in found.items()}


def _place(listener: Listener) -> tuple[int, int]:
    node = -1 if listener.node_id is None else listener.node_id
    return _PROTOCOLS.index(listener.security_protocol), node


def _instance(row: RowMapping, listeners: tuple[Listener, ...], told: Iterable[Recorded]) -> Instance:
    values = dict(row) | {
        "state": State(row["state"]),
        "limits": msgspec.convert(row["limits"], Limits),
        "full_behaviour": FullBehaviour(row["full_behaviour"]),
        "whitelist": tuple(row["whitelist"]),
        "topic_whitelists": {topic: tuple(cidrs) for topic, cidrs in row["topic_whitelists"].items()},
        "users": msgspec.convert(row["users"], tuple[KafkaUser, ...]),
        "oauth": None if row["oauth"] is None else msgspec.convert(row["oauth"], OauthSpec),
        "acls": msgspec.convert(row["acls"], tuple[Acl, ...]),
        "metric_subscriptions": msgspec.convert(row["metric_subscriptions"], tuple[MetricsSubscription, ...]),
        "security_protocols": tuple(map(SecurityProtocol, row["security_protocols"].split(","))),
        "deletion": None if row["deletion"] is None else msgspec.convert(row["deletion"], Deletion),
    }
    return Instance(**values, listeners=listeners, injected_faults=tuple(one.fault for one in told))
