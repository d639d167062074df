"""From 5-minute sums per broker to rows of `skew`: one instance at a time. Pure."""

from typing import Any, Final

import numpy as np
import pandas as pd

from contracts.quota import Direction
from pipeline.advice.skew import Floats, Skew, leading_at_the_end, skew

WINDOW_MS: Final = 300_000
HISTORY_MS: Final = 24 * 3_600_000
COLUMNS: Final = (
    *("instance_id", "node_id", "point", "at_ms", "covered_ms", "partitions_led", "stored_bytes"),
    *("produce_bytes", "consume_bytes", "produce_throttled_ms", "consume_throttled_ms", "blocked_ms"),
)
"""What `skew_rows` reads: one row per broker and window that was reported."""


def skew_rows(usage: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows of `contracts.advice.SkewRow`, without the run date, of one instance's windows.

    And two numbers beside them, the same in both rows: `stored_bytes` now and `blocked_ms` of the 24 h.
    """
    usage = usage.sort_values(["node_id", "at_ms"])
    led = _table(usage, "partitions_led")
    leads = led.to_numpy() > 0
    covered_ms = np.fmax.reduce(_table(usage, "covered_ms").to_numpy(), axis=1)
    at_end = leading_at_the_end(led.to_numpy())
    stored = usage.groupby("node_id")["stored_bytes"].last().to_numpy()[at_end]
    blocked_ms = np.fmax.reduce(_table(usage, "blocked_ms").to_numpy(), axis=1)
    beside = {"stored_bytes": int(stored.sum()), "blocked_ms": int(np.nansum(blocked_ms))}
    rows = []
    for direction in Direction:
        carried = _table(usage, f"{direction}_bytes").to_numpy()
        throttled = np.clip(_table(usage, f"{direction}_throttled_ms").to_numpy(), 0.0, WINDOW_MS)
        of_leaders = np.where(leads | (carried > 0), carried, np.nan)
        found = skew(of_leaders, throttled, led.to_numpy())
        rows.append(_row(usage, direction, found, carried, throttled, covered_ms, led) | beside)
    return rows


def _row(
    usage: pd.DataFrame,
    direction: Direction,
    found: Skew,
    carried: Floats,
    throttled: Floats,
    covered_ms: Floats,
    led: pd.DataFrame,
) -> dict[str, Any]:
    held_back = np.fmax.reduce(throttled, axis=1)
    held_back = np.where(np.isnan(held_back), 0.0, held_back)
    rates = np.nansum(carried, axis=1) * 1000 / np.maximum(covered_ms, 1.0)
    lasting = found.lasting
    last = usage.groupby("node_id").last()
    points = [
        {
            "point": str(last.loc[node_id, "point"]),
            "node_id": int(node_id),
            "partitions_led": int(last.loc[node_id, "partitions_led"]),
            "bytes": int(np.nansum(carried[lasting, column])),
            "throttled_ms": int(np.nansum(throttled[:, column])),
        }
        for column, node_id in enumerate(led.columns)
    ]
    return {
        "instance_id": str(usage["instance_id"].iloc[0]),
        "direction": str(direction),
        "window_ms": WINDOW_MS,
        "at_ms": [int(at) for at in led.index],
        "rate_bytes_per_s": [round(rate) for rate in rates],
        "p_ratio": _or_none(found.p_ratio),
        "usable_share_history": _or_none(found.usable_share),
        "throttled_ms": [int(each) for each in held_back],
        "p_ratio_min": found.p_ratio_min,
        "share_of_time_uneven": found.share_of_time_uneven,
        "usable_share": found.lasting_usable_share,
        "throttled_total_ms": int(held_back.sum()),
        "points": points,
    }


def _table(usage: pd.DataFrame, column: str) -> pd.DataFrame:
    """Windows by brokers; NaN where a broker did not report."""
    return usage.pivot(index="at_ms", columns="node_id", values=column).astype(np.float64)


def _or_none(values: Floats) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]
