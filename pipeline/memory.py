"""How much of a machine's memory a job takes."""

import os
from pathlib import Path
from typing import Final

_GIB: Final = 1024**3
_CGROUP_MEMORY: Final = Path("/sys/fs/cgroup/memory.max")


def job_memory(limits_bytes: list[int]) -> int:
    """A quarter of what there is, 1 to 8 GiB: brokers and tasks' Python have their part of a machine."""
    return min(max(min(limits_bytes) // 4, _GIB), 8 * _GIB)


def memory_here() -> int:
    """What a job takes of this machine's or container's memory, in bytes."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    told = _CGROUP_MEMORY.read_text().strip() if _CGROUP_MEMORY.exists() else ""
    return job_memory([machine, int(told)] if told.isdecimal() else [machine])
