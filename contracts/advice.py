"""What the pipeline advises: rows of the tables `advice`, `skew`, `forecast` and `moves` (docs/advice.md).

Each run writes the rows of its UTC day (`run_date`, the partition column) anew; show the newest day of an
instance. Rates are bytes/s of Kafka frames on the wire, times epoch ms.
"""

import datetime
from enum import StrEnum
from typing import Final

import msgspec

ADVICE_TABLE: Final = "advice"
SKEW_TABLE: Final = "skew"
FORECAST_TABLE: Final = "forecast"
MOVES_TABLE: Final = "moves"

ENOUGH_HISTORY_HOURS: Final = 14 * 24
"""Below this there is no forecast: growth and peaks so far are told instead."""
NOT_ENOUGH_DATA: Final = "not enough data"
"""Begins the reason of advice that has less history than that."""


class Metric(StrEnum):
    """What is forecast."""

    PRODUCE = "produce"
    CONSUME = "consume"
    STORED = "stored"


class Model(StrEnum):
    """Which forecast was published."""

    NONE = "none"
    """Not enough data."""
    SEASONAL_NAIVE = "seasonal_naive"
    """What was in the same hour of the week before."""
    SEASONAL_TREND = "seasonal_trend"
    """Those hours, moved by a robust trend: only where that was clearly better in the back-test."""


class Action(StrEnum):
    """What to do with one of the three sizes."""

    KEEP = "keep"
    GROW = "grow"
    SHRINK = "shrink"


class Urgency(StrEnum):
    """What a list of advice is sorted by."""

    NOW = "now"
    """Clients are held back or refused, or will be within days."""
    SOON = "soon"
    """A size will be outgrown."""
    SAVING = "saving"
    """A smaller size would do."""
    NONE = "none"


class AdviceRow(msgspec.Struct, frozen=True, kw_only=True):
    """One instance: what it uses, what it will, what size fits, and why."""

    run_date: datetime.date
    instance_id: str
    computed_at_ms: int
    history_hours: int
    """Between the first known hour and the last complete one."""
    is_enough_history: bool
    urgency: Urgency
    reason: str
    """For people, with the numbers."""

    produce_rate_bytes_per_s: int
    """The rate that is bought now."""
    consume_rate_bytes_per_s: int
    capacity_bytes: int

    produce_peak_bytes_per_s: int
    """The largest 1-minute average of the history that was read (28 days)."""
    consume_peak_bytes_per_s: int
    stored_bytes: int
    """The bytes that were reported last."""
    produce_throttled_ms: int
    """In the last 24 h, of the broker that held back the most in each window of 5 minutes."""
    consume_throttled_ms: int
    blocked_ms: int
    """In the last 24 h: produce was refused because the instance was full."""

    produce_need_bytes_per_s: int
    """The forecast's p99.5 for the week to come; without a forecast the largest that was seen."""
    consume_need_bytes_per_s: int
    capacity_need_bytes: int
    recommended_produce_rate_bytes_per_s: int
    """The smallest step of the ladder that holds the need and 30 % more."""
    recommended_consume_rate_bytes_per_s: int
    recommended_capacity_bytes: int
    produce_action: Action
    consume_action: Action
    capacity_action: Action

    growth_bytes_per_day: int | None
    """How fast stored bytes grow; None with less than a day of history."""
    days_to_full: float | None
    """None: it does not fill, or not within two years, or there is not enough data."""
    days_to_full_low: float | None
    """If it grows as fast as in its faster weeks."""
    days_to_full_high: float | None
    """If it grows as slowly as in its slower weeks; None: never."""

    produce_usable_share: float | None
    """See `SkewRow.usable_share`."""
    consume_usable_share: float | None
    moves: int
    """Rows of this run in table `moves`."""
    moves_reason: str
    """Why moves are advised, or would not help; empty where nothing is skewed."""

    bill_now_minor: int | None
    """This UTC month's bill so far, and what it would be had the instance the recommended rates, in minor
    units of the currency; None without a bill."""
    bill_recommended_minor: int | None
    currency: str | None


class PointShare(msgspec.Struct, frozen=True, kw_only=True):
    """One broker's part in the last 24 h."""

    point: str
    node_id: int
    partitions_led: int
    """At the end."""
    bytes: int
    throttled_ms: int


class SkewRow(msgspec.Struct, frozen=True, kw_only=True):
    """How evenly one instance's traffic in one direction fell on its brokers in the last 24 h.

    Windows of 5 minutes, oldest first, all five lists aligned; windows nobody reported are left out. P of a
    broker is T * r / sum(r), so Pmin / Pmax is the ratio of bytes; a broker that leads but carries nothing
    has P = 0.
    """

    run_date: datetime.date
    instance_id: str
    direction: str
    """`produce` or `consume`."""
    window_ms: int
    at_ms: list[int]
    """When each window starts."""
    rate_bytes_per_s: list[int]
    """The rate of all brokers together."""
    p_ratio: list[float | None]
    """Pmin / Pmax; None while nothing flows."""
    usable_share_history: list[float | None]
    """mean / max: an even split begins to throttle at T times this."""
    throttled_ms: list[int]
    """Time of the broker that held back the most."""

    p_ratio_min: float | None
    """Lowest in the 24 h; None when nothing flowed."""
    share_of_time_uneven: float | None
    """Part of the windows with traffic in which Pmin / Pmax < 0.5."""
    usable_share: float | None
    """mean / max of the brokers' bytes over the windows in which clients were held back, or over all of
    them where nobody was: what lasts, not what wanders from broker to broker."""
    throttled_total_ms: int
    points: list[PointShare]
    """In order of node id: bytes of the windows that `usable_share` was taken from."""


class ForecastRow(msgspec.Struct, frozen=True, kw_only=True):
    """One metric of one instance for the 168 hours after the last complete one; lists are empty without a
    forecast."""

    run_date: datetime.date
    instance_id: str
    metric: Metric
    model: Model
    history_hours: int
    known_hours: int
    """Hours of the history that were reported."""
    start_ms: int
    """Start of the first hour that is forecast."""
    expected: list[int]
    """bytes/s in the hour's busiest 5 minutes; bytes for `stored`."""
    low: list[int]
    """5 % of the residuals of the back-test lie below this band, 5 % above it."""
    high: list[int]
    p995: int | None
    """99.5 % of the forecast's hours, errors included, are not above this."""
    trend_per_day: int | None
    """bytes/s per day, or bytes per day for `stored`; also with little history (1 day at least)."""
    mae: float | None
    """Mean absolute error in the back-test of what was published ..."""
    mae_seasonal_naive: float | None
    """... and of the plain one."""
    peak: int
    """The largest of the history: 1-minute averages, or what was stored in an hour on average."""
    days_to_full: float | None
    """Days until it is full, as in `AdviceRow`; None for rates."""
    days_to_full_low: float | None
    days_to_full_high: float | None


class MoveRow(msgspec.Struct, frozen=True, kw_only=True):
    """One partition to be led by another broker. All rows of an instance together are one plan."""

    run_date: datetime.date
    instance_id: str
    topic: str
    """Physical name."""
    partition: int
    from_node_id: int
    to_node_id: int
    replicas: list[int]
    """For `portico reassign execute`: the new leader first."""
    is_leadership_only: bool
    """No bytes need be copied: the new leader is in sync already."""
    moved_bytes: int
    """To be copied."""
    load_share: float
    """Estimated part of the instance's traffic that this partition carries."""
    usable_share_before: float
    usable_share_after: float
    """Estimated, once all rows up to this one, in order of `step`, are carried out."""
    step: int
