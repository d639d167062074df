"""Which files of a table become one, and which hours are old enough to go. Pure."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

SMALL_BYTES: Final = 128 * 1024 * 1024
TARGET_BYTES: Final = 256 * 1024 * 1024
"""Files below the first are joined up to the second."""

EXPIRED_APP: Final = "expire"
"""Delta's `txn` of it: the epoch hour before which all hours are gone. Checkpoints of the log keep it."""
RETENTION_H_MIN: Final = 24
"""Files that no version needs any more stay at least so long: readers of older ones may still be at them."""


class DataFile(NamedTuple):
    """A file of one version of a table."""

    path: str
    """The path in the table's log."""
    size_bytes: int
    rows: int
    hour: datetime | None
    """Its partition: the hour that its rows belong to, None for rows without a usable time."""
    partition_values: dict[str, str | None]
    first: tuple[int, int]
    """Its lowest Kafka partition, and its lowest offset of any; zeros where the log does not tell."""


class Bin(NamedTuple):
    """Files of one hour that become one."""

    hour: datetime | None
    files: tuple[DataFile, ...]

    @property
    def size_bytes(self) -> int:
        """What is read."""
        return sum(each.size_bytes for each in self.files)

    @property
    def rows(self) -> int:
        """What must come out again."""
        return sum(each.rows for each in self.files)


def plan_bins(
    files: Iterable[DataFile], small_bytes: int = SMALL_BYTES, target_bytes: int = TARGET_BYTES
) -> list[Bin]:
    """Small files of each hour, joined in their order of partition and offset.

    Invariant: a file is in one bin at most, a bin has two files at least and, but for its last, no more
    than the target.
    """
    by_hour: dict[datetime | None, list[DataFile]] = {}
    for each in files:
        if each.size_bytes < small_bytes:
            by_hour.setdefault(each.hour, []).append(each)
    bins = []
    for hour, small in by_hour.items():
        waiting: list[DataFile] = []
        for each in sorted(small, key=lambda file: (file.first, file.path)):
            if waiting and sum(one.size_bytes for one in waiting) + each.size_bytes > target_bytes:
                bins.append(Bin(hour, tuple(waiting)))
                waiting = []
            waiting.append(each)
        bins.append(Bin(hour, tuple(waiting)))
    return sorted((each for each in bins if len(each.files) > 1), key=_by_hour)


def _by_hour(found: Bin) -> tuple[bool, float, str]:
    """Oldest hours first, rows without one last."""
    return found.hour is None, 0.0 if found.hour is None else found.hour.timestamp(), found.files[0].path


def commits_of(bins: Sequence[Bin], bytes_max: int) -> list[list[Bin]]:
    """Bins that are committed together: what a kill may cost."""
    groups: list[list[Bin]] = []
    size = 0
    for each in bins:
        if not groups or size + each.size_bytes > bytes_max:
            groups.append([])
            size = 0
        groups[-1].append(each)
        size += each.size_bytes
    return groups


def small_share(files: Iterable[DataFile], small_bytes: int = SMALL_BYTES) -> float:
    """The share of files that are small and not alone in their hour."""
    found = list(files)
    per_hour: dict[datetime | None, int] = {}
    for each in found:
        per_hour[each.hour] = per_hour.get(each.hour, 0) + 1
    small = sum(each.size_bytes < small_bytes and per_hour[each.hour] > 1 for each in found)
    return small / len(found) if found else 0.0


def expiry(now: datetime, older_than: timedelta) -> datetime:
    """Hours that begin before it and end by then are older: whole hours only."""
    return (now - older_than).replace(minute=0, second=0, microsecond=0)


def expired(files: Iterable[DataFile], before: datetime) -> list[DataFile]:
    """Files of hours that are older; rows without a usable time stay."""
    return [each for each in files if each.hour is not None and each.hour < before]
