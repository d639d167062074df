"""Rows of the pipeline's schedules."""

from sqlalchemy import Connection, RowMapping, delete, insert, select, update

from contracts.pipeline import JobState
from tenants.rules.pipeline_schedules import LastRun, Schedule, ScheduledJob
from tenants.store import schema


def by_name(connection: Connection, name: str) -> Schedule | None:
    """One of them."""
    table = schema.pipeline_schedules
    row = connection.execute(select(table).where(table.c.name == name)).mappings().first()
    return None if row is None else _schedule(row)


def every(connection: Connection) -> list[Schedule]:
    """All, by name."""
    table = schema.pipeline_schedules
    return [_schedule(row) for row in connection.execute(select(table).order_by(table.c.name)).mappings()]


def add(connection: Connection, new: Schedule) -> None:
    """A new one."""
    connection.execute(insert(schema.pipeline_schedules).values(_values(new)))


def save(connection: Connection, changed: Schedule) -> None:
    """One that is there."""
    table = schema.pipeline_schedules
    connection.execute(update(table).where(table.c.name == changed.name).values(_values(changed)))


def remove(connection: Connection, name: str) -> None:
    """Its runs stay."""
    table = schema.pipeline_schedules
    connection.execute(delete(table).where(table.c.name == name))


def _values(one: Schedule) -> dict[str, object]:
    last = one.last
    return {
        "name": one.name,
        "job": one.job.value,
        "instance_id": one.instance_id,
        "cron": one.cron,
        "is_paused": one.is_paused,
        "since_ms": one.since_ms,
        "done_until_ms": one.done_until_ms,
        "asked_at_ms": one.asked_at_ms,
        "state": None if last is None else last.state.value,
        "runner": None if last is None else last.runner,
        "started_at_ms": None if last is None else last.started_at_ms,
        "heard_at_ms": None if last is None else last.heard_at_ms,
        "ended_at_ms": None if last is None else last.ended_at_ms,
        "error": None if last is None else last.error,
    }


def _schedule(row: RowMapping) -> Schedule:
    values = dict(row)
    names = ("state", "runner", "started_at_ms", "heard_at_ms", "ended_at_ms", "error")
    state, *told = (values.pop(name) for name in names)
    last = None if state is None else LastRun(JobState(state), *told)
    return Schedule(**{**values, "job": ScheduledJob(values["job"])}, last=last)
