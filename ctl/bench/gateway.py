"""`bench gateway`: what tenancy costs. Direct, through the gateway, through a bare relay, interleaved."""

import secrets
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from ctl.bench import load, servers
from ctl.bench.librdkafka import consume_rate, produce_rate
from ctl.bench.measure import Cost, Spread, Stopwatch, percentile, rss_bytes

PEERS: Final = ("direct", "gateway", "relay")
_LARGE: Final = 1_000_000
_SMALL: Final = 16_000
_PARTITIONS: Final = 6
"""Partitions of a topic that is read in one Fetch: a frame with several record sets in it."""
_IDLE: Final = 2_000

Say = Callable[[str], None]


class Bench:
    """The servers of one run and what every round needs."""

    def __init__(self, directory: Path, stack: ExitStack, megabytes: int) -> None:
        self.bytes = megabytes * 1_000_000
        self.secret = secrets.token_urlsafe(24)
        secret_file = directory / "secret"
        secret_file.write_text(self.secret)
        self.broker = stack.enter_context(servers.broker(directory, "--secret-file", str(secret_file)))
        gateway = servers.gateway(directory, self.broker.port, secret_file=secret_file)
        self.gateway = stack.enter_context(gateway)
        self.relay = stack.enter_context(servers.relay(directory, self.broker.port))
        self.large, self.small = load.workload(_LARGE), load.workload(_SMALL)
        for name in ("large", "small", "stored"):
            load.create_topic(self.gateway.port, name)
        self.stored = 200
        frame = load.produce_frames("stored", self.large, 1)[0]
        load.produce(self.gateway.port, [frame], self.stored * len(frame), window=4)
        load.create_topic(self.gateway.port, "wide", _PARTITIONS)
        frames = load.produce_frames("wide", self.large, _PARTITIONS)
        load.produce(self.gateway.port, frames, self.stored * len(frame), window=4)

    def server(self, peer: str) -> servers.Server:
        """The process that carries this peer's traffic; for `direct` the broker itself."""
        return {"direct": self.broker, "gateway": self.gateway, "relay": self.relay}[peer]

    def target(self, peer: str) -> load.Target:
        """Where clients of this peer connect. A broker wants the deployment's secret; a tenant has none."""
        port = self.server(peer).port
        return port if peer == "gateway" else load.Endpoint(port, self.secret)

    def topic(self, peer: str, name: str) -> str:
        """A topic's name as this peer's clients must write it."""
        return name if peer == "gateway" else f"{servers.INSTANCE_ID}.{name}"

    def produce(self, peer: str, name: str, workload: load.Workload, window: int, share: float = 1.0) -> Cost:
        """One round of producing."""
        server = self.server(peer)
        frames = load.produce_frames(self.topic(peer, name), workload, 1)
        watch = Stopwatch(server.pid)
        cost = watch.cost(load.produce(self.target(peer), frames, int(self.bytes * share), window=window))
        self.free(name)
        return cost

    def free(self, name: str) -> None:
        """Delete what was produced to a topic."""
        load.delete_all_records(self.gateway.port, name)

    def consume(self, peer: str, name: str = "stored", partitions: int = 1) -> Cost:
        """One round of consuming 1 MB of each partition in an answer."""
        server = self.server(peer)
        watch = Stopwatch(server.pid)
        carried = load.consume(
            *(self.target(peer), self.topic(peer, name), self.large, self.bytes),
            fetch_bytes=_LARGE,
            stored=self.stored // partitions,
            partitions=range(partitions),
        )
        return watch.cost(carried)


def run(rounds: int, megabytes: int, say: Say) -> dict[str, Any]:
    """All measurements; see `report.py` for the table."""
    with tempfile.TemporaryDirectory(dir=servers.scratch_parent(12 * 10**9)) as name, ExitStack() as stack:
        bench = Bench(Path(name), stack, megabytes)
        results: dict[str, Any] = {}
        cases: dict[str, Callable[[str], Cost]] = {
            "large produce": lambda peer: bench.produce(peer, "large", bench.large, window=4),
            "large consume": bench.consume,
            "large consume, 6 partitions": lambda peer: bench.consume(peer, "wide", _PARTITIONS),
            "small produce": lambda peer: bench.produce(peer, "small", bench.small, window=1, share=0.2),
        }
        for case, measure in cases.items():
            say(case)
            results[case] = _costs(rounds, measure)
        say("half load")
        results["offered half of direct"] = _half_load(bench, results["large produce"]["direct"], rounds)
        say("one-message latency")
        results["one-message latency ms"] = _latency(bench, rounds)
        say("connections")
        results["connections per s"] = _each(
            rounds,
            lambda peer: load.connections_per_s(bench.target(peer), bench.topic(peer, "large"), 1.0),
        )
        say("memory")
        results["memory"] = _memory(bench)
        say("confluent-kafka")
        results["confluent-kafka"] = _librdkafka(bench, min(rounds, 3))
        return results


def _interleaved(rounds: int, measure: Callable[[str], Any]) -> dict[str, list[Any]]:
    taken: dict[str, list[Any]] = {peer: [] for peer in PEERS}
    for peer in PEERS:
        measure(peer)  # a warm-up that does not count
    for turn in range(rounds):
        for step in range(len(PEERS)):
            peer = PEERS[(turn + step) % len(PEERS)]
            taken[peer].append(measure(peer))
    return taken


def _costs(rounds: int, measure: Callable[[str], Cost]) -> dict[str, Any]:
    costs = _interleaved(rounds, measure)
    return {
        peer: {
            "MB/s": Spread.of([cost.bytes_per_s / 1e6 for cost in costs[peer]]),
            "CPU s/GB": Spread.of([cost.cpu_s_per_gb for cost in costs[peer]]),
        }
        for peer in PEERS
    }


def _each(rounds: int, measure: Callable[[str], float]) -> dict[str, Spread]:
    return {peer: Spread.of(values) for peer, values in _interleaved(rounds, measure).items()}


def _half_load(bench: Bench, direct: dict[str, Spread], rounds: int) -> dict[str, Spread]:
    rate = direct["MB/s"].median * 1e6 / 2
    frames = {peer: load.produce_frames(bench.topic(peer, "large"), bench.large, 1)[0] for peer in PEERS}

    def offered(peer: str) -> float:
        delivered = load.paced_produce(bench.target(peer), frames[peer], rate, 2.0, window=4)
        bench.free("large")
        return delivered

    return _each(min(rounds, 3), offered)


def _latency(bench: Bench, rounds: int) -> dict[str, Any]:
    one = load.workload(1)
    frames = {peer: load.produce_frames(bench.topic(peer, "small"), one, 1)[0] for peer in PEERS}
    taken = _interleaved(rounds, lambda peer: load.latencies_ms(bench.target(peer), frames[peer], 1000))
    return {
        peer: {
            "p50": Spread.of([percentile(times, 0.50) for times in rounds_of]),
            "p99": Spread.of([percentile(times, 0.99) for times in rounds_of]),
        }
        for peer, rounds_of in taken.items()
    }


def _memory(bench: Bench) -> dict[str, float]:
    """Memory of idle connections that have asked for metadata, as clients do first: two sockets each."""
    before = rss_bytes(bench.gateway.pid)
    frame = load.metadata_frame("large")
    with ExitStack() as stack:
        for _ in range(_IDLE):
            stack.enter_context(load.connected(bench.gateway.port)).exchange(frame)
        time.sleep(1.0)
        after = rss_bytes(bench.gateway.pid)
    return {
        "worker RSS MB": before / 1e6,
        "KB per idle connection": (after - before) / _IDLE / 1e3,
        "idle connections": _IDLE,
    }


def _librdkafka(bench: Bench, rounds: int) -> dict[str, Any]:
    size = min(bench.bytes, 200_000_000)
    bench.free("large")

    def taken_in(peer: str) -> float:
        return produce_rate(bench.target(peer), bench.topic(peer, "large"), size) / 1e6

    def taken_out(peer: str) -> float:
        return consume_rate(bench.target(peer), bench.topic(peer, "stored"), size // 2) / 1e6

    return {"produce MB/s": _each(rounds, taken_in), "consume MB/s": _each(rounds, taken_out)}
