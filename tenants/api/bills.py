"""Bills: of an instance by month, and of a tenant over all its instances."""

import asyncio
from collections.abc import Iterable, Sequence
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Final

from fastapi import Depends, Path, Query, Request
from fastapi.responses import Response

from contracts.billing import Adjustment, Bill, BillLine, BillState
from runtime.clock import epoch_ms
from tenants.api.answers import Format, Wanted, accepted, csv_answer, documented, json_answer
from tenants.api.context import Asker, Billed, Plane, Tenant, at, home_or_all
from tenants.api.routers import api_router
from tenants.api.usage_models import (
    AdjustmentView,
    BillDetailView,
    BilledInstance,
    BillList,
    BillOverview,
    BillView,
    CurrencyTotal,
    LineView,
)
from tenants.rules import focus
from tenants.rules.errors import NotFound, Unavailable
from tenants.rules.money import major_units
from tenants.usecases.bills import BillDetail

router = api_router("/v1", "bills")
NO_BILLS: Final = "there are no bills yet: run `portico pipeline meter run`"
_MONTH: Final = r"^[0-9]{4}-(0[1-9]|1[0-2])$"
MonthRef = Annotated[str, Path(pattern=_MONTH, description="of UTC", examples=["2026-11"])]
_LIST_COLUMNS: Final = ("instance_id", "name", "month", "state", "currency", "total", "estimated")
_DETAIL_COLUMNS: Final = (
    "instance_id",
    "name",
    "bill_month",
    "kind",
    "month",
    "dimension",
    "quantity",
    "unit",
    "currency",
    "amount",
    "detail",
)


class BillFormat(StrEnum):
    """The format of bills that are told line by line."""

    JSON = "json"
    CSV = "csv"
    FOCUS = "focus"
    """CSV with the columns of FOCUS 1.2."""


async def _bill_format_of(
    request: Request,
    format: Annotated[
        BillFormat | None,
        Query(description="`csv` or `focus` (FOCUS 1.2, as CSV) to download; else by the Accept header"),
    ] = None,
) -> BillFormat:
    """What the caller wants: by the query, else by the Accept header."""
    return BillFormat(accepted(request)) if format is None else format


WantedOfBills = Annotated[BillFormat, Depends(_bill_format_of)]


@router.get(
    "/instances/{instance}/bills", responses=documented(BillList, as_csv=True), response_class=Response
)
async def instance_bills(plane: Plane, found: Billed, wanted: Wanted) -> Response:
    """The bills of an instance, the newest month first. The running month's follows usage."""
    bills = await plane.bills.of_instance(found.id)
    items = [BillView(**_fields(one, found.tenant, found.name)) for one in bills or ()]
    if wanted is Format.CSV:
        return csv_answer(f"bills-{found.name}.csv", _LIST_COLUMNS, map(_list_row, items))
    return json_answer(BillList(available=bills is not None, hint=_hint(bills), items=items))


@router.get(
    "/instances/{instance}/bills/{month}",
    responses=documented(BillDetailView, as_csv=True),
    response_class=Response,
)
async def instance_bill(plane: Plane, found: Billed, month: MonthRef, wanted: WantedOfBills) -> Response:
    """One bill with its lines and adjustments."""
    detail = await plane.bills.detail(found.id, month)
    if detail is None:
        raise NotFound(f"there is no bill of {month}")
    if wanted is BillFormat.FOCUS:
        named = [(detail, found.tenant, found.name)]
        return await asyncio.to_thread(_focus_answer, f"focus-{found.name}-{month}.csv", named)
    if wanted is BillFormat.CSV:
        rows = _detail_rows(detail, found.name)
        return csv_answer(f"bill-{found.name}-{month}.csv", _DETAIL_COLUMNS, rows)
    return json_answer(
        BillDetailView(
            **_fields(detail.bill, found.tenant, found.name),
            lines=[_line_view(one) for one in detail.lines],
            adjustments=[_adjustment_view(one) for one in detail.adjustments],
            corrections=[_adjustment_view(one) for one in detail.corrections],
        )
    )


@router.get("/bills", responses=documented(BillOverview, as_csv=True), response_class=Response)
async def bills(
    plane: Plane,
    caller: Asker,
    wanted: WantedOfBills,
    tenant: Tenant = None,
    month: Annotated[
        str | None,
        Query(pattern=_MONTH, description="the newest with bills by default", examples=["2026-11"]),
    ] = None,
) -> Response:
    """The bills of all instances of a tenant in a month, deleted ones included. Operators: of all tenants
    with `?tenant=*`."""
    home = await home_or_all(plane, caller, tenant)
    names = await asyncio.to_thread(plane.instances.billed, home)
    by_month = await plane.bills.months()
    months = sorted((each for each, ids in (by_month or {}).items() if ids & names.keys()), reverse=True)
    shown = month or next(iter(months), f"{at(epoch_ms()):%Y-%m}")
    if wanted is BillFormat.FOCUS:
        details = await plane.bills.details(shown, names.keys())
        named = [(one, name.tenant, name.name) for one in details for name in (names[one.bill.instance_id],)]
        named.sort(key=lambda each: (*each[1:], each[0].bill.instance_id))
        return await asyncio.to_thread(_focus_answer, f"focus-{shown}.csv", named)
    found = await plane.bills.of_month(shown) or []
    items = sorted(
        (
            BilledInstance(**_fields(one, name.tenant, name.name), deleted=not name.is_visible)
            for one in found
            if (name := names.get(one.instance_id)) is not None
        ),
        key=lambda one: (one.tenant, one.name, one.instance_id),
    )
    if wanted is BillFormat.CSV:
        rows = ((one.tenant, *_list_row(one)) for one in items)
        return csv_answer(f"bills-{shown}.csv", ("tenant", *_LIST_COLUMNS), rows)
    overview = BillOverview(
        available=by_month is not None,
        hint=_hint(by_month),
        month=shown,
        months=months,
        totals=_totals(items),
        items=items,
    )
    return json_answer(overview)


def _focus_answer(file_name: str, bills: Sequence[tuple[BillDetail, str, str]]) -> Response:
    """Bills with tenant and name of their instances. Raises: Unavailable where one does not add up: somebody
    would book it."""
    for detail, _, name in bills:
        if not detail.adds_up:
            raise Unavailable(f"the bill of {name} is being written: try again in a minute")
    rows = (
        row
        for detail, tenant, name in bills
        for row in focus.focus_rows(detail.bill, detail.lines, detail.adjustments, tenant=tenant, name=name)
    )
    return csv_answer(file_name, focus.COLUMNS, rows)


def _hint(found: object) -> str | None:
    return NO_BILLS if found is None else None


def _fields(bill: Bill, tenant: str, name: str) -> dict[str, Any]:
    is_complete = bill.covered_ms >= bill.expected_ms and not bill.gaps
    return {
        "instance_id": bill.instance_id,
        "tenant": tenant,
        "name": name,
        "month": bill.month,
        "state": bill.state,
        "currency": bill.currency,
        "minor_unit_digits": bill.minor_unit_digits,
        "lines_minor": bill.lines_minor,
        "adjustments_minor": bill.adjustments_minor,
        "total_minor": bill.total_minor,
        "estimated": bill.state is not BillState.CLOSED or not is_complete,
        "completeness": round(bill.covered_ms / bill.expected_ms, 4) if bill.expected_ms else None,
        "produce_p95_bytes_per_s": bill.produce_p95_bytes_per_s,
        "consume_p95_bytes_per_s": bill.consume_p95_bytes_per_s,
        "gaps": bill.gaps,
        "hold_reason": bill.hold_reason,
        "price_version": bill.price_version,
        "usage_version": bill.usage_version,
        "updated_at": at(bill.updated_at_ms),
        "closed_at": at(bill.closed_at_ms) if bill.closed_at_ms else None,
    }


def _line_view(line: BillLine) -> LineView:
    return LineView(
        dimension=line.dimension,
        quantity=f"{line.quantity:f}",
        unit=line.unit,
        amount_minor=line.amount_minor,
        detail=line.detail,
    )


def _adjustment_view(adjustment: Adjustment) -> AdjustmentView:
    return AdjustmentView(
        month=adjustment.month,
        bill_month=adjustment.bill_month,
        dimension=adjustment.dimension,
        quantity_delta=f"{adjustment.quantity_delta:f}",
        unit=adjustment.unit,
        amount_delta_minor=adjustment.amount_delta_minor,
        reason=adjustment.reason,
        created_at=at(adjustment.created_at_ms),
    )


def _totals(items: Iterable[BilledInstance]) -> list[CurrencyTotal]:
    by_currency: dict[tuple[str, int], list[BilledInstance]] = {}
    for one in items:
        by_currency.setdefault((one.currency, one.minor_unit_digits), []).append(one)
    return [
        CurrencyTotal(
            currency=currency,
            minor_unit_digits=digits,
            total_minor=sum(one.total_minor for one in group),
            bills=len(group),
            estimated=any(one.estimated for one in group),
        )
        for (currency, digits), group in sorted(by_currency.items())
    ]


def _list_row(bill: BillView) -> tuple[object, ...]:
    total = major_units(bill.total_minor, bill.minor_unit_digits)
    return (bill.instance_id, bill.name, bill.month, bill.state.value, bill.currency, total, bill.estimated)


def _detail_rows(detail: BillDetail, name: str) -> Iterable[tuple[object, ...]]:
    bill = detail.bill

    def row(kind: str, month: str, what: tuple[str, Decimal | None, str], minor: int, about: str) -> Any:
        dimension, quantity, unit = what
        of = "" if quantity is None else f"{quantity:f}"
        amount = major_units(minor, bill.minor_unit_digits)
        head = (bill.instance_id, name, bill.month, kind, month)
        return (*head, dimension, of, unit, bill.currency, amount, about)

    for line in detail.lines:
        what = (line.dimension.value, line.quantity, line.unit)
        yield row("line", bill.month, what, line.amount_minor, line.detail)
    for one in detail.adjustments:
        what = (one.dimension.value, one.quantity_delta, one.unit)
        yield row("adjustment", one.month, what, one.amount_delta_minor, one.reason)
    yield row("total", bill.month, ("", None, ""), bill.total_minor, bill.state.value)
