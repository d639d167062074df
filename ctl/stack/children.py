"""Child processes of the embedded stack: start, readiness, restart with back-off, clean stop."""

import asyncio
import ctypes
import json
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ctl.errors import CommandError
from ctl.stack.layout import Layout
from ctl.stack.liveness import LOOK_S, Liveness, NotifySocket
from runtime.clock import epoch_ms, monotonic_ms
from runtime.config import environment
from runtime.notify import VARIABLE

_READY_TIMEOUT_MS: Final = 60_000
_BACKOFF_FIRST_S: Final = 0.1
_BACKOFF_LAST_S: Final = 10.0
_STEADY_MS: Final = 10_000
_ABORT_S: Final = 3.0
_PR_SET_PDEATHSIG: Final = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """One process. Its name is its group, and within a group of several a dash and a number."""

    name: str
    command: tuple[str, ...]
    directory: Path | None = None
    """Its working directory; None: the supervisor's."""
    serves: Callable[[], bool] | None = None
    """Whether it serves, for a process that writes no run file. Runs in a thread."""
    beats: bool = False
    """Whether its loop gives signs of life."""
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables of its environment, besides ours: what others may not read in its command line."""

    @property
    def group(self) -> str:
        """What it is one of."""
        return self.name.partition("-")[0]


def module(
    name: str, python_module: str, *arguments: str, variables: Mapping[str, str] | None = None
) -> ChildSpec:
    """One of our own processes."""
    command = (sys.executable, "-m", "runtime.start", python_module, *arguments)
    return ChildSpec(name, command, beats=True, variables=variables or {})


@dataclass(frozen=True, slots=True)
class Restart:
    """Why a child was started again."""

    reason: str
    at_ms: int
    """Epoch."""


def die_with_parent() -> None:
    """Runs in the child before exec: a killed supervisor leaves nothing behind."""
    if hasattr(_LIBC, "prctl"):
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class Child:
    """A supervised process. `run` keeps it alive until `stop`."""

    def __init__(self, spec: ChildSpec, layout: Layout, say: Any, hang_timeout_ms: int = 0) -> None:
        """`hang_timeout_ms`: without a sign of life for so long it is killed; 0: never."""
        self.spec = spec
        self.restarts = 0
        self.last_restart: Restart | None = None
        self._hang_timeout_ms = hang_timeout_ms if spec.beats else 0
        self._hung = ""
        self._run_file = layout.run_file(spec.name)
        self._log_path = layout.log_file(spec.name)
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = asyncio.Event()
        self.ended = asyncio.Event()
        """Set when it has ended and is not started again."""
        self._say = say

    @property
    def pid(self) -> int | None:
        """The pid of the living process."""
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    def facts(self) -> dict[str, Any] | None:
        """What the living process says in its run file, or None while it does not serve."""
        try:
            facts: dict[str, Any] = json.loads(self._run_file.read_text())
        except (OSError, ValueError):
            return None
        return facts if facts.get("pid") == self.pid else None

    async def run(self) -> None:
        """Start the process and start it again whenever it ends."""
        try:
            await self._keep_running()
        finally:
            self.ended.set()

    async def _keep_running(self) -> None:
        backoff_s = _BACKOFF_FIRST_S
        while not self._stopping.is_set():
            started_ms = monotonic_ms()
            code = await self._run_once()
            if self._stopping.is_set():
                return
            if monotonic_ms() - started_ms > _STEADY_MS:
                backoff_s = _BACKOFF_FIRST_S
            ended = self._hung or (f"was killed by signal {-code}" if code < 0 else f"ended with code {code}")
            self.last_restart = Restart(ended, epoch_ms())
            self._say(
                f"{self.spec.name} {ended}, starting it again in {backoff_s:.1f} s (see {self._log_path})"
            )
            await asyncio.sleep(backoff_s)
            backoff_s = min(backoff_s * 2, _BACKOFF_LAST_S)
            self.restarts += 1

    async def _run_once(self) -> int:
        self._run_file.unlink(missing_ok=True)
        self._log_path.parent.mkdir(parents=True, exist_ok=True)
        self._hung = ""
        signs = NotifySocket()
        try:
            with self._log_path.open("ab") as log:
                self._process = await asyncio.create_subprocess_exec(
                    *self.spec.command,
                    cwd=self.spec.directory,
                    env={**environment(), **self.spec.variables, VARIABLE: signs.address},
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    preexec_fn=die_with_parent,
                    start_new_session=True,
                )
            return await self._watched(self._process, signs)
        finally:
            signs.close()

    async def _watched(self, process: asyncio.subprocess.Process, signs: NotifySocket) -> int:
        """Its exit code, once it has ended or was found to hang."""
        life = Liveness(round(self._hang_timeout_ms / 1000 / LOOK_S))
        signs.listen(life.beat)
        ending = asyncio.ensure_future(process.wait())
        try:
            while not (await asyncio.wait({ending}, timeout=LOOK_S))[0]:
                if life.look(is_serving=self.facts() is not None) and not self._stopping.is_set():
                    self._hung = (
                        f"hung (no sign of life for {self._hang_timeout_ms // 1000} s) and was killed"
                    )
                    await self._kill_hung(process, ending)
            return ending.result()
        finally:
            ending.cancel()

    async def _kill_hung(self, process: asyncio.subprocess.Process, ending: "asyncio.Future[int]") -> None:
        """SIGABRT has it write where it hangs into its log."""
        process.send_signal(signal.SIGABRT)
        if not (await asyncio.wait({ending}, timeout=_ABORT_S))[0]:
            process.kill()
            await asyncio.wait({ending})

    async def until_ready(self) -> dict[str, Any]:
        """Wait until it serves; returns its run file. Raises: CommandError with the end of the log."""
        deadline_ms = monotonic_ms() + _READY_TIMEOUT_MS
        while monotonic_ms() < deadline_ms:
            if self.spec.serves is not None and self.pid is not None:
                if await asyncio.to_thread(self.spec.serves):
                    return {}
            elif facts := self.facts():
                return facts
            if self.restarts >= 3:
                break
            await asyncio.sleep(0.02)
        raise CommandError(
            f"{self.spec.name} does not start. The end of {self._log_path}:\n{tail(self._log_path)}"
        )

    def retire(self) -> None:
        """It ends by itself, and is not started again."""
        self._stopping.set()

    async def stop(self, grace_s: float) -> None:
        """SIGTERM, then SIGKILL after `grace_s`."""
        self._stopping.set()
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            async with asyncio.timeout(grace_s):
                await process.wait()
        except TimeoutError:
            self._say(f"{self.spec.name} did not stop within {grace_s:.0f} s: killing it")
            process.kill()
            await process.wait()
        self._run_file.unlink(missing_ok=True)


def tail(path: Path, lines: int = 12) -> str:
    """The last lines of a log."""
    try:
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
    except OSError as error:
        return f"(no log: {error})"
