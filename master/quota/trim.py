"""Sets right what an engine's throttling lets through beside its quota. Pure.

Kafka judges by windows, and each connection by itself: who is throttled all the time gets some tenth more
than the quota, or less, by the number of windows and connections. What gets through is metered, so the quota
that is set is the share times a factor that follows the measure.
"""

from typing import Final

SETTLES_MS: Final = 6_000
"""After a change of share or factor its effect is not judged: Kafka's windows remember."""
JUDGED_MS: Final = 8_000
_THROTTLED_PART: Final = 4
"""Only who was throttled for a fourth of the time at least says something about the quota."""
_STEADY_PART: Final = 20
"""A share that has changed by less than a twentieth is the same."""
ONE: Final = 1_000
LOWEST: Final = 750
HIGHEST: Final = 1_100
_STEP_MAX: Final = 150


class Trim:
    """One direction of one instance at one broker."""

    __slots__ = ("_base_ms", "_settled_ms", "_share", "_throttled_ms", "_used", "per_mille")

    def __init__(self) -> None:
        self.per_mille = ONE
        """Of the share, to be set."""
        self._share = 0
        self._settled_ms = 0
        """From when on it is judged."""
        self._base_ms = self._used = self._throttled_ms = 0
        """What it is compared with."""

    def of(self, share: int, used: int, throttled_ms: int, now_ms: int) -> int:
        """What is to be set for a share, with what was carried so far and how long it was throttled."""
        is_new = _STEADY_PART * abs(share - self._share) > self._share
        is_judged = now_ms - self._base_ms >= JUDGED_MS and self._base_ms >= self._settled_ms
        if is_judged and not is_new:
            self._judge(used - self._used, throttled_ms - self._throttled_ms, now_ms - self._base_ms)
        if is_new or is_judged:
            self._share = share
            self._settled_ms = now_ms + SETTLES_MS
        if self._base_ms < self._settled_ms:
            self._base_ms, self._used, self._throttled_ms = now_ms, used, throttled_ms
        return max(1, share * self.per_mille // ONE)

    def _judge(self, used: int, throttled_ms: int, elapsed_ms: int) -> None:
        if not used or _THROTTLED_PART * throttled_ms < elapsed_ms:
            return
        fitting = self.per_mille * self._share * elapsed_ms // (used * 1_000)
        step = min(_STEP_MAX, max(-_STEP_MAX, fitting - self.per_mille))
        self.per_mille = min(HIGHEST, max(LOWEST, self.per_mille + step))
