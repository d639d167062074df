"""Sets of a partition's offsets as ranges `(start, end)` that are disjoint and in order. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from pipeline.ingest.ranges import PartitionRange

Ints = np.ndarray[tuple[int], np.dtype[np.int64]]
Bools = np.ndarray[tuple[int], np.dtype[np.bool_]]
Ranges = list[tuple[int, int]]
LAST: Final = 2**63 - 1
APART: Final = 20_000
"""Ranges that are nearer are read as one: each costs a job of Spark."""


class Held(NamedTuple):
    """What a table holds of one partition."""

    rows: int
    there: Ranges
    doubled: Ranges
    """Offsets of more than one row; once for each row too many, so not always disjoint."""


def held(runs: Iterable[tuple[int, int]]) -> Held:
    """Of ranges in any order, each offset of which is a row of its own."""
    rows = 0
    there: Ranges = []
    doubled: Ranges = []
    for start, end in sorted(runs):
        rows += end - start
        if not there or start > there[-1][1]:
            there.append((start, end))
            continue
        first, reached = there[-1]
        if start < min(end, reached):
            doubled.append((start, min(end, reached)))
        there[-1] = (first, max(reached, end))
    return Held(rows, there, doubled)


def joined(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Ranges of any kind as a set."""
    return held(each for each in ranges if each[0] < each[1]).there


def minus(offsets: Ranges, others: Ranges) -> Ranges:
    """Those that are not among the others."""
    left: Ranges = []
    at = 0
    for start, end in offsets:
        while at < len(others) and others[at][1] <= start:
            at += 1
        reached, near = start, at
        while near < len(others) and others[near][0] < end:
            if others[near][0] > reached:
                left.append((reached, others[near][0]))
            reached = max(reached, others[near][1])
            near += 1
        if reached < end:
            left.append((reached, end))
    return left


def common(offsets: Ranges, others: Ranges) -> Ranges:
    """Those that are in both."""
    return minus(offsets, minus(offsets, others))


def total(offsets: Iterable[tuple[int, int]]) -> int:
    """How many."""
    return sum(end - start for start, end in offsets)


def runs_of(partitions: Ints, offsets: Ints) -> tuple[Ints, Ints, Ints]:
    """Partition, start and end of the runs in rows of any order; an offset's second row begins a new one."""
    order = np.lexsort((offsets, partitions))
    partition, offset = partitions[order], offsets[order]
    is_first = np.ones(len(offset), bool)
    is_first[1:] = (np.diff(partition) != 0) | (np.diff(offset) != 1)
    first = np.flatnonzero(is_first)
    last = np.append(first[1:], len(offset))[: len(first)] - 1
    return partition[first], offset[first], offset[last] + 1


def by_partition(partitions: Ints, offsets: Ints) -> dict[int, Ranges]:
    """The places of rows."""
    found: dict[int, Ranges] = {}
    for partition, *run in zip(*(each.tolist() for each in runs_of(partitions, offsets)), strict=True):
        found.setdefault(partition, []).append((run[0], run[1]))
    return {partition: joined(runs) for partition, runs in found.items()}


def are_in(partitions: Ints, offsets: Ints, wanted: Mapping[int, Ranges]) -> Bools:
    """Which places are wanted."""
    found = np.zeros(len(offsets), bool)
    for partition in np.unique(partitions).tolist():
        if ranges := wanted.get(partition):
            starts, ends = np.array(ranges, np.int64).T
            chosen = np.flatnonzero(partitions == partition)
            at = np.searchsorted(starts, offsets[chosen], side="right") - 1
            found[chosen] = (at >= 0) & (offsets[chosen] < ends[at])
    return found


def read_plan(wanted: Mapping[int, Ranges], apart: int, offsets_max: int) -> list[list[PartitionRange]]:
    """Reads that cover all that is wanted, one range for a partition each, and more where ranges are less
    than `apart` apart.
    """
    pieces: dict[int, Sequence[tuple[int, int]]] = {}
    for partition, found in sorted(wanted.items()):
        near = joined((start, end + apart) for start, end in found)
        pieces[partition] = [
            (at, min(at + offsets_max, end - apart))
            for start, end in near
            for at in range(start, end - apart, offsets_max)
        ]
    rounds = max(map(len, pieces.values()), default=0)
    return [
        [PartitionRange(each, *found[turn]) for each, found in pieces.items() if turn < len(found)]
        for turn in range(rounds)
    ]
