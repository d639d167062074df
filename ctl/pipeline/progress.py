"""Draws a job's progress and tells the console of it, at most once a second."""

import threading
import time
import uuid
from collections.abc import Callable
from typing import Final

import msgspec
from rich.console import Console as Terminal
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from contracts.pipeline import JobState, JobStatus
from ctl.errors import CommandError
from runtime.clock import epoch_ms

_TELL_EVERY_S: Final = 1.0
_TELL_AGAIN_S: Final = 15.0
"""Told again also when nothing changed: the console takes a run that is silent for a minute for lost."""
Tell = Callable[[JobStatus], None]


class ShownProgress:
    """A bar on stderr of what is done of what is planned, and a JobStatus each second and at the end."""

    def __init__(self, job: str, subject: str, tell: Tell, beside: "ShownProgress | None" = None) -> None:
        """`beside`: another of the same command, on whose screen this one is one more line."""
        self.tell = tell
        now_ms = epoch_ms()
        self._status = JobStatus(
            id=str(uuid.uuid4()),
            job=job,
            subject=subject,
            state=JobState.RUNNING,
            started_at_ms=now_ms,
            updated_at_ms=now_ms,
        )
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._told = True
        self._screen_is_ours = beside is None
        self._bar: Progress = _bars() if beside is None else beside._bar
        self._task = self._bar.add_task(f"{job} {subject}".strip(), total=None, unit="")
        self._teller = threading.Thread(target=self._keep_telling, daemon=True, name="job-status")

    @property
    def status(self) -> JobStatus:
        """How the run stands now."""
        return self._status

    def planned(self, units: int, unit: str = "records") -> None:
        """How much there is to do."""
        self._change(planned=units, unit=unit)
        self._bar.update(self._task, total=units, unit=unit)

    def done(self, units: int) -> None:
        """How much of it is done."""
        self._change(done=units)
        self._bar.update(self._task, completed=units)

    def figures(self, **totals: int) -> None:
        """Totals of this run."""
        with self._lock:  # several threads may tell totals of one run
            figures = self._status.figures | totals
            self._status = msgspec.structs.replace(self._status, updated_at_ms=epoch_ms(), figures=figures)
            self._told = False

    def start(self) -> None:
        """Draw, and tell the console."""
        if self._screen_is_ours:
            self._bar.start()
        self.tell(self._status)
        self._teller.start()

    def end(self, state: JobState, error: str = "") -> None:
        """The run ended; `error` is the sentence of one that failed."""
        self._change(state=state, error=error[:2000])
        self._ended.set()
        self._teller.join()
        if self._screen_is_ours:
            self._bar.stop()
        self.tell(self._status)

    def _change(self, **fields: object) -> None:
        with self._lock:
            self._status = msgspec.structs.replace(self._status, updated_at_ms=epoch_ms(), **fields)
            self._told = False

    def _keep_telling(self) -> None:
        told_at = time.monotonic()
        while not self._ended.wait(_TELL_EVERY_S):
            now = time.monotonic()
            if not self._told or now - told_at >= _TELL_AGAIN_S:
                self._told, told_at = True, now
                self.tell(self._status)


def _bars() -> Progress:
    screen = Terminal(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[unit]}"),
        TimeRemainingColumn(),
        console=screen,
        disable=not screen.is_terminal,
        transient=True,
    )


def quiet_teller(tell: Tell, warn: Callable[[str], None]) -> Tell:
    """A job goes on without its console; the first failure to tell it is said, the others are not."""
    is_said = False

    def attempt(status: JobStatus) -> None:
        nonlocal is_said
        try:
            tell(status)
        except CommandError as error:
            if not is_said:
                warn(f"the console is not told of this job: {error.sentence}")
            is_said = True

    return attempt
