"""Usage of an instance by five minutes, hour or day."""

import asyncio
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Final

import msgspec
from fastapi import Query
from fastapi.responses import Response

from contracts.billing import HOUR_MS
from contracts.units import GB
from runtime.clock import epoch_ms
from tenants.api.answers import Format, Wanted, csv_answer, documented, json_answer
from tenants.api.context import Billed, Plane, at
from tenants.api.routers import api_router
from tenants.api.times import Time
from tenants.api.usage_models import P95, UsageTotals, UsageView
from tenants.rules.errors import Invalid
from tenants.rules.model import Instance
from tenants.rules.usage_periods import Resolution, Span, UsagePeriod, span_of
from tenants.usecases.usage import Metered, Percentiles

router = api_router("/v1/instances/{instance}", "usage")
NO_USAGE: Final = (
    "nothing is known yet: hours are counted a minute or two after they began; "
    "five minutes and bills come from `portico pipeline meter run`"
)
_SUMS: Final = tuple(
    name for name in UsageTotals.__struct_fields__ if name not in ("gb_hours", "estimated", "provisional")
)


@router.get("/usage", responses=documented(UsageView, as_csv=True), response_class=Response)
async def instance_usage(
    plane: Plane,
    found: Billed,
    wanted: Wanted,
    start: Annotated[
        Time | None,
        Query(alias="from", description="RFC 3339", examples=["2026-11-01T00:00:00Z"]),
    ] = None,
    to: Annotated[
        Time | None, Query(description="exclusive; now by default", examples=["2026-12-01T00:00:00Z"])
    ] = None,
    resolution: Annotated[Resolution, Query(description="length of the periods")] = Resolution.HOUR,
) -> Response:
    """What an instance used: bytes, requests, storage, throttled time, peaks, and the 95th percentile.

    At most 31 days by five minutes, 93 by hour, 1,830 by day."""
    now_ms = epoch_ms()
    span = span_of(start, to, resolution, now_ms)
    if not isinstance(span, Span):
        raise Invalid(span)
    metered, percentiles = await asyncio.gather(
        plane.usage.periods(found.id, span, resolution, now_ms), plane.usage.percentiles(found.id, span)
    )
    if metered is not None:
        _leave_out_averages(metered.periods, resolution, now_ms)
    if wanted is Format.CSV:
        name = f"usage-{found.name}-{span.first_day}-{span.last_day}-{resolution.value}.csv"
        rows = map(msgspec.structs.astuple, metered.periods if metered else ())
        return await asyncio.to_thread(csv_answer, name, UsagePeriod.__struct_fields__, rows)
    view = _view(found, span, resolution, metered, percentiles)
    return await asyncio.to_thread(json_answer, view)


def _leave_out_averages(periods: list[UsagePeriod], resolution: Resolution, now_ms: int) -> None:
    """Averages of the last periods are left out where these are not over."""
    for position in range(len(periods) - 1, -1, -1):
        begins = datetime.fromisoformat(periods[position].at)
        if begins.timestamp() * 1000 + resolution.period_ms <= now_ms:
            return
        periods[position] = msgspec.structs.replace(periods[position], stored_bytes_avg=None)


def _view(
    found: Instance,
    span: Span,
    resolution: Resolution,
    metered: Metered | None,
    percentiles: Percentiles | None,
) -> UsageView:
    return UsageView(
        available=metered is not None,
        hint=NO_USAGE if metered is None else None,
        instance_id=found.id,
        tenant=found.tenant,
        name=found.name,
        resolution=resolution,
        from_=at(span.from_ms),
        to=at(span.to_ms),
        items=metered.periods if metered else [],
        totals=None if metered is None else _totals(metered),
        p95=None
        if percentiles is None
        else P95(
            produce_bytes_per_s=percentiles.produce_bytes_per_s,
            consume_bytes_per_s=percentiles.consume_bytes_per_s,
        ),
    )


def _totals(metered: Metered) -> UsageTotals:
    sums: dict[str, Any] = {name: sum(getattr(one, name) for one in metered.periods) for name in _SUMS}
    gb_hours = (metered.stored_byte_ms / (GB * HOUR_MS)).quantize(Decimal("0.000001"))
    return UsageTotals(
        **sums,
        gb_hours=f"{gb_hours:f}",
        estimated=any(one.estimated for one in metered.periods),
        provisional=any(one.provisional for one in metered.periods),
    )
