"""The only place that reads clocks. Decisions take `now_ms` as an argument, shells are given a `Clock`."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final


def epoch_ms() -> int:
    """Wall-clock time, epoch milliseconds: for records and messages."""
    return time.time_ns() // 1_000_000


def monotonic_ms() -> int:
    """Time that never jumps, for durations and deadlines."""
    return time.monotonic_ns() // 1_000_000


monotonic_ns = time.monotonic_ns
"""Monotonic time in ns. Read in a few dozen nanoseconds."""

cpu_ns = time.thread_time_ns
"""CPU time of the calling thread: what preemption by others takes is not in it. A system call."""


@dataclass(frozen=True, slots=True)
class Clock:
    """These, to be passed in by name."""

    epoch_ms: Callable[[], int] = epoch_ms
    monotonic_ms: Callable[[], int] = monotonic_ms
    monotonic_ns: Callable[[], int] = monotonic_ns
    cpu_ns: Callable[[], int] = cpu_ns


SYSTEM_CLOCK: Final = Clock()
