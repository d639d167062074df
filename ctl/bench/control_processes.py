"""Two control processes, a ZooKeeper for their quota masters, tenants, and what the database counts."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import httpx
from sqlalchemy import Engine, text

from ctl.bench.process import HOST
from ctl.errors import CommandError
from ctl.stack.layout import Layout, free_port
from ctl.stack.processes import DATABASE_URL
from runtime.redis_link import VARIABLE as REDIS_URL
from runtime.trusted import verify_of

TENANTS: Final = 8
"""A key may ask 50 times a second."""
_INSTANCES_EACH: Final = 5
START_S: Final = 180.0
_TRANSACTIONS: Final = (
    "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
)


class Caller(NamedTuple):
    """A tenant's key, and an instance of it."""

    key: str
    instance: str


class Control:
    """One control process."""

    def __init__(
        self,
        directory: Path,
        database_url: str | None,
        zookeeper: str | None,
        redis_url: str | None,
        vports: str = "20000-20999",
    ) -> None:
        """Without a database's address it has a SQLite of its own, without a ZooKeeper it is the master."""
        self.layout = Layout(directory)
        self.port, self.internal_port = free_port(), free_port()
        arguments = [
            *("--data-dir", str(directory), "--console", f"{HOST}:{self.port}"),
            *("--internal", f"{HOST}:{self.internal_port}", "--vip", HOST),
            *("--vports", vports),
            *("--quota-policy", "seed", "--report-period-ms", "1000"),
            *(() if zookeeper is None else ("--zookeeper", zookeeper)),
            "--brokers-elsewhere",
        ]
        self._command = [sys.executable, "-m", "runtime.start", "ctl.control", *arguments]
        self._variables = {} if database_url is None else {DATABASE_URL: database_url}
        if redis_url is not None:
            self._variables[REDIS_URL] = redis_url
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The id of the running process."""
        assert self._process is not None, "it was started"
        return self._process.pid

    def start(self) -> None:
        """Start it and wait until it serves. Raises: CommandError."""
        ready = self.layout.run_file("control")
        ready.unlink(missing_ok=True)
        log = self.layout.data_dir / "control.log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command, stdout=output, stderr=output, env=os.environ | self._variables
            )
        deadline = time.monotonic() + START_S
        while not ready.exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise CommandError(f"a control process did not start:\n{log.read_text()[-2000:]}")
            time.sleep(0.02)

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def runs_jobs(self) -> bool:
        """Whether it has the office."""
        with self.internal() as client:
            return "portico_control_runs_jobs 1.0" in client.get("metrics").text

    def is_master(self) -> bool:
        """Whether its quota master is the elected one."""
        with self.internal() as client:
            return client.get("internal/v1/quota").status_code == 200

    @property
    def url(self) -> str:
        """The address of its API."""
        return f"http://{HOST}:{self.port}/v1/"

    def operator(self) -> httpx.Client:
        """Calls of its API with its operator key."""
        key = json.loads(self.layout.run_file("control").read_text())["api_key"]
        return _client(self.url, key)

    def internal(self) -> httpx.Client:
        """Calls of its internal port."""
        return _client(f"http://{HOST}:{self.internal_port}/", self.layout.ensure_secret())


def _client(url: str, key: str) -> httpx.Client:
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.Client(base_url=url, headers=headers, trust_env=False, timeout=30, verify=verify_of(url))


@contextmanager
def both_running(
    directory: Path, database_url: str, zookeeper: str, redis_url: str | None
) -> Iterator[tuple[Control, Control]]:
    """Two of one deployment; both are killed at the end."""
    one, other = (Control(directory / name, database_url, zookeeper, redis_url) for name in ("one", "other"))
    secret = one.layout.ensure_secret()
    other.layout.data_dir.mkdir(parents=True)
    other.layout.secret_file.touch(mode=0o600)
    other.layout.secret_file.write_text(secret + "\n")
    try:
        one.start()
        other.start()
        yield one, other
    finally:
        one.kill()
        other.kill()


def fill(control: Control) -> list[Caller]:
    """Tenants that read, with instances."""
    callers = []
    order = {"produce_rate_bytes_per_s": 10**6, "consume_rate_bytes_per_s": 10**6, "capacity_bytes": 10**9}
    with control.operator() as operator:
        for number in range(TENANTS):
            tenant = f"tenant-{number}"
            operator.post("tenants", json={"name": tenant}).raise_for_status()
            key = operator.post("keys", params={"tenant": tenant}, json={"name": "k", "role": "owner"})
            key.raise_for_status()
            made = [
                operator.post(
                    "instances",
                    params={"tenant": tenant},
                    json={"name": f"i-{each}", "whitelist": ["10.0.0.0/8"], **order},
                )
                for each in range(_INSTANCES_EACH)
            ]
            for each in made:
                each.raise_for_status()
            callers.append(Caller(key.json()["secret"], made[0].json()["id"]))
    return callers


def transactions(engine: Engine) -> int:
    """Transactions of the database so far; sessions tell the server of them now and then."""
    with engine.connect() as connection:
        connection.execute(text("SELECT pg_stat_clear_snapshot()"))
        found = connection.scalar(text(_TRANSACTIONS))
        return int(found or 0)
