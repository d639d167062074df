"""Which batches of a lake table a decode step takes, and what a killed run left undone. Pure.

A lake table is a source with two streams of numbered batches: those of its loads, and those of its backfills,
whose rows have negative numbers (-1 is the first). A decoded table keeps the next batch of each as positions
of its app, beside running totals, so that they are found in the table itself.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final, NamedTuple

from pipeline.ingest.ranges import PartitionRange

LOADS: Final = 0
BACKFILLS: Final = 1
"""Positions: the next batch to decode of each stream."""
SOURCE_ROWS: Final = 2
DROPPED: Final = 3
"""Positions that are totals: lake rows taken so far, and those that did not parse and were dropped."""
REDRIVEN: Final = 4
"""Position of the decoded table: behind the last decode batch that was a re-drive."""
STREAMS: Final = (LOADS, BACKFILLS, SOURCE_ROWS, DROPPED, REDRIVEN)

APPLIED: Final = 0
"""Position of the dead-letter table: behind the last decode batch that changed it."""
STEP_ROWS: Final = 2_000_000


class BatchSpan(NamedTuple):
    """Batches `[start, end)` of loads and of backfills."""

    loads: tuple[int, int]
    backfills: tuple[int, int]


def spread(files: Iterable[tuple[int, int, int]]) -> dict[int, int]:
    """About how many rows each ingest batch has, from files' rows and lowest and highest batch."""
    sizes: dict[int, int] = {}
    for rows, low, high in files:
        share = -(-rows // (high - low + 1))
        for batch in range(low, high + 1):
            sizes[batch] = sizes.get(batch, 0) + share
    return sizes


def plan_steps(
    done: Mapping[int, int], loads_end: int, backfills_end: int, sizes: Mapping[int, int], rows_max: int
) -> list[BatchSpan]:
    """All that is not decoded, in steps of about `rows_max` rows. Backfills come first: they are older.

    Invariant: the steps' spans are disjoint, in order, and cover all up to the ends.
    """
    steps: list[BatchSpan] = []
    load, backfill = done.get(LOADS, 0), done.get(BACKFILLS, 0)
    numbers = [(BACKFILLS, n, sizes.get(-1 - n, 0)) for n in range(backfill, backfills_end)]
    numbers += [(LOADS, n, sizes.get(n, 0)) for n in range(load, loads_end)]
    at = {LOADS: load, BACKFILLS: backfill}
    start = dict(at)
    rows = 0
    for stream, number, size in numbers:
        if rows and rows + size > rows_max:
            steps.append(_span(start, at))
            start, rows = dict(at), 0
        at[stream] = number + 1
        rows += size
    if at != start:
        steps.append(_span(start, at))
    return steps


def _span(start: Mapping[int, int], end: Mapping[int, int]) -> BatchSpan:
    return BatchSpan((start[LOADS], end[LOADS]), (start[BACKFILLS], end[BACKFILLS]))


def positions_after(
    done: Mapping[int, int], span: BatchSpan, rows: int, dropped: int
) -> tuple[PartitionRange, ...]:
    """The decoded table's positions around a step, as its commit has them."""
    taken, gone = done.get(SOURCE_ROWS, 0), done.get(DROPPED, 0)
    return (
        PartitionRange(LOADS, *span.loads),
        PartitionRange(BACKFILLS, *span.backfills),
        PartitionRange(SOURCE_ROWS, taken, taken + rows),
        PartitionRange(DROPPED, gone, gone + dropped),
    )


class Repair(Enum):
    """What must be done before anything else, as a run was killed between two commits."""

    NONE = "none"
    FORGET_LETTERS = "forget letters"
    """Dead letters were written for a batch that was not decoded: it is decoded anew."""
    CLOSE_LETTERS = "close letters"
    """A re-drive decoded records that are still dead letters."""


def repair_of(decoded_batch: int, decoded: Mapping[int, int], applied: int) -> Repair:
    """From the last decode batch, the decoded table's positions and the dead letters' `APPLIED`."""
    if applied > decoded_batch + 1:
        return Repair.FORGET_LETTERS
    return Repair.CLOSE_LETTERS if decoded.get(REDRIVEN, 0) > applied else Repair.NONE
