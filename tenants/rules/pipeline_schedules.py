"""When the pipeline's jobs run by themselves: cron expressions of UTC, and what of them is due. Pure.

What was missed, while no runner was there or another job ran, is made good once, however often that was.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from cronsim import CronSim, CronSimError

from contracts.pipeline import JobState
from contracts.shapes import matching
from tenants.rules.lifecycle import Fault, unfit
from tenants.rules.pipeline_runs import RunState

SCHEDULES_MAX: Final = 500
SILENT_AFTER_MS: Final = 30_000
"""A runner that told nothing of its run for so long is gone: what it ran is due again."""


def _field(value: str, *others: str) -> str:
    """Of a cron expression: everything, values and ranges, each with a step perhaps, or what only it has."""
    one = "|".join((rf"(\*|{value}(-{value})?)(/[0-9]{{1,2}})?", *others))
    return f"({one})(,({one}))*"


def _names(of: str) -> str:
    """Names of three letters, whatever their case."""
    return "|".join("".join(f"[{one}{one.lower()}]" for one in name) for name in of.split())


_WEEKDAY: Final = f"([0-7]|{_names('SUN MON TUE WED THU FRI SAT')})"
_FIELDS: Final = (
    _field("[0-5]?[0-9]"),
    _field("([01]?[0-9]|2[0-3])"),
    _field("(0?[1-9]|[12][0-9]|3[01])", "LW?"),
    _field(f"(0?[1-9]|1[0-2]|{_names('JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC')})"),
    _field(_WEEKDAY, f"{_WEEKDAY}#[1-5]", "[0-7]L"),
)
CRON_SHAPE: Final = f"^{' '.join(_FIELDS)}$"
"""What five fields look like, whether or not there is a time that fits all of them."""
_CRON: Final = matching(CRON_SHAPE)
_AHEAD_MS: Final = 3_600_000
"""Times of ours that lie further ahead are of a clock that was wrong."""


class ScheduledJob(StrEnum):
    """What can be scheduled: no more than what each does without options, as schedules start programs."""

    METER = "meter"
    ADVISE = "advise"
    CLOSE = "close"
    TIDY = "tidy"
    LOAD = "load"
    COMPACT = "compact"
    AUDIT = "audit"
    ICEBERG = "iceberg"


OF_AN_INSTANCE: Final = frozenset({ScheduledJob.LOAD, ScheduledJob.COMPACT, ScheduledJob.AUDIT})


@dataclass(frozen=True, slots=True)
class Default:
    """A schedule that every deployment has."""

    job: ScheduledJob
    cron: str


DEFAULTS: Final = {
    "meter": Default(ScheduledJob.METER, "*/5 * * * *"),
    "advise": Default(ScheduledJob.ADVISE, "17 3 * * *"),
    "close": Default(ScheduledJob.CLOSE, "41 4 * * *"),
    "tidy": Default(ScheduledJob.TIDY, "23 5 * * *"),
}
"""By name. They can be paused and changed, not removed."""


@dataclass(frozen=True, slots=True)
class LastRun:
    """How the last run of a schedule went."""

    state: JobState
    runner: str
    """Who runs it: a name that each runner draws."""
    started_at_ms: int
    heard_at_ms: int
    """When its runner told of it last."""
    ended_at_ms: int | None
    error: str
    """One sentence; empty unless it failed."""

    def goes_on(self, now_ms: int) -> bool:
        """Whether it runs and is heard of."""
        return self.state is JobState.RUNNING and abs(now_ms - self.heard_at_ms) < SILENT_AFTER_MS

    def shown(self, now_ms: int) -> RunState:
        """The state that is shown at some time."""
        is_lost = self.state is JobState.RUNNING and not self.goes_on(now_ms)
        return RunState.LOST if is_lost else RunState(self.state.value)


@dataclass(frozen=True, slots=True)
class Schedule:
    """A job, and when it runs."""

    name: str
    job: ScheduledJob
    instance_id: str | None
    cron: str
    is_paused: bool
    since_ms: int
    """Nothing before is made good: it was made, changed, or taken up again then."""
    done_until_ms: int
    """What was due until then has run, or was tried."""
    asked_at_ms: int | None
    """Somebody wants it to run now."""
    last: LastRun | None


def fault_of(cron: str) -> Fault | None:
    """What is wrong with an expression; None: it is one."""
    if _CRON.match(cron) is None:
        fields = "minute (0-59), hour (0-23), day of the month (1-31), month (1-12), weekday (0-7)"
        sentence = f"is not five fields with one space between: {fields}, each *, numbers, ranges or steps"
        return Fault("cron", sentence)
    try:
        next(CronSim(cron, datetime(2026, 1, 1, tzinfo=UTC)))
    except (CronSimError, StopIteration) as error:
        return unfit("cron", f"is no cron expression that comes true: {error}".removesuffix(": "))
    return None


def due_ms(schedule: Schedule, now_ms: int) -> int | None:
    """Since when it should run; None: it should not, or it runs."""
    if schedule.last is not None and schedule.last.goes_on(now_ms):
        return None
    if schedule.asked_at_ms is not None:
        return schedule.asked_at_ms
    if schedule.is_paused:
        return None
    last = _ms(next(CronSim(schedule.cron, _time(now_ms + 1000), reverse=True)))
    known = (ms for ms in (schedule.since_ms, schedule.done_until_ms) if ms <= now_ms + _AHEAD_MS)
    return last if last > max(known, default=0) else None


def next_ms(schedule: Schedule, now_ms: int) -> int | None:
    """When it comes next; None while it is paused."""
    return None if schedule.is_paused else _ms(next(CronSim(schedule.cron, _time(now_ms))))


def with_last(
    schedule: Schedule, due: int, state: JobState, error: str, runner: str, now_ms: int
) -> Schedule | None:
    """The schedule once a runner told of the run that was due; None: it is not this runner's to run.

    What was stopped is due as before.
    """
    last = schedule.last
    is_its_own = last is not None and last.state is JobState.RUNNING and last.runner == runner
    if state is JobState.RUNNING:
        if not is_its_own and due_ms(schedule, now_ms) is None:
            return None
        started = last.started_at_ms if last is not None and is_its_own else now_ms
        return replace(schedule, last=LastRun(state, runner, started, now_ms, None, ""))
    if last is None or not is_its_own:
        return None
    ended = replace(last, state=state, heard_at_ms=now_ms, ended_at_ms=now_ms, error=error)
    if state is JobState.STOPPED:
        return replace(schedule, last=ended)
    asked = schedule.asked_at_ms
    return replace(
        schedule,
        last=ended,
        done_until_ms=min(due, now_ms),
        asked_at_ms=None if asked is not None and asked <= due else asked,
    )


def _time(ms: int) -> datetime:
    return datetime.fromtimestamp(ms // 1000, UTC)


def _ms(time: datetime) -> int:
    return round(time.timestamp()) * 1000
