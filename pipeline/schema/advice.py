"""Columns of `advice`, `skew`, `forecast` and `moves` (`contracts.advice`), partitioned by `run_date`."""

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    LongType,
    StringType,
)

from pipeline.schema.columns import columns

_TEXT: Final = StringType()
_LONG: Final = LongType()
_REAL: Final = DoubleType()
_FLAG: Final = BooleanType()


_KEY: Final[dict[str, DataType]] = {"run_date": DateType(), "instance_id": _TEXT}

ADVICE: Final = columns(
    **_KEY,
    computed_at_ms=_LONG,
    history_hours=_LONG,
    is_enough_history=_FLAG,
    urgency=_TEXT,
    reason=_TEXT,
    produce_rate_bytes_per_s=_LONG,
    consume_rate_bytes_per_s=_LONG,
    capacity_bytes=_LONG,
    produce_peak_bytes_per_s=_LONG,
    consume_peak_bytes_per_s=_LONG,
    stored_bytes=_LONG,
    produce_throttled_ms=_LONG,
    consume_throttled_ms=_LONG,
    blocked_ms=_LONG,
    produce_need_bytes_per_s=_LONG,
    consume_need_bytes_per_s=_LONG,
    capacity_need_bytes=_LONG,
    recommended_produce_rate_bytes_per_s=_LONG,
    recommended_consume_rate_bytes_per_s=_LONG,
    recommended_capacity_bytes=_LONG,
    produce_action=_TEXT,
    consume_action=_TEXT,
    capacity_action=_TEXT,
    growth_bytes_per_day=_LONG,
    days_to_full=_REAL,
    days_to_full_low=_REAL,
    days_to_full_high=_REAL,
    produce_usable_share=_REAL,
    consume_usable_share=_REAL,
    moves=_LONG,
    moves_reason=_TEXT,
    bill_now_minor=_LONG,
    bill_recommended_minor=_LONG,
    currency=_TEXT,
)

_POINT: Final = columns(point=_TEXT, node_id=_LONG, partitions_led=_LONG, bytes=_LONG, throttled_ms=_LONG)

SKEW: Final = columns(
    **_KEY,
    direction=_TEXT,
    window_ms=_LONG,
    at_ms=ArrayType(_LONG),
    rate_bytes_per_s=ArrayType(_LONG),
    p_ratio=ArrayType(_REAL),
    usable_share_history=ArrayType(_REAL),
    throttled_ms=ArrayType(_LONG),
    p_ratio_min=_REAL,
    share_of_time_uneven=_REAL,
    usable_share=_REAL,
    throttled_total_ms=_LONG,
    points=ArrayType(_POINT),
)

FORECAST: Final = columns(
    **_KEY,
    metric=_TEXT,
    model=_TEXT,
    history_hours=_LONG,
    known_hours=_LONG,
    start_ms=_LONG,
    expected=ArrayType(_LONG),
    low=ArrayType(_LONG),
    high=ArrayType(_LONG),
    p995=_LONG,
    trend_per_day=_LONG,
    mae=_REAL,
    mae_seasonal_naive=_REAL,
    peak=_LONG,
    days_to_full=_REAL,
    days_to_full_low=_REAL,
    days_to_full_high=_REAL,
)

MOVES: Final = columns(
    **_KEY,
    topic=_TEXT,
    partition=_LONG,
    from_node_id=_LONG,
    to_node_id=_LONG,
    replicas=ArrayType(_LONG),
    is_leadership_only=_FLAG,
    moved_bytes=_LONG,
    load_share=_REAL,
    usable_share_before=_REAL,
    usable_share_after=_REAL,
    step=_LONG,
)
