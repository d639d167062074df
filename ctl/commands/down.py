"""`portico down`: stop the stack of a data directory, wherever it was started."""

import os
import signal
import time
from typing import Final

from ctl.errors import CommandError
from ctl.options import DEFAULT_DATA_DIR, DataDir
from ctl.stack.keeper import running_pid
from ctl.stack.layout import Layout

_STOP_TIMEOUT_S: Final = 30.0


def down(data_dir: DataDir = DEFAULT_DATA_DIR) -> None:
    """Stop a stack, detached or not, and wait until it has stopped."""
    layout = Layout(data_dir.resolve())
    pid = running_pid(layout)
    if pid is None:
        raise CommandError(f"no stack runs on {data_dir}")
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_TIMEOUT_S
    while running_pid(layout) is not None:
        if time.monotonic() > deadline:
            raise CommandError(f"the stack (process {pid}) did not stop within {_STOP_TIMEOUT_S:.0f} s")
        time.sleep(0.1)
