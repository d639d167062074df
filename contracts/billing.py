"""Rows of the tables of usage and bills, as the console shows them.

Quantities are whole numbers (bytes, byte-milliseconds, milliseconds, counts) until the last step of a bill.
GB is 10^9 bytes, MiB 2^20. Times are UTC, `day` and `month` those of UTC. Amounts are whole minor units
(cents) of the bill's currency.
"""

from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Final

import msgspec

USAGE_5M: Final = "usage_5m"
USAGE_HOUR: Final = "usage_hour"
USAGE_DAY: Final = "usage_day"
PRICE_BOOK: Final = "price_book"
BILL: Final = "bill"
BILL_LINE: Final = "bill_line"
ADJUSTMENT: Final = "adjustment"

SLOT_MS: Final = 300_000
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 86_400_000
SLOTS_PER_DAY: Final = DAY_MS // SLOT_MS
MIB: Final = 2**20


class PeriodState(StrEnum):
    """Whether an hour or a day of one instance is complete."""

    OPEN = "open"
    """Not over yet, or reports of it are missing."""
    COMPLETE = "complete"
    """Over, and every live point reported all of it."""


class BillState(StrEnum):
    """How far the bill of one instance and month is."""

    OPEN = "open"
    """Follows usage."""
    CLOSING = "closing"
    """Versions of usage and prices are chosen, its lines are being written."""
    CLOSED = "closed"
    """Never changes again: what comes later is an adjustment on a later bill."""


class Dimension(StrEnum):
    """What is billed."""

    PRODUCE = "produce"
    """GB produced."""
    CONSUME = "consume"
    """GB consumed."""
    REQUESTS = "requests"
    """Million produce and fetch requests."""
    STORAGE = "storage"
    """GB-hours stored: the integral over time."""
    BANDWIDTH_P95 = "bandwidth_p95"
    """MiB/s, 95th percentile of the month's 5-minute averages."""
    PROVISIONED = "provisioned"
    """MiB/s-hours of the limits, produce and consume together, while the instance existed."""


class UsageQuantities(msgspec.Struct, frozen=True, kw_only=True):
    """What one instance used in a period, over all points."""

    instance_id: str
    day: date
    produce_bytes: int
    consume_bytes: int
    produce_requests: int
    consume_requests: int
    refused: int
    """Produce requests refused because the instance was full."""
    produce_throttled_ms: int
    """Summed over points: with three of them at most three times the period."""
    consume_throttled_ms: int
    blocked_ms: int
    stored_byte_ms: Decimal
    """The integral of stored bytes: divided by the period it is the average, by GB and hours GB-hours."""
    produce_peak_1m_bytes_per_s: int
    """The largest 1-minute average, summed over points first."""
    consume_peak_1m_bytes_per_s: int
    produce_limit_bytes_per_s: int
    """The largest limit in force."""
    consume_limit_bytes_per_s: int
    capacity_bytes: int
    produce_recovered_bytes: int
    """Part of `produce_bytes` whose record was lost: known from later totals, its times are estimated."""
    consume_recovered_bytes: int
    records: int
    """Interval records that begin in the period."""
    expected_ms: int
    """Time of live points: what should have been reported."""
    covered_ms: int
    """Time that was reported: the period's completeness is covered over expected."""
    estimated: bool
    """Reports of some of it are missing."""


class UsageSlot(UsageQuantities, frozen=True, kw_only=True):
    """`usage_5m`: five minutes. A slot without a row is one of zeros."""

    slot_start: datetime


class UsageHour(UsageQuantities, frozen=True, kw_only=True):
    """`usage_hour`."""

    hour_start: datetime
    produce_peak_5m_bytes_per_s: int
    """The largest 5-minute average, summed over points first."""
    consume_peak_5m_bytes_per_s: int
    state: PeriodState


class UsageDay(UsageQuantities, frozen=True, kw_only=True):
    """`usage_day`."""

    month: str
    """`2026-11`."""
    produce_peak_5m_bytes_per_s: int
    consume_peak_5m_bytes_per_s: int
    hours: int
    """Hours with usage."""
    hours_complete: int
    state: PeriodState


class PriceBook(msgspec.Struct, frozen=True, kw_only=True):
    """`price_book`: one version of the prices. The newest one in effect on a month's first day holds."""

    version: int
    effective_from: date
    """The first day of a month."""
    currency: str
    minor_unit_digits: int
    """2: amounts are cents."""
    text: str
    """The file, as it was set."""
    set_at_ms: int


class BillLine(msgspec.Struct, frozen=True, kw_only=True):
    """`bill_line`: one dimension of a bill, keyed by instance, month, dimension and price version."""

    instance_id: str
    month: str
    """`2026-11`."""
    dimension: Dimension
    price_version: int
    usage_version: int
    """The version of `usage_5m`: a line belongs to its bill when both name the same one."""
    base_quantity: Decimal
    """Whole bytes, byte-ms, requests, or bytes in five minutes (95th percentile)."""
    quantity: Decimal
    """In `unit`, six places, half-even."""
    unit: str
    """`GB`, `GB-hours`, `million requests`, `MiB/s`, `MiB/s-hours`."""
    amount_minor: int
    currency: str
    detail: str
    """How the amount came about, tier by tier, for people."""


class Bill(msgspec.Struct, frozen=True, kw_only=True):
    """`bill`: one instance and month."""

    instance_id: str
    month: str
    state: BillState
    currency: str
    minor_unit_digits: int
    price_version: int
    usage_version: int
    """Version of `usage_5m` that it was made from: together they reproduce it."""
    lines_minor: int
    adjustments_minor: int
    total_minor: int
    produce_p95_bytes_per_s: int
    """95th percentile of the month's 5-minute averages: nearest rank, slots without a row are zeros."""
    consume_p95_bytes_per_s: int
    expected_ms: int
    covered_ms: int
    gaps: str
    """Hours with missing reports, itemised: `2026-11-03T04:00Z 120 s, ...`; empty when complete."""
    hold_reason: str
    """Why it cannot be closed, such as a dimension without a price; empty otherwise."""
    revision: int
    """Grows with each change."""
    updated_at_ms: int
    closed_at_ms: int
    """0 while it is not closed."""


class Adjustment(msgspec.Struct, frozen=True, kw_only=True):
    """`adjustment`: what a closed month turned out to be more or less, on a later month's bill."""

    id: str
    """`instance/month/dimension/usage_version`."""
    instance_id: str
    month: str
    """The service period that it corrects."""
    bill_month: str
    """The bill that it is on."""
    dimension: Dimension
    base_quantity_delta: Decimal
    quantity_delta: Decimal
    unit: str
    amount_delta_minor: int
    """The month's amount as it is now, less what was billed and adjusted before."""
    currency: str
    price_version: int
    usage_version: int
    reason: str
    source_batch: int
    """The newest batch of reports (`usage_raw.ingest_batch`) that is in it."""
    created_at_ms: int
