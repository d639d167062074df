"""Processes of a supervisor that was killed: they end by themselves, and hold files and ports until then."""

import asyncio
import contextlib
import os
import signal
from pathlib import Path
from typing import Final

from ctl.stack.layout import Layout

_ENDS_WITHIN_S: Final = 10.0
_LOOK_S: Final = 0.05


def left(layout: Layout) -> dict[str, int]:
    """Living processes of this data directory by their run files: name -> pid."""
    found = {}
    for path in layout.run_file("any").parent.glob("*.json"):
        pid = layout.pid_of(path.stem)
        if pid is not None and pid != os.getpid() and _is_of(pid, layout.data_dir):
            found[path.stem] = pid
    return {name: pid for name, pid in found.items() if name not in ("keeper", "supervisor")}


def _is_of(pid: int, data_dir: Path) -> bool:
    """A pid may be somebody else's by now: its command line has to name the data directory."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    named = str(data_dir).encode()
    return any(word == named or word.startswith(named + b"/") for word in words)


async def until_ended(layout: Layout) -> list[str]:
    """Wait for what is left, kill what does not end; returns the names of those. Call it before a start."""
    for _ in range(round(_ENDS_WITHIN_S / _LOOK_S)):
        if not left(layout):
            return []
        await asyncio.sleep(_LOOK_S)
    stubborn = left(layout)
    for pid in stubborn.values():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return sorted(stubborn)
