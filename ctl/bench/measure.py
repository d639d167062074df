"""What the system says of a process, and a line of figures from several rounds."""

import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

Say = Callable[[str], None]
"""Tells people what is measured now."""
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_ROOT: Final = Path(__file__).resolve().parents[2]


def cpu_seconds(pid: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def rss_bytes(pid: int) -> int:
    """Resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Cost(NamedTuple):
    """One round: how fast, and the CPU of the measured process."""

    bytes_per_s: float
    cpu_s_per_gb: float


def _threads_cpu_seconds(pid: int) -> float:
    """CPU time of a process's threads, without that of those which have ended, and finer than its ticks."""
    stats = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(stat.read_text().split()[0]) for stat in stats) / 1e9


class Stopwatch:
    """Wall time, and CPU time of one process, whose threads stay, between start and `cost`."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._cpu_s = _threads_cpu_seconds(pid)
        self._started = time.perf_counter()

    def cost(self, carried_bytes: int) -> Cost:
        """The cost of having carried so many bytes."""
        elapsed_s = time.perf_counter() - self._started
        used_s = _threads_cpu_seconds(self._pid) - self._cpu_s
        return Cost(carried_bytes / elapsed_s, used_s / carried_bytes * 1e9)


class Spread(NamedTuple):
    """Min, median and max of several rounds."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """The spread of at least one value."""
        return cls(min(values), statistics.median(values), max(values))

    def text(self, digits: int = 2) -> str:
        """`median (min-max)`."""
        return f"{self.median:.{digits}f} ({self.low:.{digits}f}-{self.high:.{digits}f})"


def spreads(costs: Sequence[Cost]) -> dict[str, Spread]:
    """Rounds of one peer."""
    return {
        "MB/s": Spread.of([cost.bytes_per_s / 1e6 for cost in costs]),
        "CPU s/GB": Spread.of([cost.cpu_s_per_gb for cost in costs]),
    }


def seconds_of(work: Callable[[], object]) -> float:
    """How long a piece of work takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def percentile(values: Sequence[float], fraction: float) -> float:
    """Nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(fraction * len(ordered)))]


def context() -> dict[str, object]:
    """The machine and the commit."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=_ROOT, capture_output=True, text=True, check=False
    )
    return {
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "commit": commit.stdout.strip() or "unknown",
        "at": time.strftime("%Y-%m-%d", time.gmtime()),
    }
