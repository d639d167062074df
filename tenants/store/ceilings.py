"""What operators set as ceilings, and what is sold, by tenant and by cluster."""

from typing import Any

from sqlalchemy import ColumnElement, Connection, select, update

from tenants.rules.ceilings import (
    TENANT_DEFAULT,
    Amounts,
    Room,
    asked,
    cluster_default,
    kept,
    overridden,
    total,
)
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
    default = cluster_default(0 if spec is None else len(spec.brokers), disk_bytes)
    table = schema.instances
    is_sold = (table.c.cluster_id == cluster_id) & (table.c.tenant != SYSTEM_TENANT)
    return Room(overridden(default, of_cluster(connection, cluster_id)), _sold(connection, is_sold))


def _sold(connection: Connection, which: ColumnElement[Any]) -> Amounts:
    found = instances.not_purged_where(connection, which)
    return total(asked(one) if one.is_visible else kept(one) for one in found)
