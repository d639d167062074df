"""A program, of Java most often, as a process that is killed and started again."""

import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Self

from ctl.kafka.jars import java_program

_POLL_S: Final = 0.1
_STOP_TIMEOUT_S: Final = 60
_LOGS: Final = {"defaultLogLevel": "warn", "showDateTime": "true", "dateTimeFormat": "HH:mm:ss.SSS"}
_KEPT: Final = 6000
"""Characters of the log's end that a failure shows."""


class Program:
    """What it says goes to a log, one for all of its lives. It runs in the log's directory, or in another."""

    def __init__(self, command: Sequence[str], log: Path, directory: Path | None = None) -> None:
        self._command = command
        self._log = log
        self._directory = directory or log.parent
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Once more, if it has ended."""
        assert self._process is None or self._process.poll() is not None, "it runs"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, cwd=self._directory, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    def kill(self) -> None:
        """kill -9."""
        assert self._process is not None and self._process.poll() is None, f"it has ended:\n{self.end()}"
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        """It keeps its sockets, and does nothing until it is killed."""
        assert self._process is not None and self._process.poll() is None, f"it has ended:\n{self.end()}"
        self._process.send_signal(signal.SIGSTOP)

    def stop(self) -> None:
        """SIGTERM, then SIGKILL."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def said(self) -> str:
        """All of the log."""
        return self._log.read_text(errors="replace")

    def end(self) -> str:
        """Of the log."""
        return self.said()[-_KEPT:]

    def until(self, what: str, holds: Callable[[], bool], within_s: float) -> None:
        """Wait for something while the program runs. Fails when it ends before."""
        deadline = time.monotonic() + within_s
        while not holds():
            assert self._process is not None and self._process.poll() is None, f"it ended:\n{self.end()}"
            assert time.monotonic() < deadline, f"{what}: not within {within_s} s:\n{self.end()}"
            time.sleep(_POLL_S)

    def until_ended(self, within_s: float) -> int:
        """Its exit code."""
        assert self._process is not None
        try:
            return self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it goes on after {within_s} s:\n{self.end()}") from None


class JavaProcess(Program):
    """A Java program."""

    def __init__(self, class_path: str, main: Sequence[str], log: Path, *, flags: Sequence[str] = ()) -> None:
        """`main` is the class and its arguments."""
        heap = () if any(flag.startswith("-Xmx") for flag in flags) else ("-Xmx384m",)
        command = [java_program(), *heap, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command += [f"-Dorg.slf4j.simpleLogger.{name}={value}" for name, value in _LOGS.items()]
        super().__init__([*command, *flags, "-cp", class_path, *main], log)
