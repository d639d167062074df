"""What operators set as ceilings, and what is sold, by tenant and by cluster."""

from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, Text, cast, func, select, update

from contracts.specs import Engine, Limits
from tenants.rules.ceilings import (
    TENANT_DEFAULT,
    Amounts,
    Room,
    cluster_default,
    overridden,
    several,
    total,
)
from tenants.rules.lifecycle import State
from tenants.rules.model import SYSTEM_TENANT
from tenants.store import instances, registry, schema


def of_tenant(connection: Connection, tenant: str) -> dict[str, int]:
    """What an operator has set for a tenant."""
    table = schema.tenants
    return dict(connection.scalar(select(table.c.ceilings).where(table.c.name == tenant)) or {})


def of_cluster(connection: Connection, cluster_id: str) -> dict[str, int]:
    """What an operator has set for a cluster."""
    table = schema.clusters
    return dict(connection.scalar(select(table.c.ceilings).where(table.c.id == cluster_id)) or {})


def set_of_tenant(connection: Connection, tenant: str, own: dict[str, int]) -> None:
    """Replace what is set for a tenant."""
    table = schema.tenants
    connection.execute(update(table).where(table.c.name == tenant).values(ceilings=own))


def set_of_cluster(connection: Connection, cluster_id: str, own: dict[str, int]) -> None:
    """Replace what is set for a cluster."""
    table = schema.clusters
    connection.execute(update(table).where(table.c.id == cluster_id).values(ceilings=own))


def room_of_tenant(connection: Connection, tenant: str) -> Room:
    """A tenant's ceilings and what it was sold."""
    ceilings = overridden(TENANT_DEFAULT, of_tenant(connection, tenant))
    return Room(ceilings, _sold(connection, schema.instances.c.tenant == tenant))


def room_of_cluster(connection: Connection, cluster_id: str, disk_bytes: int | None) -> Room:
    """A cluster's ceilings and what it has sold; the system instance is not sold."""
    spec = registry.cluster(connection, cluster_id)
    is_ours = spec is None or spec.engine is Engine.BUILTIN
    brokers = 0 if spec is None else len(spec.brokers)
    default = cluster_default(brokers, disk_bytes if is_ours else None)
    table = schema.instances
    is_sold = (table.c.cluster_id == cluster_id) & (table.c.tenant != SYSTEM_TENANT)
    return Room(overridden(default, of_cluster(connection, cluster_id)), _sold(connection, is_sold))


def _sold(connection: Connection, which: ColumnElement[Any]) -> Amounts:
    """Added up by the database: of thousands of instances few differ in their limits, and none is loaded."""
    table = schema.instances
    is_visible, was_served = table.c.state.not_in(instances.GONE), table.c.served_at_ms.is_not(None)
    alike = (is_visible, was_served, cast(table.c.limits, Text))
    sums = (table.c.produce_rate_bytes_per_s, table.c.consume_rate_bytes_per_s, table.c.capacity_bytes)
    query = select(*alike, func.count(), *map(func.sum, sums))
    rows = connection.execute(query.where(table.c.state != State.PURGED.value, which).group_by(*alike))
    sold = [
        several(
            int(count),
            int(produce),
            int(consume),
            int(capacity),
            msgspec.json.decode(limits, type=Limits),
            are_visible=bool(visible),
            were_served=bool(served),
        )
        for visible, served, limits, count, produce, consume, capacity in rows
    ]
    theirs = select(table.c.id).where(is_visible, which)
    told = select(func.count()).where(
        schema.injected_faults.c.ended_at_ms.is_(None), schema.injected_faults.c.instance_id.in_(theirs)
    )
    return total([*sold, Amounts(faults=connection.scalar(told) or 0)])
