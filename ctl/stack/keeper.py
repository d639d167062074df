"""What stays when a command with --detach returns: it starts the supervisor again whenever that is killed.

A supervisor's children end with it, so the next one finds a data directory that nobody holds. A supervisor
that ends by itself, with an error that another start would meet again, is not started again.
"""

import argparse
import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

from ctl.errors import CommandError
from ctl.stack.layout import Layout
from runtime.process import write_json

_STEADY_S: Final = 10.0
_STOP_TIMEOUT_S: Final = 30.0
_BACKOFF_FIRST_S: Final = 0.5
_BACKOFF_LAST_S: Final = 30.0


def command(data_dir: Path, arguments: list[str], greeting: int) -> list[str]:
    """The keeper's own command; `greeting` is a descriptor that the first supervisor's greeting goes to."""
    own = [sys.executable, "-m", "runtime.start", "ctl.stack.keeper", str(data_dir), str(greeting)]
    return [*own, json.dumps(arguments)]


class Keeper:
    """The keeper of one data directory."""

    def __init__(self, layout: Layout, arguments: list[str], greeting: int) -> None:
        self._layout = layout
        self._arguments = arguments
        self._greeting = greeting
        self._supervisor: subprocess.Popen[bytes] | None = None
        self._stopping = False

    def run(self) -> int:
        """Until the supervisor ends by itself, or a signal ends both; returns its exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        backoff_s = _BACKOFF_FIRST_S
        while True:
            started = time.monotonic()
            code = 0 if self._stopping else self._run_once()
            if self._stopping or code >= 0:
                return code
            if time.monotonic() - started > _STEADY_S:
                backoff_s = _BACKOFF_FIRST_S
            print(f"portico: the supervisor was killed by signal {-code}, starting it again", file=sys.stderr)
            time.sleep(backoff_s)
            backoff_s = min(2 * backoff_s, _BACKOFF_LAST_S)

    def _run_once(self) -> int:
        started = [sys.executable, "-m", "runtime.start", "ctl.main", *self._arguments]
        passed: tuple[int, ...] = ()
        if self._greeting >= 0:
            started += ["--greeting-fd", str(self._greeting)]
            passed = (self._greeting,)
        self._supervisor = subprocess.Popen(started, pass_fds=passed)
        if self._greeting >= 0:
            os.close(self._greeting)
            self._greeting = -1
        return self._supervisor.wait()

    def _stop(self, _number: int, _frame: Any) -> None:
        self._stopping = True
        if self._supervisor is not None and self._supervisor.poll() is None:
            self._supervisor.terminate()


def running_pid(layout: Layout) -> int | None:
    """The process that keeps a data directory, or where there is none its supervisor; None: nothing runs."""
    for lock, run_file in ((layout.keeper_lock, "keeper"), (layout.lock_file, "supervisor")):
        if _is_held(lock):
            return layout.pid_of(run_file)
    return None


def stop_running(layout: Layout, what: str) -> None:
    """Stop what runs on a data directory, and wait until it has stopped. Raises: CommandError."""
    pid = running_pid(layout)
    if pid is None:
        raise CommandError(f"no {what} runs on {layout.data_dir}")
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_TIMEOUT_S
    while running_pid(layout) is not None:
        if time.monotonic() > deadline:
            raise CommandError(f"the {what} (process {pid}) did not stop within {_STOP_TIMEOUT_S:.0f} s")
        time.sleep(0.1)


def _is_held(path: Path) -> bool:
    try:
        with path.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def main() -> None:
    """Run the process."""
    parser = argparse.ArgumentParser(prog="python -m ctl.stack.keeper")
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("greeting", type=int)
    parser.add_argument("arguments", type=json.loads)
    options = parser.parse_args()
    layout = Layout(options.data_dir)
    with layout.keeper_lock.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            sys.exit(f"portico: a detached stack is already kept on {layout.data_dir}")
        write_json(layout.run_file("keeper"), {"pid": os.getpid()})
        try:
            code = Keeper(layout, options.arguments, options.greeting).run()
        finally:
            with contextlib.suppress(FileNotFoundError):
                layout.run_file("keeper").unlink()
    sys.exit(code)


if __name__ == "__main__":
    main()
