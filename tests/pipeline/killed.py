"""A command of the pipeline as real subprocesses, whose process groups are killed at random moments."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import psutil

from tests.integration.stack import ROOT

RUN_TIMEOUT_S: Final = 1200.0


def seeded() -> random.Random:
    """The seed is printed; PORTICO_SEED repeats one."""
    seed = int(os.environ.get("PORTICO_SEED") or random.randrange(2**32))
    print(f"PORTICO_SEED={seed}")
    return random.Random(seed)


class KilledJob:
    """`portico pipeline ...`, again and again."""

    def __init__(self, data_dir: Path, tables: str, *arguments: str) -> None:
        """`tables`: a glob below the data directory; commits of these are counted."""
        self._data_dir = data_dir
        self._tables = tables
        self._arguments = arguments
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Raises nothing; `finish` tells how it ended."""
        command = [sys.executable, "-m", "runtime.start", "ctl.main", "pipeline", *self._arguments, "--json"]
        self._process = subprocess.Popen(
            [*command, "--data-dir", str(self._data_dir)],
            cwd=ROOT,
            start_new_session=True,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def kill(self, generator: random.Random, commits_max: int, pace: float = 1.0) -> bool:
        """At a random moment: while it starts, or some commits later. False where it had ended by itself.

        `pace`: how long it takes beside a job that starts Spark.
        """
        process = self._process
        assert process is not None
        commits = generator.randint(0, commits_max)
        seen, deadline = self.commits(), time.monotonic() + RUN_TIMEOUT_S
        while commits and self.commits() < seen + commits and process.poll() is None:
            assert time.monotonic() < deadline, "the job does not commit"
            time.sleep(0.01)
        time.sleep(pace * generator.uniform(0, 2 if commits else 10))
        if process.poll() is not None:
            return False
        self.kill_now()
        return True

    def must_run(self) -> None:
        """Raises: AssertionError, with what it said at its end."""
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError(f"it was over too early: {self._process.communicate()}")

    def kill_now(self) -> None:
        """Its process group."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def java(self) -> int | None:
        """The process of its Java, once it has one."""
        assert self._process is not None
        found = (each for each in psutil.Process(self._process.pid).children() if each.name() == "java")
        return next((each.pid for each in found), None)

    def fail(self) -> str:
        """Let it end; returns what it says of its failure."""
        assert self._process is not None
        _, err = self._process.communicate(timeout=RUN_TIMEOUT_S)
        assert self._process.returncode == 1, err
        return err

    def finish(self) -> Any:
        """Let it end; returns what it says."""
        assert self._process is not None
        out, err = self._process.communicate(timeout=RUN_TIMEOUT_S)
        assert self._process.returncode == 0, out + err
        return json.loads(out)

    def tables(self) -> list[Path]:
        """Those there are by now."""
        return sorted(self._data_dir.glob(self._tables))

    def commits(self) -> int:
        """Of all tables."""
        return sum(len(list((table / "_delta_log").glob("*.json"))) for table in self.tables())
