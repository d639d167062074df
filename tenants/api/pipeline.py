"""Runs of pipeline jobs: told by the jobs themselves, shown to operators."""

import asyncio
import re
from typing import Annotated, Any, Final

import msgspec
from fastapi import HTTPException, Path, Query, Request

from contracts.pipeline import JobStatus
from runtime.clock import epoch_ms
from tenants.api import pipeline_models as models
from tenants.api.context import Paging, Plane, after_key, at
from tenants.api.models import whole_numbers
from tenants.api.problems import NO_JSON
from tenants.api.routers import api_router
from tenants.rules.errors import Invalid
from tenants.rules.lifecycle import Fault
from tenants.rules.pipeline_runs import Run, RunState

router = api_router("/v1/pipeline/jobs", "pipeline")
_EXAMPLE: Final = {
    "id": "0b0a6f3e-5b1c-4a57-9f0a-3f6a2f9f4c11",
    "job": "load",
    "subject": "shop orders",
    "state": "running",
    "started_at_ms": 1_795_000_000_000,
    "updated_at_ms": 1_795_000_015_000,
    "planned": 2_000_000,
    "done": 1_250_000,
    "unit": "records",
    "figures": {"rows": 1_250_000, "lag_records": 750_000},
}
_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"$ref": "#/components/schemas/JobStatus"}, "example": _EXAMPLE}
        },
    }
}
_PLACE: Final = re.compile(r"^(?P<what>.*?)(?: - at `(?P<place>[^`]*)`)?$", re.DOTALL)
_JSON: Final = re.compile(r"\s*application/([^;\s]+\+)?json\s*(;|$)", re.IGNORECASE)
RunId = Annotated[str, Path(description="drawn by the job, one for each run", max_length=64)]


@router.put("/{run}", openapi_extra=_BODY)
async def tell_run(request: Request, plane: Plane, run: RunId) -> models.RunView:
    """Tell the status of a run: each second while it runs, and at its end. The answer is what is kept: an
    older status than that, or one of a run that ended, changes nothing."""
    body = await request.body()
    if body and not _JSON.match(request.headers.get("content-type", "")):
        raise HTTPException(415, NO_JSON, {"Accept": "application/json"})
    told = _decoded(body)
    return _view(await asyncio.to_thread(plane.pipeline_runs.tell, run, told), epoch_ms())


@router.get("")
async def runs(
    plane: Plane,
    page: Paging,
    job: Annotated[str | None, Query(max_length=64, description="of one job", examples=["load"])] = None,
    state: Annotated[RunState | None, Query(description="in one state")] = None,
) -> models.RunList:
    """The runs of jobs, newest first."""
    before = after_key(page, int, str)
    found = await asyncio.to_thread(plane.pipeline_runs.page, job, state, before, page.limit)
    last = found[-1].status if found else None
    cursor = page.next_cursor(len(found), None if last is None else [last.started_at_ms, last.id])
    now_ms = epoch_ms()
    return models.RunList(items=[_view(one, now_ms) for one in found], next_cursor=cursor)


@router.get("/{run}")
async def run(plane: Plane, run: RunId) -> models.RunView:
    """One run."""
    return _view(await asyncio.to_thread(plane.pipeline_runs.get, run), epoch_ms())


def _decoded(body: bytes) -> JobStatus:
    try:
        return msgspec.convert(whole_numbers(msgspec.json.decode(body)), JobStatus)
    except msgspec.ValidationError as error:
        found = _PLACE.match(str(error))
        what, place = (found["what"], found["place"] or "") if found else (str(error), "")
        fault = Fault(place.removeprefix("$").removeprefix("."), what[:1].lower() + what[1:])
        raise Invalid([fault]) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HTTPException(400, f"the body is not JSON: {error}") from error


def _view(shown: Run, now_ms: int) -> models.RunView:
    status = shown.status
    derived = {
        "state": shown.state(now_ms),
        "started_at": at(status.started_at_ms),
        "updated_at": at(status.updated_at_ms),
        "heard_at": at(shown.heard_at_ms),
        "rate_per_s": round(shown.rate_per_s(), 1),
    }
    return models.RunView(**(msgspec.structs.asdict(status) | derived))
