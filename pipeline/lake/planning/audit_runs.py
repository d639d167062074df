"""Offsets as runs without holes: what a table has, what it has twice, and what it lacks. Pure."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from pipeline.ingest.ranges import PartitionRange

Ints = np.ndarray[tuple[int], np.dtype[np.int64]]
Bools = np.ndarray[tuple[int], np.dtype[np.bool_]]


class Runs(NamedTuple):
    """Offsets `[start, end)` of one partition, each held by one row; runs may overlap."""

    starts: Ints
    ends: Ints
    labels: Ints
    """What each run belongs to: the number of an hour."""


class Held(NamedTuple):
    """What a partition's runs amount to."""

    starts: Ints
    ends: Ints
    """Offsets that are there, in runs that are disjoint and in order."""
    doubled: Runs
    """Offsets that are there once more, with the label of the run that holds them again."""

    @property
    def offsets(self) -> int:
        """How many different ones."""
        return int((self.ends - self.starts).sum())

    def within(self, start: int, end: int) -> int:
        """How many in `[start, end)`."""
        return int(np.maximum(np.minimum(self.ends, end) - np.maximum(self.starts, start), 0).sum())


def runs_of(partitions: Ints, offsets: Ints) -> tuple[Ints, Ints, Ints]:
    """Partition, start and end of the runs in rows of any order; an offset's second row begins a new one."""
    order = np.lexsort((offsets, partitions))
    partition, offset = partitions[order], offsets[order]
    if not len(offset):
        empty = np.empty(0, np.int64)
        return empty, empty, empty
    breaks = np.flatnonzero((np.diff(partition) != 0) | (np.diff(offset) != 1)) + 1
    first = np.concatenate(([0], breaks))
    last = np.concatenate((breaks, [len(offset)])) - 1
    return partition[first].astype(np.int64), offset[first], offset[last] + 1


def held(runs: Runs) -> Held:
    """Join one partition's runs."""
    order = np.lexsort((runs.ends, runs.starts))
    starts, ends, labels = runs.starts[order], runs.ends[order], runs.labels[order]
    if not len(starts):
        return Held(starts, ends, Runs(starts, ends, labels))
    reached = np.maximum.accumulate(ends)
    before = np.concatenate(([starts[0]], reached[:-1]))
    again = np.minimum(ends, before)
    is_doubled = again > starts
    fresh = np.flatnonzero(starts[1:] > reached[:-1]) + 1
    first = np.concatenate(([0], fresh))
    last = np.concatenate((fresh, [len(starts)])) - 1
    doubled = Runs(starts[is_doubled], again[is_doubled], labels[is_doubled])
    return Held(starts[first], reached[last], doubled)


def lacking(found: Held, claimed: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Offsets within the claims (disjoint, `[start, end)`) that are not there, in order."""
    gaps: list[tuple[int, int]] = []
    for start, end in sorted(claimed):
        first = int(np.searchsorted(found.ends, start, side="right"))
        last = int(np.searchsorted(found.starts, end, side="left"))
        at = start
        for low, high in zip(found.starts[first:last].tolist(), found.ends[first:last].tolist(), strict=True):
            if low > at:
                gaps.append((at, low))
            at = max(at, high)
        if at < end:
            gaps.append((at, end))
    return gaps


def joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Offsets as disjoint ranges in order."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(each for each in ranges if each[0] < each[1]):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def clipped(ranges: Iterable[tuple[int, int]], low: int, high: int) -> list[tuple[int, int]]:
    """What of them lies in `[low, high)`."""
    cut = ((max(start, low), min(end, high)) for start, end in ranges)
    return [(start, end) for start, end in cut if start < end]


def within(offsets: Ints, ranges: Sequence[tuple[int, int]]) -> Bools:
    """Which offsets lie in disjoint ranges in order."""
    starts = np.array([start for start, _ in ranges], np.int64)
    ends = np.array([end for _, end in ranges], np.int64)
    at = np.searchsorted(starts, offsets, side="right") - 1
    return (at >= 0) & (offsets < ends[np.maximum(at, 0)]) if len(starts) else np.zeros(len(offsets), bool)


def read_plan(
    gaps: dict[int, list[tuple[int, int]]], apart: int, offsets_max: int
) -> list[list[PartitionRange]]:
    """Reads that cover all gaps, one range per partition each; gaps less than `apart` apart are joined."""
    spans: dict[int, list[tuple[int, int]]] = {}
    for partition, found in gaps.items():
        near = joined((start, end + apart) for start, end in found)
        pieces = [piece for start, end in near for piece in _pieces(start, end - apart, offsets_max)]
        if pieces:
            spans[partition] = pieces
    rounds = max((len(each) for each in spans.values()), default=0)
    return [
        [PartitionRange(p, *each[turn]) for p, each in sorted(spans.items()) if turn < len(each)]
        for turn in range(rounds)
    ]


def _pieces(start: int, end: int, offsets_max: int) -> list[tuple[int, int]]:
    return [(at, min(at + offsets_max, end)) for at in range(start, end, offsets_max)]


def as_ranges(offsets: Ints) -> list[tuple[int, int]]:
    """Offsets in any order as ranges."""
    sorted_offsets = np.unique(offsets)
    _, starts, ends = runs_of(np.zeros(len(sorted_offsets), np.int64), sorted_offsets)
    return list(zip(starts.tolist(), ends.tolist(), strict=True))
