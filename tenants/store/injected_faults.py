"""Faults that tenants have injected: those that are told, and the last of each instance that have ended."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
from sqlalchemy import Connection, RowMapping, delete, insert, select, update

from contracts.injected_faults import InjectedFault
from tenants.store import schema

HISTORY_MAX: Final = 100
"""Faults of an instance that are remembered, those that act among them. The audit log has all."""

_IDS_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class Recorded:
    """A fault as stored."""

    instance_id: str
    fault: InjectedFault
    started_by: str
    ended_at_ms: int | None
    ended_by: str | None


def add(connection: Connection, instance_id: str, fault: InjectedFault, started_by: str) -> None:
    """A fault begins. The oldest that has ended is forgotten where there are too many."""
    table = schema.injected_faults
    connection.execute(
        insert(table).values(
            id=fault.id,
            instance_id=instance_id,
            told=msgspec.to_builtins(fault),
            ends_at_ms=fault.ends_at_ms,
            started_by=started_by[:160],
        )
    )
    surplus = [one.fault.id for one in of_instance(connection, instance_id)[HISTORY_MAX:]]
    if surplus:
        ended = table.c.id.in_(surplus) & table.c.ended_at_ms.is_not(None)
        connection.execute(delete(table).where(ended))


def end(connection: Connection, fault_id: str, ended_by: str, now_ms: int) -> None:
    """It is told no more."""
    table = schema.injected_faults
    connection.execute(
        update(table).where(table.c.id == fault_id).values(ended_at_ms=now_ms, ended_by=ended_by[:160])
    )


def of_instance(connection: Connection, instance_id: str) -> list[Recorded]:
    """Newest first."""
    table = schema.injected_faults
    query = select(table).where(table.c.instance_id == instance_id)
    found = [_recorded(row) for row in connection.execute(query).mappings()]
    return sorted(found, key=lambda one: (one.fault.begins_at_ms, one.fault.id), reverse=True)


def told(connection: Connection, instance_ids: Sequence[str] | None = None) -> dict[str, list[Recorded]]:
    """Faults by instance that have not ended; None: of all instances. All of them are few."""
    table = schema.injected_faults
    query = select(table).where(table.c.ended_at_ms.is_(None)).order_by(table.c.id)
    if instance_ids is not None and len(instance_ids) <= _IDS_MAX:
        query = query.where(table.c.instance_id.in_(instance_ids))
    found: dict[str, list[Recorded]] = {}
    for row in connection.execute(query).mappings():
        found.setdefault(row["instance_id"], []).append(_recorded(row))
    return found


def overdue(connection: Connection, now_ms: int) -> list[Recorded]:
    """Faults that have not ended although their time is over."""
    table = schema.injected_faults
    query = select(table).where(table.c.ended_at_ms.is_(None), table.c.ends_at_ms <= now_ms)
    return [_recorded(row) for row in connection.execute(query).mappings()]


def _recorded(row: RowMapping) -> Recorded:
    return Recorded(
        row["instance_id"],
        msgspec.convert(row["told"], InjectedFault),
        row["started_by"],
        row["ended_at_ms"],
        row["ended_by"],
    )
