"""Rows of `advice` from what was seen of an instance. Pure."""

import datetime
from typing import Any, Final, NamedTuple

from contracts.advice import Action, AdviceRow, Metric, Model, Urgency
from contracts.quota import BYTE_DIRECTIONS, Direction
from pipeline.advice.counterfactual import Billed, Bills, with_rates
from pipeline.advice.judging.judgement import Bought, Judgement, Kept, Rated, judge
from pipeline.advice.judging.skewed import Moves

Row = dict[str, Any]
_NO_FORECAST: Final[Row] = {
    "model": Model.NONE,
    "history_hours": 0,
    "p995": None,
    "peak": 0,
    "trend_per_day": None,
    "days_to_full": None,
    "days_to_full_low": None,
    "days_to_full_high": None,
}
_NO_SKEW: Final[Row] = {"usable_share": None, "throttled_total_ms": 0}


class Seen(NamedTuple):
    """Rows of `forecast` and `skew` of one instance, their lists left out; empty where there are none."""

    forecasts: dict[Metric, Row]
    skews: dict[Direction, Row]
    beside: dict[str, int]
    """`stored_bytes` now, and `blocked_ms` of the last 24 h."""


def advice_row(
    bought: Bought, seen: Seen, moves: Moves, billed: Billed | None, run_date: datetime.date, now_ms: int
) -> AdviceRow:
    """All that is advised of one instance."""
    produce, consume = (_rated(seen, direction) for direction in BYTE_DIRECTIONS)
    kept = _kept(seen)
    history = seen.forecasts.get(Metric.STORED, _NO_FORECAST)["history_hours"]
    found = judge(bought, history, produce, consume, kept)
    bills = _bills(bought, found, billed)
    urgency = found.urgency
    if moves.rows and urgency is not Urgency.NOW:
        urgency = Urgency.SOON
    return AdviceRow(
        run_date=run_date,
        instance_id=bought.instance_id,
        computed_at_ms=now_ms,
        history_hours=history,
        is_enough_history=kept.model is not Model.NONE,
        urgency=urgency,
        reason=found.reason + _bill_reason(bills),
        produce_rate_bytes_per_s=bought.produce_rate_bytes_per_s,
        consume_rate_bytes_per_s=bought.consume_rate_bytes_per_s,
        capacity_bytes=bought.capacity_bytes,
        produce_peak_bytes_per_s=produce.peak,
        consume_peak_bytes_per_s=consume.peak,
        stored_bytes=kept.stored_bytes,
        produce_throttled_ms=produce.throttled_ms,
        consume_throttled_ms=consume.throttled_ms,
        blocked_ms=kept.blocked_ms,
        produce_need_bytes_per_s=produce.need,
        consume_need_bytes_per_s=consume.need,
        capacity_need_bytes=kept.need,
        recommended_produce_rate_bytes_per_s=found.produce_rate_bytes_per_s,
        recommended_consume_rate_bytes_per_s=found.consume_rate_bytes_per_s,
        recommended_capacity_bytes=found.capacity_bytes,
        produce_action=found.produce,
        consume_action=found.consume,
        capacity_action=found.capacity,
        growth_bytes_per_day=kept.growth_bytes_per_day,
        days_to_full=kept.days_to_full,
        days_to_full_low=kept.days_to_full_low,
        days_to_full_high=kept.days_to_full_high,
        produce_usable_share=seen.skews.get(Direction.PRODUCE, _NO_SKEW)["usable_share"],
        consume_usable_share=seen.skews.get(Direction.CONSUME, _NO_SKEW)["usable_share"],
        moves=len(moves.rows),
        moves_reason=moves.reason,
        bill_now_minor=bills and bills.now_minor,
        bill_recommended_minor=bills and bills.advised_minor,
        currency=bills and bills.currency,
    )


def _bills(bought: Bought, found: Judgement, billed: Billed | None) -> Bills | None:
    produce, consume = found.produce_rate_bytes_per_s, found.consume_rate_bytes_per_s
    if found.produce is Action.KEEP:
        produce = bought.produce_rate_bytes_per_s
    if found.consume is Action.KEEP:
        consume = bought.consume_rate_bytes_per_s
    return None if billed is None else with_rates(billed, bought, produce, consume)


def _bill_reason(bills: Bills | None) -> str:
    if bills is None or bills.now_minor == bills.advised_minor:
        return ""
    advised, now = bills.amount(bills.advised_minor), bills.amount(bills.now_minor)
    return f"; with these rates this month's bill would be {advised} so far, instead of {now}"


def _rated(seen: Seen, direction: Direction) -> Rated:
    row = seen.forecasts.get(Metric(direction), _NO_FORECAST)
    skew = seen.skews.get(direction, _NO_SKEW)
    return Rated(
        Model(row["model"]), row["p995"], row["peak"], skew["throttled_total_ms"], row["trend_per_day"]
    )


def _kept(seen: Seen) -> Kept:
    row = seen.forecasts.get(Metric.STORED, _NO_FORECAST)
    stored_bytes = seen.beside.get("stored_bytes", 0)
    days = (row["days_to_full"], row["days_to_full_low"], row["days_to_full_high"])
    return Kept(
        Model(row["model"]),
        row["p995"],
        stored_bytes,
        row["peak"],
        seen.beside.get("blocked_ms", 0),
        row["trend_per_day"],
        *days,
    )
