"""The runner of schedules: what is due runs, its end is told, and a console that is away is waited for."""

import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from ctl.errors import CommandError
from ctl.pipeline import schedule_runner
from ctl.pipeline.schedule_runner import ScheduleRunner, arguments
from tenants.rules.pipeline_schedules import DEFAULTS, ScheduledJob

DUE = "2026-11-22T10:05:00Z"
JOB = "import sys, time\nprint('portico: ' + ' '.join(sys.argv[1:]), file=sys.stderr, flush=True)\n"


class FakeConsole:
    """What the API keeps, in a dict; `faults` answers are refused first."""

    def __init__(self, stopping: threading.Event) -> None:
        self.items: dict[str, dict[str, Any]] = {}
        self.told: list[tuple[str, str, str]] = []
        self.runners: set[str] = set()
        self.removed: set[str] = set()
        """They are gone when they have begun."""
        self.faults = 0
        self._stopping = stopping

    def add(self, name: str, job: str, due_at: str | None = DUE, instance_id: str | None = None) -> None:
        self.items[name] = {
            "name": name,
            "job": job,
            "instance_id": instance_id,
            "due_at": due_at,
            "last": None,
        }

    def get(self, _path: str) -> Any:
        self._must_answer()
        found = sorted(self.items.values(), key=lambda one: str(one["name"]))
        if not any(one["due_at"] for one in found):
            self._stopping.set()
        return {"items": [dict(one) for one in found]}

    def call(self, _method: str, path: str, body: Any) -> None:
        self._must_answer()
        name = path.removeprefix("pipeline/schedules/").removesuffix("/last")
        if not path.endswith("/last"):
            self.add(name, body["job"], due_at=None)
            return
        if name not in self.items:
            raise CommandError(f"there is no schedule '{name}'")
        self.told.append((name, body["state"], body["error"]))
        self.runners.add(body["runner"])
        if name in self.removed:
            del self.items[name]
            return
        if body["state"] in ("succeeded", "failed"):
            self.items[name]["due_at"] = None

    def _must_answer(self) -> None:
        if self.faults:
            self.faults -= 1
            raise CommandError("the console does not answer")


@pytest.fixture
def stopping(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    monkeypatch.setattr(schedule_runner, "_LOOK_S", 0.01)
    stop = threading.Event()
    yield stop
    stop.set()


def _runner(
    console: FakeConsole,
    stopping: threading.Event,
    program: str,
    said: list[str],
    job_limit_ms: int = 600_000,
) -> ScheduleRunner:
    command = (sys.executable, "-c", program)
    return ScheduleRunner(console, command, {}, said.append, stopping, job_limit_ms)  # type: ignore[arg-type]


def test_what_is_due_runs_once_the_oldest_first(stopping: threading.Event) -> None:
    console, said = FakeConsole(stopping), list[str]()
    console.add("b", "load", "2026-11-22T10:04:00Z", "iabc")
    console.add("a", "meter")
    _runner(console, stopping, JOB, said).serve()
    assert console.told == [(name, state, "") for name in ("b", "a") for state in ("running", "succeeded")]
    assert console.items.keys() == {"a", "b", *DEFAULTS}, "and those that every deployment has"
    assert said == ["b succeeded", "a succeeded"]


def test_a_job_that_fails_tells_its_last_sentence(stopping: threading.Event) -> None:
    console = FakeConsole(stopping)
    console.add("shop", "load", instance_id="iabc")
    _runner(console, stopping, JOB + "sys.exit(3)", []).serve()
    assert console.told[-1] == ("shop", "failed", "load -- iabc")


def test_a_job_without_a_sentence_tells_its_code(stopping: threading.Event) -> None:
    console = FakeConsole(stopping)
    console.add("meter", "meter")
    _runner(console, stopping, "import sys; sys.exit(7)", []).serve()
    assert console.told[-1] == ("meter", "failed", "it ended with code 7")


def test_a_job_ends_with_its_runner_and_stays_due(stopping: threading.Event) -> None:
    console = FakeConsole(stopping)
    console.add("meter", "meter")
    program = "import time; time.sleep(600)"
    runner = threading.Thread(target=_runner(console, stopping, program, []).serve)
    runner.start()
    while not console.told:
        stopping.wait(0.01)
    stopping.set()
    runner.join()
    assert [state for _, state, _ in console.told] == ["running", "stopped"]
    assert console.items["meter"]["due_at"] == DUE


def test_a_job_that_hangs_is_ended_and_holds_up_no_other(
    stopping: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule_runner, "_STOP_S", 0.5)
    console = FakeConsole(stopping)
    console.add("hung", "load", "2026-11-22T10:04:00Z", "iabc")
    console.add("meter", "meter")
    program = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "time.sleep(600 * (sys.argv[1] == 'load'))"
    )
    _runner(console, stopping, program, [], job_limit_ms=5_000).serve()
    ended = {name: (state, error) for name, state, error in console.told if state != "running"}
    assert ended["meter"] == ("succeeded", "")
    assert ended["hung"] == ("failed", "it ran for 5s and was ended: the next run goes on where it came to")


def test_a_console_that_is_away_is_asked_again(stopping: threading.Event) -> None:
    console, said = FakeConsole(stopping), list[str]()
    console.add("meter", "meter")
    console.faults = 3
    _runner(console, stopping, JOB, said).serve()
    assert console.told[-1][1] == "succeeded"
    assert len([line for line in said if "does not answer" in line]) == 1, "said when it is new"


def test_a_job_that_takes_its_time_is_told_of_again_and_again(
    stopping: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule_runner, "_GOES_ON_S", 0.0)
    monkeypatch.setattr(schedule_runner, "_POLL_S", 0.01)
    console = FakeConsole(stopping)
    console.add("meter", "meter")
    _runner(console, stopping, "import time; time.sleep(0.5)", []).serve()
    states = [state for _, state, _ in console.told]
    assert states[:2] == ["running", "running"] and states[-1] == "succeeded"
    assert len(console.runners) == 1


def test_one_that_was_removed_while_it_ran_holds_up_no_other(stopping: threading.Event) -> None:
    console = FakeConsole(stopping)
    console.add("gone", "meter", "2026-11-22T10:04:00Z")
    console.add("meter", "meter")
    console.removed.add("gone")
    _runner(console, stopping, JOB, []).serve()
    assert console.told[-1] == ("meter", "succeeded", "")


def test_what_jobs_are_given() -> None:
    assert arguments(ScheduledJob.CLOSE, None) == ["close"]
    assert arguments(ScheduledJob.AUDIT, "iabc") == ["audit", "--", "iabc"]
    assert arguments(ScheduledJob.ICEBERG, None) == ["iceberg"]
    assert arguments(ScheduledJob.METER, None) == ["meter", "run"]
