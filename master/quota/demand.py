"""What one point's clients ask of an instance, as a policy sees it: bytes or us of CPU per second."""

from typing import Final, NamedTuple

WANTED_MAX: Final = 2**62
"""What a broker wants that was held back all the time: it may want anything."""
RECENT_REPORTS: Final = 6
"""So far back a pattern is looked for."""
_STEADY_REPORTS: Final = 3
_LULL: Final = 4
"""A burst is more than so many times the lull beside it."""


class Demand(NamedTuple):
    """One point: its weight (n_i, at least one), r_i, and what else a policy may go by."""

    weight: int
    rate_per_s: int
    wanted_per_s: int = 0
    """What its clients would send unhindered, see `expected`."""
    applied_per_s: int = 0
    """q_i in force: as the broker said, or as it was answered since. 0: none yet."""
    age_ms: int = 0
    """Since its last report."""
    window_ms: int = 1_000
    """The time that report is about."""
    waited_ms: int = 0
    """At its last report, its clients had been held back for so long without a break; 0: they were not."""

    @property
    def waiting_ms(self) -> int:
        """How long its clients have been held back by now."""
        return self.age_ms + self.waited_ms if self.waited_ms else 0


class Sample(NamedTuple):
    """One report of one direction."""

    rate_per_s: int
    throttled_ms: int
    window_ms: int

    @property
    def wanted_per_s(self) -> int:
        """All it carried came in the part of the time in which its bucket was not in debt."""
        free_ms = self.window_ms - self.throttled_ms
        return self.rate_per_s * self.window_ms // free_ms if free_ms > 0 else WANTED_MAX


def expected(recent: tuple[Sample, ...]) -> int:
    """What a broker's clients are expected to want next, from its last reports, oldest first.

    The latest report says it, but for two patterns: bursts with lulls between them will come again, and what
    merely wavers is taken for its mean.
    """
    if not recent:
        return 0
    if _comes_and_goes(recent):
        return max(sample.wanted_per_s for sample in recent)
    last = recent[-_STEADY_REPORTS:]
    rates = [sample.rate_per_s for sample in last]
    if 3 * min(rates) >= 2 * max(rates) and not any(sample.throttled_ms for sample in last):
        return sum(rates) // len(rates)
    return recent[-1].wanted_per_s


def waited_ms(recent: tuple[Sample, ...]) -> int:
    """How long clients had been held back at the last report: breaks of a tenth of a window do not count."""
    waited = 0
    for sample in reversed(recent):
        waited += sample.throttled_ms
        if 10 * sample.throttled_ms < 9 * sample.window_ms:
            break
    return waited


def _comes_and_goes(recent: tuple[Sample, ...]) -> bool:
    """Whether there was a lull between two bursts."""
    rates = [sample.rate_per_s for sample in recent]
    return any(
        min(max(rates[:middle]), max(rates[middle + 1 :])) > _LULL * rates[middle]
        for middle in range(1, len(rates) - 1)
    )
