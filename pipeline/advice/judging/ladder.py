"""The steps in which sizes are advised (docs/advice.md)."""

from bisect import bisect_left
from typing import Final

from contracts.units import GB, MB

RATES_BYTES_PER_S: Final = (
    *(100_000, 200_000, 500_000, MB, 2 * MB, 5 * MB, 10 * MB),
    *range(20 * MB, 1_600 * MB + 1, 20 * MB),
)
"""Above these in steps of 200 MB/s. The first is the smallest rate an instance may have."""
CAPACITIES_BYTES: Final = (
    *(GB, 2 * GB, 5 * GB, 10 * GB, 20 * GB, 50 * GB),
    *range(100 * GB, 1_000 * GB + 1, 100 * GB),
)
"""Above these in steps of 500 GB."""
_RATE_STEP: Final = 200 * MB
_CAPACITY_STEP: Final = 500 * GB


def with_headroom(need: int) -> int:
    """The need and 30 % more, in whole bytes."""
    return -(-need * 13 // 10)


def rate_for(need_bytes_per_s: int) -> int:
    """The smallest rate of the ladder that holds the need with headroom."""
    return _step(with_headroom(need_bytes_per_s), RATES_BYTES_PER_S, _RATE_STEP)


def capacity_for(need_bytes: int) -> int:
    """The smallest capacity of the ladder that holds the need with headroom."""
    return _step(with_headroom(need_bytes), CAPACITIES_BYTES, _CAPACITY_STEP)


def _step(wanted: int, ladder: tuple[int, ...], beyond: int) -> int:
    assert wanted >= 0, wanted
    position = bisect_left(ladder, wanted)
    if position < len(ladder):
        return ladder[position]
    return ladder[-1] - (ladder[-1] - wanted) // beyond * beyond
