"""A server process of a benchmark: started, waited for, stopped, and started again."""

import socket
import subprocess
import time
from pathlib import Path

from ctl.errors import CommandError


class ServerProcess:
    """One process that listens on a port of this machine. `command` is what starts it, in `directory`."""

    def __init__(
        self,
        name: str,
        port: int,
        command: list[str],
        log: Path,
        *,
        directory: Path | None = None,
        start_timeout_s: float,
        stop_timeout_s: float,
        end_timeout_s: float,
    ) -> None:
        self.port = port
        self.process: subprocess.Popen[bytes] | None = None
        self._name = name
        self._command = command
        self._log = log
        self._directory = directory
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
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.01)
        raise CommandError(f"{self._name} did not start:\n{self._log.read_text(errors='replace')[-2000:]}")

    def stop(self) -> None:
        """SIGTERM, then SIGKILL."""
        if self.process is not None:
            end(self.process, self._stop_timeout_s)


def end(process: "subprocess.Popen[bytes]", timeout_s: float) -> None:
    """SIGTERM, then SIGKILL."""
    process.terminate()
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
