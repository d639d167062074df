"""Which offsets a batch reads, decided from committed positions and from what the brokers have. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

BUNDLE_BYTES_MIN: Final = 64 * 1024 * 1024
BUNDLE_BYTES_MAX: Final = 256 * 1024 * 1024
"""A task's share of a batch, as its files become about so large; smaller batches get smaller bundles."""
TASKS_PER_CORE_MAX: Final = 3
UNITS_PER_TASK_MIN: Final = 16
RECORD_BYTES_GUESS: Final = 1000
"""The size of records of a topic that nobody has loaded yet."""

K = TypeVar("K")


class PartitionRange(NamedTuple):
    """Offsets `start <= offset < end` of one partition. Not all need to hold a record that a reader sees."""

    partition: int
    start: int
    end: int

    @property
    def offsets(self) -> int:
        """How many offsets it spans: what progress and lag count in."""
        return self.end - self.start


class Bounds(NamedTuple):
    """What a partition has: its log start offset, and the last stable offset as its end."""

    earliest: int
    end: int


class Plan(NamedTuple):
    """What is to be read of a topic."""

    ranges: tuple[PartitionRange, ...]
    """Never empty ones."""
    gaps: tuple[PartitionRange, ...]
    """Offsets that retention removed before they were loaded."""
    regressed: tuple[PartitionRange, ...]
    """Where a partition ends before its committed position: from the broker's end to that position."""


def beginnings(bounds: Mapping[int, Bounds]) -> tuple[PartitionRange, ...]:
    """Where a table begins that has no commit yet: an empty range at each partition's log start.

    What retention removed before that was never promised. The first commit names these positions, so that a
    partition without one is known to have come later: all that it ever held is to be loaded.
    """
    return tuple(PartitionRange(each, earliest, earliest) for each, (earliest, _) in sorted(bounds.items()))


def plan_topic(next_offsets: Mapping[int, int], bounds: Mapping[int, Bounds]) -> Plan:
    """From the next offsets, or from 0 in partitions without one, to the ends."""
    ranges, gaps, regressed = [], [], []
    for partition, (earliest, end) in sorted(bounds.items()):
        assert 0 <= earliest <= end, f"partition {partition} is said to hold [{earliest}, {end})"
        start = next_offsets.get(partition, 0)
        if start > end:
            regressed.append(PartitionRange(partition, end, start))
            continue
        if start < earliest:
            gaps.append(PartitionRange(partition, start, earliest))
            start = earliest
        if start < end:
            ranges.append(PartitionRange(partition, start, end))
    return Plan(tuple(ranges), tuple(gaps), tuple(regressed))


def total_offsets(ranges: Iterable[PartitionRange]) -> int:
    """The sum of their spans."""
    return sum(each.offsets for each in ranges)


def take(
    waiting: Mapping[K, Sequence[PartitionRange]], offsets_max: int
) -> dict[K, tuple[PartitionRange, ...]]:
    """The next batch: about `offsets_max` from the front of all ranges, each by its share of the lag.

    Invariant: no range that waits gets nothing, so none is starved by a larger one. Shares are rounded up,
    so that no crumbs are left for a last batch; at most by one offset each.
    """
    assert offsets_max > 0
    lag = sum(total_offsets(ranges) for ranges in waiting.values())
    taken: dict[K, tuple[PartitionRange, ...]] = {}
    for key, ranges in waiting.items():
        fronts = [_front(each, lag, offsets_max) for each in ranges if each.offsets]
        if fronts:
            taken[key] = tuple(fronts)
    return taken


def _front(waiting: PartitionRange, lag: int, offsets_max: int) -> PartitionRange:
    share = waiting.offsets if lag <= offsets_max else -(-waiting.offsets * offsets_max // lag)
    return waiting._replace(end=waiting.start + share)


def without(waiting: Sequence[PartitionRange], taken: Sequence[PartitionRange]) -> tuple[PartitionRange, ...]:
    """What waits after the fronts that were taken are done."""
    ends = {each.partition: each.end for each in taken}
    left = (each._replace(start=ends.get(each.partition, each.start)) for each in waiting)
    return tuple(each for each in left if each.offsets)


class Packing(NamedTuple):
    """How a batch's topic-partitions become Spark tasks."""

    tasks: int
    offsets_per_split_max: int
    """A topic-partition with more is split, so that no task has all of a large one."""


def pack(units: Iterable[tuple[PartitionRange, float]], cores: int) -> Packing:
    """Few even tasks: bundles of 64 to 256 MB, no more than three per core.

    `units` are ranges with the mean bytes of their records. A batch too large for that many bundles gets
    larger bundles: its bound is the records of a batch, not the number of files.
    """
    sized = [(each.offsets, each.offsets * record_bytes) for each, record_bytes in units]
    offsets = sum(count for count, _ in sized)
    total_bytes = sum(size for _, size in sized)
    wanted = -(-int(total_bytes) // BUNDLE_BYTES_MAX)
    # All cores, as soon as each has a bundle, or so many topic-partitions that asking for them takes long.
    evenly = min(cores, max(int(total_bytes) // BUNDLE_BYTES_MIN, len(sized) // UNITS_PER_TASK_MIN))
    tasks = max(1, min(max(wanted, evenly), cores * TASKS_PER_CORE_MAX))
    return Packing(tasks, max(1, -(-offsets // tasks)))
