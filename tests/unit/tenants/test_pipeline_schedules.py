"""What of the pipeline's schedules is due, and when it comes next."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from contracts.pipeline import JobState
from tenants.rules.pipeline_runs import RunState
from tenants.rules.pipeline_schedules import (
    DEFAULTS,
    SILENT_AFTER_MS,
    Schedule,
    ScheduledJob,
    due_ms,
    fault_of,
    next_ms,
    with_last,
)


def _ms(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


MADE = _ms("2026-11-22T10:02:00")
ME, OTHER = "runner-one", "runner-two"
FIVE = Schedule("meter", ScheduledJob.METER, None, "*/5 * * * *", False, MADE, MADE, None, None)


def test_a_new_one_waits_for_its_first_time() -> None:
    assert due_ms(FIVE, _ms("2026-11-22T10:04:59")) is None
    assert due_ms(FIVE, _ms("2026-11-22T10:05:00")) == _ms("2026-11-22T10:05:00")
    assert next_ms(FIVE, _ms("2026-11-22T10:04:59")) == _ms("2026-11-22T10:05:00")
    assert next_ms(FIVE, _ms("2026-11-22T10:05:00")) == _ms("2026-11-22T10:10:00")


def _told(schedule: Schedule, due: int, state: JobState, now_ms: int, runner: str = ME) -> Schedule:
    after = with_last(schedule, due, state, "no brokers" if state is JobState.FAILED else "", runner, now_ms)
    assert after is not None
    return after


def _ran(schedule: Schedule, due: int, state: JobState, now_ms: int) -> Schedule:
    return _told(_told(schedule, due, JobState.RUNNING, now_ms), due, state, now_ms)


def test_what_was_missed_is_made_good_once() -> None:
    now_ms = _ms("2026-11-23T08:17:30")
    due = due_ms(FIVE, now_ms)
    assert due == _ms("2026-11-23T08:15:00")
    running = _told(FIVE, due, JobState.RUNNING, now_ms)
    assert running.last is not None and running.last.ended_at_ms is None
    assert due_ms(running, now_ms) is None
    done = _told(running, due, JobState.SUCCEEDED, now_ms + 9_000)
    assert due_ms(done, now_ms + 9_000) is None
    assert done.last is not None
    assert (done.last.started_at_ms, done.last.ended_at_ms) == (now_ms, now_ms + 9_000)


def test_what_failed_comes_with_the_next_time_and_what_was_stopped_at_once() -> None:
    now_ms = _ms("2026-11-22T10:05:10")
    due = _ms("2026-11-22T10:05:00")
    failed = _ran(FIVE, due, JobState.FAILED, now_ms)
    assert due_ms(failed, now_ms) is None and failed.last is not None and failed.last.error == "no brokers"
    assert due_ms(failed, now_ms + 300_000) == _ms("2026-11-22T10:10:00")
    assert due_ms(_ran(FIVE, due, JobState.STOPPED, now_ms), now_ms) == due


def test_a_paused_one_runs_when_it_is_asked_to() -> None:
    now_ms = _ms("2026-11-22T11:00:30")
    paused = replace(FIVE, is_paused=True)
    assert due_ms(paused, now_ms) is None and next_ms(paused, now_ms) is None
    asked = replace(paused, asked_at_ms=now_ms)
    assert due_ms(asked, now_ms) == now_ms
    assert due_ms(_ran(asked, now_ms, JobState.FAILED, now_ms + 1), now_ms + 1) is None
    running = _told(asked, now_ms, JobState.RUNNING, now_ms)
    again = _told(replace(running, asked_at_ms=now_ms + 5), now_ms, JobState.SUCCEEDED, now_ms + 9)
    assert due_ms(again, now_ms + 9) == now_ms + 5, "asked while it ran: once more"


def test_one_runner_has_it_until_it_is_silent() -> None:
    now_ms = _ms("2026-11-22T10:05:10")
    due = _ms("2026-11-22T10:05:00")
    running = _told(FIVE, due, JobState.RUNNING, now_ms)
    for state in JobState:
        assert with_last(running, due, state, "", OTHER, now_ms + 1000) is None, "it is another's"
    heard = _told(running, due, JobState.RUNNING, now_ms + 20_000)
    assert heard.last is not None and heard.last.started_at_ms == now_ms
    later_ms = now_ms + 20_000 + SILENT_AFTER_MS
    assert heard.last.shown(later_ms - 1) is RunState.RUNNING and due_ms(heard, later_ms - 1) is None
    assert heard.last.shown(later_ms) is RunState.LOST and due_ms(heard, later_ms) == due
    taken = _told(heard, due, JobState.RUNNING, later_ms, OTHER)
    assert with_last(taken, due, JobState.SUCCEEDED, "", ME, later_ms) is None, "it has lost it"


def test_nothing_that_does_not_run_ends() -> None:
    assert with_last(FIVE, MADE, JobState.SUCCEEDED, "", ME, MADE) is None
    assert with_last(FIVE, MADE, JobState.RUNNING, "", ME, MADE) is None, "it is not due"


def test_a_clock_that_was_ahead_silences_nothing() -> None:
    ahead_ms = _ms("2031-01-01T00:05:10")
    ran = _ran(FIVE, _ms("2031-01-01T00:05:00"), JobState.SUCCEEDED, ahead_ms)
    now_ms = _ms("2026-11-22T10:05:10")
    due = due_ms(ran, now_ms)
    assert due == _ms("2026-11-22T10:05:00")
    again = _ran(ran, due, JobState.SUCCEEDED, now_ms)
    assert due_ms(again, now_ms) is None
    assert due_ms(again, now_ms + 300_000) == _ms("2026-11-22T10:10:00")


def test_what_came_before_a_change_is_not_made_good() -> None:
    changed = replace(FIVE, cron="0 4 * * *", since_ms=_ms("2026-11-22T10:30:00"))
    assert due_ms(changed, _ms("2026-11-22T23:00:00")) is None
    assert due_ms(changed, _ms("2026-11-23T04:00:00")) == _ms("2026-11-23T04:00:00")


def test_a_month_of_unlike_days() -> None:
    last = replace(FIVE, cron="41 4 31 * *")
    assert next_ms(last, _ms("2026-11-22T00:00:00")) == _ms("2026-12-31T04:41:00")
    leap = replace(FIVE, cron="0 0 29 2 *")
    assert next_ms(leap, _ms("2026-11-22T00:00:00")) == _ms("2028-02-29T00:00:00")
    assert due_ms(leap, _ms("2026-11-23T00:00:00")) is None


@pytest.mark.parametrize(
    "cron", [*(each.cron for each in DEFAULTS.values()), "0 0 * * MON-FRI", "*/7 1,2 L * *"]
)
def test_good_expressions(cron: str) -> None:
    assert fault_of(cron) is None


@pytest.mark.parametrize(
    "cron",
    [
        *(
            "",
            "* * * *",
            "* * * * * *",
            "60 * * * *",
            "0 0 31 2 *",
            "*/0 * * * *",
            "a b c d e",
            "5-1 * * * *",
        ),
        *("@daily", "* * * * *\0", "٣ * * * *", "1" * 90 + " * * * *"),
    ],
)
def test_bad_expressions(cron: str) -> None:
    assert fault_of(cron)
