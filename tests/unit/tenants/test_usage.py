"""Spans that may be asked for, the 95th percentile, and amounts in words."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.billing import DAY_MS, SLOT_MS
from tenants.rules.money import major_units
from tenants.rules.usage_periods import Resolution, Span, p95, span_of

NOW_MS = 1_793_620_800_000


@given(st.lists(st.integers(0, 2**62), max_size=200), st.integers(0, 100))
def test_p95_is_the_nearest_rank_over_a_filled_grid(values: list[int], zeros: int) -> None:
    slots = len(values) + zeros
    if slots == 0:
        return
    grid = sorted([*values, *[0] * zeros])
    dropped = slots // 20
    assert p95(values, slots) == grid[len(grid) - dropped - 1]


def test_a_month_of_30_days_drops_432_of_8640() -> None:
    slots = 8640
    assert p95(list(range(1, slots + 1)), slots) == 8208
    assert p95([10**9] * 432, slots) == 0
    assert p95([10**9] * 433, slots) == 10**9


def test_what_is_shown_without_saying() -> None:
    assert span_of(None, None, Resolution.HOUR, NOW_MS) == Span(NOW_MS - 7 * DAY_MS, NOW_MS)
    start = datetime(2026, 11, 1, tzinfo=UTC)
    span = span_of(start, datetime(2026, 12, 1, tzinfo=UTC), Resolution.SLOT, NOW_MS)
    assert isinstance(span, Span)
    assert (span.slots, str(span.first_day), str(span.last_day)) == (8640, "2026-11-01", "2026-11-30")
    assert span_of(start.replace(tzinfo=None), None, Resolution.DAY, NOW_MS) == Span(
        int(start.timestamp()) * 1000, NOW_MS
    )


def test_slots_begin_in_the_span() -> None:
    assert Span(1, SLOT_MS).slots == 0
    assert Span(0, SLOT_MS).slots == 1
    assert Span(0, SLOT_MS + 1).slots == 2
    assert Span(SLOT_MS - 1, SLOT_MS + 1).slots == 1


@pytest.mark.parametrize(
    ("start", "end", "field"),
    [
        (datetime(2026, 11, 2, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC), "to"),
        (datetime(2026, 11, 2, tzinfo=UTC), datetime(2026, 11, 2, tzinfo=UTC), "to"),
        (datetime(1969, 12, 31, tzinfo=UTC), None, "from"),
        (datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))), None, "from"),
        (None, datetime.max.replace(tzinfo=UTC), "to"),
        (datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC), "from"),
    ],
)
def test_spans_that_cannot_be(start: datetime | None, end: datetime | None, field: str) -> None:
    faults = span_of(start, end, Resolution.SLOT, NOW_MS)
    assert isinstance(faults, list)
    assert [one.field for one in faults] == [field]


@pytest.mark.parametrize(
    ("minor", "digits", "text"),
    [
        (123456, 2, "1234.56"),
        (5, 2, "0.05"),
        (-5, 2, "-0.05"),
        (0, 2, "0.00"),
        (7, 0, "7"),
        (-1, 3, "-0.001"),
    ],
)
def test_amounts(minor: int, digits: int, text: str) -> None:
    assert major_units(minor, digits) == text
