"""Which sizes fit an instance, how urgent that is, and the sentence that says why. Pure."""

from datetime import date
from typing import Final, NamedTuple

from contracts.advice import ENOUGH_HISTORY_HOURS, NOT_ENOUGH_DATA, Action, Model, Urgency
from contracts.units import format_bytes
from pipeline.advice.judging.forecast import DaysToFull, Filling, LastWeek
from pipeline.advice.judging.ladder import capacity_for, rate_for, with_headroom

_NOW_WITHIN_DAYS: Final = 3.0
_SOON_WITHIN_DAYS: Final = 14.0
HELD_BACK_MS: Final = 5 * 60_000
"""In 24 h: from here on clients have noticed."""
_SHRINK_FROM: Final = 2
"""A size is worth shrinking when it is this many times what fits."""


class Bought(NamedTuple):
    """An instance's sizes as they are now."""

    instance_id: str
    produce_rate_bytes_per_s: int
    consume_rate_bytes_per_s: int
    capacity_bytes: int


class Rated(NamedTuple):
    """What one direction uses."""

    model: Model
    p995: int | None
    peak: int
    throttled_ms: int
    trend_per_day: int | None
    usable_share: float | None = None

    @property
    def need(self) -> int:
        """bytes/s."""
        return self.peak if self.p995 is None else self.p995


class Kept(NamedTuple):
    """What is stored."""

    model: Model
    p995: int | None
    stored_bytes: int
    peak_bytes: int
    blocked_ms: int
    growth_bytes_per_day: int | None = None
    filling: Filling | None = None
    """None without enough history."""
    days: tuple[date, date] | None = None
    """The first and the last one that growth was taken from."""
    last_week: LastWeek | None = None

    @property
    def need(self) -> int:
        """bytes: also what is stored now, which a forecast of hourly averages may not know yet."""
        return max(self.stored_bytes, self.peak_bytes if self.p995 is None else self.p995)

    def days_to_full(self, capacity_bytes: int) -> DaysToFull:
        """Of what is stored now."""
        if self.filling is None:
            return DaysToFull()
        return self.filling.days_to_full(self.stored_bytes, capacity_bytes)


class Judgement(NamedTuple):
    """The judgement of one instance."""

    urgency: Urgency
    reason: str
    produce: Action
    consume: Action
    capacity: Action
    produce_rate_bytes_per_s: int
    consume_rate_bytes_per_s: int
    capacity_bytes: int


def judge(bought: Bought, history_hours: int, produce: Rated, consume: Rated, kept: Kept) -> Judgement:
    """Sizes that fit. Nothing is shrunk without enough history, as what was not seen may still come, nor
    where clients were held back."""
    is_enough = Model.NONE not in (produce.model, consume.model, kept.model)
    rates = rate_for(produce.need), rate_for(consume.need)
    capacity = capacity_for(kept.need)
    actions = (
        _action(bought.produce_rate_bytes_per_s, rates[0], is_enough and not produce.throttled_ms),
        _action(bought.consume_rate_bytes_per_s, rates[1], is_enough and not consume.throttled_ms),
        _action(bought.capacity_bytes, capacity, is_enough and not kept.blocked_ms),
    )
    parts = [
        _rate_reason("produce", produce, bought.produce_rate_bytes_per_s, rates[0], actions[0]),
        _rate_reason("consume", consume, bought.consume_rate_bytes_per_s, rates[1], actions[1]),
        _capacity_reason(kept, bought.capacity_bytes, capacity, actions[2]),
    ]
    if not is_enough:
        parts.insert(
            0, f"{NOT_ENOUGH_DATA} for a forecast ({history_hours} h of {ENOUGH_HISTORY_HOURS} h needed)"
        )
    urgency = _urgency(bought, produce, consume, kept, actions)
    return Judgement(urgency, "; ".join(parts), *actions, *rates, capacity)


def _action(bought: int, fits: int, may_shrink: bool) -> Action:
    if fits > bought:
        return Action.GROW
    return Action.SHRINK if may_shrink and fits * _SHRINK_FROM <= bought else Action.KEEP


def _urgency(
    bought: Bought, produce: Rated, consume: Rated, kept: Kept, actions: tuple[Action, ...]
) -> Urgency:
    held_back = any(
        rated.throttled_ms >= HELD_BACK_MS and action is Action.GROW
        for rated, action in zip((produce, consume), actions[:2], strict=True)
    )
    days = kept.days_to_full(bought.capacity_bytes).expected
    if held_back or kept.blocked_ms > 0 or kept.stored_bytes >= bought.capacity_bytes:
        return Urgency.NOW
    if days is not None and days <= _NOW_WITHIN_DAYS:
        return Urgency.NOW
    if Action.GROW in actions or (days is not None and days <= _SOON_WITHIN_DAYS):
        return Urgency.SOON
    return Urgency.SAVING if Action.SHRINK in actions else Urgency.NONE


def _rate_reason(name: str, rated: Rated, bought: int, fits: int, action: Action) -> str:
    has, fitting = format_bytes(bought, rate=True), format_bytes(fits, rate=True)
    seen = "p99.5 of the week to come" if rated.p995 is not None else "its busiest minute so far"
    if rated.need == 0:
        needs = f"nothing is {name}d"
    else:
        wanted = format_bytes(with_headroom(rated.need), rate=True)
        needs = f"{name} needs {format_bytes(rated.need, rate=True)} ({seen}) x 1.3 = {wanted}"
        if rated.model is Model.SEASONAL_TREND and rated.trend_per_day:
            direction = "rising" if rated.trend_per_day > 0 else "falling"
            needs += f", {direction} by {format_bytes(abs(rated.trend_per_day), rate=True)} a day"
    if rated.throttled_ms:
        needs += f", and was held back for {duration(rated.throttled_ms)} in the last 24 h"
    if rated.throttled_ms and action is Action.KEEP:
        return f"{needs}: in bursts, {has} are enough on the whole"
    return f"{needs}: {_verdict(action, has, fitting)}"


def _capacity_reason(kept: Kept, bought: int, fits: int, action: Action) -> str:
    has, fitting = format_bytes(bought), format_bytes(fits)
    told = f"{format_bytes(kept.stored_bytes)} are stored{_growth(kept)}"
    full = kept.days_to_full(bought)
    if kept.stored_bytes >= bought:
        told += ", the capacity is full"
    elif full.expected is not None:
        told += f": full in {_band(full)}{_division(kept, bought)}"
    if kept.blocked_ms:
        told += f", produce was refused for {duration(kept.blocked_ms)} in the last 24 h"
    told += f"; of {format_bytes(kept.need)} x 1.3 = {format_bytes(with_headroom(kept.need))}"
    return f"{told}: {_verdict(action, has, fitting)}"


def _verdict(action: Action, has: str, fitting: str) -> str:
    if action is Action.GROW:
        return f"{fitting} instead of {has} leaves 30 % of headroom"
    return f"{fitting} instead of {has} would do" if action is Action.SHRINK else f"{has} fit"


def _growth(kept: Kept) -> str:
    if not kept.growth_bytes_per_day:
        return ""
    word = "more" if kept.growth_bytes_per_day > 0 else "less"
    told = f", {format_bytes(abs(kept.growth_bytes_per_day))} {word} each day"
    if kept.days is not None:
        told += f" (in the median, {kept.days[0]} to {kept.days[1]}"
        if kept.last_week is not None:
            expected, came = (format_bytes(round(each * 24)) for each in kept.last_week)
            told += f"; of the last week {expected} a day were expected, {came} came"
        told += ")"
    return told


def _division(kept: Kept, bought: int) -> str:
    """What a person divides to get the days: the very numbers that they are made of."""
    if kept.filling is None or kept.filling.growth_per_h <= 0:
        return ""
    parts = [format_bytes(bought), f"{format_bytes(kept.stored_bytes)} stored"]
    if swing := round(kept.filling.swing):
        parts.append(f"{format_bytes(swing)} more in a week's fullest hour")
    return f" = ({' - '.join(parts)}) / {format_bytes(round(kept.filling.growth_per_h * 24))} a day"


def _band(full: DaysToFull) -> str:
    days, low, high = (_days(each) for each in full)
    if full.high is None:
        return f"{days} days ({low} at the earliest)"
    return f"{days} days" if low == high else f"{days} days ({low} to {high})"


def _days(days: float | None) -> str:
    return "-" if days is None else f"{days:.0f}" if days >= 10 else f"{days:.1f}"


def duration(ms: int) -> str:
    """A duration as people say it."""
    if ms >= 5_400_000:
        return f"{ms / 3_600_000:.1f} h"
    return f"{ms / 60_000:.0f} min" if ms >= 90_000 else f"{ms / 1000:.0f} s"
