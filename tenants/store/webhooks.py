"""Rows of webhooks and of what is delivered to them."""

from dataclasses import dataclass, field

from sqlalchemy import Connection, RowMapping, delete, func, insert, select, update

from tenants.rules.webhooks import LOG_MAX, PENDING_MAX, DeliveryState
from tenants.store import schema

OPERATORS = ""
"""In place of a tenant: told of everybody's alarms."""
LOST = "not sent: too many messages waited"


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


def of_tenant(connection: Connection, tenant: str) -> list[Webhook]:
    """By name."""
    table = schema.webhooks
    query = select(table).where(table.c.tenant == tenant).order_by(table.c.name, table.c.id)
    return [Webhook(**row) for row in connection.execute(query).mappings()]


def by_id(connection: Connection, webhook_id: str) -> Webhook | None:
    """One of them."""
    table = schema.webhooks
    row = connection.execute(select(table).where(table.c.id == webhook_id)).mappings().first()
    return None if row is None else Webhook(**row)


def every(connection: Connection) -> list[Webhook]:
    """All: they are few."""
    return [Webhook(**row) for row in connection.execute(select(schema.webhooks)).mappings()]


def add(connection: Connection, new: Webhook) -> None:
    """A new one."""
    values = {name: getattr(new, name) for name in Webhook.__dataclass_fields__}
    connection.execute(insert(schema.webhooks).values(values))


def remove(connection: Connection, webhook_id: str) -> None:
    """With its queue and its log."""
    deliveries, table = schema.webhook_deliveries, schema.webhooks
    connection.execute(delete(deliveries).where(deliveries.c.webhook_id == webhook_id))
    connection.execute(delete(table).where(table.c.id == webhook_id))


# --- deliveries ------------------------------------------------------------------------------------


def enqueue(connection: Connection, new: Delivery) -> None:
    """One more message, and the log's oldest forgotten. Where too many wait it is only noted as lost."""
    table = schema.webhook_deliveries
    its = table.c.webhook_id == new.webhook_id
    is_pending = table.c.state == DeliveryState.PENDING.value
    waiting = connection.scalar(select(func.count()).select_from(table).where(its, is_pending)) or 0
    values = {name: getattr(new, name) for name in Delivery.__dataclass_fields__}
    if waiting >= PENDING_MAX:
        values |= {"state": DeliveryState.FAILED, "error": LOST}
    connection.execute(insert(table).values({**values, "state": values["state"].value}))
    ended = select(table.c.id).where(its, ~is_pending).order_by(table.c.created_at_ms.desc(), table.c.id)
    surplus = connection.scalars(ended.offset(LOG_MAX - PENDING_MAX)).all()
    if surplus:
        connection.execute(delete(table).where(table.c.id.in_(surplus)))


def log(connection: Connection, webhook_id: str) -> list[Delivery]:
    """Newest first."""
    table = schema.webhook_deliveries
    query = select(table).where(table.c.webhook_id == webhook_id)
    query = query.order_by(table.c.created_at_ms.desc(), table.c.id)
    return [_delivery(row) for row in connection.execute(query).mappings()]


def due(connection: Connection, now_ms: int) -> list[Delivery]:
    """The oldest that is due of each webhook: a sink gets its messages one after the other."""
    table = schema.webhook_deliveries
    is_due = (table.c.state == DeliveryState.PENDING.value) & (table.c.next_at_ms <= now_ms)
    query = select(table).where(is_due).order_by(table.c.created_at_ms, table.c.id)
    first: dict[str, Delivery] = {}
    for row in connection.execute(query).mappings():
        first.setdefault(row["webhook_id"], _delivery(row))
    return list(first.values())


def tried(connection: Connection, after: Delivery) -> None:
    """How an attempt went."""
    table = schema.webhook_deliveries
    names = ("attempts", "next_at_ms", "tried_at_ms", "status", "error")
    values: dict[str, object] = {name: getattr(after, name) for name in names}
    values["state"] = after.state.value
    connection.execute(update(table).where(table.c.id == after.id).values(values))


def _delivery(row: RowMapping) -> Delivery:
    return Delivery(**{**row, "state": DeliveryState(row["state"])})
