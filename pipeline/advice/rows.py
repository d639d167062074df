"""Rows of `advice` from what was seen of an instance. Pure."""

import datetime
from typing import NamedTuple

import msgspec

from contracts.advice import Action, AdviceRow, ForecastRow, Metric, Model, SkewRow, Urgency
from contracts.billing import HOUR_MS
from contracts.quota import BYTE_DIRECTIONS
from pipeline.advice.counterfactual import Billed, Bills, with_rates
from pipeline.advice.judging.hours import Forecasts
from pipeline.advice.judging.judgement import Bought, Judgement, Kept, Rated, judge
from pipeline.advice.judging.moves import Moves
from pipeline.advice.judging.skew import Balance
from pipeline.metering.amounts.calendar import day_at


class Seen(NamedTuple):
    """What was seen of one instance."""

    forecasts: Forecasts = Forecasts()
    balance: Balance = Balance()


def advice_row(
    bought: Bought, seen: Seen, billed: Billed | None, run_date: datetime.date, now_ms: int
) -> AdviceRow:
    """All that is advised of one instance but moves."""
    forecasts = {row.metric: row for row in seen.forecasts.rows}
    skews = {row.direction: row for row in seen.balance.rows}
    produce, consume = (
        _rated(forecasts.get(Metric(each.value)), skews.get(each.value)) for each in BYTE_DIRECTIONS
    )
    stored = forecasts.get(Metric.STORED)
    kept = _kept(stored, seen)
    full = kept.days_to_full(bought.capacity_bytes)
    history = stored.history_hours if stored else 0
    found = judge(bought, history, produce, consume, kept)
    bills = _bills(bought, found, billed)
    return AdviceRow(
        run_date=run_date,
        instance_id=bought.instance_id,
        computed_at_ms=now_ms,
        history_hours=history,
        is_enough_history=kept.model is not Model.NONE,
        urgency=found.urgency,
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
        days_to_full=full.expected,
        days_to_full_low=full.low,
        days_to_full_high=full.high,
        produce_usable_share=produce.usable_share,
        consume_usable_share=consume.usable_share,
        moves=0,
        moves_reason="",
        bill_now_minor=bills and bills.now_minor,
        bill_recommended_minor=bills and bills.advised_minor,
        currency=bills and bills.currency,
    )


def with_moves(row: AdviceRow, moves: Moves) -> AdviceRow:
    """With what to move; some day soon, where nothing is urgent."""
    urgency = Urgency.SOON if moves.rows and row.urgency is not Urgency.NOW else row.urgency
    return msgspec.structs.replace(row, urgency=urgency, moves=len(moves.rows), moves_reason=moves.reason)


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


def _rated(forecast: ForecastRow | None, skew: SkewRow | None) -> Rated:
    throttled_ms, usable_share = (skew.throttled_total_ms, skew.usable_share) if skew else (0, None)
    if forecast is None:
        return Rated(Model.NONE, None, 0, throttled_ms, None, usable_share)
    trend = forecast.trend_per_day
    return Rated(forecast.model, forecast.p995, forecast.peak, throttled_ms, trend, usable_share)


def _kept(forecast: ForecastRow | None, seen: Seen) -> Kept:
    blocked_ms = seen.balance.blocked_ms
    if forecast is None:
        return Kept(Model.NONE, None, seen.balance.stored_bytes or 0, 0, blocked_ms)
    first_ms = forecast.start_ms - forecast.history_hours * HOUR_MS
    return Kept(
        forecast.model,
        forecast.p995,
        seen.forecasts.stored_bytes,
        forecast.peak,
        blocked_ms,
        forecast.trend_per_day,
        seen.forecasts.filling,
        (day_at(first_ms), day_at(forecast.start_ms - HOUR_MS)),
        seen.forecasts.last_week,
    )
