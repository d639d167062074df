"""Runs of pipeline jobs as the console keeps them: what a told status changes, and what is shown of it. Pure.

A job tells its status each second; messages may come twice, or late. A run never goes back in time, and one
that ended stays ended.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from contracts.pipeline import JobState, JobStatus
from tenants.rules.lifecycle import Fault, unfit

LOST_AFTER_MS: Final = 60_000
"""A running job that told nothing for so long is shown as lost: killed, or cut off from the console."""
RUNS_KEPT: Final = 200
"""Runs kept of each job; older ones are forgotten, their counts are not."""
JOBS_MAX: Final = 64
"""Different jobs kept; bounds the labels of metrics. The one that told nothing for longest gives way."""


class RunState(StrEnum):
    """What is shown of a run."""

    RUNNING = "running"
    LOST = "lost"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Run:
    """A run: the last status it told, and when the console heard of it."""

    status: JobStatus
    heard_at_ms: int

    def state(self, now_ms: int) -> RunState:
        """The state that is shown at some time."""
        if self.status.state is JobState.RUNNING and now_ms - self.heard_at_ms >= LOST_AFTER_MS:
            return RunState.LOST
        return RunState(self.status.state.value)

    def rate_per_s(self) -> float:
        """Units done per second, over the whole run."""
        elapsed_ms = self.status.updated_at_ms - self.status.started_at_ms
        return 1000 * self.status.done / elapsed_ms if elapsed_ms > 0 else 0.0


@dataclass(frozen=True, slots=True)
class JobTotals:
    """What is counted of a job over all its runs, forgotten ones included."""

    job: str
    succeeded: int = 0
    failed: int = 0
    last_success_ms: int | None = None
    heard_at_ms: int = 0


def with_told(known: Run | None, told: JobStatus, now_ms: int) -> Run:
    """The run after a status was told; the one that is known where the message is late."""
    if known is None:
        return Run(told, now_ms)
    if known.status.state is not JobState.RUNNING or told.updated_at_ms < known.status.updated_at_ms:
        return known
    return Run(told, now_ms)


def with_end(totals: JobTotals, before: Run | None, after: Run) -> JobTotals:
    """Totals once `after` is stored: a run is counted when it ends, once."""
    state = after.status.state
    was_running = before is None or before.status.state is JobState.RUNNING
    succeeded = int(was_running and state is JobState.SUCCEEDED)
    failed = int(was_running and state is JobState.FAILED)
    return JobTotals(
        totals.job,
        totals.succeeded + succeeded,
        totals.failed + failed,
        after.heard_at_ms if succeeded else totals.last_success_ms,
        max(totals.heard_at_ms, after.heard_at_ms),
    )


def fault_of(told: JobStatus, run_id: str, known: Run | None) -> Fault | None:
    """What cannot be true of a status; None: it can."""
    if told.id != run_id:
        return unfit("id", "is not the id in the path")
    if told.updated_at_ms < told.started_at_ms:
        return unfit("updated_at_ms", "is before started_at_ms")
    if known is not None and known.status.job != told.job:
        return unfit("job", f"this run is one of '{known.status.job}'")
    return None
