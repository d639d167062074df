"""A command that goes on in the background: its keeper, and the greeting that is waited for."""

import os
import subprocess
from collections.abc import Sequence

from ctl.errors import CommandError
from ctl.stack.children import tail
from ctl.stack.keeper import command, running_pid
from ctl.stack.layout import Layout
from ctl.stack.steps import PREFIX, Teller


def detach(layout: Layout, what: str, arguments: Sequence[str], stop_with: str) -> None:
    """Have a command line kept running on a data directory; returns once it serves. `what` it starts, such
    as `a stack`.

    Raises: CommandError with the end of its log when it does not start.
    """
    if running_pid(layout) is not None:
        raise CommandError(f"{what} is already running on {layout.data_dir}: `{stop_with}` stops it")
    layout.logs_dir.mkdir(parents=True, exist_ok=True)
    log = layout.log_file("supervisor")
    kept = [argument for argument in arguments if argument != "--detach"]
    reading, writing = os.pipe()
    with log.open("ab") as output:
        subprocess.Popen(
            command(layout.data_dir, kept, writing),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(writing,),
            start_new_session=True,
        )
    os.close(writing)
    text = _until_greeted(reading)
    if not text:
        raise CommandError(f"{what} does not start. The end of {log}:\n{tail(log)}")
    print(text, flush=True)


def _until_greeted(descriptor: int) -> str:
    """Says what the start waits for, and returns the greeting at its end; empty: there was none."""
    teller = Teller()
    lines: list[str] = []
    with os.fdopen(descriptor) as told:
        for line in told:
            if not lines and line.startswith(PREFIX):
                teller.step(line.removeprefix(PREFIX).rstrip("\n"))
            else:
                lines.append(line)
    teller.clear()
    return "".join(lines)
