"""A server process of a benchmark: started, waited for, stopped, and started again."""

import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ctl.errors import CommandError
from ctl.stack.layout import free_port
from ctl.stack.zookeeper import is_serving, listens, server_command

HOST: Final = "127.0.0.1"


class ServerProcess:
    """One process that listens on a port of this machine. `command` is what starts it, in `directory`."""

    def __init__(
        self,
        name: str,
        port: int,
        command: Sequence[str],
        log: Path,
        *,
        directory: Path | None = None,
        serves: Callable[[str, int], bool] = listens,
        start_timeout_s: float = 30.0,
        stop_timeout_s: float = 60.0,
        end_timeout_s: float = 60.0,
    ) -> None:
        self.port = port
        self.process: subprocess.Popen[bytes] | None = None
        self._name = name
        self._command = command
        self._log = log
        self._directory = directory
        self._serves = serves
        self._start_timeout_s = start_timeout_s
        self._stop_timeout_s = stop_timeout_s
        self._end_timeout_s = end_timeout_s

    @property
    def pid(self) -> int:
        """The id of the running process."""
        assert self.process is not None
        return self.process.pid

    def start(self) -> None:
        """Start the process, once the one before has ended; `until_serving` waits for it."""
        if self.process is not None:
            self.until_ended()
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(self._command, cwd=self._directory, stdout=log, stderr=log)

    def until_ended(self) -> None:
        """Wait for the end of a process that was told to stop. Raises: TimeoutExpired."""
        assert self.process is not None
        self.process.wait(self._end_timeout_s)

    def until_serving(self) -> None:
        """Wait until the port answers. Raises: CommandError."""
        assert self.process is not None
        deadline = time.monotonic() + self._start_timeout_s
        while time.monotonic() < deadline and self.process.poll() is None:
            if self._serves(HOST, self.port):
                return
            time.sleep(0.01)
        raise CommandError(f"{self._name} did not start:\n{self._log.read_text(errors='replace')[-2000:]}")

    def stop(self) -> None:
        """SIGTERM, then SIGKILL."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(self._stop_timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextmanager
def running(server: ServerProcess) -> Iterator[ServerProcess]:
    """The server once it serves; stopped at the end. Raises: CommandError."""
    try:
        server.start()
        server.until_serving()
        yield server
    finally:
        server.stop()


@contextmanager
def running_zookeeper(directory: Path) -> Iterator[ServerProcess]:
    """A ZooKeeper that keeps everything in a directory. Raises: CommandError."""
    port = free_port()
    command, log = server_command(directory, port), directory / "server.log"
    server = ServerProcess("ZooKeeper", port, command, log, directory=directory, serves=is_serving)
    with running(server):
        yield server
