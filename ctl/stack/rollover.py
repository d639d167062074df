"""Gateway workers are exchanged: a new process takes over the listeners of the one before (ADR 51)."""

import shutil
from collections.abc import Callable
from typing import Final, NamedTuple

from ctl.errors import CommandError
from ctl.stack.children import Child, ChildSpec
from ctl.stack.layout import Layout
from ctl.stack.processes import Processes
from gateway.shared_table import WORKERS_MAX

_STOP_S: Final = 3.0


class Upgrades(NamedTuple):
    """What the stack file tells of exchanges."""

    ended: int
    """How many have."""
    trouble: str
    """Why the last one did not exchange every worker; empty: it did."""


class Rollover:
    """Of one stack."""

    def __init__(
        self,
        layout: Layout,
        processes: Processes,
        workers: int,
        spawn: Callable[[ChildSpec], Child],
        say: Callable[[str], None],
    ) -> None:
        self._layout = layout
        self._processes = processes
        self._workers = workers
        self._spawn = spawn
        self._say = say

    async def exchange(self, old: Child) -> None:
        """Start a successor, and let the worker go when it serves. Raises: CommandError; the worker stays."""
        if old.pid is None:
            raise CommandError(f"{old.spec.name} does not run now: try again when it does")
        if 2 * self._workers > WORKERS_MAX:
            raise CommandError(f"with more than {WORKERS_MAX // 2} workers no number is free for a successor")
        number = int(old.spec.name.rpartition("-")[2])
        # both count connections and report for a while: each under a number of its own
        successor = number + self._workers if number < self._workers else number - self._workers
        self._pass_specs_on(number, successor)
        child = self._spawn(self._processes.gateway(successor, take_over=old.pid))
        try:
            await child.until_ready()
        except CommandError:
            await child.stop(_STOP_S)
            raise
        child.spec = self._processes.gateway(successor)  # started again, it has nobody to take over from
        old.retire()
        self._say(f"{child.spec.name} has taken over from {old.spec.name}")

    def _pass_specs_on(self, number: int, successor: int) -> None:
        """It serves what its predecessor serves, also while the control plane is down."""
        before, after = (self._layout.gateway_dir / f"gateway-{each}" for each in (number, successor))
        shutil.rmtree(after, ignore_errors=True)
        after.mkdir(parents=True)
        for suffix in ("", ".changes"):
            kept = before / f"gateway-{number}-specs.json{suffix}"
            if kept.exists():
                shutil.copyfile(kept, after / f"gateway-{successor}-specs.json{suffix}")
