"""One direction of one instance on one point, as reported: rates out of counters that only grow."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from contracts.quota import FlowCounters
from master.quota.demand import RECENT_REPORTS, Sample, expected, waited_ms

ELAPSED_MS_MIN: Final = 100
"""Reports closer together are judged as if they were this far apart: a hiccup is not a peak."""


class Refusal(StrEnum):
    """Why a report was refused; also a metric label."""

    MALFORMED = "malformed"
    VERSION = "version"
    COUNTER_WENT_BACK = "counter_went_back"
    LISTED_TWICE = "listed_twice"


class ReportRefusedError(Exception):
    """The report contradicts itself or what the same run said before; nothing of it was taken."""

    def __init__(self, reason: Refusal, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


@dataclass(slots=True)
class FlowEntry:
    """One direction of one instance on one point; the unit is the direction's."""

    counters: FlowCounters = field(default_factory=FlowCounters)
    rate_per_s: int | None = None
    """r_i; None until two reports of one run, or the first of a run, were seen."""
    throttled_ms_per_s: int = 0
    applied_per_s: int = 0
    """q_i in force: as reported, or as granted since."""
    recent: tuple[Sample, ...] = ()
    """The last few reports, oldest first; what follows from them is kept, as decisions are many."""
    wanted_per_s: int = 0
    waited_ms: int = 0
    window_ms: int = 0

    def measure(self, counters: FlowCounters, elapsed_ms: int) -> None:
        """The rates that newer counters of the same run make."""
        charged = counters.used + counters.overhead - self.counters.used - self.counters.overhead
        self.rate_per_s = charged * 1000 // elapsed_ms
        throttled = (counters.throttled_ms - self.counters.throttled_ms) * 1000 // elapsed_ms
        self.throttled_ms_per_s = min(1000, throttled)
        held_back_ms = min(elapsed_ms, counters.throttled_ms - self.counters.throttled_ms)
        latest = Sample(self.rate_per_s, held_back_ms, elapsed_ms)
        self.recent = (*self.recent, latest)[-RECENT_REPORTS:]
        self.wanted_per_s = expected(self.recent)
        self.waited_ms = waited_ms(self.recent)
        self.window_ms = elapsed_ms

    def advance(self, counters: FlowCounters, elapsed_ms: int, *, has_base: bool) -> None:
        """Take newer counters. Without a base r stays what it was: unknown, or of the run before."""
        if has_base:
            self.measure(counters, elapsed_ms)
        self.counters = counters
        self.applied_per_s = counters.rate_per_s

    def rest(self) -> None:
        """Not listed in a report: idle and unchanged."""
        self.measure(self.counters, ELAPSED_MS_MIN)

    def start_run(self) -> None:
        """The point started anew. The rate it applies is kept until it says another one."""
        self.counters = FlowCounters(rate_per_s=self.counters.rate_per_s)

    def check_growth(self, name: str, instance_id: str, new: FlowCounters) -> None:
        """Raises: ReportRefusedError when a counter of the same run is smaller than before."""
        old = self.counters
        grows = new.used >= old.used and new.overhead >= old.overhead and new.refused >= old.refused
        if not grows or new.throttled_ms < old.throttled_ms:
            raise ReportRefusedError(
                Refusal.COUNTER_WENT_BACK,
                f"a {name} counter of instance {instance_id} is smaller than before in the same run",
            )
