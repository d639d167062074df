"""How evenly traffic falls on brokers, from their sums of 5 minutes: the figures, and rows of `skew`. Pure.

Tables here have one row per window (oldest first) and one column per broker; NaN where a broker led nothing
in a window, or did not report.
"""

import datetime
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from contracts.advice import PointShare, SkewRow
from contracts.quota import BYTE_DIRECTIONS, Direction

Floats = npt.NDArray[np.float64]
Columns = Mapping[str, npt.NDArray[Any]]
"""Columns of a table by their names."""

UNEVEN_RATIO: Final = 0.5
WINDOW_MS: Final = 300_000
HISTORY_MS: Final = 24 * 3_600_000
COLUMNS: Final = (
    *("node_id", "point", "at_ms", "covered_ms", "partitions_led", "stored_bytes"),
    *("produce_bytes", "consume_bytes", "produce_throttled_ms", "consume_throttled_ms", "blocked_ms"),
)
"""What `skew_rows` reads: one row per broker and window that was reported, in order of time."""
_SILENT_WINDOWS: Final = 3


class Balance(NamedTuple):
    """How even one instance was."""

    rows: tuple[SkewRow, ...] = ()
    """One per direction."""
    stored_bytes: int | None = None
    """By the last reports of the brokers that lead."""
    blocked_ms: int = 0
    """Of the 24 h."""


def balance(usage: Columns, instance_id: str, run_date: datetime.date) -> Balance:
    """Of one instance's windows."""
    at_ms, window_of = np.unique(usage["at_ms"], return_inverse=True)
    node_ids, broker_of = np.unique(usage["node_id"], return_inverse=True)

    def grid(column: str) -> Floats:
        cells = np.full((len(at_ms), len(node_ids)), np.nan)
        cells[window_of, broker_of] = usage[column]
        return cells

    led, covered_ms = grid("partitions_led"), np.fmax.reduce(grid("covered_ms"), axis=1)
    points = dict(zip(usage["node_id"].tolist(), usage["point"].tolist(), strict=True))

    def row(direction: Direction) -> SkewRow:
        carried = np.maximum(grid(f"{direction}_bytes"), 0.0)  # a correction may be negative
        throttled = np.clip(grid(f"{direction}_throttled_ms"), 0.0, WINDOW_MS)
        found = skew(np.where((led > 0) | (carried > 0), carried, np.nan), throttled, led)
        held_back = np.fmax.reduce(throttled, axis=1)  # somebody reported: never NaN
        rates = np.nansum(carried, axis=1) * 1000 / np.maximum(covered_ms, 1.0)
        of_brokers = (
            last_known(led),
            np.nansum(carried[found.lasting], axis=0),
            np.nansum(throttled, axis=0),
        )
        return SkewRow(
            run_date=run_date,
            instance_id=instance_id,
            direction=direction.value,
            window_ms=WINDOW_MS,
            at_ms=at_ms.tolist(),
            rate_bytes_per_s=np.rint(rates).astype(np.int64).tolist(),
            p_ratio=_or_none(found.p_ratio),
            usable_share_history=_or_none(found.usable_share),
            throttled_ms=held_back.astype(np.int64).tolist(),
            p_ratio_min=found.p_ratio_min,
            share_of_time_uneven=found.share_of_time_uneven,
            usable_share=found.lasting_usable_share,
            throttled_total_ms=int(held_back.sum()),
            points=[
                PointShare(
                    point=points[node_id],
                    node_id=node_id,
                    partitions_led=int(leads),
                    bytes=int(carries),
                    throttled_ms=int(holds),
                )
                for node_id, leads, carries, holds in zip(node_ids.tolist(), *of_brokers, strict=True)
            ],
        )

    stored = last_known(grid("stored_bytes"))[leading_at_the_end(led)]
    blocked_ms = np.nansum(np.fmax.reduce(grid("blocked_ms"), axis=1))
    return Balance(tuple(map(row, BYTE_DIRECTIONS)), int(stored.sum()), int(blocked_ms))


def last_known(table: Floats, within: int | None = None) -> Floats:
    """Each column's last number, if it is among so many last ones; else 0."""
    if not len(table):
        return np.zeros(table.shape[1])
    known = ~np.isnan(table)
    ago = np.argmax(known[::-1], axis=0)
    is_known = known.any(axis=0) & (ago < (len(table) if within is None else within))
    return np.where(is_known, table[len(table) - 1 - ago, np.arange(table.shape[1])], 0.0)


def _or_none(values: Floats) -> list[float | None]:
    return [None if np.isnan(value) else value for value in values.tolist()]


class Skew(NamedTuple):
    """The skew of one instance and direction. Per window: NaN while nothing flows."""

    p_ratio: Floats
    usable_share: Floats
    p_ratio_min: float | None
    share_of_time_uneven: float | None
    lasting: npt.NDArray[np.bool_]
    """The windows that `lasting_usable_share` is taken from."""
    lasting_usable_share: float | None


def skew(carried_bytes: Floats, throttled_ms: Floats, partitions_led: Floats) -> Skew:
    """The history of one direction, and what of its unevenness lasts."""
    total = np.nansum(carried_bytes, axis=1) if carried_bytes.size else np.zeros(len(carried_bytes))
    flowing = total > 0
    p_ratio, usable = np.full(len(total), np.nan), np.full(len(total), np.nan)
    if flowing.any():
        rows = carried_bytes[flowing]
        largest = np.nanmax(rows, axis=1)
        p_ratio[flowing] = np.nanmin(rows, axis=1) / largest
        usable[flowing] = np.nanmean(rows, axis=1) / largest
    held_back = flowing & (np.nansum(throttled_ms, axis=1) > 0)
    lasting = since_last_move(partitions_led)
    lasting &= held_back if (lasting & held_back).any() else flowing
    return Skew(
        p_ratio,
        usable,
        float(np.min(p_ratio[flowing])) if flowing.any() else None,
        float(np.mean(p_ratio[flowing] < UNEVEN_RATIO)) if flowing.any() else None,
        lasting,
        usable_share(np.nansum(carried_bytes[lasting], axis=0)[leading_at_the_end(partitions_led)]),
    )


def usable_share(loads: Sequence[float] | Floats) -> float | None:
    """mean / max of what brokers carry: an even split of T begins to throttle at T times this."""
    values = np.asarray(loads, dtype=np.float64)
    largest = float(values.max()) if len(values) else 0.0
    return float(values.mean()) / largest if largest > 0 else None


def since_last_move(partitions_led: Floats) -> npt.NDArray[np.bool_]:
    """The windows at the end in which every point leads as many partitions as it does last.

    What was carried before leaders moved says nothing of how it is now. A window in which a point did not
    report counts as no move.
    """
    settled = np.ones(len(partitions_led), dtype=np.bool_)
    if not partitions_led.size:
        return settled
    at_end = _at_the_end(partitions_led)
    differs = (~np.isnan(partitions_led) & (partitions_led != at_end)).any(axis=1)
    moved = np.flatnonzero(differs)
    if len(moved):
        settled[: moved[-1] + 1] = False
    return settled


def leading_at_the_end(partitions_led: Floats) -> npt.NDArray[np.bool_]:
    """Which points lead something, as each reported last."""
    return _at_the_end(partitions_led) > 0


def _at_the_end(partitions_led: Floats) -> Floats:
    """0 for a broker that has been silent for a while: others lead for it by now."""
    return last_known(partitions_led, _SILENT_WINDOWS)
