"""Rows of webhooks and of what is delivered to them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sqlalchemy import Connection, RowMapping, delete, func, insert, select, update

from tenants.rules.webhooks import LOG_MAX, DeliveryState, Kind
from tenants.store import schema

OPERATORS = ""
"""In place of a tenant: told of everybody's alarms."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """Who is told."""

    id: str
    tenant: str
    name: str
    url: str
    salt: str = field(repr=False)
    secret_sha256: str
    created_at_ms: int
    created_by: str
    enabled: bool = True
    """Else it is told of nothing, and what waits is not sent."""
    kind: Kind = Kind.HTTP
    confirmed_at_ms: int | None = None
    """Of an e-mail address: since when it is told; `url` has it."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message to one webhook."""

    id: str
    webhook_id: str
    event: str
    body: str
    created_at_ms: int
    state: DeliveryState
    attempts: int
    next_at_ms: int
    tried_at_ms: int | None = None
    status: int | None = None
    """The sink's answer to the last attempt; None: there was none."""
    error: str = ""


def of_tenant(connection: Connection, tenant: str, kind: Kind) -> list[Webhook]:
    """By name, addresses by themselves."""
    table = schema.webhooks
    its = (table.c.tenant == tenant) & (table.c.kind == kind.value)
    query = select(table).where(its).order_by(table.c.name, table.c.url, table.c.id)
    return [_webhook(row) for row in connection.execute(query).mappings()]


def by_id(connection: Connection, webhook_id: str, kind: Kind) -> Webhook | None:
    """One of them."""
    table = schema.webhooks
    query = select(table).where(table.c.id == webhook_id, table.c.kind == kind.value)
    row = connection.execute(query).mappings().first()
    return None if row is None else _webhook(row)


def told(connection: Connection) -> list[Webhook]:
    """All that are: they are few. An address is not before it was confirmed."""
    table = schema.webhooks
    is_told = table.c.enabled & ((table.c.kind == Kind.HTTP.value) | table.c.confirmed_at_ms.is_not(None))
    return [_webhook(row) for row in connection.execute(select(table).where(is_told)).mappings()]


def add(connection: Connection, new: Webhook) -> None:
    """A new one."""
    values = {name: getattr(new, name) for name in Webhook.__dataclass_fields__} | {"kind": new.kind.value}
    connection.execute(insert(schema.webhooks).values(values))


def switch(connection: Connection, webhook_id: str, *, enabled: bool) -> None:
    """Have it told, or not."""
    table = schema.webhooks
    connection.execute(update(table).where(table.c.id == webhook_id).values(enabled=enabled))


def confirm(connection: Connection, webhook_id: str, now_ms: int) -> None:
    """Have an address told from now on."""
    table = schema.webhooks
    connection.execute(update(table).where(table.c.id == webhook_id).values(confirmed_at_ms=now_ms))


def remove(connection: Connection, webhook_id: str) -> None:
    """With its queue and its log."""
    deliveries, table = schema.webhook_deliveries, schema.webhooks
    connection.execute(delete(deliveries).where(deliveries.c.webhook_id == webhook_id))
    connection.execute(delete(table).where(table.c.id == webhook_id))


# --- deliveries ------------------------------------------------------------------------------------


def pending(connection: Connection, webhook_id: str) -> list[Delivery]:
    """What waits, oldest first."""
    table = schema.webhook_deliveries
    query = select(table).where(
        table.c.webhook_id == webhook_id, table.c.state == DeliveryState.PENDING.value
    )
    rows = connection.execute(query.order_by(table.c.created_at_ms, table.c.id)).mappings()
    return [_delivery(row) for row in rows]


def end(connection: Connection, unsent: Mapping[str, str]) -> None:
    """Messages that waited are not sent: their ids, and why."""
    table = schema.webhook_deliveries
    for why in set(unsent.values()):
        its = table.c.id.in_([each for each, said in unsent.items() if said == why])
        connection.execute(update(table).where(its).values(state=DeliveryState.FAILED.value, error=why))


def enqueue(
    connection: Connection, webhook_id: str, new: Sequence[Delivery], counted_since_ms: int | None
) -> None:
    """Further messages of a webhook, and the log's oldest forgotten.

    `counted_since_ms`: what arrived since then is kept beyond the log's length; None: nothing is.
    """
    table = schema.webhook_deliveries
    if new:
        names = Delivery.__dataclass_fields__
        rows = [{**{name: getattr(one, name) for name in names}, "state": one.state.value} for one in new]
        connection.execute(insert(table), rows)
    ended = (table.c.webhook_id == webhook_id) & (table.c.state != DeliveryState.PENDING.value)
    kept = select(table.c.id).where(ended).order_by(table.c.created_at_ms.desc(), table.c.id).limit(LOG_MAX)
    forgotten = ended & table.c.id.not_in(kept)
    if counted_since_ms is not None:
        has_arrived = table.c.state == DeliveryState.DELIVERED.value
        forgotten &= ~(has_arrived & (table.c.tried_at_ms > counted_since_ms))
    connection.execute(delete(table).where(forgotten))


def log(connection: Connection, webhook_id: str) -> list[Delivery]:
    """Newest first."""
    table = schema.webhook_deliveries
    query = select(table).where(table.c.webhook_id == webhook_id)
    query = query.order_by(table.c.created_at_ms.desc(), table.c.id)
    return [_delivery(row) for row in connection.execute(query).mappings()]


def last_tried(connection: Connection, webhook_id: str) -> Delivery | None:
    """The message that was tried last."""
    table = schema.webhook_deliveries
    query = select(table).where(table.c.webhook_id == webhook_id, table.c.tried_at_ms.is_not(None))
    row = connection.execute(query.order_by(table.c.tried_at_ms.desc()).limit(1)).mappings().first()
    return None if row is None else _delivery(row)


class Sent(NamedTuple):
    """A mail that a server took."""

    tenant: str
    address: str
    body: str
    at_ms: int


def mails_sent(connection: Connection, since_ms: int) -> list[Sent]:
    """Mails that a server took since then, to addresses that are still there."""
    table, owners = schema.webhook_deliveries, schema.webhooks
    query = (
        select(owners.c.tenant, owners.c.url, table.c.body, table.c.tried_at_ms)
        .join(owners, owners.c.id == table.c.webhook_id)
        .where(
            owners.c.kind == Kind.EMAIL.value,
            table.c.state == DeliveryState.DELIVERED.value,
            table.c.status.is_not(None),
            table.c.tried_at_ms > since_ms,
        )
    )
    return [Sent(*row) for row in connection.execute(query)]


class Resting(NamedTuple):
    """Whose messages wait although they are due."""

    webhooks: frozenset[str]
    """With an attempt under way: a sink gets its messages one after the other."""
    tenants: frozenset[str]
    """With as many attempts under way as they may have."""


def due(
    connection: Connection, now_ms: int, resting: Resting, per_tenant: int, limit: int, kind: Kind
) -> list[tuple[Delivery, Webhook]]:
    """The oldest that is due of each webhook of a kind, at most so many of a tenant and so many in all.

    First one of each tenant, who waits longest before the others, then the second of each. Bodies are read of
    what is answered alone.
    """
    table, owners = schema.webhook_deliveries, schema.webhooks
    is_due = (table.c.state == DeliveryState.PENDING.value) & (table.c.next_at_ms <= now_ms)
    oldest = func.row_number().over(
        partition_by=table.c.webhook_id, order_by=(table.c.created_at_ms, table.c.id)
    )
    waiting = (
        select(table.c.id, table.c.webhook_id, table.c.next_at_ms, owners.c.tenant, oldest.label("place"))
        .join(owners, owners.c.id == table.c.webhook_id)
        .where(
            is_due,
            owners.c.kind == kind.value,
            owners.c.enabled,
            owners.c.id.not_in(resting.webhooks),
            owners.c.tenant.not_in(resting.tenants),
        )
        .subquery()
    )
    turn = func.row_number().over(
        partition_by=waiting.c.tenant, order_by=(waiting.c.next_at_ms, waiting.c.id)
    )
    turns = (
        select(waiting.c.id, waiting.c.webhook_id, waiting.c.next_at_ms, turn.label("turn"))
        .where(waiting.c.place == 1)
        .subquery()
    )
    query = select(turns.c.id, turns.c.webhook_id).where(turns.c.turn <= per_tenant)
    rows = connection.execute(query.order_by(turns.c.turn, turns.c.next_at_ms, turns.c.id).limit(limit)).all()
    bodies = select(table).where(table.c.id.in_([row.id for row in rows]))
    messages = {row["id"]: _delivery(row) for row in connection.execute(bodies).mappings()}
    sinks = select(owners).where(owners.c.id.in_([row.webhook_id for row in rows]))
    known = {row["id"]: _webhook(row) for row in connection.execute(sinks).mappings()}
    return [
        (messages[row.id], known[row.webhook_id])
        for row in rows
        if row.id in messages and row.webhook_id in known  # the others were deleted meanwhile
    ]


def tried(connection: Connection, after: Delivery) -> None:
    """How an attempt went. What was ended meanwhile is not tried again, but it may have arrived."""
    table = schema.webhook_deliveries
    its = table.c.id == after.id
    if after.state is not DeliveryState.DELIVERED:
        its &= table.c.state == DeliveryState.PENDING.value
    names = ("attempts", "next_at_ms", "tried_at_ms", "status", "error")
    values: dict[str, object] = {name: getattr(after, name) for name in names}
    values["state"] = after.state.value
    connection.execute(update(table).where(its).values(values))


def _webhook(row: RowMapping) -> Webhook:
    return Webhook(**{**row, "kind": Kind(row["kind"])})


def _delivery(row: RowMapping) -> Delivery:
    return Delivery(**{**row, "state": DeliveryState(row["state"])})
