"""How evenly traffic falls on brokers, from bytes per window and point. Pure.

Tables here have one row per window (5 minutes, oldest first) and one column per point; NaN where a point led
nothing in a window, or did not report.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

UNEVEN_RATIO: Final = 0.5
_SILENT_WINDOWS: Final = 3


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
    """Each point's last number; 0 for one that has been silent for a while: others lead for it by now."""
    if not len(partitions_led):
        return np.zeros(partitions_led.shape[1])
    known = ~np.isnan(partitions_led)
    ago = np.argmax(known[::-1], axis=0)
    last = partitions_led[len(partitions_led) - 1 - ago, np.arange(partitions_led.shape[1])]
    return np.where(known.any(axis=0) & (ago < _SILENT_WINDOWS), last, 0.0)
