"""What locust's users report of their requests, kept with the time of each."""

import math
import time
from collections import Counter
from typing import NamedTuple

from ctl.bench.measure import percentile
from loadtests.report import Series


class Taken(NamedTuple):
    """One request."""

    at_s: float
    """Its end, since the beginning."""
    ms: float
    name: str


class Timings:
    """How long the requests of one run took."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self.taken: list[Taken] = []
        """Times of requests that were answered."""
        self.failed: Counter[str] = Counter()
        """Others, by the first words of what went wrong."""

    def heard(
        self, name: str, response_time: float, exception: BaseException | None = None, **_: object
    ) -> None:
        """A listener of locust's `request` event."""
        if exception is None:
            self.taken.append(Taken(time.monotonic() - self._began_s, float(response_time), name))
        else:
            self.failed[f"{name}: {exception}"[:100]] += 1

    def failures(self) -> int:
        """How many were not answered."""
        return sum(self.failed.values())

    def ms(self, *names: str) -> list[float]:
        """How long requests took; no name is all."""
        return [one.ms for one in self.taken if not names or one.name in names]

    def percentile_ms(self, fraction: float, *names: str) -> float:
        """A percentile of the answered requests; not a number where there are none."""
        values = self.ms(*names)
        return percentile(values, fraction) if values else math.nan

    def per_s(self) -> float:
        """Answered requests per second, from the first to the last."""
        if len(self.taken) < 2:
            return math.nan
        ends = [one.at_s for one in self.taken]
        return len(ends) / max(1e-3, max(ends) - min(ends))

    def dots(self) -> list[Series]:
        """Every request over time, by name."""
        names = sorted({one.name for one in self.taken})
        return [
            Series(name, [(one.at_s, one.ms) for one in self.taken if one.name == name], dots=True)
            for name in names
        ]

    def lines(self) -> list[str]:
        """A table for people."""
        names = sorted({one.name for one in self.taken})
        rows = [
            f"{name:<28}{len(self.ms(name)):>8,}{self.percentile_ms(0.5, name):>10.1f}"
            f"{self.percentile_ms(0.99, name):>10.1f}"
            for name in names
        ]
        failed = [f"failed {count:,} x {what}" for what, count in self.failed.most_common(5)]
        return [f"{'request':<28}{'count':>8}{'p50 ms':>10}{'p99 ms':>10}", *rows, *failed]
