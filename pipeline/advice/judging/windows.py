"""From 5-minute sums per broker to rows of `skew`: one instance at a time. Pure.

Numpy beneath: pandas' pivots of such small tables took most of a run's time.
"""

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from contracts.quota import BYTE_DIRECTIONS, Direction
from pipeline.advice.judging.skew import Floats, leading_at_the_end, skew

WINDOW_MS: Final = 300_000
HISTORY_MS: Final = 24 * 3_600_000
COLUMNS: Final = (
    *("instance_id", "node_id", "point", "at_ms", "covered_ms", "partitions_led", "stored_bytes"),
    *("produce_bytes", "consume_bytes", "produce_throttled_ms", "consume_throttled_ms", "blocked_ms"),
)
"""What `skew_rows` reads: one row per point and window that was reported."""


class _Grid(NamedTuple):
    """Windows by brokers."""

    usage: pd.DataFrame
    at_ms: npt.NDArray[np.int64]
    node_ids: npt.NDArray[np.int64]
    window_of: npt.NDArray[np.intp]
    broker_of: npt.NDArray[np.intp]

    def largest(self, column: str) -> Floats:
        """One column; NaN where a broker did not report. Several gateways may count for one broker."""
        cells = np.full((len(self.at_ms), len(self.node_ids)), np.nan)
        np.fmax.at(cells, (self.window_of, self.broker_of), self.usage[column].to_numpy(dtype=np.float64))
        return cells

    def sums(self, column: str) -> Floats:
        """One column that adds up, where several gateways count for one broker."""
        cells = np.zeros((len(self.at_ms), len(self.node_ids)))
        np.add.at(cells, (self.window_of, self.broker_of), self.usage[column].to_numpy(dtype=np.float64))
        return np.where(np.isnan(self.largest(column)), np.nan, cells)

    def points(self) -> list[str]:
        """Each broker's last name."""
        names = np.full(len(self.node_ids), "", dtype=object)
        order = np.argsort(self.window_of, kind="stable")
        names[self.broker_of[order]] = self.usage["point"].to_numpy(dtype=object)[order]
        return [str(name) for name in names]


def skew_rows(usage: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows of `contracts.advice.SkewRow`, without the run date, of one instance's windows.

    And two numbers beside them, the same in both rows: `stored_bytes` now and `blocked_ms` of the 24 h.
    """
    at_ms, window_of = np.unique(usage["at_ms"].to_numpy(dtype=np.int64), return_inverse=True)
    node_ids, broker_of = np.unique(usage["node_id"].to_numpy(dtype=np.int64), return_inverse=True)
    grid = _Grid(usage, at_ms, node_ids, window_of, broker_of)
    led = grid.largest("partitions_led")
    stored = last_known(grid.largest("stored_bytes"))[leading_at_the_end(led)]
    blocked_ms = np.fmax.reduce(grid.largest("blocked_ms"), axis=1)
    beside = {"stored_bytes": int(stored.sum()), "blocked_ms": int(np.nansum(blocked_ms))}
    return [_row(grid, direction, led) | beside for direction in BYTE_DIRECTIONS]


def last_known(table: Floats) -> Floats:
    """Each column's last number; 0 where there is none."""
    known = ~np.isnan(table)
    last = len(table) - 1 - np.argmax(known[::-1], axis=0)
    return np.where(known.any(axis=0), table[last, np.arange(table.shape[1])], 0.0)


def _row(grid: _Grid, direction: Direction, led: Floats) -> dict[str, Any]:
    carried = np.maximum(grid.sums(f"{direction}_bytes"), 0.0)  # a correction may be negative
    throttled = np.clip(grid.largest(f"{direction}_throttled_ms"), 0.0, WINDOW_MS)
    found = skew(np.where((led > 0) | (carried > 0), carried, np.nan), throttled, led)
    held_back = np.fmax.reduce(throttled, axis=1)  # somebody reported: never NaN
    covered_ms = np.fmax.reduce(grid.largest("covered_ms"), axis=1)
    rates = np.nansum(carried, axis=1) * 1000 / np.maximum(covered_ms, 1.0)
    at_end = last_known(led)
    lasting_bytes = np.nansum(carried[found.lasting], axis=0)
    throttled_sums = np.nansum(throttled, axis=0)
    names = grid.points()
    points = [
        {
            "point": names[column],
            "node_id": int(node_id),
            "partitions_led": int(at_end[column]),
            "bytes": int(lasting_bytes[column]),
            "throttled_ms": int(throttled_sums[column]),
        }
        for column, node_id in enumerate(grid.node_ids)
    ]
    return {
        "instance_id": str(grid.usage["instance_id"].iloc[0]),
        "direction": str(direction),
        "window_ms": WINDOW_MS,
        "at_ms": grid.at_ms.tolist(),
        "rate_bytes_per_s": np.rint(rates).astype(np.int64).tolist(),
        "p_ratio": _or_none(found.p_ratio),
        "usable_share_history": _or_none(found.usable_share),
        "throttled_ms": held_back.astype(np.int64).tolist(),
        "p_ratio_min": found.p_ratio_min,
        "share_of_time_uneven": found.share_of_time_uneven,
        "usable_share": found.lasting_usable_share,
        "throttled_total_ms": int(held_back.sum()),
        "points": points,
    }


def _or_none(values: Floats) -> list[float | None]:
    plain: list[float | None] = values.tolist()
    for position in np.flatnonzero(np.isnan(values)):
        plain[position] = None
    return plain
