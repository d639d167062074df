"""A standalone Spark cluster of the PySpark distribution on this machine: a master, and workers."""

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from pipeline.java import package_dir

_START_TIMEOUT_S: Final = 120.0
_MASTER: Final = "org.apache.spark.deploy.master.Master"
_WORKER: Final = "org.apache.spark.deploy.worker.Worker"


@contextmanager
def standalone_cluster(folder: Path, workers: int = 2, cores: int = 1, memory: str = "1g") -> Iterator[str]:
    """On free ports of 127.0.0.1, so many cores and so much memory of each worker; yields the master's URL.

    Workers' files are in `folder`. Raises: RuntimeError where one does not start.
    """
    with ExitStack() as running:
        told = running.enter_context(
            _daemon(folder / "master.log", _MASTER, r"Starting Spark master at (\S+)")
        )
        for number in range(workers):
            size = ("--cores", str(cores), "--memory", memory, "--work-dir", str(folder / f"worker-{number}"))
            log = folder / f"worker-{number}.log"
            running.enter_context(
                _daemon(log, _WORKER, *size, told, r"Successfully registered with master (\S+)")
            )
        yield told


@contextmanager
def _daemon(log: Path, kind: str, *rest: str) -> Iterator[str]:
    """Yields what the log says of it: the last of `rest` is the pattern to wait for."""
    *options, pattern = rest
    home = package_dir("pyspark")
    if home is None:
        raise RuntimeError("PySpark is not installed")
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
            if process.poll() is not None or time.monotonic() >= deadline:
                raise RuntimeError(f"{kind} did not start: {log.read_text()[-3000:]}")
            time.sleep(0.1)
        yield found[1]
    finally:
        process.terminate()
        process.wait(60)
