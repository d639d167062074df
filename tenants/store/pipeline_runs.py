"""Rows of pipeline runs, and of what is counted of each job."""

from dataclasses import asdict
from typing import Any

import msgspec
from sqlalchemy import Connection, RowMapping, Select, delete, func, insert, select, tuple_, update

from contracts.pipeline import JobState, JobStatus
from tenants.rules.pipeline_runs import JOBS_MAX, LOST_AFTER_MS, RUNS_KEPT, JobTotals, Run, RunState
from tenants.store import schema


def run(connection: Connection, run_id: str) -> Run | None:
    """One run."""
    table = schema.pipeline_runs
    row = connection.execute(select(table).where(table.c.id == run_id)).mappings().first()
    return None if row is None else _run(row)


def page(
    connection: Connection,
    job: str | None,
    state: RunState | None,
    before: tuple[int, str] | None,
    limit: int,
    now_ms: int,
) -> list[Run]:
    """Runs, newest first, behind the key (started at ms, id)."""
    table = schema.pipeline_runs
    query = select(table).order_by(table.c.started_at_ms.desc(), table.c.id.desc()).limit(limit)
    if job is not None:
        query = query.where(table.c.job == job)
    if state is not None:
        query = _in_state(query, state, now_ms)
    if before is not None:
        query = query.where(tuple_(table.c.started_at_ms, table.c.id) < before)
    return [_run(row) for row in connection.execute(query).mappings()]


def _in_state(query: Select[Any], state: RunState, now_ms: int) -> Select[Any]:
    table = schema.pipeline_runs
    if state not in (RunState.RUNNING, RunState.LOST):
        return query.where(table.c.state == state.value)
    heard = table.c.heard_at_ms
    heard_of = (
        heard > now_ms - LOST_AFTER_MS if state is RunState.RUNNING else heard <= now_ms - LOST_AFTER_MS
    )
    return query.where(table.c.state == JobState.RUNNING.value, heard_of)


def running(connection: Connection) -> list[Run]:
    """Runs that have not ended, lost ones included."""
    table = schema.pipeline_runs
    query = select(table).where(table.c.state == JobState.RUNNING.value)
    return [_run(row) for row in connection.execute(query).mappings()]


def newest(connection: Connection, job: str) -> Run | None:
    """The run of a job that was started last."""
    return next(iter(page(connection, job, None, None, 1, 0)), None)


def save(connection: Connection, new: Run, *, known: bool) -> None:
    """Write a run; with a new one, forget runs of its job that are long past."""
    table = schema.pipeline_runs
    if known:
        connection.execute(update(table).where(table.c.id == new.status.id).values(_values(new)))
        return
    connection.execute(insert(table).values(_values(new)))
    of_job = select(table.c.id).where(table.c.job == new.status.job)
    past = of_job.order_by(table.c.heard_at_ms.desc(), table.c.id.desc()).offset(RUNS_KEPT)
    connection.execute(delete(table).where(table.c.id.in_([row[0] for row in connection.execute(past)])))


def totals(connection: Connection, job: str) -> JobTotals | None:
    """What is counted of a job."""
    table = schema.pipeline_jobs
    row = connection.execute(select(table).where(table.c.job == job)).mappings().first()
    return None if row is None else JobTotals(**row)


def all_totals(connection: Connection) -> list[JobTotals]:
    """What is counted of every job, by name."""
    table = schema.pipeline_jobs
    return [JobTotals(**row) for row in connection.execute(select(table).order_by(table.c.job)).mappings()]


def save_totals(connection: Connection, new: JobTotals, *, known: bool) -> None:
    """Write what is counted of a job; a new job may take the place of the one that was silent for longest."""
    table = schema.pipeline_jobs
    values = asdict(new)
    if known:
        connection.execute(update(table).where(table.c.job == new.job).values(values))
        return
    connection.execute(insert(table).values(values))
    count = connection.scalar(select(func.count()).select_from(table)) or 0
    if count > JOBS_MAX:
        silent = select(table.c.job).where(table.c.job != new.job).order_by(table.c.heard_at_ms)
        gone = [row[0] for row in connection.execute(silent.limit(count - JOBS_MAX))]
        runs = schema.pipeline_runs
        connection.execute(delete(runs).where(runs.c.job.in_(gone)))
        connection.execute(delete(table).where(table.c.job.in_(gone)))


def _values(one: Run) -> dict[str, Any]:
    values: dict[str, Any] = msgspec.to_builtins(one.status)
    return values | {"heard_at_ms": one.heard_at_ms}


def _run(row: RowMapping) -> Run:
    values = dict(row)
    heard_at_ms = values.pop("heard_at_ms")
    return Run(JobStatus(**{**values, "state": JobState(values["state"])}), heard_at_ms)
