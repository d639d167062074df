"""`bench gateway`: what tenancy costs, on a stack as `portico up` starts it, with control plane and secret.

Direct, through the gateway, through a bare relay, interleaved: prebuilt frames on raw sockets; librdkafka;
TLS beside the same without.
"""

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias, TypeVar
from uuid import UUID

from ctl.bench import librdkafka, load, servers
from ctl.bench.measure import Cost, Spread, Stopwatch, percentile, rss_bytes

PEERS: Final = ("direct", "gateway", "relay")
SMALL_PEERS: Final = (*PEERS, "epoll relay")
TLS_PEERS: Final = ("gateway", "gateway, TLS")
_CLIENT_PEERS: Final = PEERS[:2]
"""Those of librdkafka, which would find the broker behind the relay and go there."""
_BATCH_BYTES: Final = {"large": 1_000_000, "small": 16_000}
"""By the topics that are written to."""
_PRODUCERS: Final = 4
_PARTITIONS: Final = {"large": 1, "small": _PRODUCERS, "stored": 1, "wide": 6}
"""Of each topic. `wide` is read in one Fetch: a frame with several record sets in it."""
_STORED: Final = 200
"""Large batches in each topic that is read."""
_SMALL_SHARE: Final = 0.2
"""Of the bytes of a round, where batches are small."""
_ONE_BY_ONE: Final = 1000
_IDLE: Final = 2_000
_CONNECT_S: Final = 1.0

Say = Callable[[str], None]
T = TypeVar("T")
Case: TypeAlias = Callable[["Bench", int], Mapping[str, object]]
"""What is measured, in so many rounds."""


class Bench:
    """The servers of one run and what every round needs."""

    def __init__(
        self, directory: Path, stack: ExitStack, megabytes: int, arguments: Sequence[str] = ()
    ) -> None:
        self.bytes = megabytes * 1_000_000
        self.workloads = {name: load.workload(size) for name, size in _BATCH_BYTES.items()}
        self.stack = stack.enter_context(servers.stack(directory / "stack", *arguments))
        port = self.stack.broker.port
        self._servers = {
            "direct": self.stack.broker,
            "relay": stack.enter_context(servers.relay(directory, port)),
            "epoll relay": stack.enter_context(servers.epoll_relay(directory, port)),
        }
        """By the peer; all others are the gateway."""
        for name, partitions in _PARTITIONS.items():
            load.create_topic(self.stack.gateway.port, name, partitions)
            if name not in _BATCH_BYTES:
                frames = load.produce_frames(name, self.workloads["large"], partitions)
                load.produce(self.stack.gateway.port, frames, _STORED * len(frames[0]), window=4)

    def pid(self, peer: str) -> int:
        """The process that carries this peer's traffic; for `direct` the broker itself."""
        return self._servers.get(peer, self.stack.gateway).pid

    def target(self, peer: str) -> load.Target:
        """Where clients of this peer connect. A broker wants the deployment's secret; a tenant has none."""
        if peer == "gateway":
            return self.stack.gateway.port
        if peer in TLS_PEERS:
            return load.Endpoint(self.stack.tls_port, is_tls=True)
        return load.Endpoint(self._servers[peer].port, self.stack.secret)

    def topic(self, peer: str, name: str) -> str:
        """A topic's name as this peer's clients must write it."""
        return name if peer in TLS_PEERS else f"{self.stack.instance_id}.{name}"

    def frame(self, peer: str, name: str, workload: load.Workload) -> bytes:
        """A framed Produce to a topic's first partition."""
        return load.produce_frames(self.topic(peer, name), workload, 1)[0]

    def round_bytes(self, name: str) -> int:
        """What is produced to a topic in one round."""
        return int(self.bytes * (_SMALL_SHARE if name == "small" else 1))

    def free(self, name: str) -> None:
        """Delete what was produced to a topic."""
        load.delete_all_records(self.stack.gateway.port, name, _PARTITIONS[name])


def _produce(bench: Bench, peer: str, name: str, window: int) -> Cost:
    """One round of producing."""
    frame = bench.frame(peer, name, bench.workloads[name])
    watch = Stopwatch(bench.pid(peer))
    cost = watch.cost(load.produce(bench.target(peer), [frame], bench.round_bytes(name), window=window))
    bench.free(name)
    return cost


def _consume(bench: Bench, peer: str, name: str) -> Cost:
    """One round of consuming 1 MB of each partition in an answer."""
    partitions, workload = range(_PARTITIONS[name]), bench.workloads["large"]
    watch = Stopwatch(bench.pid(peer))
    carried = load.consume(
        *(bench.target(peer), bench.topic(peer, name), workload, bench.bytes),
        fetch_bytes=len(workload.batch),
        stored=_STORED // len(partitions),
        partitions=partitions,
    )
    return watch.cost(carried)


def _client_produces(bench: Bench, peer: str, name: str, producers: int = 1) -> Cost:
    """One round of librdkafka's producing, each producer to a partition of its own."""
    pid, target, topic = bench.pid(peer), bench.target(peer), bench.topic(peer, name)
    size, total = _BATCH_BYTES[name], bench.round_bytes(name)
    cost = librdkafka.produce(pid, target, topic, total, size, producers)
    bench.free(name)
    return cost


def _client_consumes(bench: Bench, peer: str, name: str) -> Cost:
    """One round of librdkafka's consuming, fetching as it does by itself."""
    partitions = _PARTITIONS[name]
    stored = _STORED // partitions * partitions * bench.workloads["large"].records
    pid, target, topic = bench.pid(peer), bench.target(peer), bench.topic(peer, name)
    return librdkafka.consume(pid, target, topic, bench.bytes, stored, partitions)


def _interleaved(peers: Sequence[str], rounds: int, measure: Callable[[str], T]) -> dict[str, list[T]]:
    taken: dict[str, list[T]] = {peer: [] for peer in peers}
    for peer in peers:
        measure(peer)  # a warm-up that does not count
    for turn in range(rounds):
        for step in range(len(peers)):
            peer = peers[(turn + step) % len(peers)]
            taken[peer].append(measure(peer))
    return taken


def _costs(measure: Callable[..., Cost], peers: Sequence[str], *how: str | int) -> Case:
    """A case: speed and CPU of every peer."""

    def case(bench: Bench, rounds: int) -> dict[str, object]:
        taken = _interleaved(peers, rounds, lambda peer: measure(bench, peer, *how))
        return {
            peer: {
                "MB/s": Spread.of([cost.bytes_per_s / 1e6 for cost in costs]),
                "CPU s/GB": Spread.of([cost.cpu_s_per_gb for cost in costs]),
            }
            for peer, costs in taken.items()
        }

    return case


class _Versions(NamedTuple):
    """One round of a version: the CPU of both processes that its frames go through."""

    gateway: Cost
    broker: Cost


def _of_versions(
    carry: Callable[[Bench, str | UUID, str], int], name: str, versions: tuple[int, int]
) -> Case:
    """A case: what the newest version of an API costs beside the old one, through the gateway, in turns."""

    def case(bench: Bench, rounds: int) -> dict[str, object]:
        by_id = load.topic_id(bench.stack.gateway.port, name)
        topics: dict[str, str | UUID] = dict(zip(map(str, versions), (name, by_id), strict=True))

        def measure(version: str) -> _Versions:
            watches = [Stopwatch(server.pid) for server in (bench.stack.gateway, bench.stack.broker)]
            carried = carry(bench, topics[version], name)
            return _Versions(*(watch.cost(carried) for watch in watches))

        taken = _interleaved(list(topics), rounds, measure)
        found: dict[str, object] = {}
        for process in _Versions._fields:
            used = {
                version: [getattr(one, process).cpu_s_per_gb for one in costs]
                for version, costs in taken.items()
            }
            of_pairs = [new / old for old, new in zip(*used.values(), strict=True)]
            each = {f"version {version}, CPU s/GB": Spread.of(costs) for version, costs in used.items()}
            found[process] = each | {"newest : old, of pairs": Spread.of(of_pairs)}
        return found

    return case


def _carry_produce(bench: Bench, topic: str | UUID, name: str) -> int:
    frames = load.produce_frames(topic, bench.workloads[name], 1)
    window = 1 if name == "small" else 4
    carried = load.produce(bench.stack.gateway.port, frames, bench.round_bytes(name), window=window)
    bench.free(name)
    return carried


def _carry_consume(bench: Bench, topic: str | UUID, name: str) -> int:
    partitions, workload = range(_PARTITIONS[name]), bench.workloads["large"]
    return load.consume(
        *(bench.stack.gateway.port, topic, workload, bench.bytes),
        fetch_bytes=len(workload.batch),
        stored=_STORED // len(partitions),
        partitions=partitions,
    )


def _each(rounds: int, measure: Callable[[str], float]) -> dict[str, Spread]:
    return {peer: Spread.of(values) for peer, values in _interleaved(PEERS, rounds, measure).items()}


def _half_load(bench: Bench, rounds: int) -> dict[str, Spread]:
    """What arrives of half of what the broker has taken directly."""
    rate = max(_produce(bench, "direct", "large", 4).bytes_per_s for _ in range(3)) / 2

    def offered(peer: str) -> float:
        frame = bench.frame(peer, "large", bench.workloads["large"])
        delivered = load.paced_produce(bench.target(peer), frame, rate, 2.0, window=4)
        bench.free("large")
        return delivered

    return _each(min(rounds, 3), offered)


def _raw_latencies_ms(bench: Bench, peer: str) -> list[float]:
    return load.latencies_ms(bench.target(peer), bench.frame(peer, "small", load.workload(1)), _ONE_BY_ONE)


def _client_latencies_ms(bench: Bench, peer: str) -> list[float]:
    return librdkafka.latencies_ms(bench.target(peer), bench.topic(peer, "small"), _ONE_BY_ONE)


def _latency(measure: Callable[[Bench, str], list[float]], peers: Sequence[str]) -> Case:
    """A case: how long one message at a time takes until it is acknowledged."""

    def case(bench: Bench, rounds: int) -> dict[str, object]:
        taken = _interleaved(peers, rounds, lambda peer: measure(bench, peer))
        return {
            peer: {
                name: Spread.of([percentile(times, share) for times in rounds_of])
                for name, share in (("p50", 0.50), ("p99", 0.99))
            }
            for peer, rounds_of in taken.items()
        }

    return case


def _connections(bench: Bench, rounds: int) -> dict[str, Spread]:
    return _each(
        rounds,
        lambda peer: load.connections_per_s(bench.target(peer), bench.topic(peer, "large"), _CONNECT_S),
    )


def _memory(bench: Bench, _rounds: int) -> dict[str, float]:
    """Memory of idle connections that have asked for metadata, as clients do first: two sockets each."""
    gateway = bench.stack.gateway
    before = rss_bytes(gateway.pid)
    frame = load.metadata_frame("large")
    with ExitStack() as stack:
        for _ in range(_IDLE):
            stack.enter_context(load.connected(gateway.port)).exchange(frame)
        time.sleep(1.0)
        after = rss_bytes(gateway.pid)
    return {
        "worker RSS MB": before / 1e6,
        "KB per idle connection": (after - before) / _IDLE / 1e3,
        "idle connections": _IDLE,
    }


CASES: Final[dict[str, Case]] = {
    "large produce": _costs(_produce, PEERS, "large", 4),
    "large consume": _costs(_consume, PEERS, "stored"),
    "large consume, 6 partitions": _costs(_consume, PEERS, "wide"),
    "small produce": _costs(_produce, SMALL_PEERS, "small", 1),
    "TLS, large produce": _costs(_produce, TLS_PEERS, "large", 4),
    "TLS, large consume": _costs(_consume, TLS_PEERS, "stored"),
    "versions, large produce": _of_versions(_carry_produce, "large", (8, load.PRODUCE_NEWEST)),
    "versions, small produce": _of_versions(_carry_produce, "small", (8, load.PRODUCE_NEWEST)),
    "versions, large consume": _of_versions(_carry_consume, "stored", (11, load.FETCH_NEWEST)),
    "versions, large consume, 6 partitions": _of_versions(_carry_consume, "wide", (11, load.FETCH_NEWEST)),
    "offered half of direct": _half_load,
    "one-message latency ms": _latency(_raw_latencies_ms, PEERS),
    "connections per s": _connections,
    "memory": _memory,
    "librdkafka, large produce": _costs(_client_produces, _CLIENT_PEERS, "large"),
    "librdkafka, large consume": _costs(_client_consumes, _CLIENT_PEERS, "stored"),
    "librdkafka, large consume, 6 partitions": _costs(_client_consumes, _CLIENT_PEERS, "wide"),
    "librdkafka, small produce": _costs(_client_produces, _CLIENT_PEERS, "small"),
    "librdkafka, small produce, 4 producers": _costs(_client_produces, _CLIENT_PEERS, "small", _PRODUCERS),
    "librdkafka, one-message latency ms": _latency(_client_latencies_ms, _CLIENT_PEERS),
}
"""By the name of its rows."""


def run(
    rounds: int, megabytes: int, say: Say, *, only: Sequence[str], arguments: Sequence[str] = ()
) -> dict[str, object]:
    """The cases of these names; see `report.py` for the table. `arguments` are more of `portico up`."""
    results: dict[str, object] = {}
    with tempfile.TemporaryDirectory(dir=servers.scratch_parent(12 * 10**9)) as name, ExitStack() as stack:
        bench = Bench(Path(name), stack, megabytes, arguments)
        for case in only:
            say(case)
            results[case] = CASES[case](bench, rounds)
    return results
