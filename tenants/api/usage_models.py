"""What is shown of usage and bills. Amounts are whole minor units (cents) of the currency; GB are 10^9 bytes.

`available` false: the pipeline has written no such table; `hint` then says how to have it written.
"""

from datetime import datetime
from typing import Annotated

import msgspec

from contracts.billing import BillState, Dimension
from tenants.rules.costs import Why
from tenants.rules.usage_periods import Count, Resolution, UsagePeriod

Month = Annotated[str, msgspec.Meta(examples=["2026-11"])]
Currency = Annotated[str, msgspec.Meta(examples=["USD"])]
Quantity = Annotated[str, msgspec.Meta(description="exact decimal", examples=["12.345678"])]


class View(msgspec.Struct, frozen=True, kw_only=True):
    """An answer."""


class UsageTotals(View, frozen=True, kw_only=True):
    """Sums over all periods of an answer."""

    produce_bytes: Count
    consume_bytes: Count
    produce_requests: int
    consume_requests: int
    refused: int
    produce_throttled_ms: int
    consume_throttled_ms: int
    blocked_ms: int
    gb_hours: Quantity
    estimated: bool
    provisional: bool
    """Some of it is counted as reports came, and not settled by the pipeline yet: no bill has it so."""


class P95(View, frozen=True, kw_only=True):
    """95th percentile of five-minute averages by nearest rank, over every slot of what was asked for; a slot
    without usage, or still to come, counts as zero, as on a bill."""

    produce_bytes_per_s: Count
    consume_bytes_per_s: Count


class UsageView(View, frozen=True, kw_only=True, rename={"from_": "from"}):
    """GET /v1/instances/{id}/usage."""

    available: bool
    hint: str | None
    instance_id: Annotated[str, msgspec.Meta(examples=["iabcdefghijk"])]
    tenant: str
    name: str
    resolution: Resolution
    from_: datetime
    to: datetime
    items: list[UsagePeriod]
    """Oldest first. Five minutes that are not there were without usage; hours and days, unknown."""
    totals: UsageTotals | None
    p95: P95 | None
    """None for more than 31 days."""


class BillView(View, frozen=True, kw_only=True):
    """One instance and month."""

    instance_id: Annotated[str, msgspec.Meta(examples=["iabcdefghijk"])]
    tenant: str
    name: str
    month: Month
    state: BillState
    """`closed`: never changes again."""
    currency: Currency
    minor_unit_digits: Annotated[int, msgspec.Meta(examples=[2])]
    """2: amounts are cents."""
    lines_minor: int
    adjustments_minor: int
    total_minor: Annotated[int, msgspec.Meta(examples=[123_456])]
    estimated: bool
    """It is not closed, or reports are missing."""
    completeness: float | None
    produce_p95_bytes_per_s: int
    """95th percentile of the month's five-minute averages, those to come counted as zero."""
    consume_p95_bytes_per_s: int
    gaps: str
    """Hours with missing reports; empty when complete."""
    hold_reason: str
    """Why it cannot be closed; empty otherwise."""
    price_version: int
    usage_version: int
    updated_at: datetime
    closed_at: datetime | None


class BillList(View, frozen=True, kw_only=True):
    """GET /v1/instances/{id}/bills, the newest month first."""

    available: bool
    hint: str | None
    items: list[BillView]


class LineView(View, frozen=True, kw_only=True):
    """One dimension of a bill."""

    dimension: Dimension
    quantity: Quantity
    unit: Annotated[str, msgspec.Meta(examples=["GB"])]
    amount_minor: int
    detail: Annotated[str, msgspec.Meta(examples=["1000 at 0.05 + 12.5 at 0.04"])]
    """How the amount came about, tier by tier."""


class AdjustmentView(View, frozen=True, kw_only=True):
    """What a closed month turned out to be more or less."""

    month: Month
    """The one that it corrects."""
    bill_month: Month
    """The bill that it is on."""
    dimension: Dimension
    quantity_delta: Quantity
    unit: str
    amount_delta_minor: int
    reason: str
    created_at: datetime


class BillDetailView(BillView, frozen=True, kw_only=True):
    """GET /v1/instances/{id}/bills/{month}."""

    lines: list[LineView]
    adjustments: list[AdjustmentView]
    """On this bill, of earlier months."""
    corrections: list[AdjustmentView]
    """Corrections of this month, on later bills."""


class CostLineView(View, frozen=True, kw_only=True):
    """One dimension of what a month costs."""

    dimension: Dimension
    unit: Annotated[str, msgspec.Meta(examples=["GB"])]
    quantity: Quantity
    """So far."""
    amount_minor: int
    projected_quantity: Quantity | None
    """At the end of the month; null while less than an hour is known."""
    projected_minor: int | None
    """At the end of the month, in minor units of the currency; null while less than an hour is known."""


class LeftOut(View, frozen=True, kw_only=True):
    """What the costs lack that the bill will have."""

    dimension: Dimension
    cause: Why
    """Why it lacks it."""
    reason: str
    """The cause in a sentence."""


class CostView(View, frozen=True, kw_only=True):
    """GET /v1/instances/{id}/costs: this month so far and at its end, provisional; the bill settles it."""

    available: bool
    hint: str | None
    instance_id: Annotated[str, msgspec.Meta(examples=["iabcdefghijk"])]
    month: Month
    provisional: bool
    """Always."""
    known_until: datetime | None
    """Usage is counted so far; hours that are not known count as unused."""
    currency: Currency | None
    minor_unit_digits: int | None
    price_version: int | None
    """null: no price book is set, and the default holds."""
    so_far_minor: int | None
    """What its lines have cost, in minor units of the currency."""
    projected_minor: int | None
    """What they will have cost at the month's end, in minor units of the currency; null while less than an
    hour is known."""
    lines: list[CostLineView]
    """What it is made of."""
    left_out: list[LeftOut]
    """What the bill will have beside it."""


class LimitCostView(View, frozen=True, kw_only=True):
    """GET /v1/instances/{id}/costs/limits: what limits cost by themselves, whatever is used of them."""

    available: bool
    hint: str | None
    instance_id: Annotated[str, msgspec.Meta(examples=["iabcdefghijk"])]
    month: Month
    """The one that goes on, whose prices these are."""
    currency: Currency | None
    minor_unit_digits: int | None
    price_version: int | None
    """null: no price book is set, and the default holds."""
    now_minor: int | None
    """In a whole month with the limits of now, in minor units of the currency; null: they have no price."""
    then_minor: int | None
    """In a whole month with those that were asked about, in minor units of the currency; null: as above."""


class BilledInstance(BillView, frozen=True, kw_only=True):
    """A bill in the overview."""

    deleted: bool
    """The instance is gone; its bill is not."""


class CurrencyTotal(View, frozen=True, kw_only=True):
    """Sums of the bills in one currency."""

    currency: Currency
    minor_unit_digits: int
    total_minor: int
    bills: int
    estimated: bool


class BillOverview(View, frozen=True, kw_only=True):
    """GET /v1/bills: every instance of a tenant in one month."""

    available: bool
    hint: str | None
    month: Month
    months: list[Month]
    """Months with bills, the newest first."""
    totals: list[CurrencyTotal]
    items: list[BilledInstance]
