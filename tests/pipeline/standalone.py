"""A standalone Spark cluster of the PySpark distribution: a master, and workers with one core each."""

import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from ctl.stack.layout import free_port
from pipeline.java import package_dir
from tests.integration.stack import ROOT

_START_TIMEOUT_S: Final = 120.0
_MASTER: Final = "org.apache.spark.deploy.master.Master"
_WORKER: Final = "org.apache.spark.deploy.worker.Worker"
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
    """On free ports of 127.0.0.1; so many cores of each worker."""
    with ExitStack() as running:
        told = running.enter_context(
            _daemon(folder / "master.log", _MASTER, r"Starting Spark master at (\S+)")
        )
        for number in range(workers):
            work = folder / f"worker-{number}"
            size = ("--cores", str(cores), "--memory", "1g", "--work-dir", str(work))
            command = (_WORKER, *size, told)
            log = folder / f"worker-{number}.log"
            running.enter_context(_daemon(log, *command, r"Successfully registered with master (\S+)"))
        yield Standalone(told, folder)


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


@contextmanager
def _daemon(log: Path, kind: str, *rest: str) -> Iterator[str]:
    """Yields what the log says of it: the last of `rest` is the pattern to wait for."""
    *options, pattern = rest
    home = package_dir("pyspark")
    assert home is not None
    address = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as out:
        process = subprocess.Popen(
            [str(home / "bin" / "spark-class"), kind, *address, *options],
            stdout=out,
            stderr=subprocess.STDOUT,
            env=os.environ
            | {"SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "256m", "SPARK_NO_DAEMONIZE": "1"},
            cwd=log.parent,
        )
    try:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while (found := re.search(pattern, log.read_text())) is None:
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()[-3000:]
            time.sleep(0.1)
        yield found[1]
    finally:
        process.terminate()
        process.wait(60)
