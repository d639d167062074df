"""What this month costs an instance so far, and will cost at its end; the bill settles it."""

from typing import Annotated, Final

from fastapi import Query
from fastapi.responses import Response

from runtime.clock import epoch_ms
from tenants.api.answers import documented, json_answer
from tenants.api.context import Billed, Found, Plane, at
from tenants.api.routers import api_router
from tenants.api.usage_models import CostLineView, CostView, LeftOut, LimitCostView
from tenants.rules import costs
from tenants.rules.costs import CostLine, Lived, Month
from tenants.rules.lifecycle import RATE_MAX_BYTES_PER_S, RATE_MIN_BYTES_PER_S, State
from tenants.usecases.costs import MonthCosts

router = api_router("/v1/instances/{instance}", "bills")
_GONE: Final = (State.DELETED, State.PURGING, State.PURGED)
NO_COSTS: Final = (
    "nothing is known yet: hours are counted a minute or two after they began, "
    "and have a price from the month on in which the price book is in effect"
)
NO_PRICES: Final = "no version of the price book is in effect this month"


def _asked(which: str) -> object:
    return Query(
        ge=RATE_MIN_BYTES_PER_S,
        le=RATE_MAX_BYTES_PER_S,
        description=f"the {which} rate that is asked about; the present one by default",
        examples=[30_000_000],
    )


@router.get("/costs", responses=documented(CostView), response_class=Response)
async def instance_costs(plane: Plane, found: Billed) -> Response:
    """What this month (UTC) costs so far, and at its end if things go on as in the last seven days.

    Limits are taken to have been, and to stay, as they are now. What cannot be told before the pipeline has
    settled usage is left out, and named."""
    now_ms = epoch_ms()
    rates = found.produce_rate_bytes_per_s + found.consume_rate_bytes_per_s
    lived = Lived(found.created_at_ms, found.state not in _GONE, rates)
    told = await plane.costs.of_month(found.id, lived, now_ms)
    if told is None:
        return json_answer(_nothing(found.id, _named(costs.month_of(now_ms))))
    return json_answer(_view(found.id, told))


@router.get("/costs/limits", responses=documented(LimitCostView), response_class=Response)
async def limit_costs(
    plane: Plane,
    found: Found,
    produce_rate_bytes_per_s: Annotated[int | None, _asked("produce")] = None,
    consume_rate_bytes_per_s: Annotated[int | None, _asked("consume")] = None,
) -> Response:
    """What its rates cost by themselves in a whole month, now and with others, before anything is changed.

    What is used of them is charged beside, and capacity by what is stored."""
    month = costs.month_of(epoch_ms())
    held = await plane.costs.prices_of(month)
    now = found.produce_rate_bytes_per_s + found.consume_rate_bytes_per_s
    then = (produce_rate_bytes_per_s or found.produce_rate_bytes_per_s) + (
        consume_rate_bytes_per_s or found.consume_rate_bytes_per_s
    )
    return json_answer(
        LimitCostView(
            available=held is not None,
            hint=NO_PRICES if held is None else None,
            instance_id=found.id,
            month=_named(month),
            currency=None if held is None else held.prices.currency,
            minor_unit_digits=None if held is None else held.prices.minor_unit_digits,
            price_version=None if held is None else held.version,
            now_minor=None if held is None else costs.limits_minor(held.prices, month, now),
            then_minor=None if held is None else costs.limits_minor(held.prices, month, then),
        )
    )


def _named(month: Month) -> str:
    return f"{month.first_day:%Y-%m}"


def _nothing(instance_id: str, month: str) -> CostView:
    return CostView(
        available=False,
        hint=NO_COSTS,
        instance_id=instance_id,
        month=month,
        provisional=True,
        known_until=None,
        currency=None,
        minor_unit_digits=None,
        price_version=None,
        so_far_minor=None,
        projected_minor=None,
        lines=[],
        left_out=[],
    )


def _view(instance_id: str, told: MonthCosts) -> CostView:
    return CostView(
        available=True,
        hint=None,
        instance_id=instance_id,
        month=_named(told.month),
        provisional=True,
        known_until=at(told.costs.known_until_ms),
        currency=told.prices.currency,
        minor_unit_digits=told.prices.minor_unit_digits,
        price_version=told.price_version,
        so_far_minor=told.costs.so_far_minor,
        projected_minor=told.costs.projected_minor,
        lines=[_line(one) for one in told.costs.lines],
        left_out=[LeftOut(dimension=each, cause=why, reason=why.says) for each, why in told.costs.left_out],
    )


def _line(line: CostLine) -> CostLineView:
    so_far, projected = line
    return CostLineView(
        dimension=so_far.dimension,
        unit=so_far.unit,
        quantity=f"{so_far.quantity:f}",
        amount_minor=so_far.amount_minor,
        projected_quantity=None if projected is None else f"{projected.quantity:f}",
        projected_minor=None if projected is None else projected.amount_minor,
    )
