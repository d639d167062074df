"""A second cluster of our own brokers beside a stack: a broker that registers with the same control plane."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from ctl.stack.layout import Layout, free_port
from tests.integration.stack import ROOT, Stack

CLUSTER_ID: Final = "builtin-2"
NODE_ID: Final = 11
"""No other's on this stack: brokers report by it."""
_START_S: Final = 60.0


class Broker:
    """It, as a process."""

    def __init__(self, stack: Stack, directory: Path) -> None:
        self._stack = stack
        self._directory = directory
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until the control plane knows it."""
        self._directory.mkdir(parents=True, exist_ok=True)
        with (self._directory / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "runtime.start", "broker"),
                    *("--node-id", str(NODE_ID), "--cluster-id", CLUSTER_ID),
                    *("--data-dir", str(self._directory / "data"), "--listen", f"127.0.0.1:{self._port}"),
                    *("--control", internal_url(self._stack)),
                    *("--secret-file", str(Layout(self._stack.data_dir).secret_file)),
                ],
                cwd=ROOT,
                stdout=log,
                stderr=log,
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
            )
        deadline = time.monotonic() + _START_S
        while not self.is_known():
            assert self._process.poll() is None, (self._directory / "broker.log").read_text()
            assert time.monotonic() < deadline, "the second cluster is not known"
            time.sleep(0.1)

    @property
    def pid(self) -> int:
        """Of the process that was started last."""
        assert self._process is not None
        return self._process.pid

    def is_known(self) -> bool:
        """Whether it serves, and the control plane hears from it."""
        try:
            socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
        except OSError:
            return False
        brokers = self._stack.api("GET", "brokers")["items"]
        return any(one["cluster_id"] == CLUSTER_ID and one["live"] for one in brokers)

    def kill(self) -> None:
        """As a machine dies."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """In order."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(30)


def internal_url(stack: Stack) -> str:
    """Where control speaks to its own."""
    return str(stack.facts["internal"])


@contextmanager
def second_cluster(stack: Stack, directory: Path) -> Iterator[Broker]:
    """One broker, with room under its ceilings."""
    broker = Broker(stack, directory)
    try:
        broker.start()
        room: dict[str, Any] = {"instances": 1_000, "partitions": 10**6, "connections": 10**9}
        room |= dict.fromkeys(
            ("produce_rate_bytes_per_s", "consume_rate_bytes_per_s", "capacity_bytes"), 10**15
        )
        stack.api("PATCH", f"clusters/{CLUSTER_ID}/ceilings", room)
        yield broker
    finally:
        broker.stop()
