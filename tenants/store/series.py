"""Rows of series: packed steps of all instances, and packed blocks of each."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, delete, func, insert, select

from tenants.store import schema

_STEPS = schema.series_steps
_BLOCKS = schema.series_blocks


class Row(NamedTuple):
    """A block."""

    instance_id: str
    step_ms: int
    start_ms: int
    data: bytes


def add_step(connection: Connection, at_ms: int, data: bytes) -> bool:
    """Write down a step; whether nobody had yet."""
    if connection.scalar(select(_STEPS.c.at_ms).where(_STEPS.c.at_ms == at_ms)) is not None:
        return False
    connection.execute(insert(_STEPS).values(at_ms=at_ms, data=data))
    return True


def steps(connection: Connection, from_ms: int, to_ms: int) -> list[tuple[int, bytes]]:
    """Packed steps in order, from (inclusive) to (exclusive)."""
    query = select(_STEPS.c.at_ms, _STEPS.c.data).where(_STEPS.c.at_ms >= from_ms, _STEPS.c.at_ms < to_ms)
    return [(row[0], row[1]) for row in connection.execute(query.order_by(_STEPS.c.at_ms))]


def newest_steps(connection: Connection, after_ms: int, limit: int) -> list[tuple[int, bytes]]:
    """The newest packed steps behind a time, newest first."""
    query = select(_STEPS.c.at_ms, _STEPS.c.data).where(_STEPS.c.at_ms > after_ms)
    query = query.order_by(_STEPS.c.at_ms.desc()).limit(limit)
    return [(row[0], row[1]) for row in connection.execute(query)]


def first_step_ms(connection: Connection) -> int | None:
    """The oldest step that is not in blocks yet."""
    found: int | None = connection.scalar(select(func.min(_STEPS.c.at_ms)))
    return found


def forget_steps(connection: Connection, before_ms: int) -> None:
    """They are in blocks."""
    connection.execute(delete(_STEPS).where(_STEPS.c.at_ms < before_ms))


def put_blocks(connection: Connection, rows: Sequence[Row]) -> None:
    """Write blocks of one step and start, also those that a process wrote which then ended."""
    if not rows:
        return
    ids = [row.instance_id for row in rows]
    its = (_BLOCKS.c.step_ms == rows[0].step_ms) & (_BLOCKS.c.start_ms == rows[0].start_ms)
    connection.execute(delete(_BLOCKS).where(its, _BLOCKS.c.instance_id.in_(ids)))
    connection.execute(insert(_BLOCKS), [row._asdict() for row in rows])


def blocks(
    connection: Connection, instance_ids: Collection[str], step_ms: int, from_ms: int, to_ms: int
) -> list[Row]:
    """Blocks that begin in a span, in order."""
    query = select(_BLOCKS).where(
        _BLOCKS.c.instance_id.in_(instance_ids),
        _BLOCKS.c.step_ms == step_ms,
        _BLOCKS.c.start_ms >= from_ms,
        _BLOCKS.c.start_ms < to_ms,
    )
    return [Row(*row) for row in connection.execute(query.order_by(_BLOCKS.c.start_ms))]


def owners(connection: Connection, step_ms: int, from_ms: int, to_ms: int) -> list[str]:
    """Who has blocks that begin in a span."""
    query = select(_BLOCKS.c.instance_id).distinct()
    query = query.where(
        _BLOCKS.c.step_ms == step_ms, _BLOCKS.c.start_ms >= from_ms, _BLOCKS.c.start_ms < to_ms
    )
    return sorted(row[0] for row in connection.execute(query))


def first_block_ms(connection: Connection, step_ms: int, from_ms: int = 0) -> int | None:
    """When the oldest block begins, of those from a time on."""
    query = select(func.min(_BLOCKS.c.start_ms)).where(
        _BLOCKS.c.step_ms == step_ms, _BLOCKS.c.start_ms >= from_ms
    )
    found: int | None = connection.scalar(query)
    return found


def forget_blocks(connection: Connection, step_ms: int, start_ms: int) -> None:
    """Of all instances, those of one start: as many rows as there are instances."""
    its = (_BLOCKS.c.step_ms == step_ms) & (_BLOCKS.c.start_ms == start_ms)
    connection.execute(delete(_BLOCKS).where(its))


def forget_instance(connection: Connection, instance_id: str) -> None:
    """Its data is gone, and so is this."""
    connection.execute(delete(_BLOCKS).where(_BLOCKS.c.instance_id == instance_id))
