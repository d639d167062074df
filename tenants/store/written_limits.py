"""Rows of the limits that topics were written with, on clusters whose brokers know no instances."""

from collections.abc import Collection
from typing import NamedTuple

from sqlalchemy import Connection, delete, or_, select

from contracts.specs import Engine
from tenants.rules.model import Instance
from tenants.rules.written_limits import Written
from tenants.store import instances, schema
from tenants.store.engine import put


class Behind(NamedTuple):
    """An instance that has changed since its topics were looked at."""

    instance: Instance
    written: Written | None
    """What they were written with; None: it is not known."""


def behind(connection: Connection, without: Collection[str], at_most: int) -> list[Behind]:
    """Served instances that have changed, in the order of that, without some instances and clusters."""
    table, kept, clusters = schema.instances, schema.written_limits, schema.clusters
    query = (
        select(table.c.id, kept.c.retention_ms_max, kept.c.message_bytes_max)
        .join(clusters, clusters.c.id == table.c.cluster_id)
        .outerjoin(kept, kept.c.instance_id == table.c.id)
        .where(
            clusters.c.engine == Engine.APACHE.value,
            table.c.state.not_in(instances.GONE),
            table.c.id.not_in(without),
            table.c.cluster_id.not_in(without),
            or_(kept.c.revision.is_(None), kept.c.revision != table.c.revision),
        )
        .order_by(table.c.revision)
        .limit(at_most)
    )
    rows = {row[0]: row for row in connection.execute(query)}
    return [
        Behind(one, None if rows[one.id][1] is None else Written(rows[one.id][1], rows[one.id][2]))
        for one in sorted(instances.by_ids(connection, rows), key=lambda one: one.revision)
    ]


def keep(connection: Connection, instance: Instance) -> None:
    """The topics of an instance hold its limits as they are in this revision."""
    values = {"revision": instance.revision, **Written.of(instance.limits)._asdict()}
    put(connection, schema.written_limits, {"instance_id": instance.id}, values)


def forget_instance(connection: Connection, instance_id: str) -> None:
    """It is purged."""
    table = schema.written_limits
    connection.execute(delete(table).where(table.c.instance_id == instance_id))
