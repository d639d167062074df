"""A real ZooKeeper for tests: started from PySpark's jars, or the one that ZOOKEEPER=HOST:PORT names."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest
from kazoo.client import KazooClient

from ctl.stack.layout import free_port
from ctl.stack.zookeeper import is_serving, server_command

EXTERNAL: Final = os.environ.get("ZOOKEEPER")
NO_FSYNC: Final = "-Dzookeeper.forceSync=no"
"""Tests kill processes, not machines: a disk that stands still for half a minute is nothing to them."""
_START_TIMEOUT_S: Final = 120.0
_numbers = count(1)


class ZooKeeperServer:
    """One server on loopback; its port and data stay over restarts."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        if EXTERNAL:
            host, _colon, port = EXTERNAL.rpartition(":")
            self.host, self.port = host, int(port)
        else:
            self.host, self.port = "127.0.0.1", free_port()

    @property
    def hosts(self) -> str:
        """HOST:PORT."""
        return f"{self.host}:{self.port}"

    def new_chroot(self) -> str:
        """HOST:PORT/chroot with a chroot that nobody else uses."""
        return f"{self.hosts}/test-{os.getpid()}-{time.time_ns()}-{next(_numbers)}"

    def start(self) -> None:
        """Start and wait until it answers."""
        if not EXTERNAL:
            log = (self._directory.parent / f"{self._directory.name}.log").open("ab")
            java, *arguments = server_command(self._directory, self.port)
            command = (java, NO_FSYNC, *arguments)
            self._process = subprocess.Popen(
                command, cwd=self._directory, stdout=log, stderr=log, start_new_session=True
            )
            log.close()
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not is_serving(self.host, self.port):
            assert self._process is None or self._process.poll() is None, "ZooKeeper ended"
            assert time.monotonic() < deadline, "ZooKeeper does not start"
            time.sleep(0.02)

    def stop(self) -> None:
        """SIGTERM and wait."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.terminate()
            try:
                self._process.wait(10)
            finally:
                self._process.kill()
                self._process.wait()
            self._process = None

    def kill(self) -> None:
        """kill -9."""
        process = self._ours()
        process.kill()
        process.wait()
        self._process = None

    def restart(self) -> None:
        """kill -9 and start again: sessions live on if they reconnect in time."""
        self.kill()
        self.start()

    def pause(self) -> None:
        """SIGSTOP: connections stay open, nothing answers."""
        self._ours().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self._ours().send_signal(signal.SIGCONT)

    def expire(self, session_id: int, password: bytes) -> None:
        """End somebody's session as a timeout would: a second connection of the session closes it."""
        with self.client(client_id=(session_id, password)):
            pass

    @contextmanager
    def client(self, **options: Any) -> Iterator[Any]:
        """A plain kazoo client, to look at the tree or change it from outside."""
        client = KazooClient(self.hosts, **options)
        client.start(timeout=20)
        try:
            yield client
        finally:
            client.stop()
            client.close()

    def _ours(self) -> subprocess.Popen[bytes]:
        if EXTERNAL:
            pytest.skip("the ZooKeeper of ZOOKEEPER is not ours to stop")
        assert self._process is not None, "ZooKeeper does not run"
        return self._process


@contextmanager
def running_zookeeper(directory: Path) -> Iterator[ZooKeeperServer]:
    """A server that is stopped at the end."""
    server = ZooKeeperServer(directory / "zookeeper")
    server.start()
    try:
        yield server
    finally:
        server.stop()
