"""Schedules of the pipeline's jobs, for operators and for the runner beside a stack."""

import asyncio
from datetime import datetime
from typing import Annotated

from fastapi import Path, Response, status

from runtime.clock import epoch_ms
from tenants.api import pipeline_models as models
from tenants.api.context import Asker, Plane, at
from tenants.api.routers import api_router
from tenants.rules.pipeline_schedules import LastRun, Schedule, due_ms, next_ms
from tenants.usecases.pipeline_schedules import NAME_SHAPE

router = api_router("/v1/pipeline/schedules", "pipeline")
Name = Annotated[str, Path(max_length=64, description="the name of the schedule", examples=["meter"])]

NewName = Annotated[
    str,
    Path(
        description="its name: lower-case letters, digits and '-'",
        examples=["meter"],
        json_schema_extra={"pattern": NAME_SHAPE},
    ),
]


@router.get("")
async def schedules(plane: Plane) -> models.ScheduleList:
    """The schedules by name, what is due, and how it went last."""
    found = await asyncio.to_thread(plane.pipeline_schedules.every)
    now_ms = epoch_ms()
    return models.ScheduleList(items=[_view(one, now_ms) for one in found])


@router.put("/{name}")
async def put_schedule(
    plane: Plane, caller: Asker, name: NewName, body: models.ScheduleOrder
) -> models.ScheduleView:
    """Make a schedule or change it. Runs that were missed before are not made good."""
    put = plane.pipeline_schedules.put
    after = await asyncio.to_thread(
        put, caller, name, body.job, body.instance_id, body.cron, is_paused=body.paused
    )
    return _view(after, epoch_ms())


@router.delete("/{name}", status_code=status.HTTP_204_NO_CONTENT)
async def remove_schedule(plane: Plane, caller: Asker, name: Name) -> Response:
    """Remove a schedule. Those that every deployment has are paused instead."""
    await asyncio.to_thread(plane.pipeline_schedules.remove, caller, name)
    return Response(status_code=status.HTTP_204_NO_CONTENT)


@router.post("/{name}/runs", status_code=status.HTTP_202_ACCEPTED)
async def run_schedule(plane: Plane, caller: Asker, name: Name) -> models.ScheduleView:
    """Have it run as soon as the runner has time, paused or not."""
    return _view(await asyncio.to_thread(plane.pipeline_schedules.ask, caller, name), epoch_ms())


@router.put("/{name}/last")
async def tell_schedule(plane: Plane, name: Name, body: models.ScheduledRunOrder) -> models.ScheduleView:
    """The runner tells that a run which is due begins, each few seconds that it goes on, and how it ended."""
    due = round(body.due_at.timestamp() * 1000)
    tell = plane.pipeline_schedules.tell
    after = await asyncio.to_thread(tell, name, due, body.state, body.error, body.runner)
    return _view(after, epoch_ms())


def _view(one: Schedule, now_ms: int) -> models.ScheduleView:
    return models.ScheduleView(
        name=one.name,
        job=one.job,
        instance_id=one.instance_id,
        cron=one.cron,
        paused=one.is_paused,
        due_at=_maybe(due_ms(one, now_ms)),
        next_at=_maybe(next_ms(one, now_ms)),
        last=None if one.last is None else _last(one.last, now_ms),
    )


def _last(run: LastRun, now_ms: int) -> models.LastRunView:
    return models.LastRunView(
        state=run.shown(now_ms),
        started_at=at(run.started_at_ms),
        ended_at=_maybe(run.ended_at_ms),
        error=run.error,
    )


def _maybe(ms: int | None) -> datetime | None:
    return None if ms is None else at(ms)
