"""Two control processes on one Postgres, with Redis and without: reads of the REST API at a fixed rate, what
they cost the database, what Redis saves of it, and how soon the jobs go on when who runs them is killed.

Requests leave when they are due, whatever became of those before: a latency counts from then.
"""

import asyncio
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from sqlalchemy import Engine

from ctl.bench import control_savings
from ctl.bench.control_processes import (
    START_S,
    TENANTS,
    Caller,
    Control,
    both_running,
    fill,
    transactions,
)
from ctl.bench.measure import Say, Spread, cpu_seconds, percentile
from ctl.bench.process import HOST, running_zookeeper
from ctl.errors import CommandError
from tenants.store.dump import has_tables
from tenants.store.postgres import make_engine

_CONNECTIONS_EACH: Final = 2
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


class Wanted(NamedTuple):
    """What is measured."""

    database_url: str
    """An empty Postgres."""
    redis_url: str | None
    rate_per_s: int
    seconds: int


def run(wanted: Wanted, rounds: int, say: Say) -> dict[str, object]:
    """The figures. Raises: CommandError, OSError."""
    engine = make_engine(wanted.database_url)
    with engine.connect() as connection:
        if has_tables(connection):
            raise CommandError("the database is not empty: the benchmark fills one of its own")
    results: dict[str, object] = {}
    with ExitStack() as stack:
        stack.callback(engine.dispose)
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="portico-bench-")))
        zookeeper = stack.enter_context(running_zookeeper(directory / "zookeeper"))
        callers: list[Caller] = []
        modes: dict[str, str | None] = {"without redis": None}
        if wanted.redis_url is not None:
            modes["with redis"] = wanted.redis_url
        for name, redis_url in modes.items():
            say(f"{name}: starting")
            place = f"{HOST}:{zookeeper.port}/{name.replace(' ', '-')}"
            with both_running(directory / name, wanted.database_url, place, redis_url) as both:
                callers = callers or fill(both[0])
                results[name] = {
                    **_idle(engine, both, min(_IDLE_S_MAX, wanted.seconds), say),
                    **_reads(engine, both, wanted, callers, say),
                    **control_savings.of_requests(engine, both, callers, say),
                    **control_savings.of_series(both, callers[0], say),
                    "jobs go on after kill -9, s": Spread.of([_fail_over(both, say) for _ in range(rounds)]),
                }
    return results


# -- what is measured ------------------------------------------------------------------------------------


def _idle(engine: Engine, both: Sequence[Control], seconds: float, say: Say) -> dict[str, object]:
    say("nobody asks")
    time.sleep(seconds / 2)  # what starting has left to do
    before, cpu_s = transactions(engine), _cpu_s(both)
    time.sleep(seconds)
    return {
        "idle: transactions/s of both": (transactions(engine) - before) / seconds,
        "idle: CPU of both, %": 100 * (_cpu_s(both) - cpu_s) / seconds,
    }


def _cpu_s(both: Sequence[Control]) -> float:
    return sum(cpu_seconds(each.pid) for each in both)


def _reads(
    engine: Engine, both: Sequence[Control], wanted: Wanted, callers: Sequence[Caller], say: Say
) -> dict[str, object]:
    say(f"{wanted.rate_per_s} reads/s for {wanted.seconds} s")
    ports = [each.port for each in both]
    asyncio.run(_load(ports, callers, wanted.rate_per_s, 2))  # pools and imports
    before, cpu_s = transactions(engine), _cpu_s(both)
    taken = asyncio.run(_load(ports, callers, wanted.rate_per_s, wanted.seconds))
    every = sorted(ms for found in taken.values() for ms in found)
    used_s = _cpu_s(both) - cpu_s
    time.sleep(1.0)  # the server hears of the last ones
    return {
        "reads: p50, ms": percentile(every, 0.5),
        "reads: p99, ms": percentile(every, 0.99),
        "reads: CPU per request, ms": 1000 * used_s / len(every),
        "reads: transactions per request": (transactions(engine) - before) / len(every),
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
        for _ in range(_CONNECTIONS_EACH * TENANTS)
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
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        while (asked := await due.get()) is not None:
            at, route, caller = asked
            path = route.format(instance=caller.instance)
            head = f"GET /v1/{path} HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {caller.key}\r\n\r\n"
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
    deadline = time.monotonic() + START_S
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
