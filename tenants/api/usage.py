"""Usage of an instance by five minutes, hour or day, as the pipeline metered it."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from fastapi.responses import Response

from contracts.billing import GIB, HOUR_MS, PeriodState
from runtime.clock import epoch_ms
from tenants.api.answers import Format, Wanted, csv_answer, documented, json_answer
from tenants.api.context import Billed, Plane, at
from tenants.api.usage_models import P95, UsagePeriod, UsageTotals, UsageView
from tenants.errors import Invalid
from tenants.model import Instance
from tenants.tables import Row
from tenants.usage import Resolution, Span, span_of
from tenants.usecases.usage import Percentiles

router = APIRouter(prefix="/v1/instances/{instance}", tags=["usage"])
NO_USAGE: Final = "nothing has been metered yet: run `portico pipeline meter run`"
_COLUMNS: Final = tuple(name for name in UsagePeriod.__struct_fields__)
_SUMS: Final = (
    "produce_bytes",
    "consume_bytes",
    "produce_requests",
    "consume_requests",
    "refused",
    "produce_throttled_ms",
    "consume_throttled_ms",
    "blocked_ms",
)


@router.get("/usage", responses=documented(UsageView, as_csv=True), response_class=Response)
async def instance_usage(
    plane: Plane,
    found: Billed,
    wanted: Wanted,
    start: Annotated[
        datetime | None,
        Query(alias="from", description="RFC 3339, UTC without a zone", examples=["2026-11-01T00:00:00Z"]),
    ] = None,
    to: Annotated[
        datetime | None, Query(description="exclusive; now by default", examples=["2026-12-01T00:00:00Z"])
    ] = None,
    resolution: Annotated[Resolution, Query(description="length of the periods")] = Resolution.HOUR,
) -> Response:
    """What an instance used: bytes, requests, storage, throttled time, peaks, and the 95th percentile.

    At most 31 days by five minutes, 366 by hour, 1,830 by day."""
    now_ms = epoch_ms()
    span = span_of(start, to, resolution, now_ms)
    if not isinstance(span, Span):
        raise Invalid(span)
    rows, percentiles = await asyncio.gather(
        plane.usage.rows(found.id, span, resolution), plane.usage.percentiles(found.id, span)
    )
    view = _view(found, span, resolution, rows, percentiles, now_ms)
    if wanted is Format.CSV:
        name = f"usage-{found.name}-{span.first_day}-{span.last_day}-{resolution.value}.csv"
        return csv_answer(name, _COLUMNS, (_csv_row(one) for one in view.items))
    return json_answer(view)


def _view(
    found: Instance,
    span: Span,
    resolution: Resolution,
    rows: Sequence[Row] | None,
    percentiles: Percentiles | None,
    now_ms: int,
) -> UsageView:
    return UsageView(
        available=rows is not None,
        hint=NO_USAGE if rows is None else None,
        instance_id=found.id,
        tenant=found.tenant,
        name=found.name,
        resolution=resolution,
        from_=at(span.from_ms),
        to=at(span.to_ms),
        items=[_period(row, resolution.period_ms, now_ms) for row in rows or ()],
        totals=None if rows is None else _totals(rows),
        p95=None
        if percentiles is None
        else P95(
            produce_bytes_per_s=percentiles.produce_bytes_per_s,
            consume_bytes_per_s=percentiles.consume_bytes_per_s,
        ),
    )


def _period(row: Row, period_ms: int, now_ms: int) -> UsagePeriod:
    at_ms = row["at_s"] * 1000
    expected_ms = row["expected_ms"]
    state = row.get("state")
    return UsagePeriod(
        at=at(at_ms),
        **{name: row[name] for name in _SUMS},
        stored_bytes_avg=int(row["stored_byte_ms"]) // period_ms if at_ms + period_ms <= now_ms else None,
        gb_hours=float(_gb_hours(row["stored_byte_ms"])),
        produce_peak_bytes_per_s=row["produce_peak_5m_bytes_per_s"],
        consume_peak_bytes_per_s=row["consume_peak_5m_bytes_per_s"],
        recovered_bytes=row["produce_recovered_bytes"] + row["consume_recovered_bytes"],
        completeness=round(row["covered_ms"] / expected_ms, 4) if expected_ms else None,
        estimated=row["estimated"],
        state=None if state is None else PeriodState(state),
    )


def _totals(rows: Sequence[Row]) -> UsageTotals:
    sums: dict[str, Any] = {name: sum(row[name] for row in rows) for name in _SUMS}
    stored_byte_ms = sum((Decimal(row["stored_byte_ms"]) for row in rows), Decimal(0))
    estimated = any(row["estimated"] for row in rows)
    return UsageTotals(**sums, gb_hours=f"{_gb_hours(stored_byte_ms):f}", estimated=estimated)


def _gb_hours(stored_byte_ms: Decimal) -> Decimal:
    return (Decimal(stored_byte_ms) / (GIB * HOUR_MS)).quantize(Decimal("0.000001"))


def _csv_row(period: UsagePeriod) -> list[object]:
    values = [getattr(period, name) for name in _COLUMNS]
    return [f"{value:%Y-%m-%dT%H:%M:%SZ}" if isinstance(value, datetime) else value for value in values]
