"""Quota masters as processes, and points that report to whoever is elected."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import msgspec

from contracts.quota import Direction, ReportAnswer
from contracts.specs import InstanceSpec, InstanceState
from ctl.stack.layout import free_port
from runtime.clock import epoch_ms, monotonic_ms
from runtime.internal_http import InternalClient, InternalError
from runtime.master_address import WatchedAddress
from traffic.point import TrafficPoint

SECRET: Final = "the deployment's secret"
ID: Final = "iabcdefghijk"
T: Final = 30_000_000
NOBODY: Final = "http://127.0.0.1:1"
"""Where no control plane answers."""

SPEC: Final = InstanceSpec(
    revision=1,
    instance_id=ID,
    tenant="t",
    name="n",
    state=InstanceState.ACTIVE,
    cluster_id="c",
    produce_rate_bytes_per_s=T,
    consume_rate_bytes_per_s=T,
    capacity_bytes=10**15,
)


class MasterProcess:
    """`python -m master` with the specs of a control plane that is down."""

    def __init__(self, directory: Path, zookeeper: str, session_timeout_ms: int) -> None:
        directory.mkdir(parents=True)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._directory = directory
        self._arguments = ("--zookeeper", zookeeper, "--session-timeout-ms", str(session_timeout_ms))
        self._process: subprocess.Popen[bytes] | None = None
        (directory / "secret").write_text(SECRET)
        cache = {"feed_id": "f", "revision": 1, "instances": [SPEC], "clusters": [], "version": 1}
        (directory / "specs.json").write_bytes(msgspec.json.encode(cache))

    def start(self) -> None:
        """Start it; `elected` or not it serves soon after."""
        command = [sys.executable, "-m", "master", "--data-dir", str(self._directory), "--control", NOBODY]
        command += ["--secret-file", str(self._directory / "secret"), "--listen", f"127.0.0.1:{self.port}"]
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen([*command, *self._arguments], stdout=log, stderr=log)

    def send(self, number: signal.Signals) -> None:
        """A signal."""
        assert self._process is not None
        os.kill(self._process.pid, number)

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class LivePoint:
    """A traffic point in this process that reports to the elected master and offers traffic without end."""

    def __init__(self, node_id: int, address: WatchedAddress, wanted: int) -> None:
        self.wanted_bytes_per_s = wanted
        self.delivered = 0
        self.epochs: list[int] = []
        self.point = TrafficPoint(
            point=f"broker-{node_id}",
            node_id=node_id,
            cluster_id="c",
            boot_id=f"boot-{node_id}",
            now_ms=monotonic_ms(),
        )
        self.point.set_spec(SPEC, monotonic_ms())
        self.point.set_all_led({ID: (1, 0)})
        self.point.set_leaders(ID, {1: 1, 2: 1, 3: 1}, 1)
        self._client = InternalClient(lambda: address.url, SECRET)

    @property
    def applied(self) -> int:
        """q of produce."""
        flow = self.point.flow(ID, Direction.PRODUCE)
        return flow.rate_per_s if flow is not None else 0

    async def run(self) -> None:
        """Until cancelled."""
        await asyncio.gather(self._report(), self._produce())

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(self.point.period_ms / 1000)
            report = self.point.report(monotonic_ms(), epoch_ms())
            try:
                answer = await self._client.post("/internal/v1/reports", report, ReportAnswer, timeout_s=0.8)
            except InternalError:
                continue
            self.point.apply(answer, monotonic_ms())
            self.epochs += [each.lease_epoch for each in answer.allocations]

    async def _produce(self) -> None:
        size, due_ms = self.wanted_bytes_per_s // 400, float(monotonic_ms())
        while True:
            await asyncio.sleep(0.01)
            now_ms = monotonic_ms()
            due_ms = max(due_ms, now_ms - 50.0)
            while due_ms < now_ms and self.point.unmute_at_ms(ID, Direction.PRODUCE, now_ms) <= now_ms:
                self.point.charge_produce(ID, size, now_ms)
                self.delivered += size
                due_ms += 1000 / 400


async def measure(points: Iterable[LivePoint], seconds: float) -> float:
    """Bytes per second of all points together."""
    points = list(points)
    before, started = sum(point.delivered for point in points), time.monotonic()
    await asyncio.sleep(seconds)
    return (sum(point.delivered for point in points) - before) / (time.monotonic() - started)


async def until(holds: Callable[[], bool], within_s: float) -> None:
    """Poll until something holds."""
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, "it did not come to hold"
        await asyncio.sleep(0.05)
