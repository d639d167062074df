"""The time that usage is filed under: the wall clock, but without its steps back.

An interval that was told once must not be told again under the same id with other contents, so time that a
wall clock takes back is made up for slowly. Steps ahead are followed: time passed while the machine slept.
"""

from typing import Final

SLEW_DIVISOR: Final = 10
"""While ahead of the wall clock, time runs slower by one part in so many."""
STEP_BACK_MS: Final = 3_600_000
"""Further ahead than this the clock was plainly wrong before: its step is followed."""


class UsageClock:
    """Epoch ms that go on while the wall clock is set back by less than an hour."""

    def __init__(self, monotonic_ms: int, wall_ms: int) -> None:
        self._monotonic_ms = monotonic_ms
        self._time_ms = wall_ms

    def read(self, monotonic_ms: int, wall_ms: int) -> int:
        """The time now, from both of the machine's clocks."""
        elapsed_ms = max(0, monotonic_ms - self._monotonic_ms)
        ahead_ms = self._time_ms + elapsed_ms - wall_ms
        self._monotonic_ms = monotonic_ms
        if ahead_ms <= 0 or ahead_ms > STEP_BACK_MS:
            self._time_ms = wall_ms
        else:
            self._time_ms += elapsed_ms - min(ahead_ms, elapsed_ms // SLEW_DIVISOR)
        return self._time_ms
