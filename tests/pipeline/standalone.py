"""A standalone Spark cluster to run jobs on, and to kill parts of."""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ctl.bench import spark_cluster
from ctl.stack.layout import free_port
from tests.integration.stack import ROOT

_START_TIMEOUT_S: Final = 120.0
_EXECUTOR: Final = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


class Standalone:
    """A running cluster."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder

    @property
    def options(self) -> list[str]:
        """Of a command whose job is to run here."""
        settings = ("spark.driver.host=127.0.0.1", "spark.driver.memory=1g", "spark.executor.memory=512m")
        return ["--master", self.url, *(part for each in settings for part in ("--spark-conf", each))]

    def kill_an_executor(self, generator: random.Random) -> bool:
        """Whether there was one. Its worker starts another."""
        processes = (each for each in Path("/proc").iterdir() if each.name.isdecimal())
        found = [int(each.name) for each in processes if self._is_executor(each)]
        if found:
            os.kill(generator.choice(found), signal.SIGKILL)
        return bool(found)

    def _is_executor(self, process: Path) -> bool:
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            return _EXECUTOR.encode() in words and (process / "cwd").readlink().is_relative_to(self.folder)
        except OSError:
            return False


@contextmanager
def standalone_cluster(folder: Path, workers: int = 2, cores: int = 1) -> Iterator[Standalone]:
    """So many cores of each worker."""
    with spark_cluster.standalone_cluster(folder, workers, cores) as url:
        yield Standalone(url, folder)


@contextmanager
def connect_server(cluster: Standalone, log: Path) -> Iterator[str]:
    """A Spark Connect server whose tasks run on the cluster; yields its URL."""
    port = free_port()
    command = [sys.executable, "-m", "runtime.start", "ctl.main", "pipeline", "submit", *cluster.options]
    command += ["--spark-conf", f"spark.connect.grpc.binding.port={port}", "--data-dir", str(log.parent)]
    with log.open("w") as out:
        process = subprocess.Popen([*command, "connect"], cwd=ROOT, stdout=out, stderr=out)
    try:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not _answers(port):
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()[-3000:]
            time.sleep(0.1)
        yield f"sc://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
