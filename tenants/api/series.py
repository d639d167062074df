"""Series that stay: of an instance, its brokers, topics, groups and clients; of all for operators; marks."""

import asyncio
from datetime import datetime
from typing import Annotated, Literal

from fastapi import Query
from fastapi.responses import Response

from runtime.clock import epoch_ms
from tenants.api.answers import documented, json_answer
from tenants.api.context import Found, Plane, at
from tenants.api.routers import api_router
from tenants.api.series_models import Mark, MarkList, SeriesNames, SeriesView
from tenants.api.times import Time
from tenants.console import Console
from tenants.rules.errors import Invalid
from tenants.rules.series import DEPLOYMENT, METRICS, POINTS_MAX, Kind, Span, span_of
from tenants.rules.usage_periods import ms_of
from tenants.series_reader import Asked

router = api_router("/v1", "series")
OfInstances = Literal[Kind.INSTANCE, Kind.BROKER, Kind.TOPIC, Kind.GROUP, Kind.CLIENT]
OfDeployment = Literal[Kind.FLEET, Kind.BROKER]
From = Annotated[
    Time | None,
    Query(
        alias="from",
        description="RFC 3339; an hour before `to` by default. 15 s are kept for a day, "
        "five minutes for 30 days",
        examples=["2026-11-01T00:00:00Z"],
    ),
]
To = Annotated[Time | None, Query(description="exclusive; now by default", examples=["2026-11-01T06:00:00Z"])]
Points = Annotated[
    int, Query(ge=10, le=POINTS_MAX, description="at most so many points: steps are the longer, the fewer")
]
Name = Annotated[
    str,
    Query(
        max_length=300,
        description="which broker (its node id), topic, group or client id; `GET series/names`",
    ),
]


@router.get("/instances/{instance}/series", responses=documented(SeriesView), response_class=Response)
async def instance_series(
    plane: Plane,
    found: Found,
    kind: Annotated[OfInstances, Query(description="what it is of")] = Kind.INSTANCE,
    name: Name = "",
    start: From = None,
    to: To = None,
    points: Points = POINTS_MAX,
) -> Response:
    """One series of an instance: rates, throttled time and storage, of it or of one broker; growth and size
    of a topic; how far a group is behind; what is on the wire of a client id, and how long it was told to
    wait. At most 31 days at once, 366 where operators name a Prometheus."""
    asked = Asked(found.tenant, found.id, kind, name)
    return json_answer(await _read(plane, asked, start, to, points))


@router.get("/instances/{instance}/series/names", responses=documented(SeriesNames), response_class=Response)
async def instance_series_names(
    plane: Plane,
    found: Found,
    kind: Annotated[OfInstances, Query(description="`broker`, `topic`, `group` or `client`")] = Kind.TOPIC,
    start: From = None,
    to: To = None,
) -> Response:
    """The brokers, topics, groups or client ids of an instance that have a series in a span."""
    return json_answer(await _names(plane, found.id, kind, _span(plane, start, to, epoch_ms())))


@router.get("/instances/{instance}/marks", responses=documented(MarkList), response_class=Response)
async def instance_marks(plane: Plane, found: Found, start: From = None, to: To = None) -> Response:
    """What happened to an instance in a span: changes of its size and state, injected faults, alarms."""
    return json_answer(await _marks(plane, found.id, _span(plane, start, to, epoch_ms())))


@router.get("/series", responses=documented(SeriesView), response_class=Response)
async def all_series(
    plane: Plane,
    kind: Annotated[
        OfDeployment, Query(description="`fleet`: all instances; `broker`: one of them")
    ] = Kind.FLEET,
    name: Name = "",
    start: From = None,
    to: To = None,
    points: Points = POINTS_MAX,
) -> Response:
    """One series of all instances together, or of one broker over all of them."""
    return json_answer(await _read(plane, Asked("", DEPLOYMENT, kind, name), start, to, points))


@router.get("/series/names", responses=documented(SeriesNames), response_class=Response)
async def all_series_names(plane: Plane, start: From = None, to: To = None) -> Response:
    """The brokers that have a series in a span."""
    return json_answer(await _names(plane, DEPLOYMENT, Kind.BROKER, _span(plane, start, to, epoch_ms())))


@router.get("/marks", responses=documented(MarkList), response_class=Response)
async def all_marks(plane: Plane, start: From = None, to: To = None) -> Response:
    """What happened in a span: instances that were made, changed or deleted, and operators' own alarms."""
    return json_answer(await _marks(plane, DEPLOYMENT, _span(plane, start, to, epoch_ms())))


def _span(
    plane: Console, start: datetime | None, to: datetime | None, now_ms: int, points: int = POINTS_MAX
) -> Span:
    """Raises: Invalid."""
    from_ms, to_ms = (None if at is None else ms_of(at) for at in (start, to))
    span = span_of(from_ms, to_ms, now_ms, points, plane.series_reader.longest_ms)
    if not isinstance(span, Span):
        raise Invalid(span)
    return span


async def _read(
    plane: Console, asked: Asked, start: datetime | None, to: datetime | None, points: int
) -> SeriesView:
    now_ms = epoch_ms()
    reader = plane.series_reader
    answer = await reader.read(asked, _span(plane, start, to, now_ms, points), points, now_ms)
    columns, times = answer.columns, list(answer.span.times())
    values = [columns.get(at_ms) for at_ms in times]
    return SeriesView(
        kind=asked.kind,
        name=asked.name,
        start_ms=times[0],
        step_ms=answer.span.step_ms,
        newest_at_ms=max(columns, default=None),
        source=answer.source,
        note=answer.note,
        longest_ms=reader.longest_ms,
        metrics={
            metric.name: [None if point is None else point[place] for point in values]
            for place, metric in enumerate(METRICS[asked.kind])
        },
    )


async def _names(plane: Console, owner: str, kind: Kind, span: Span) -> SeriesNames:
    return SeriesNames(items=tuple(await asyncio.to_thread(plane.series.names, owner, kind, span)))


async def _marks(plane: Console, owner: str, span: Span) -> MarkList:
    found = await asyncio.to_thread(plane.series.marks, owner, span.from_ms, span.to_ms)
    items = tuple(Mark(at=at(one.at_ms).isoformat(), kind=one.kind, says=one.says) for one in found)
    return MarkList(items=items)
