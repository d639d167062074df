"""Rows of usage, bills and advice to write into tables."""

import datetime as dt
from decimal import Decimal
from typing import Any

from contracts.advice import (
    Action,
    AdviceRow,
    ForecastRow,
    Metric,
    Model,
    MoveRow,
    PointShare,
    SkewRow,
    Urgency,
)
from contracts.billing import (
    HOUR_MS,
    Adjustment,
    Bill,
    BillLine,
    BillState,
    Dimension,
    PeriodState,
    UsageDay,
    UsageHour,
    UsageSlot,
)

GB = 10**9
MONTH = "2026-10"


def _quantities(instance_id: str, at: dt.datetime, produce_bytes: int, period_ms: int) -> dict[str, Any]:
    return {
        "instance_id": instance_id,
        "day": at.date(),
        "produce_bytes": produce_bytes,
        "consume_bytes": 2 * produce_bytes,
        "produce_requests": 10,
        "consume_requests": 20,
        "refused": 1,
        "produce_throttled_ms": 500,
        "consume_throttled_ms": 0,
        "blocked_ms": 0,
        "stored_byte_ms": Decimal(GB * period_ms),
        "produce_peak_1m_bytes_per_s": produce_bytes,
        "consume_peak_1m_bytes_per_s": produce_bytes,
        "produce_limit_bytes_per_s": 10**6,
        "consume_limit_bytes_per_s": 10**6,
        "capacity_bytes": 10**9,
        "produce_recovered_bytes": 0,
        "consume_recovered_bytes": 0,
        "records": 1,
        "expected_ms": period_ms,
        "covered_ms": period_ms,
        "estimated": False,
    }


def slot(instance_id: str, at: dt.datetime, produce_bytes: int, **changes: Any) -> UsageSlot:
    fields = _quantities(instance_id, at, produce_bytes, 300_000) | {"slot_start": at} | changes
    return UsageSlot(**fields)


def hour(instance_id: str, at: dt.datetime, produce_bytes: int, **changes: Any) -> UsageHour:
    more = {
        "hour_start": at,
        "produce_peak_5m_bytes_per_s": produce_bytes // 60,
        "consume_peak_5m_bytes_per_s": produce_bytes // 30,
        "state": PeriodState.COMPLETE,
    }
    return UsageHour(**(_quantities(instance_id, at, produce_bytes, HOUR_MS) | more | changes))


def day(instance_id: str, at: dt.datetime, produce_bytes: int, **changes: Any) -> UsageDay:
    more = {
        "produce_peak_5m_bytes_per_s": produce_bytes // 60,
        "consume_peak_5m_bytes_per_s": produce_bytes // 30,
        "month": f"{at:%Y-%m}",
        "hours": 24,
        "hours_complete": 24,
        "state": PeriodState.COMPLETE,
    }
    return UsageDay(**(_quantities(instance_id, at, produce_bytes, 24 * HOUR_MS) | more | changes))


def bill(instance_id: str, month: str = MONTH, **changes: Any) -> Bill:
    fields = {
        "instance_id": instance_id,
        "month": month,
        "state": BillState.CLOSED,
        "currency": "USD",
        "minor_unit_digits": 2,
        "price_version": 1,
        "usage_version": 7,
        "lines_minor": 12_345,
        "adjustments_minor": -45,
        "total_minor": 12_300,
        "expected_ms": 1000,
        "covered_ms": 1000,
        "produce_p95_bytes_per_s": 1000,
        "consume_p95_bytes_per_s": 2000,
        "gaps": "",
        "hold_reason": "",
        "revision": 3,
        "updated_at_ms": 1_793_600_000_000,
        "closed_at_ms": 1_793_600_000_000,
    }
    return Bill(**(fields | changes))


def line(
    instance_id: str, dimension: Dimension, amount_minor: int, month: str = MONTH, **changes: Any
) -> BillLine:
    fields = {
        "instance_id": instance_id,
        "month": month,
        "dimension": dimension,
        "price_version": 1,
        "usage_version": 7,
        "base_quantity": Decimal(2 * GB),
        "quantity": Decimal("2.000000"),
        "unit": "GB",
        "amount_minor": amount_minor,
        "currency": "USD",
        "detail": "2 at 0.05",
    }
    return BillLine(**(fields | changes))


def adjustment(instance_id: str, month: str, bill_month: str, delta_minor: int) -> Adjustment:
    return Adjustment(
        id=f"{instance_id}/{month}/produce/8",
        instance_id=instance_id,
        month=month,
        bill_month=bill_month,
        dimension=Dimension.PRODUCE,
        base_quantity_delta=Decimal(-GB),
        quantity_delta=Decimal("-1.000000"),
        unit="GB",
        amount_delta_minor=delta_minor,
        currency="USD",
        price_version=1,
        usage_version=8,
        reason="late reports",
        source_batch=4,
        created_at_ms=1_793_600_000_000,
    )


def advice(instance_id: str, run_date: dt.date, **changes: Any) -> AdviceRow:
    fields = {
        "run_date": run_date,
        "instance_id": instance_id,
        "computed_at_ms": 1_793_600_000_000,
        "history_hours": 500,
        "is_enough_history": True,
        "urgency": Urgency.SOON,
        "reason": "peaks of 1.2 MB/s need 2 MB/s",
        "produce_rate_bytes_per_s": 1_000_000,
        "consume_rate_bytes_per_s": 2_000_000,
        "capacity_bytes": 10**9,
        "produce_peak_bytes_per_s": 1_200_000,
        "consume_peak_bytes_per_s": 1_000_000,
        "stored_bytes": 5 * 10**8,
        "produce_throttled_ms": 60_000,
        "consume_throttled_ms": 0,
        "blocked_ms": 0,
        "produce_need_bytes_per_s": 1_300_000,
        "consume_need_bytes_per_s": 1_000_000,
        "capacity_need_bytes": 6 * 10**8,
        "recommended_produce_rate_bytes_per_s": 2_000_000,
        "recommended_consume_rate_bytes_per_s": 2_000_000,
        "recommended_capacity_bytes": 10**9,
        "produce_action": Action.GROW,
        "consume_action": Action.KEEP,
        "capacity_action": Action.KEEP,
        "growth_bytes_per_day": 10**7,
        "days_to_full": 50.0,
        "days_to_full_low": 40.0,
        "days_to_full_high": None,
        "produce_usable_share": 0.55,
        "consume_usable_share": None,
        "moves": 1,
        "moves_reason": "broker 1 carries most of it",
        "bill_now_minor": 1000,
        "bill_recommended_minor": 1500,
        "currency": "USD",
    }
    return AdviceRow(**(fields | changes))


def skew(instance_id: str, run_date: dt.date, direction: str = "produce") -> SkewRow:
    return SkewRow(
        run_date=run_date,
        instance_id=instance_id,
        direction=direction,
        window_ms=300_000,
        at_ms=[1_793_600_000_000, 1_793_600_300_000],
        rate_bytes_per_s=[5, 6],
        p_ratio=[0.5, None],
        usable_share_history=[0.75, None],
        throttled_ms=[0, 100],
        p_ratio_min=0.5,
        share_of_time_uneven=0.25,
        usable_share=0.55,
        throttled_total_ms=100,
        points=[
            PointShare(point="broker-1", node_id=1, partitions_led=3, bytes=900, throttled_ms=100),
            PointShare(point="broker-2", node_id=2, partitions_led=3, bytes=100, throttled_ms=0),
        ],
    )


def forecast(instance_id: str, run_date: dt.date, metric: Metric = Metric.PRODUCE) -> ForecastRow:
    return ForecastRow(
        run_date=run_date,
        instance_id=instance_id,
        metric=metric,
        model=Model.SEASONAL_NAIVE,
        history_hours=500,
        known_hours=499,
        start_ms=1_793_602_800_000,
        expected=[10] * 168,
        low=[5] * 168,
        high=[20] * 168,
        p995=19,
        trend_per_day=0,
        mae=1.5,
        mae_seasonal_naive=1.5,
        peak=19,
        days_to_full=None,
        days_to_full_low=None,
        days_to_full_high=None,
    )


def move(instance_id: str, run_date: dt.date, step: int = 1) -> MoveRow:
    return MoveRow(
        run_date=run_date,
        instance_id=instance_id,
        topic=f"{instance_id}.orders",
        partition=step,
        from_node_id=1,
        to_node_id=2,
        replicas=[2, 1],
        is_leadership_only=True,
        moved_bytes=0,
        load_share=0.4,
        usable_share_before=0.55,
        usable_share_after=0.9,
        step=step,
    )
