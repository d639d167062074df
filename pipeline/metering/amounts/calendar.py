"""Months of UTC, and their grid of five-minute slots."""

import re
from calendar import monthrange
from datetime import UTC, date, datetime, timedelta

from contracts.billing import SLOTS_PER_DAY
from pipeline.errors import PipelineError

_MONTH = re.compile(r"(\d{4})-(\d{2})\Z", re.ASCII)


def first_day(month: str) -> date:
    """The first day of a month such as `2026-11`. Raises: PipelineError, of a text that is no month."""
    match = _MONTH.match(month)
    if match is None or not 1 <= int(match[2]) <= 12 or int(match[1]) < 1970:
        raise PipelineError(f"'{month}' is not a month: write it like 2026-11")
    return date(int(match[1]), int(match[2]), 1)


def next_month(month: str) -> str:
    """The month after."""
    first = first_day(month)
    return month_of(first + timedelta(days=monthrange(first.year, first.month)[1]))


def month_of(day: date) -> str:
    """Which month a day lies in."""
    return f"{day:%Y-%m}"


def day_at(epoch_ms: int) -> date:
    """Which day an instant lies in."""
    return datetime.fromtimestamp(epoch_ms / 1000, UTC).date()


def month_at(epoch_ms: int) -> str:
    """Which month an instant lies in."""
    return month_of(day_at(epoch_ms))


def end_ms(month: str) -> int:
    """When it is over: the first instant of the next one."""
    return first_ms(next_month(month))


def first_ms(month: str) -> int:
    """When it begins."""
    first = first_day(month)
    return int(datetime(first.year, first.month, first.day, tzinfo=UTC).timestamp()) * 1000


def slots_in(month: str) -> int:
    """Five-minute slots of the whole calendar month: 8,064 to 8,928."""
    first = first_day(month)
    return monthrange(first.year, first.month)[1] * SLOTS_PER_DAY


def p95_rank(slots: int) -> int:
    """Nearest rank of the 95th percentile among `slots` values, from 1, ascending: `n - n div 20`.

    Of 8,640 slots the highest 432 are dropped and the next is the 8,208th.
    """
    assert slots > 0
    return slots - slots // 20
