"""Rows of moves: instances that go, or went, from one cluster to another."""

from collections.abc import Iterable
from dataclasses import asdict

from sqlalchemy import Connection, RowMapping, insert, select, update

from tenants.rules.moves import OVER, Move, Phase
from tenants.store.schema import moves as table


def add(connection: Connection, move: Move) -> None:
    """One that begins."""
    connection.execute(insert(table).values(_values(move)))


def save(connection: Connection, move: Move) -> None:
    """One that is there."""
    connection.execute(update(table).where(table.c.id == move.id).values(_values(move)))


def by_id(connection: Connection, move_id: str) -> Move | None:
    """One of them."""
    row = connection.execute(select(table).where(table.c.id == move_id)).mappings().first()
    return None if row is None else _move(row)


def newest(connection: Connection, instance_id: str) -> Move | None:
    """The last of an instance, which may be over."""
    query = select(table).where(table.c.instance_id == instance_id)
    row = connection.execute(query.order_by(table.c.started_at_ms.desc()).limit(1)).mappings().first()
    return None if row is None else _move(row)


def not_over(connection: Connection, instance_id: str | None = None) -> list[Move]:
    """Those of an instance, or all, in the order in which they began."""
    query = select(table).where(table.c.phase.not_in([one.value for one in OVER]))
    if instance_id is not None:
        query = query.where(table.c.instance_id == instance_id)
    query = query.order_by(table.c.started_at_ms, table.c.id)
    return [_move(row) for row in connection.execute(query).mappings()]


def in_phases(connection: Connection, phases: Iterable[Phase]) -> list[Move]:
    """In the order in which they began."""
    query = select(table).where(table.c.phase.in_([one.value for one in phases]))
    rows = connection.execute(query.order_by(table.c.started_at_ms, table.c.id)).mappings()
    return [_move(row) for row in rows]


def of_cluster(connection: Connection, cluster_id: str) -> list[Move]:
    """Those that have, or may have, something on a cluster."""
    return [one for one in not_over(connection) if cluster_id in (one.source, one.target)]


def _values(move: Move) -> dict[str, object]:
    return {**asdict(move), "phase": move.phase.value}


def _move(row: RowMapping) -> Move:
    return Move(**{**row, "phase": Phase(row["phase"])})
