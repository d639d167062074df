"""CPU time of this process and all it started: what a job costs, its JVM and its Python workers included."""

import os
import resource
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


def cpu_ms() -> int:
    """So far; where there is no /proc, without children that still run."""
    own, ended = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    seconds = own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime
    return round(1000 * (seconds + sum(map(_seconds_with_children, _children(os.getpid())))))


def _seconds_with_children(pid: int) -> float:
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0  # it has ended: its parent's part has it
    return sum(map(int, fields[11:15])) / _TICKS_PER_S + sum(map(_seconds_with_children, _children(pid)))


def _children(pid: int) -> list[int]:
    """Of all its threads."""
    try:
        return [int(child) for each in (_PROC / str(pid) / "task").iterdir() for child in _text(each).split()]
    except OSError:
        return []


def _text(task: Path) -> str:
    try:
        return (task / "children").read_text()
    except OSError:
        return ""
