"""The control plane as a broker sees it: a feed of specs and a quota master, both scripted."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec

from contracts.holdings import HoldingsAnswer, HoldingsReport
from contracts.quota import Allocation, ReportAnswer, TrafficReport
from contracts.specs import (
    BrokerAddress,
    ClusterSpec,
    FeedRequest,
    FeedResponse,
    InstanceSpec,
    InstanceState,
    Limits,
)

SECRET = "the deployment's secret"


def spec(instance_id: str, **changes: Any) -> InstanceSpec:
    """An instance of the broker's cluster, 100 MB/s each way, 10 GB."""
    values: dict[str, Any] = {
        "revision": 1,
        "instance_id": instance_id,
        "tenant": "default",
        "name": instance_id,
        "state": InstanceState.ACTIVE,
        "cluster_id": "portico",
        "produce_rate_bytes_per_s": 100_000_000,
        "consume_rate_bytes_per_s": 100_000_000,
        "capacity_bytes": 10_000_000_000,
        "limits": Limits(),
    }
    return InstanceSpec(**(values | changes))


class FakeControl:
    """Specs to hand out, reports that came, allocations to answer."""

    def __init__(self) -> None:
        self.specs: dict[str, InstanceSpec] = {}
        self.revision = 0
        self.applied_revision = 0
        """What the broker says it has applied."""
        self.reports: list[TrafficReport] = []
        self.addresses: list[BrokerAddress] = []
        self.allocate: dict[str, Allocation] = {}
        self.holdings: HoldingsReport | None = None
        """What the broker told last of what it holds and does not serve."""
        self.url = ""

    def set(self, instance: InstanceSpec) -> None:
        """Put a spec into the feed."""
        self.revision += 1
        self.specs[instance.instance_id] = msgspec.structs.replace(instance, revision=self.revision)

    def feed(self, request: FeedRequest) -> FeedResponse:
        """Answer a poll."""
        assert request.broker is not None
        self.addresses.append(request.broker)
        self.applied_revision = request.applied_revision
        deadline = time.monotonic() + min(request.wait_ms / 1000, 0.5)
        while self.revision <= request.applied_revision and time.monotonic() < deadline:
            time.sleep(0.01)
        full = request.feed_id != "fake"
        after = 0 if full else request.applied_revision
        revision = self.revision
        return FeedResponse(
            feed_id="fake",
            revision=revision,
            full=full,
            instances=tuple(each for each in self.specs.values() if after < each.revision <= revision),
            clusters=(ClusterSpec(revision=1, cluster_id="portico", brokers=(request.broker,)),)
            if full
            else (),
        )

    def report(self, report: TrafficReport) -> ReportAnswer:
        """Answer a report."""
        self.reports.append(report)
        return ReportAnswer(allocations=tuple(self.allocate.values()), period_ms=200)

    def traffic_of(self, instance_id: str) -> Any:
        """What was reported of an instance last."""
        for report in reversed(self.reports):
            for each in report.instances:
                if each.instance_id == instance_id:
                    return each
        return None


def wait_until(holds: Any, within_s: float = 60.0) -> None:
    """Poll until something holds."""
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, "it did not come to hold"
        time.sleep(0.02)


@contextmanager
def running_control() -> Iterator[FakeControl]:
    """The fake on a port of its own."""
    control = FakeControl()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers["Authorization"] != f"Bearer {SECRET}":
                self.send_response(401)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            if self.path == "/internal/v1/feed":
                answer: Any = control.feed(msgspec.json.decode(body, type=FeedRequest))
            elif self.path == "/internal/v1/holdings":
                control.holdings = msgspec.json.decode(body, type=HoldingsReport)
                answer = HoldingsAnswer()
            else:
                answer = control.report(msgspec.json.decode(body, type=TrafficReport))
            content = msgspec.json.encode(answer)
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    control.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield control
    finally:
        server.shutdown()
        server.server_close()
