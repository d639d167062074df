"""`portico gateway`: the gateway workers of a stack."""

import json
import os
import signal
import time
from typing import Annotated, Final

import typer

from ctl.command import Commands
from ctl.errors import CommandError
from ctl.options import DEFAULT_DATA_DIR, DataDir
from ctl.output import terminal
from ctl.stack.layout import Layout

app = Commands()
_LOOK_S: Final = 0.2


@app.command()
def upgrade(
    data_dir: DataDir = DEFAULT_DATA_DIR,
    timeout: Annotated[float, typer.Option(min=1, metavar="SECONDS", help="Wait so long at most.")] = 300.0,
) -> None:
    """Exchange every gateway worker for a new process, of today's code, without a refused connection."""
    layout = Layout(data_dir.resolve())
    before = _upgrades(layout)
    supervisor = layout.pid_of("supervisor")
    if supervisor is None:
        raise CommandError(f"no stack runs on {layout.data_dir}")
    os.kill(supervisor, signal.SIGHUP)
    deadline = time.monotonic() + timeout
    while (now := _upgrades(layout))["ended"] == before["ended"]:
        if time.monotonic() > deadline:
            raise CommandError(f"not every worker was exchanged within {timeout:.0f} s: see the log")
        time.sleep(_LOOK_S)
    if now["trouble"]:
        raise CommandError(str(now["trouble"]))
    terminal().print("every gateway worker has a successor; connections move as they are idle")


def _upgrades(layout: Layout) -> dict[str, object]:
    try:
        upgrades: dict[str, object] = json.loads(layout.stack_file.read_text())["upgrades"]
    except (OSError, ValueError, KeyError) as error:
        raise CommandError(f"no stack runs on {layout.data_dir}, or it has not started") from error
    return upgrades
