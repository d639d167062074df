"""Runs what is due of the pipeline's schedules: one job at a time, each a process of its own.

Jobs go on where their last commit is, so one that was killed, or whose end the console did not hear of, runs
once more.
"""

import contextlib
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import IO, Final, TypedDict
from urllib.parse import quote

from contracts.pipeline import JobState
from contracts.units import format_duration
from ctl.console_client import Console
from ctl.errors import CommandError
from ctl.stack.children import die_with_parent
from runtime.config import environment
from tenants.rules.pipeline_schedules import DEFAULTS, ScheduledJob

PATH: Final = "pipeline/schedules"
_LOOK_S: Final = 2.0
_POLL_S: Final = 0.2
_GOES_ON_S: Final = 5.0
_READ_S: Final = 5.0
_TELL_S: Final = 120.0
"""For so long the end of a run is told again where the console does not answer: it may be starting."""
_STOP_S: Final = 12.0
_SENTENCE_LENGTH_MAX: Final = 600
_PREFIX: Final = "portico: "
_WORDS: Final = {ScheduledJob.METER: ["meter", "run"], ScheduledJob.TIDY: ["meter", "tidy"]}


class LastRun(TypedDict):
    """How the last run went, as the API tells it."""

    state: str
    started_at: str
    error: str


class Listed(TypedDict):
    """A schedule as the API tells it."""

    name: str
    job: str
    instance_id: str | None
    cron: str
    paused: bool
    due_at: str | None
    next_at: str | None
    last: LastRun | None


def arguments(job: ScheduledJob, instance_id: str | None) -> list[str]:
    """What comes behind `portico pipeline`."""
    words = _WORDS.get(job, [job.value])
    return words if instance_id is None else [*words, "--", instance_id]


def schedule_path(name: str) -> str:
    """Of the API."""
    return f"{PATH}/{quote(name, safe='')}"


@dataclass
class ScheduleRunner:
    """`command` is `portico pipeline`; `stopping` ends `serve`, and the job that runs with it."""

    console: Console
    command: Sequence[str]
    variables: Mapping[str, str]
    """Of the jobs' environment, besides ours."""
    say: Callable[[str], None]
    stopping: threading.Event
    job_limit_ms: int
    """A job that runs for longer is ended: it hangs, or has so much to do that others wait."""
    name: str = field(default_factory=lambda: str(uuid.uuid4()))

    def serve(self) -> None:
        """Until it is stopped. A console that does not answer is asked again."""
        said = ""
        is_first = True
        while not self.stopping.is_set():
            fault = ""
            try:
                if is_first:
                    self._begin()
                    is_first = False
                while not self.stopping.is_set() and (due := self._most_due()) is not None:
                    self._run(*due)
            except CommandError as error:
                fault = error.sentence
                if fault != said:
                    self.say(f"{fault} (asking again every {_LOOK_S:.0f} s)")
            said = fault
            self.stopping.wait(_LOOK_S)

    def _begin(self) -> None:
        """What every deployment has is there."""
        for name in DEFAULTS.keys() - {one["name"] for one in self._schedules()}:
            body = {"job": DEFAULTS[name].job.value, "cron": DEFAULTS[name].cron}
            self.console.call("PUT", schedule_path(name), body)

    def _schedules(self) -> list[Listed]:
        found: list[Listed] = self.console.get(PATH)["items"]
        return found

    def _most_due(self) -> tuple[str, Listed] | None:
        due = [(one["due_at"], one) for one in self._schedules() if one["due_at"] is not None]
        return min(due, key=lambda each: datetime.fromisoformat(each[0]), default=None)

    def _run(self, due_at: str, due: Listed) -> None:
        name = due["name"]
        self._tell(name, due_at, JobState.RUNNING)
        job = arguments(ScheduledJob(due["job"]), due["instance_id"])
        state, error = self._run_job(job, partial(self._tell, name, due_at, JobState.RUNNING))
        self.say(f"{name} {state}{error and ': '}{error}")
        self._tell_end(name, due_at, state, error)

    def _run_job(self, job: Sequence[str], goes_on: Callable[[], None]) -> tuple[JobState, str]:
        """How it ended, and its last sentence if it failed. `goes_on` is told again and again."""
        last: list[str] = []
        ends_at = time.monotonic() + self.job_limit_ms / 1000
        with subprocess.Popen(
            [*self.command, *job],
            env={**environment(), **self.variables},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            preexec_fn=die_with_parent,
        ) as process:
            assert process.stderr is not None, "it is a pipe"
            reader = threading.Thread(target=_read, args=(process.stderr, last), daemon=True)
            reader.start()
            told = time.monotonic()
            while process.poll() is None and time.monotonic() < ends_at and not self.stopping.wait(_POLL_S):
                if time.monotonic() - told > _GOES_ON_S:
                    told = time.monotonic()
                    with contextlib.suppress(CommandError):  # a console that is away hears of the end
                        goes_on()
            was_ended = process.returncode is None
            if was_ended:
                process.terminate()
                try:
                    process.wait(_STOP_S)
                except subprocess.TimeoutExpired:
                    process.kill()
            code = process.wait()
            reader.join(_READ_S)  # what a job left behind may hold the pipe
        if was_ended and self.stopping.is_set():
            return JobState.STOPPED, ""
        if was_ended:
            limit = format_duration(self.job_limit_ms)
            return JobState.FAILED, f"it ran for {limit} and was ended: the next run goes on where it came to"
        if code == 0:
            return JobState.SUCCEEDED, ""
        return JobState.FAILED, last[0] if last else f"it ended with code {code}"

    def _tell_end(self, name: str, due_at: str, state: JobState, error: str) -> None:
        deadline = time.monotonic() + _TELL_S
        while True:
            try:
                return self._tell(name, due_at, state, error)
            except CommandError:
                is_over = time.monotonic() > deadline or self.stopping.wait(_LOOK_S)
                if is_over or name not in {one["name"] for one in self._schedules()}:
                    raise

    def _tell(self, name: str, due_at: str, state: JobState, error: str = "") -> None:
        body = {"due_at": due_at, "state": state.value, "error": error, "runner": self.name}
        self.console.call("PUT", f"{schedule_path(name)}/last", body)


def _read(lines: IO[str], last: list[str]) -> None:
    """What a job says goes on to where we say it; its last sentence is kept."""
    for line in lines:
        sys.stderr.write(line)
        if line.startswith(_PREFIX):
            last[:] = [line.removeprefix(_PREFIX).strip()[:_SENTENCE_LENGTH_MAX]]
