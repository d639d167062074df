"""A polite tenant at half its rate, and a neighbour that floods: what does the polite one notice?

    ./portico loadtest noisy-neighbour --kind produce|metadata|reconnect|rebalance|cold-reads
        [--turns 3] [--turn-s 10] [--figures FILE]

Instances are made for the run (operator's key) and deleted after it. In each turn the polite tenant is alone
first and then beside the flood, so that both are measured in one run on one machine; it sends on a schedule,
and a request that waits to be sent has waited. At the end two equal tenants flood at once: what each of them
got is compared. Nothing is asserted: times are for people.
"""

import json
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any, Final, NamedTuple

import gevent
import httpx
from locust import User, constant, events, task
from locust.argument_parser import LocustArgumentParser
from locust.env import Environment
from locust.exception import StopUser

from ctl.bench.load import Client, create_topic, produce_frames, workload
from ctl.bench.measure import percentile
from loadtests.floods import Kind, turns

RATE_BYTES_PER_S: Final = 4_000_000
"""Bought by everybody, in each direction."""
POLITE_BYTES: Final = 20_000
"""Of one request."""
SETTLE_S: Final = 2.0
"""Of each phase: not counted, while the one before drains."""
TOPICS: Final = 200
"""Of a flooding instance: what Metadata of all topics has to say."""
STORED_BYTES: Final = 20_000_000
"""What cold reads begin with."""
TOPIC: Final = "noisy"
_BOUGHT: Final = {
    "produce_rate_bytes_per_s": RATE_BYTES_PER_S,
    "consume_rate_bytes_per_s": RATE_BYTES_PER_S,
    "capacity_bytes": 2_000_000_000,
    "whitelist": ["127.0.0.1/32"],
}
_CALL_S: Final = 60.0


@events.init_command_line_parser.add_listener
def _add_options(parser: LocustArgumentParser) -> None:
    add = parser.add_argument
    add("--console", env_var="PORTICO_URL", default="http://127.0.0.1:8080", help="Address of the console")
    add("--api-key", env_var="PORTICO_API_KEY", default="", is_secret=True, help="An operator's key")
    add("--kind", choices=[str(each) for each in Kind], default=str(Kind.PRODUCE), help="What floods")
    add("--turns", type=int, default=3, help="How often alone, then together")
    add("--turn-s", type=float, default=10.0, help="Seconds of each half of a turn")
    add("--figures", default="", help="Write the figures to this file")


class Console:
    """What a run makes, and removes."""

    def __init__(self, url: str, key: str) -> None:
        self._http = httpx.Client(
            base_url=f"{url}/v1/",
            headers={"Authorization": f"Bearer {key}"},
            timeout=_CALL_S,
            trust_env=False,
        )
        self._made: list[str] = []

    def create(self, name: str) -> int:
        """An instance that serves; returns its port. One broker is asked: its bootstrap port leads there."""
        created = self._call("POST", "instances", _BOUGHT | {"name": f"{name}-{time.time_ns() % 10**9}"})
        self._made.append(created["id"])
        deadline = time.monotonic() + _CALL_S
        while created["state"] != "running":
            if time.monotonic() > deadline:
                raise SystemExit(f"instance {created['name']} does not serve: {created['state_reason']}")
            gevent.sleep(0.1)
            created = self._call("GET", f"instances/{created['id']}")
        return int(created["bootstrap_servers"].rpartition(":")[2])

    def remove_all(self) -> None:
        """Delete the instances of this run."""
        for instance_id in self._made:
            self._call("DELETE", f"instances/{instance_id}")

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        answer = self._http.request(method, path, json=body)
        if not answer.is_success:
            raise SystemExit(f"the console answered {answer.status_code} to {method} {path}: {answer.text}")
        return answer.json() if answer.content else None


class Sample(NamedTuple):
    """One polite request."""

    due_s: float
    took_ms: float


class Run:
    """One load test in this process."""

    def __init__(self, options: Any) -> None:
        self.kind = Kind(options.kind)
        self._count, self._turn_s = options.turns, options.turn_s
        self._console = Console(options.console, options.api_key)
        self.polite_port = self._console.create("polite")
        create_topic(self.polite_port, TOPIC)
        self._ports = [self._prepared(f"noisy-{n}") for n in range(3)]
        self.samples: list[Sample] = []
        self._file = options.figures
        self.start_s = time.monotonic() + 1.0
        flooding = self._flood(self._ports[0], self._turn_s, self._turn_s, self._count)
        equals = gevent.spawn(self._equals)
        self._waiting = [gevent.spawn(_counts, flooding), equals]

    def _prepared(self, name: str) -> int:
        port = self._console.create(name)
        create_topic(port, TOPIC)
        if self.kind is Kind.METADATA:
            for number in range(TOPICS):
                create_topic(port, f"{TOPIC}-{number}")
        if self.kind is Kind.COLD_READS:
            frame = produce_frames(TOPIC, workload(1_000_000), 1)[0]
            client = Client(port)
            for _ in range(STORED_BYTES // len(frame)):
                client.exchange(frame)
            client.socket.close()
        return port

    def _flood(self, port: int, on_s: float, off_s: float, count: int) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "loadtests.floods", str(self.kind), "--port", str(port)]
        starts = time.time() + self.start_s - time.monotonic()
        schedule = ["--start", str(starts), "--on", str(on_s), "--off", str(off_s), "--turns", str(count)]
        return subprocess.Popen(
            [*command, "--topic", TOPIC, *schedule],
            stdout=subprocess.PIPE,
            cwd=Path(__file__).resolve().parents[1],
        )

    @property
    def polite_end_s(self) -> float:
        """The polite tenant has sent all."""
        return self.start_s + 2 * self._turn_s * self._count

    def _equals(self) -> list[list[dict[str, int]]]:
        """Two equal tenants, after the turns."""
        gevent.sleep(max(0.0, self.polite_end_s - time.monotonic() - 2))
        before = self.polite_end_s - self.start_s
        both = [self._flood(port, 2 * self._turn_s, before + SETTLE_S, 1) for port in self._ports[1:]]
        return [_counts(each) for each in both]

    def wait(self) -> None:
        """Until every flood has told what it did."""
        gevent.joinall(self._waiting, timeout=_CALL_S + 4 * self._turn_s)

    def report(self) -> None:
        """Print, keep and clean up."""
        flood, equals = (each.get(block=False) for each in self._waiting)
        self._console.remove_all()
        figures = self._figures(flood, [turns_[0] for turns_ in equals])
        if self._file:
            Path(self._file).write_text(json.dumps(figures, indent=2) + "\n")
        _print(figures)

    def _figures(self, flood: list[dict[str, int]], equals: list[dict[str, int]]) -> dict[str, Any]:
        together = turns(self.start_s, self._turn_s, self._turn_s, self._count)
        beside = [
            [one.took_ms for one in self.samples if each.start_s + SETTLE_S <= one.due_s < each.end_s]
            for each in together
        ]
        alone = [
            [
                one.took_ms
                for one in self.samples
                if each.start_s - self._turn_s + SETTLE_S <= one.due_s < each.start_s
            ]
            for each in together
        ]
        ratios = [percentile(b, 0.99) / percentile(a, 0.99) for a, b in zip(alone, beside, strict=True)]
        counted = [_delivered(self.kind, each) for each in equals]
        return {
            "kind": str(self.kind),
            "p99_alone_ms": [percentile(each, 0.99) for each in alone],
            "p99_beside_ms": [percentile(each, 0.99) for each in beside],
            "p50_alone_ms": [percentile(each, 0.5) for each in alone],
            "p50_beside_ms": [percentile(each, 0.5) for each in beside],
            "p99_ratio": sorted(ratios),
            "flood": flood,
            "flood_seconds": self._turn_s,
            "equals": equals,
            "equals_min_over_max": min(counted) / max(1, *counted),
        }


def _delivered(kind: Kind, counts: dict[str, int]) -> int:
    name = {Kind.PRODUCE: "sent_bytes", Kind.COLD_READS: "received_bytes"}.get(kind, "requests")
    return counts[name]


def _counts(flood: "subprocess.Popen[bytes]") -> list[dict[str, int]]:
    assert flood.stdout is not None
    out, _ = flood.communicate()
    counted: list[dict[str, int]] = json.loads(out)
    return counted


def _print(figures: dict[str, Any]) -> None:
    print(f"\na polite tenant at half its rate beside a flood of kind {figures['kind']}")
    print("turn p50 alone  beside p99 alone  beside   ratio of p99")
    names = ("p50_alone", "p50_beside", "p99_alone", "p99_beside")
    for number, row in enumerate(zip(*(figures[f"{name}_ms"] for name in names), strict=True), 1):
        shown = "".join(f"{each:>8.1f}" for each in row)
        print(f"{number:>4} {shown} ms {row[3] / row[2]:>9.2f}")
    ratios = figures["p99_ratio"]
    print(f"ratio of p99: min {ratios[0]:.2f}, median {percentile(ratios, 0.5):.2f}, max {ratios[-1]:.2f}")
    for each in figures["flood"]:
        got = each["sent_bytes"] + each["received_bytes"]
        print(
            f"the flood: {each['requests']:,} requests answered, {each['connections']:,} connections, "
            f"{each['cut']:,} cut, {got / figures['flood_seconds'] / 1e6:.1f} MB/s"
        )
    print(f"equal tenants that flood at once got min / max {figures['equals_min_over_max']:.3f}")


_runs: dict[int, Run] = {}
"""By environment; one in a process of locust's."""


@events.test_start.add_listener
def _on_start(environment: Environment, **_: object) -> None:
    if type(environment.runner).__name__ != "MasterRunner":
        _runs[id(environment)] = Run(environment.parsed_options)


@events.test_stop.add_listener
def _on_stop(environment: Environment, **_: object) -> None:
    run = _runs.pop(id(environment), None)
    if run is not None:
        run.report()


class Polite(User):
    """Produces at half the rate, one request after the other leaving on time, answered or not."""

    fixed_count = 1
    wait_time = constant(0)

    def on_start(self) -> None:
        """Connect, and read answers beside."""
        self._run = _runs[id(self.environment)]
        self._frame = produce_frames(TOPIC, workload(POLITE_BYTES), 1)[0]
        self._client = Client(self._run.polite_port)
        self._due: deque[float] = deque()
        self._next_s = self._run.start_s
        self._reader = gevent.spawn(self._read)

    def on_stop(self) -> None:
        """Hang up."""
        self._reader.kill()
        self._client.socket.close()

    @task
    def send(self) -> None:
        """The next request, when it is due."""
        if self._next_s >= self._run.polite_end_s:
            self._run.wait()
            gevent.spawn(self.environment.runner.quit)
            raise StopUser
        gevent.sleep(max(0.0, self._next_s - time.monotonic()))
        self._due.append(self._next_s)
        self._client.socket.sendall(self._frame)
        self._next_s += len(self._frame) / (RATE_BYTES_PER_S / 2)

    def _read(self) -> None:
        while True:
            size = self._client.receive()
            due_s = self._due.popleft()
            took_ms = (time.monotonic() - due_s) * 1000
            self._run.samples.append(Sample(due_s, took_ms))
            self.environment.events.request.fire(
                request_type="produce",
                name="polite",
                response_time=took_ms,
                response_length=size,
                exception=None,
                context={},
            )
