"""What viewers of the operators' dashboard cost a control process whose instances are all at work.

One broker of this benchmark's own reports for every instance each second. Rounds of nobody, one and many
viewers take turns in one run; a viewer costs what the process's CPU time grows by.
"""

import asyncio
import itertools
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx
import msgspec

from contracts.quota import FlowCounters, InstanceTraffic, TrafficReport
from ctl.bench.control_processes import Control
from ctl.bench.measure import Say, Spread, cpu_seconds
from ctl.bench.process import HOST
from ctl.errors import CommandError

MANY: Final = 20
_SECONDS: Final = 12.0
_SETTLE_S: Final = 3.0
_ORDER: Final = {
    "produce_rate_bytes_per_s": 10**6,
    "consume_rate_bytes_per_s": 10**6,
    "capacity_bytes": 10**9,
    "allow_all": True,
}
_ROOM: Final = {
    "instances": 10_000,
    **dict.fromkeys(("produce_rate_bytes_per_s", "consume_rate_bytes_per_s", "capacity_bytes"), 10**15),
    "partitions": 10**7,
    "connections": 10**9,
}


def run(count: int, rounds: int, say: Say) -> dict[str, object]:
    """The figures. Raises: CommandError, OSError."""
    with tempfile.TemporaryDirectory(prefix="portico-bench-") as directory:
        control = Control(Path(directory), None, None, None, vports=_vports(count))
        try:
            control.start()
            say(f"ordering {count} instances")
            ids = _order(control, count)
            with _reporting(control, ids):
                return _measured(control, rounds, say)
        finally:
            control.kill()


def _vports(count: int) -> str:
    return f"20000-{20000 + 2 * count + 100}"


def _order(control: Control, count: int) -> list[str]:
    with control.operator() as operator:
        clusters = operator.get("clusters").json()["items"]
        for path in ("tenants/default", *(f"clusters/{one['name']}" for one in clusters)):
            operator.patch(f"{path}/ceilings", json=_ROOM).raise_for_status()
        ids = []
        for number in range(count):
            answer = _patiently(operator, {**_ORDER, "name": f"bench-{number}"})
            ids.append(str(answer["id"]))
        return ids


def _patiently(operator: httpx.Client, order: dict[str, object]) -> dict[str, object]:
    while True:
        answer = operator.post("instances", json=order)
        if answer.status_code == 429:  # a key may ask so often
            time.sleep(float(answer.headers.get("retry-after", "1")))
            continue
        if answer.is_error:
            raise CommandError(f"an instance could not be ordered: {answer.text}")
        made: dict[str, object] = answer.json()
        return made


@contextmanager
def _reporting(control: Control, ids: list[str]) -> Iterator[None]:
    """A broker that leads everything, each instance at a rate of its own which changes each second."""
    ended = threading.Event()

    def report() -> None:
        used = [0] * len(ids)
        with control.internal() as client:
            for sequence in itertools.count(1):
                for place in range(len(ids)):
                    used[place] += 1_000 + (place * 7919 + sequence * 104_729) % 500_000
                _send(client, ids, used, sequence)
                if ended.wait(1.0):
                    return

    thread = threading.Thread(target=report)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _send(client: httpx.Client, ids: list[str], used: list[int], sequence: int) -> None:
    listed = tuple(
        InstanceTraffic(
            instance_id=key,
            produce=FlowCounters(used=bytes_total, rate_per_s=10**6),
            consume=FlowCounters(used=bytes_total // 2, rate_per_s=10**6),
            partitions_led=4,
            stored_bytes=bytes_total % 10**9,
        )
        for key, bytes_total in zip(ids, used, strict=True)
    )
    message = TrafficReport(
        point="broker-1",
        node_id=1,
        cluster_id="builtin-1",
        boot_id="bench",
        sequence=sequence,
        window_ms=1_000,
        sent_at_ms=int(time.time() * 1000),
        full=True,
        instances=listed,
    )
    client.post("internal/v1/reports", content=msgspec.json.encode(message)).raise_for_status()


def _measured(control: Control, rounds: int, say: Say) -> dict[str, object]:
    found: dict[int, list[float]] = {0: [], 1: [], MANY: []}
    sizes: dict[int, list[float]] = {1: [], MANY: []}
    time.sleep(_SETTLE_S)
    for number in range(rounds):
        for viewers in found:
            say(f"round {number + 1}: {viewers} viewers")
            percent, bytes_per_s = asyncio.run(_watched(control, viewers))
            found[viewers].append(percent)
            if viewers:
                sizes[viewers].append(bytes_per_s / viewers)
    nobody = found[0]
    return {
        "nobody looks: CPU of the process, % of a core": Spread.of(nobody),
        "one viewer: % of a core more": Spread.of(_more(found[1], nobody)),
        f"{MANY} viewers together: % of a core more": Spread.of(_more(found[MANY], nobody)),
        "one viewer is sent, kB/s": Spread.of([size / 1000 for size in sizes[1]]),
        f"each of {MANY} is sent, kB/s": Spread.of([size / 1000 for size in sizes[MANY]]),
    }


def _more(these: list[float], nobody: list[float]) -> list[float]:
    return [one - base for one, base in zip(these, nobody, strict=True)]


async def _watched(control: Control, viewers: int) -> tuple[float, float]:
    """CPU of the control process in percent of a core, and bytes/s that all viewers were sent."""
    with control.operator() as operator:
        headers = {"Authorization": str(operator.headers["authorization"])}
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(headers=headers, timeout=30, limits=limits, trust_env=False) as client:
        counts = [0] * viewers

        async def watch(place: int) -> None:
            async with client.stream("GET", f"http://{HOST}:{control.port}/v1/fleet/stream") as answer:
                answer.raise_for_status()
                async for chunk in answer.aiter_raw():
                    counts[place] += len(chunk)

        tasks = [asyncio.create_task(watch(place)) for place in range(viewers)]
        await asyncio.sleep(_SETTLE_S)
        failed = [one for one in tasks if one.done()]
        if failed:
            raise CommandError(f"a dashboard could not be opened: {failed[0].exception()}")
        before, began, cpu_s = sum(counts), time.perf_counter(), cpu_seconds(control.pid)
        await asyncio.sleep(_SECONDS)
        elapsed_s = time.perf_counter() - began
        percent = 100 * (cpu_seconds(control.pid) - cpu_s) / elapsed_s
        sent = (sum(counts) - before) / elapsed_s
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return percent, sent
