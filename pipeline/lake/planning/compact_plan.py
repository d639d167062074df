"""Which files of a table become one, and which hours are old enough to go. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, TypeVar

RETENTION_H_MIN: Final = 24
"""Files that no version needs any more stay at least so long: readers of older ones may still be at them."""
T = TypeVar("T")


class Limits(NamedTuple):
    """Files of fewer bytes than `small` are joined up to `target` where an hour has so many of them."""

    small_bytes: int
    target_bytes: int
    files_min: int = 2


WHOLE: Final = Limits(128 * 1024 * 1024, 256 * 1024 * 1024)
AFTER_LOAD: Final = Limits(8 * 1024 * 1024, 64 * 1024 * 1024, 16)
"""What a load does itself: a joined file is soon large enough to be left alone."""


class DataFile(NamedTuple):
    """A file of one version of a table."""

    path: str
    """The path in the table's log."""
    size_bytes: int
    rows: int
    partition_values: dict[str, str | None]
    """As Delta writes them."""
    first: datetime | None = None
    """The time of its oldest row; None where the log does not tell."""

    @property
    def hour(self) -> str:
        """When its rows were loaded, as `hour_text`: later ones are larger."""
        return next(iter(self.partition_values.values()), None) or ""


def hour_text(hour: datetime) -> str:
    """As Delta writes it."""
    return hour.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def plan_bins(files: Iterable[DataFile], limits: Limits) -> list[list[DataFile]]:
    """Small files of each hour, joined in the order of their times, oldest hours first.

    Invariant: a file is in one bin at most, a bin has two files at least and no more than the target.
    """
    by_hour: dict[str, list[DataFile]] = {}
    for each in files:
        if each.size_bytes < limits.small_bytes:
            by_hour.setdefault(each.hour, []).append(each)
    bins: list[list[DataFile]] = []
    for _, small in sorted(by_hour.items()):
        if len(small) >= limits.files_min:
            in_order = sorted(small, key=lambda file: (file.first is not None, file.first, file.path))
            bins += _filled(in_order, lambda file: file.size_bytes, limits.target_bytes)
    return [each for each in bins if len(each) > 1]


def commits_of(bins: Iterable[list[DataFile]], bytes_max: int) -> list[list[list[DataFile]]]:
    """Bins that are committed together: what a kill may cost."""
    return _filled(bins, lambda files: sum(each.size_bytes for each in files), bytes_max)


def _filled(items: Iterable[T], size_bytes: Callable[[T], int], bytes_max: int) -> list[list[T]]:
    bins: list[list[T]] = []
    size = bytes_max
    for each in items:
        own = size_bytes(each)
        if not bins or size + own > bytes_max:
            bins.append([])
            size = 0
        bins[-1].append(each)
        size += own
    return bins


def small_share(files: Sequence[DataFile], small_bytes: int) -> float:
    """The share of files that are small and not alone in their hour."""
    per_hour = Counter(each.hour for each in files)
    small = sum(each.size_bytes < small_bytes and per_hour[each.hour] > 1 for each in files)
    return small / len(files) if files else 0.0


def expiry(now: datetime, older_than: timedelta) -> datetime:
    """Hours that begin before it and end by then are older: whole hours only."""
    return (now - older_than).replace(minute=0, second=0, microsecond=0)


def expired(files: Iterable[DataFile], before: datetime) -> list[DataFile]:
    """Files of hours that are older."""
    return [each for each in files if each.hour and each.hour < hour_text(before)]
