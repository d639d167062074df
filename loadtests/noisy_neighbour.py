"""A polite tenant at half its rate, and a neighbour that floods: what does the polite one notice?

In each turn the polite tenant is alone first and then beside the flood, so that both are measured in one run
on one machine; it sends on a schedule, and a request that waits to be sent has waited. Turns before them warm
what has to be warm: the JVM of an Apache Kafka compiles what a flood is the first to ask for, on processors
that all share. At the end two equal tenants flood at once: what each of them got is compared.

With `--direct` the same tenants are clients of the Apache Kafka itself, with its client quotas: what of a
ratio is the engine's own, and the machine's.
"""

import argparse
import json
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import gevent.event
from locust import User, constant, task
from locust.exception import StopUser

from ctl.bench.load import Client, create_topic, produce_frames, workload
from ctl.bench.measure import percentile
from ctl.errors import usage
from loadtests.bounds import Better, Figure
from loadtests.direct import Direct
from loadtests.floods import Kind, Priority, Tenant, Turn, topic_name, turns
from loadtests.report import Outcome, Plot, Series
from loadtests.scenario import Site, swarm, tell
from runtime.config import parse_host_port

RATE_BYTES_PER_S: Final = 4_000_000
"""Bought by everybody, in each direction."""
POLITE_BYTES: Final = 20_000
"""Size of one request."""
TOPICS: Final = 200
"""Topics of a flooding instance: what Metadata of all topics has to say."""
STORED_BYTES: Final = 20_000_000
"""What cold reads begin with."""
TOPIC: Final = "noisy"
_EQUAL: Final = {
    Kind.REBALANCE: Kind.MEMBERS,
    Kind.CONSUMER_GROUPS: Kind.HEARTBEATS,
    Kind.COLD_READS: Kind.SHORT_READS,
}
"""What equal tenants flood with, where it is another: how often a group rebalances is said by timers, and one
answer of a megabyte more is two per cent of what is compared."""
_SETTLED: Final = 0.2
"""Share of each half of a turn that is not counted, while the one before drains."""
_BOUGHT: Final = {
    "produce_rate_bytes_per_s": RATE_BYTES_PER_S,
    "consume_rate_bytes_per_s": RATE_BYTES_PER_S,
}
_LEAD_S: Final = 0.5
_END_S: Final = 60.0
"""How long a flood may take to end after its time, and polite answers to arrive."""


def add_options(parser: argparse._ArgumentGroup) -> None:
    """Kind, and how long."""
    kinds = [str(each) for each in Kind if each not in _EQUAL.values()]
    parser.add_argument("--kind", choices=kinds, default=str(Kind.PRODUCE))
    parser.add_argument("--turns", type=int, default=3, help="how often alone, then together")
    parser.add_argument("--warm-turns", type=int, default=2, help="as many before, which nobody counts")
    parser.add_argument("--turn-s", type=float, default=10.0, help="seconds of each half of a turn")
    help_text = "when the flood gets a processor: if nobody else wants one, or as everybody"
    parser.add_argument("--equal-s", type=float, default=20.0, help="seconds that equal tenants flood")
    parser.add_argument(
        "--flood-priority", choices=[str(each) for each in Priority], default="idle", help=help_text
    )
    parser.add_argument("--topics", type=int, default=TOPICS, help="of an instance that floods with metadata")
    direct = "tenants of the Apache Kafka of --backend itself, with its client quotas and without a gateway"
    parser.add_argument("--direct", action="store_true", help=direct)


def run_name(options: argparse.Namespace) -> str:
    """A baseline for each kind."""
    return f"noisy-neighbour-{options.kind}"


class Sample(NamedTuple):
    """One polite request."""

    due_s: float
    took_ms: float
    late_ms: float
    """Of that, before it was sent: what the machine owes the tenant's own process."""


class Polite(User):
    """Produces at half the rate, one request after the other leaving on time, answered or not."""

    fixed_count = 1
    wait_time = constant(0)
    whole: "Run"

    def on_start(self) -> None:
        """Connect, and read answers beside."""
        polite = self.whole.polite
        client_id = polite.endpoint.client_id
        self._frame = produce_frames(polite.prefix + TOPIC, workload(POLITE_BYTES), 1, client_id=client_id)[0]
        self._client = Client(polite.endpoint)
        self._due: deque[tuple[float, float]] = deque()
        """When it was due, and when it was sent."""
        self._next_s = self.whole.start_s
        self._reader = gevent.spawn(self._read)

    def on_stop(self) -> None:
        """Hang up."""
        self._reader.kill()
        self._client.socket.close()

    @task
    def send(self) -> None:
        """The next request, when it is due."""
        if self._next_s >= self.whole.polite_end_s:
            with gevent.Timeout(_END_S, False):
                while self._due:
                    gevent.sleep(0.01)
            self.whole.unanswered = len(self._due)
            self.whole.done.set()
            raise StopUser
        gevent.sleep(max(0.0, self._next_s - time.monotonic()))
        self._due.append((self._next_s, time.monotonic()))
        self._client.socket.sendall(self._frame)
        self._next_s += len(self._frame) / (RATE_BYTES_PER_S / 2)

    def _read(self) -> None:
        while True:
            size = self._client.receive()
            due_s, sent_s = self._due.popleft()
            took_ms = (time.monotonic() - due_s) * 1000
            self.whole.samples.append(Sample(due_s, took_ms, (sent_s - due_s) * 1000))
            tell(self, "produce", "polite", took_ms, size)


class Run:
    """One load test in this process."""

    def __init__(self, make: Callable[[str], Tenant], options: argparse.Namespace) -> None:
        """`make` brings a tenant of that name, who bought `_BOUGHT`."""
        self._kind = Kind(options.kind)
        self._counted, self._count = options.turns, options.warm_turns + options.turns
        self._turn_s, self._equal_s = options.turn_s, options.equal_s
        self._topics = options.topics if self._kind is Kind.METADATA else 0
        self._make = make
        self.polite = self._prepared("polite", Kind.PRODUCE)
        self._noisy = [self._prepared(f"noisy-{n}", self._kind) for n in range(3)]
        self.samples: list[Sample] = []
        self.unanswered = 0
        self.done = gevent.event.Event()
        self.start_s = 0.0
        self._priority = options.flood_priority

    def _prepared(self, name: str, kind: Kind) -> Tenant:
        tenant = self._make(name)
        endpoint, topic = tenant.endpoint, tenant.prefix + TOPIC
        create_topic(endpoint, topic)
        if kind is Kind.METADATA:
            for number in range(self._topics):
                create_topic(endpoint, topic_name(topic, number))
        if kind is Kind.COLD_READS:
            frame = produce_frames(topic, workload(1_000_000), 1, client_id=endpoint.client_id)[0]
            client = Client(endpoint)
            for _ in range(STORED_BYTES // len(frame)):
                client.exchange(frame)
            client.socket.close()
        return tenant

    @property
    def polite_end_s(self) -> float:
        """The polite tenant has sent all."""
        return float(self.start_s + 2 * self._turn_s * self._count)

    def outcome(self) -> Outcome:
        """The whole run: turns, then the equal tenants."""
        flooding = self._flood(self._noisy[:1], self._turn_s, self._turn_s, self._count)
        self.start_s = time.monotonic() + _LEAD_S
        self._begin(flooding)
        longest_s = self.polite_end_s - time.monotonic() + 2 * _END_S
        with swarm([Polite], 1, 1, whole=self):
            if not self.done.wait(longest_s):
                raise RuntimeError("the polite tenant did not end")
        (flood,) = _counts(flooding)
        equal = _EQUAL.get(self._kind, self._kind)
        both = self._flood(self._noisy[1:], self._equal_s, 0, 1, equal)
        self.start_s = time.monotonic() + _LEAD_S
        self._begin(both)
        warm = self._count - self._counted
        return self._told(flood[warm:], [of_one[0] for of_one in _counts(both)])

    def _flood(
        self, tenants: list[Tenant], on_s: float, off_s: float, count: int, kind: Kind | None = None
    ) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "loadtests.floods", str(kind or self._kind), "--topic", TOPIC]
        command += ["--priority", self._priority, "--topics", str(self._topics)]
        for tenant in tenants:
            command += ["--target", tenant.target]
        flood = subprocess.Popen(
            [*command, "--on", str(on_s), "--off", str(off_s), "--turns", str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).resolve().parents[1],
        )
        assert flood.stdout is not None
        if flood.stdout.readline() != "ready\n":
            raise RuntimeError("a flood did not start")
        return flood

    def _begin(self, flood: "subprocess.Popen[str]") -> None:
        assert flood.stdin is not None
        flood.stdin.write(f"{time.time() + self.start_s - time.monotonic()}\n")
        flood.stdin.flush()

    def _told(self, flood: list[dict[str, int]], equals: list[dict[str, int]]) -> Outcome:
        first_s = self.samples[0].due_s
        together = turns(first_s, self._turn_s, self._turn_s, self._count)[-self._counted :]
        alone_turns = [Turn(each.start_s - self._turn_s, each.start_s) for each in together]
        samples = [[self._of(each) for each in half] for half in (alone_turns, together)]
        alone, beside = ([[one.took_ms for one in turn] for turn in half] for half in samples)
        late = [[percentile([one.late_ms for one in turn], 0.99) for turn in half] for half in samples]
        ratios = sorted(percentile(b, 0.99) / percentile(a, 0.99) for a, b in zip(alone, beside, strict=True))
        counted = [_delivered(self._kind, each) for each in equals]
        share = min(counted) / max(1, *counted)
        p99_alone = percentile([percentile(each, 0.99) for each in alone], 0.5)
        p99_beside = percentile([percentile(each, 0.99) for each in beside], 0.5)
        flood_per_s = sum(each["requests"] for each in flood) / self._turn_s / self._counted
        figures = [
            Figure("p99_ratio", percentile(ratios, 0.5)),
            Figure("p99_alone_ms", p99_alone, Better.LOWER, tolerance=1.0),
            Figure("p99_beside_ms", p99_beside, Better.LOWER, tolerance=1.0),
            Figure("equals_min_over_max", share),
            Figure("unanswered", self.unanswered),
            Figure("flood_requests_per_s", flood_per_s),
        ]
        details = {
            "p99_ratios": ratios,
            "flood": flood,
            "equals": equals,
            "p50_alone_ms": [percentile(each, 0.5) for each in alone],
            "p50_beside_ms": [percentile(each, 0.5) for each in beside],
            "p99_alone_ms": [percentile(each, 0.99) for each in alone],
            "p99_beside_ms": [percentile(each, 0.99) for each in beside],
            "late_p99_alone_ms": late[0],
            "late_p99_beside_ms": late[1],
        }
        title = f"a polite tenant at half its rate beside a flood of kind {self._kind}"
        lines = _lines(details, share, self._turn_s)
        return Outcome(title, figures, self._plots(alone, beside, together, first_s), lines, details)

    def _of(self, turn: Turn) -> list[Sample]:
        settled_s = turn.start_s + _SETTLED * (turn.end_s - turn.start_s)
        return [one for one in self.samples if settled_s <= one.due_s < turn.end_s]

    def _plots(
        self, alone: list[list[float]], beside: list[list[float]], together: list[Turn], first_s: float
    ) -> list[Plot]:
        points = [(one.due_s - first_s, one.took_ms) for one in self.samples]
        shaded = [(turn.start_s - first_s, turn.end_s - first_s) for turn in together]
        spread = [
            Series(label, _distribution([one for turn in taken for one in turn]))
            for label, taken in (("alone", alone), ("beside the flood", beside))
        ]
        return [
            Plot(
                "over-time",
                "Each polite request; shaded: the flood is on",
                "s",
                "ms",
                [Series("polite", points, dots=True)],
                shaded,
                log_y=True,
            ),
            Plot("distribution", "How long polite requests took", "percentile", "ms", spread, log_y=True),
        ]


def run(site: Site, options: argparse.Namespace) -> Outcome:
    """Make the load and measure. Raises: CommandError for options that do not go together."""
    if not options.direct:
        return Run(partial(_instance, site), options).outcome()
    if options.backend is None:
        raise usage("--direct loads an Apache Kafka: name it with --backend")
    host, port = parse_host_port(options.backend.partition(",")[0])
    site.place.check(host)
    with Direct(host, port) as cluster:
        return Run(partial(cluster.tenant, bought=_BOUGHT), options).outcome()


def _instance(site: Site, name: str) -> Tenant:
    return Tenant(site.place.instance(name, _BOUGHT).endpoint)


def _distribution(values: list[float]) -> list[tuple[float, float]]:
    shares = [*(n / 100 for n in range(1, 100)), 0.995, 0.999]
    return [(100 * share, percentile(values, share)) for share in shares]


def _delivered(kind: Kind, counts: dict[str, int]) -> int:
    name = {Kind.PRODUCE: "sent_bytes", Kind.COLD_READS: "received_bytes"}.get(kind, "requests")
    return counts[name]


def _counts(flood: "subprocess.Popen[str]") -> list[list[dict[str, int]]]:
    """What a flood says of its turns, for each of its targets. Raises: RuntimeError when it broke off."""
    out, _ = flood.communicate()
    if flood.returncode != 0:
        raise RuntimeError(f"a flood ended with {flood.returncode}")
    counted: list[list[dict[str, int]]] = json.loads(out)
    return counted


def _lines(details: dict[str, object], share: float, seconds: float) -> list[str]:
    lines = ["turn p50 alone  beside p99 alone  beside   ratio of p99   sent late, p99: alone  beside"]
    names = ("p50_alone_ms", "p50_beside_ms", "p99_alone_ms", "p99_beside_ms")
    names += ("late_p99_alone_ms", "late_p99_beside_ms")
    for number, row in enumerate(zip(*(details[name] for name in names), strict=True), 1):
        shown = "".join(f"{each:>8.1f}" for each in row[:4])
        late = "".join(f"{each:>8.1f}" for each in row[4:])
        lines.append(f"{number:>4} {shown} ms {row[3] / row[2]:>9.2f} {'':>15} {late} ms")
    for each in details["flood"]:
        got = each["sent_bytes"] + each["received_bytes"]
        lines.append(
            f"the flood: {each['requests']:,} requests answered, {each['connections']:,} connections, "
            f"{each['cut']:,} cut, {got / seconds / 1e6:.1f} MB/s"
        )
    lines.append(f"equal tenants that flood at once got min / max {share:.3f}")
    return lines
