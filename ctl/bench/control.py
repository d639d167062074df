"""Two control processes on one Postgres, with Redis and without: reads of the REST API at a fixed rate, what
they cost the database, and how soon the jobs go on when the process that runs them is killed.

Requests leave when they are due, whatever became of those before: a latency counts from then.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
from sqlalchemy import Engine, text

from ctl.bench.measure import Spread, cpu_seconds, percentile
from ctl.errors import CommandError
from ctl.stack.layout import Layout, free_port
from ctl.stack.processes import DATABASE_URL
from ctl.stack.zookeeper import is_serving, server_command
from runtime.redis_link import VARIABLE as REDIS_URL
from tenants.store.dump import has_tables
from tenants.store.postgres import make_engine

_HOST: Final = "127.0.0.1"
_TENANTS: Final = 8
"""A key may ask 50 times a second."""
_INSTANCES_EACH: Final = 5
_CONNECTIONS_EACH: Final = 2
_START_S: Final = 60.0
_IDLE_S_MAX: Final = 10.0
_ROUTES: Final = (
    "me",
    "instances",
    "instances/{instance}",
    "instances/{instance}/whitelist",
    "instances/{instance}/quota",
    "keys",
    "instances/{instance}/refusals",
    "health",
)
_TRANSACTIONS: Final = (
    "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
)

Say = Callable[[str], None]


class Caller(NamedTuple):
    """A tenant's key, and an instance of it."""

    key: str
    instance: str


class Wanted(NamedTuple):
    """What is measured."""

    database_url: str
    """An empty Postgres."""
    redis_url: str | None
    rate_per_s: int
    seconds: int


class Control:
    """One control process."""

    def __init__(self, directory: Path, database_url: str, zookeeper: str, redis_url: str | None) -> None:
        self.layout = Layout(directory)
        self.port, self.internal_port = free_port(), free_port()
        arguments = [
            *("--data-dir", str(directory), "--console", f"{_HOST}:{self.port}"),
            *("--internal", f"{_HOST}:{self.internal_port}", "--vip", _HOST),
            *("--vports", "20000-20999"),
            *("--quota-policy", "seed", "--report-period-ms", "1000", "--zookeeper", zookeeper),
            "--brokers-elsewhere",
        ]
        self._command = [sys.executable, "-m", "runtime.start", "ctl.control", *arguments]
        self._variables = {DATABASE_URL: database_url}
        if redis_url is not None:
            self._variables[REDIS_URL] = redis_url
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Of the running process."""
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
        deadline = time.monotonic() + _START_S
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
        answer = httpx.get(
            f"http://{_HOST}:{self.internal_port}/metrics",
            headers={"Authorization": f"Bearer {self.layout.ensure_secret()}"},
            trust_env=False,
        )
        return "portico_control_runs_jobs 1.0" in answer.text

    def operator(self) -> httpx.Client:
        """Calls of its API with its operator key."""
        key = json.loads(self.layout.run_file("control").read_text())["api_key"]
        return httpx.Client(
            base_url=f"http://{_HOST}:{self.port}/v1/",
            headers={"Authorization": f"Bearer {key}"},
            trust_env=False,
            timeout=30,
        )


def run(wanted: Wanted, rounds: int, say: Say) -> dict[str, Any]:
    """The figures. Raises: CommandError, OSError."""
    engine = make_engine(wanted.database_url)
    with engine.connect() as connection:
        if has_tables(connection):
            raise CommandError("the database is not empty: the benchmark fills one of its own")
    results: dict[str, Any] = {}
    with ExitStack() as stack:
        stack.callback(engine.dispose)
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="portico-bench-")))
        zookeeper = stack.enter_context(_zookeeper(directory / "zookeeper"))
        callers: list[Caller] = []
        modes: dict[str, str | None] = {"without redis": None}
        if wanted.redis_url is not None:
            modes["with redis"] = wanted.redis_url
        for name, redis_url in modes.items():
            say(f"{name}: starting")
            place = f"{zookeeper}/{name.replace(' ', '-')}"
            with _both(directory / name, wanted, place, redis_url) as both:
                callers = callers or _fill(both[0])
                results[name] = {
                    **_idle(engine, both, min(_IDLE_S_MAX, wanted.seconds), say),
                    **_reads(engine, both, wanted, callers, say),
                    "jobs go on after kill -9, s": Spread.of([_fail_over(both, say) for _ in range(rounds)]),
                }
    return results


@contextmanager
def _zookeeper(directory: Path) -> Iterator[str]:
    port = free_port()
    command = server_command(directory, port)
    with (directory / "server.log").open("ab") as log:
        process = subprocess.Popen(command, cwd=directory, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + _START_S
        while not is_serving(_HOST, port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise CommandError("ZooKeeper did not start")
            time.sleep(0.05)
        yield f"{_HOST}:{port}"
    finally:
        process.kill()
        process.wait()


@contextmanager
def _both(
    directory: Path, wanted: Wanted, zookeeper: str, redis_url: str | None
) -> Iterator[tuple[Control, Control]]:
    one, other = (
        Control(directory / name, wanted.database_url, zookeeper, redis_url) for name in ("one", "other")
    )
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


def _fill(control: Control) -> list[Caller]:
    """Tenants that read, with instances."""
    callers = []
    order = {"produce_rate_bytes_per_s": 10**6, "consume_rate_bytes_per_s": 10**6, "capacity_bytes": 10**9}
    with control.operator() as operator:
        for number in range(_TENANTS):
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


# -- what is measured ------------------------------------------------------------------------------------


def _transactions(engine: Engine) -> int:
    """Of the database so far; sessions tell the server of them now and then."""
    with engine.connect() as connection:
        connection.execute(text("SELECT pg_stat_clear_snapshot()"))
        found = connection.scalar(text(_TRANSACTIONS))
        return int(found or 0)


def _idle(engine: Engine, both: Sequence[Control], seconds: float, say: Say) -> dict[str, Any]:
    say("nobody asks")
    time.sleep(seconds / 2)  # what starting has left to do
    before, cpu_s = _transactions(engine), _cpu_s(both)
    time.sleep(seconds)
    return {
        "idle: transactions/s of both": (_transactions(engine) - before) / seconds,
        "idle: CPU of both, %": 100 * (_cpu_s(both) - cpu_s) / seconds,
    }


def _cpu_s(both: Sequence[Control]) -> float:
    return sum(cpu_seconds(each.pid) for each in both)


def _reads(
    engine: Engine, both: Sequence[Control], wanted: Wanted, callers: Sequence[Caller], say: Say
) -> dict[str, Any]:
    say(f"{wanted.rate_per_s} reads/s for {wanted.seconds} s")
    ports = [each.port for each in both]
    asyncio.run(_load(ports, callers, wanted.rate_per_s, 2))  # pools and imports
    before, cpu_s = _transactions(engine), _cpu_s(both)
    taken = asyncio.run(_load(ports, callers, wanted.rate_per_s, wanted.seconds))
    every = sorted(ms for found in taken.values() for ms in found)
    used_s = _cpu_s(both) - cpu_s
    time.sleep(1.0)  # the server hears of the last ones
    return {
        "reads: p50, ms": percentile(every, 0.5),
        "reads: p99, ms": percentile(every, 0.99),
        "reads: CPU per request, ms": 1000 * used_s / len(every),
        "reads: transactions per request": (_transactions(engine) - before) / len(every),
        "p50 and p99 by route, ms": {
            route: Spread(found[0], percentile(found, 0.5), percentile(found, 0.99))
            for route, found in ((route, sorted(times)) for route, times in taken.items())
        },
    }


async def _load(
    ports: Sequence[int], callers: Sequence[Caller], rate_per_s: int, seconds: int
) -> dict[str, list[float]]:
    """Latencies in ms by route, of requests that left in turn: process, tenant and route of each differ."""
    taken: dict[str, list[float]] = {route: [] for route in _ROUTES}
    due: asyncio.Queue[tuple[float, str, Caller] | None] = asyncio.Queue()
    started = time.perf_counter()
    workers = [
        asyncio.create_task(_ask(port, due, taken))
        for port in ports
        for _ in range(_CONNECTIONS_EACH * _TENANTS)
    ]
    for number in range(rate_per_s * seconds):
        at = started + number / rate_per_s
        if (early_s := at - time.perf_counter()) > 0:
            await asyncio.sleep(early_s)
        caller = callers[number // len(_ROUTES) % len(callers)]
        due.put_nowait((at, _ROUTES[number % len(_ROUTES)], caller))
    for _ in workers:
        due.put_nowait(None)
    await asyncio.gather(*workers)
    return taken


async def _ask(
    port: int, due: "asyncio.Queue[tuple[float, str, Caller] | None]", taken: dict[str, list[float]]
) -> None:
    """One connection that is kept: bare HTTP, so that the client costs little of the machine."""
    reader, writer = await asyncio.open_connection(_HOST, port)
    try:
        while (asked := await due.get()) is not None:
            at, route, caller = asked
            path = route.format(instance=caller.instance)
            head = f"GET /v1/{path} HTTP/1.1\r\nHost: {_HOST}\r\nAuthorization: Bearer {caller.key}\r\n\r\n"
            writer.write(head.encode())
            answer = (await reader.readuntil(b"\r\n\r\n")).lower()
            if not answer.startswith(b"http/1.1 200"):
                raise CommandError(f"GET {path}: {answer.splitlines()[0].decode()}")
            length = int(answer.partition(b"content-length:")[2].partition(b"\r\n")[0])
            await reader.readexactly(length)
            taken[route].append(1000 * (time.perf_counter() - at))
    finally:
        writer.close()


def _fail_over(both: Sequence[Control], say: Say) -> float:
    """Seconds from the kill until the other process runs the jobs; the killed one is started again."""
    say("the process that runs the jobs is killed")
    deadline = time.monotonic() + _START_S
    while not any(each.runs_jobs() for each in both):
        if time.monotonic() > deadline:
            raise CommandError("no control process runs the jobs")
        time.sleep(0.05)
    holder, other = both if both[0].runs_jobs() else (both[1], both[0])
    holder.kill()
    killed = time.perf_counter()
    while not other.runs_jobs():
        if time.monotonic() > deadline:
            raise CommandError("the other control process does not take the jobs over")
        time.sleep(0.02)
    took_s = time.perf_counter() - killed
    holder.start()
    return took_s
