"""The steps in which sizes are advised (docs/advice.md)."""

from bisect import bisect_left
from typing import Final

_MB: Final = 10**6
_GB: Final = 10**9
RATES_BYTES_PER_S: Final = (
    *(100_000, 200_000, 500_000, _MB, 2 * _MB, 5 * _MB, 10 * _MB),
    *range(20 * _MB, 1_600 * _MB + 1, 20 * _MB),
)
"""Above these in steps of 200 MB/s. The first is the smallest rate an instance may have."""
CAPACITIES_BYTES: Final = (
    *(_GB, 2 * _GB, 5 * _GB, 10 * _GB, 20 * _GB, 50 * _GB),
    *range(100 * _GB, 1_000 * _GB + 1, 100 * _GB),
)
"""Above these in steps of 500 GB."""
_RATE_STEP: Final = 200 * _MB
_CAPACITY_STEP: Final = 500 * _GB


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
