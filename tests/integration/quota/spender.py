"""A gateway worker beside the stack's own: the real point, reports over HTTP, as much work as wanted."""

import threading
import time
import uuid

import httpx
import msgspec

from contracts.quota import NO_NODE, Direction, ReportAnswer, TrafficReport
from contracts.specs import InstanceSpec, InstanceState
from runtime.clock import epoch_ms, monotonic_ms
from tests.integration.quota.test_cluster import internal, master_url
from tests.integration.stack import Stack
from traffic.point import TrafficPoint

_STEP_S = 0.02
_PERIOD_S = 1.0


class Spender:
    """Spends CPU time on one instance, `wanted_us_per_s` at most, on a thread of its own, and obeys."""

    def __init__(self, stack: Stack, name: str, spec: InstanceSpec) -> None:
        self.name = name
        self.wanted_us_per_s = 0
        self.spent_us = 0
        self.gateways = 0
        """As the master says."""
        self._id = spec.instance_id
        self._http: httpx.Client = internal(stack)
        self._url = f"{master_url(stack)}/internal/v1/reports"
        self.point = TrafficPoint(
            point=name, node_id=NO_NODE, cluster_id="", boot_id=uuid.uuid4().hex, now_ms=monotonic_ms()
        )
        self.point.set_spec(spec, monotonic_ms())
        self._fault: Exception | None = None
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End, and fail the test if anything went wrong."""
        self._is_stopping.set()
        self._thread.join(10)
        self._http.close()
        if self._fault is not None:
            raise self._fault

    @property
    def applied_us_per_s(self) -> int:
        """q in force."""
        flow = self.point.flow(self._id, Direction.CPU)
        assert flow is not None
        return flow.rate_per_s

    def _run(self) -> None:
        reported_s = worked_s = time.monotonic()
        try:
            while not self._is_stopping.wait(_STEP_S):
                now_s = time.monotonic()
                self._work(now_s - worked_s)
                worked_s = now_s
                if now_s - reported_s >= _PERIOD_S:
                    reported_s = now_s
                    self._report()
        except (AssertionError, httpx.HTTPError, msgspec.MsgspecError) as error:  # for the test's thread
            self._fault = error

    def _work(self, elapsed_s: float) -> None:
        now_ms = monotonic_ms()
        cost_us = int(self.wanted_us_per_s * elapsed_s)
        if cost_us and self.point.unmute_at_ms(self._id, Direction.CPU, now_ms) <= now_ms:
            self.point.charge_cpu(self._id, cost_us, now_ms)
            self.spent_us += cost_us

    def _report(self) -> None:
        report: TrafficReport = self.point.report(monotonic_ms(), epoch_ms())
        answer = self._http.post(self._url, content=msgspec.json.encode(report))
        assert answer.status_code == 200, answer.text
        told = msgspec.json.decode(answer.content, type=ReportAnswer)
        self.gateways = told.gateways
        self.point.apply(told, monotonic_ms())


def spec_of(instance: dict[str, object], request_percent: int) -> InstanceSpec:
    """What the feed would tell of an instance of the console."""
    return InstanceSpec(
        revision=1,
        instance_id=str(instance["id"]),
        tenant=str(instance["tenant"]),
        name=str(instance["name"]),
        state=InstanceState.ACTIVE,
        cluster_id="builtin-1",
        produce_rate_bytes_per_s=200_000_000,
        consume_rate_bytes_per_s=200_000_000,
        capacity_bytes=10_000_000_000,
        request_percent=request_percent,
    )
