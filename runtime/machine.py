"""The machine a process runs on: clocks, randomness, network, disk; passed in by name, from top to bottom."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random, SystemRandom
from typing import Final
from uuid import UUID

from runtime.clock import SYSTEM_CLOCK, Clock
from runtime.network import KERNEL_NETWORK, Network


@dataclass(frozen=True, slots=True)
class Machine:
    """Without arguments: this one."""

    clock: Clock = SYSTEM_CLOCK
    random: Random = SystemRandom()  # noqa: RUF009 - it has no state
    network: Network = KERNEL_NETWORK
    sync_file: Callable[[int], None] = os.fdatasync
    """Has the content of an open file survive a power cut. Raises: OSError."""
    boot_id: str | None = None
    """What names this run of the machine; None: the kernel is asked."""

    def uuid4(self) -> UUID:
        """A random one."""
        return UUID(int=self.random.getrandbits(128), version=4)


def machine_boot_id() -> str:
    """What the kernel calls this run of the machine, "" where it does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


THIS_MACHINE: Final = Machine()
