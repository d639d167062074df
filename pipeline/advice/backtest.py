"""How wrong days to full are: on invented histories, whose end is known."""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from contracts.advice import ENOUGH_HISTORY_HOURS
from pipeline.advice.judging.forecast import Series, filling, without_clean_ups
from pipeline.advice.judging.hours import HISTORY_H

_FUTURE_H: Final = 120 * 24
_BEFORE_H: Final = 400
"""What is kept at first is older than what is known."""
_DAY_H: Final = 24
_ALARM_DAYS: Final = 60.0


class History(NamedTuple):
    """Bytes stored in each hour, those of the future too."""

    stored: Series
    known_h: int
    fills: bool = True


class Errors(NamedTuple):
    """Of one kind of history."""

    kind: str
    histories: int
    fill: int
    median: float | None
    """Of |days said - days that came| / days that came."""
    p90: float | None
    unsaid: int
    """Of those that fill: nothing was said."""
    never: int
    """That do not fill, with a fifth more room than was ever needed."""
    false_alarms: int
    """Of those: said to be full within two months."""


def backtest(histories: int) -> list[Errors]:
    """Errors by kind, over so many histories each; the same ones every time."""
    return [_errors(kind, make, histories) for kind, make in KINDS]


def _errors(kind: str, make: "Callable[[_World], History]", histories: int) -> Errors:
    worlds = [_World(seed) for seed in range(histories)]
    errors, unsaid, never, alarms = [], 0, 0, 0
    for world in worlds:
        stored, known_h, fills = make(world)
        now, future = float(stored[known_h - 1]), stored[known_h:]
        capacity = now + world.between(0.1, 1.0) * (future.max() - now) if fills else 1.2 * stored.max()
        kept = without_clean_ups(stored[:known_h])
        said = filling(kept).days_to_full(now, float(capacity)).expected
        if not fills:
            never, alarms = never + 1, alarms + (said is not None and said < _ALARM_DAYS)
        elif said is None:
            unsaid += 1
        else:
            came = (int(np.argmax(future >= capacity)) + 1) / _DAY_H
            errors.append(abs(said - came) / came)
    median, p90 = (float(np.quantile(errors, at)) if errors else None for at in (0.5, 0.9))
    return Errors(kind, histories, histories - never, median, p90, unsaid, never, int(alarms))


class _World:
    """Where one history happens."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def between(self, low: float, high: float) -> float:
        return float(self._generator.uniform(low, high))

    def hours(self, low: int, high: int) -> int:
        return int(self._generator.integers(low, high))

    def inflow(self, hours: int, *, season: bool = True, growth_per_day: float = 0.0) -> Series:
        """Bytes that come in each hour: uneven by half, with quiet nights and weekends."""
        at = np.arange(hours)
        rate = self.between(20, 200) * 1e6 / _DAY_H * (1 + growth_per_day * at / _DAY_H)
        if season:
            weekend = self.between(0.1, 0.9)
            rate = (
                rate * (1 + 0.8 * np.sin(at / _DAY_H * 2 * np.pi)) * np.where(at // 24 % 7 >= 5, weekend, 1)
            )
        noisy: Series = rate * self._generator.gamma(4, 0.25, hours)
        return noisy

    def growing(self, *, season: bool = True, clean_ups: int = 0) -> History:
        stored = 1e9 + np.cumsum(self.inflow(HISTORY_H + _FUTURE_H, season=season))
        for hours_ago in sorted((self.hours(1, 500) for _ in range(clean_ups)), reverse=True):
            at = HISTORY_H - hours_ago
            stored[at:] -= stored[at - 1] * self.between(0.6, 1.0)
        return History(stored, HISTORY_H)

    def retained(self, growth_per_day: float = 0.0) -> History:
        """Retention takes whole segments, one at a time: a saw-tooth."""
        retention_h, segment_h = self.hours(24, 240), self.hours(1, 60)
        inflow = self.inflow(_BEFORE_H + HISTORY_H + _FUTURE_H, growth_per_day=growth_per_day)
        stored = _without_old(inflow, retention_h, segment_h)[_BEFORE_H:]
        return History(stored, HISTORY_H, growth_per_day > 0)

    def new(self, retention_h: int | None = None) -> History:
        """From nothing, two or three weeks ago."""
        known_h = ENOUGH_HISTORY_HOURS + self.hours(0, 168)
        inflow = self.inflow(known_h + _FUTURE_H)
        if retention_h is None:
            return History(np.cumsum(inflow), known_h)
        return History(_without_old(inflow, retention_h, 6), known_h, fills=False)


def _without_old(inflow: Series, retention_h: int, segment_h: int) -> Series:
    total = np.concatenate([[0.0], np.cumsum(inflow)])
    gone = np.maximum((np.arange(len(inflow)) - retention_h) // segment_h * segment_h, 0)
    kept: Series = total[1:] - total[gone]
    return kept


KINDS: Final[tuple[tuple[str, Callable[[_World], History]], ...]] = (
    ("even growth", lambda world: world.growing(season=False)),
    ("growth by day and week", lambda world: world.growing()),
    ("two clean-ups by hand", lambda world: world.growing(clean_ups=2)),
    ("retention's saw-tooth", lambda world: world.retained()),
    ("saw-tooth of growing traffic", lambda world: world.retained(growth_per_day=0.03)),
    ("new tenant", lambda world: world.new()),
    ("new tenant, retention of a week", lambda world: world.new(retention_h=168)),
)
