"""The stack a demo, a load test or a drill runs on: the one of the data directory, or one of its own."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ctl.errors import CommandError
from ctl.stack.layout import Layout
from runtime.config import ENVIRONMENT_PREFIX, environment

_START_TIMEOUT_S: Final = 60.0
_STOP_TIMEOUT_S: Final = 20.0


@contextmanager
def running_stack(data_dir: Path, *arguments: str) -> Iterator[bool]:
    """Whether the stack was started here; then it is stopped at the end and its data stay.

    Raises: CommandError when it does not start.
    """
    if "PORTICO_URL" in environment() or is_running(data_dir):
        yield False
        return
    with started(data_dir, *arguments):
        yield True


@contextmanager
def started(
    data_dir: Path,
    *arguments: str,
    prefix: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
) -> Iterator[None]:
    """A stack on a directory that none runs on, stopped at the end. `prefix` is before its command;
    `variables` are its environment, ours unless they are given.

    Raises: CommandError when it does not start.
    """
    with tempfile.TemporaryDirectory() as scratch:
        ready, output = Path(scratch) / "ready.json", Path(scratch) / "up.log"
        command = [sys.executable, "-m", "runtime.start", "ctl.main", "up", "--data-dir", str(data_dir)]
        with output.open("wb") as log:
            stack = subprocess.Popen(
                [*prefix, *command, "--ready-file", str(ready), *arguments],
                env=environment() if variables is None else variables,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the demo, which stops the stack after itself
            )
        try:
            _wait(stack, ready, output)
            yield
        finally:
            _stop(stack)


def own_environment() -> dict[str, str]:
    """Ours without Portico's variables: they are of somebody's deployment, such as its database."""
    return {name: value for name, value in environment().items() if not name.startswith(ENVIRONMENT_PREFIX)}


def is_running(data_dir: Path) -> bool:
    """Whether a stack runs on a data directory."""
    try:
        supervisor = int(json.loads(Layout(data_dir).stack_file.read_text())["supervisor"])
        os.kill(supervisor, 0)
    except (OSError, ValueError, KeyError):
        return False
    return True


def _wait(stack: "subprocess.Popen[bytes]", ready: Path, output: Path) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while not ready.exists():
        if stack.poll() is not None:
            lines = output.read_text(errors="replace").strip().splitlines() or ["it ended at once"]
            raise CommandError(f"a stack could not be started: {lines[-1].removeprefix('portico: ')}")
        if time.monotonic() > deadline:
            raise CommandError(f"a stack did not start within {_START_TIMEOUT_S:.0f} s: try `portico up`")
        time.sleep(0.1)


def _stop(stack: "subprocess.Popen[bytes]") -> None:
    if stack.poll() is None:
        stack.send_signal(signal.SIGTERM)
    try:
        stack.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        stack.kill()
        stack.wait()
