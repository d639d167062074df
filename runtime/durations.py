"""Histograms of durations for hot paths: a list of integers each, two additions per observation, no search.

Prometheus' own objects cost ten times that. These become families when somebody scrapes. Buckets double from
65.536 us on: which one a duration is in is the length of its binary number.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from prometheus_client.core import HistogramMetricFamily

_FIRST_BITS: Final = 16
_SHOWN: Final = 18
"""Buckets that are told, to 8.6 s; longer ones are in the last."""
_SLOTS: Final = 48
"""Slots for any duration that fits 63 bits."""
BOUNDS_S: Final = tuple(2 ** (_FIRST_BITS + each) / 1e9 for each in range(_SHOWN))

Durations = list[int]
"""How many were shorter than each bound and not than the one before, and at the end the sum in ns. Another
thread reads it: it copies it first."""


def durations() -> Durations:
    """None yet."""
    return [0] * (_SLOTS + 1)


def observe(seen: Durations, duration_ns: int) -> None:
    """Count one."""
    seen[(duration_ns >> _FIRST_BITS).bit_length()] += 1
    seen[-1] += duration_ns


def added(each: Sequence[Durations]) -> Durations:
    """What was observed in any of them."""
    return list(map(sum, zip(*map(list, each), strict=True)))


def family(
    name: str, text: str, labels: Sequence[str], seen: Iterable[tuple[Sequence[str], Durations]]
) -> "HistogramMetricFamily":
    """For a collector: what was observed under each combination of labels; nothing where nothing was."""
    from prometheus_client.core import HistogramMetricFamily  # here: who only counts needs none of it

    found = HistogramMetricFamily(name, text, labels=labels)
    for values, live in seen:
        counts = list(live)
        total, buckets = 0, []
        for bound_s, count in zip(BOUNDS_S, counts[:_SHOWN], strict=True):
            total += count
            buckets.append((str(bound_s), float(total)))
        total += sum(counts[_SHOWN:_SLOTS])
        buckets.append(("+Inf", float(total)))
        if total:
            found.add_metric(values, buckets, counts[-1] / 1e9)
    return found
