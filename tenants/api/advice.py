"""Advice: which size fits an instance and why, when it is full, and which partitions should move."""

import asyncio
from typing import Final

import msgspec
from fastapi.responses import Response

from contracts.advice import AdviceRow, Urgency
from runtime.clock import epoch_ms
from tenants.api.advice_models import AdviceOverview, AdviceView, AdvisedInstance
from tenants.api.answers import documented, json_answer
from tenants.api.context import Asker, Found, Plane, at
from tenants.api.routers import api_router
from tenants.usecases.advice import SkewSummary

router = api_router("/v1", "advice")
NO_ADVICE: Final = "nothing has been advised yet: run `portico pipeline advise`"
_ORDER: Final = {urgency: position for position, urgency in enumerate(Urgency)}


@router.get("/advice", responses=documented(AdviceOverview), response_class=Response)
async def advice(plane: Plane) -> Response:
    """The newest advice of every instance, the most urgent first."""
    today = at(epoch_ms()).date()
    rows = await plane.advice.newest(today)
    skew: dict[str, list[SkewSummary]] = {}
    for one in await plane.advice.skew(today):
        skew.setdefault(one.instance_id, []).append(one)
    names = await asyncio.to_thread(plane.instances.names)
    items = [
        AdvisedInstance(
            tenant=names[row.instance_id][0],
            name=names[row.instance_id][1],
            advice=row,
            skew=[one for one in skew.get(row.instance_id, ()) if one.run_date == row.run_date],
        )
        for row in rows or ()
        if row.instance_id in names
    ]
    items.sort(key=lambda one: (_ORDER[one.advice.urgency], one.tenant, one.name))
    return json_answer(AdviceOverview(available=rows is not None, hint=_hint(rows), items=items))


@router.get("/instances/{instance}/advice", responses=documented(AdviceView), response_class=Response)
async def instance_advice(plane: Plane, caller: Asker, found: Found) -> Response:
    """The newest advice of one instance with its forecast; operators also see how its traffic falls on
    brokers, and the partitions that should move."""
    told = await plane.advice.of_instance(found.id, at(epoch_ms()).date())
    shown = None if told is None else told.advice
    if shown is not None and not caller.is_operator:
        shown = _without_brokers(shown)
    return json_answer(
        AdviceView(
            available=told is not None,
            hint=_hint(told),
            advice=shown,
            forecast=list(told.forecast) if told is not None else [],
            skew=list(told.skew) if told is not None and caller.is_operator else None,
            moves=list(told.moves) if told is not None and caller.is_operator else None,
        )
    )


def _hint(found: object) -> str | None:
    return NO_ADVICE if found is None else None


def _without_brokers(row: AdviceRow) -> AdviceRow:
    return msgspec.structs.replace(
        row, produce_usable_share=None, consume_usable_share=None, moves=0, moves_reason=""
    )
