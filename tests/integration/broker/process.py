"""A broker as a subprocess on a port and a directory of its own."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ctl.stack.layout import free_port

ROOT: Final = Path(__file__).resolve().parents[3]
_START_TIMEOUT_S: Final = 120.0
_STOP_TIMEOUT_S: Final = 30.0


class BrokerProcess:
    """Start, kill -9, restart on the same port."""

    def __init__(self, directory: Path, *arguments: str, module: str = "broker") -> None:
        self.directory = directory
        self._module = module
        self.data_dir = directory / "data"
        self._run_file = directory / "run.json"
        self.arguments = arguments
        self.prefix: tuple[str, ...] = ()
        """A command that runs the broker, by exec."""
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        self.metrics_port = 0
        self.is_paused = False

    @property
    def address(self) -> str:
        """HOST:PORT for clients."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Of the running process."""
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process lives, paused or not."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> "BrokerProcess":
        """Start and wait until it serves."""
        self.launch()
        return self.wait()

    def launch(self) -> None:
        """Start."""
        self._run_file.unlink(missing_ok=True)
        with (self.directory / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *self.prefix,
                    *(sys.executable, "-m", self._module, "--data-dir", str(self.data_dir)),
                    *("--listen", f"127.0.0.1:{self.port}", "--run-file", str(self._run_file)),
                    *("--metrics", "127.0.0.1:0", *self.arguments),
                ],
                cwd=ROOT,
                stderr=log,
            )

    def wait(self) -> "BrokerProcess":
        """Wait until it serves."""
        assert self._process is not None
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not self._run_file.exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the broker did not start:\n{self.log()}")
            time.sleep(0.01)
        facts = json.loads(self._run_file.read_text())
        self.port, self.metrics_port = facts["port"], facts["metrics_port"]
        return self

    def log(self) -> str:
        """What it has written to stderr."""
        return (self.directory / "broker.log").read_text()

    def kill(self) -> None:
        """kill -9."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait(30)

    def signal(self, number: signal.Signals) -> None:
        """SIGSTOP and SIGCONT, for example."""
        os.kill(self.pid, number)

    def pause(self) -> None:
        """SIGSTOP: connections stay open, nothing answers."""
        self.is_paused = True
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self.is_paused = False
        os.kill(self.pid, signal.SIGCONT)

    def terminate(self) -> None:
        """SIGTERM, without waiting."""
        assert self._process is not None
        self._process.terminate()

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        self.terminate()
        return self.wait_for_end()

    def wait_for_end(self) -> int:
        """The exit code."""
        assert self._process is not None
        try:
            return self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGABRT)  # its log then says where it stands
            self._process.wait(5)
            raise AssertionError(f"the broker did not stop:\n{self.log()[-4000:]}") from None

    def metrics(self) -> dict[str, float]:
        """What Prometheus would scrape, by series."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        url = f"http://127.0.0.1:{self.metrics_port}/metrics"
        with opener.open(urllib.request.Request(url, headers=self._credentials()), timeout=5) as response:
            lines = response.read().decode().splitlines()
        pairs = [line.rsplit(" ", 1) for line in lines if not line.startswith("#")]
        return {name: float(value) for name, value in pairs}

    def _credentials(self) -> dict[str, str]:
        if "--secret-file" not in self.arguments:
            return {}
        secret = Path(self.arguments[self.arguments.index("--secret-file") + 1]).read_text().strip()
        return {"Authorization": f"Bearer {secret}"}

    def closed_by(self, cause: str) -> int:
        """How many connections were closed for this cause."""
        return int(self.metrics()[f'portico_broker_connections_closed_total{{cause="{cause}"}}'])


@contextmanager
def running_broker(directory: Path, *arguments: str) -> Iterator[BrokerProcess]:
    """A broker that is stopped at the end."""
    broker = BrokerProcess(directory, *arguments)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()
