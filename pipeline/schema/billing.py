"""Columns of `price_book`, `bill`, `bill_line` and `adjustment` (`contracts.billing`)."""

from typing import Final

from pyspark.sql.types import (
    DateType,
    DecimalType,
    LongType,
    StringType,
)

from pipeline.schema.columns import columns

_TEXT: Final = StringType()
_LONG: Final = LongType()
_WHOLE: Final = DecimalType(38, 0)
_QUANTITY: Final = DecimalType(38, 6)


PRICE_BOOK: Final = columns(
    version=_LONG,
    effective_from=DateType(),
    currency=_TEXT,
    minor_unit_digits=_LONG,
    text=_TEXT,
    set_at_ms=_LONG,
)

BILL: Final = columns(
    instance_id=_TEXT,
    month=_TEXT,
    state=_TEXT,
    currency=_TEXT,
    minor_unit_digits=_LONG,
    price_version=_LONG,
    usage_version=_LONG,
    lines_minor=_LONG,
    adjustments_minor=_LONG,
    total_minor=_LONG,
    produce_p95_bytes_per_s=_LONG,
    consume_p95_bytes_per_s=_LONG,
    expected_ms=_LONG,
    covered_ms=_LONG,
    gaps=_TEXT,
    hold_reason=_TEXT,
    revision=_LONG,
    updated_at_ms=_LONG,
    closed_at_ms=_LONG,
)
"""Partitioned by `month`, as `bill_line`; one row per instance and month."""

BILL_LINE: Final = columns(
    instance_id=_TEXT,
    month=_TEXT,
    dimension=_TEXT,
    price_version=_LONG,
    usage_version=_LONG,
    base_quantity=_WHOLE,
    quantity=_QUANTITY,
    unit=_TEXT,
    amount_minor=_LONG,
    currency=_TEXT,
    detail=_TEXT,
)

ADJUSTMENT: Final = columns(
    id=_TEXT,
    instance_id=_TEXT,
    month=_TEXT,
    bill_month=_TEXT,
    dimension=_TEXT,
    base_quantity_delta=_WHOLE,
    quantity_delta=_QUANTITY,
    unit=_TEXT,
    amount_delta_minor=_LONG,
    currency=_TEXT,
    price_version=_LONG,
    usage_version=_LONG,
    reason=_TEXT,
    source_batch=_LONG,
    created_at_ms=_LONG,
)
"""Only appended to; partitioned by `bill_month`."""
