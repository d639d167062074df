"""`bench cluster`: three brokers, replication 3, min.insync 2, acks=all, against Apache Kafka's three."""

import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from ctl.bench import cluster_faults, cluster_load, end_to_end, load, servers
from ctl.bench.apache_kafka import DELETED_SOON, kafka_cluster
from ctl.bench.measure import Cost, Say, Spread, seconds_of, spreads
from ctl.bench.peers import Peer, create_topic, until_led
from ctl.bench.portico_cluster import portico_cluster
from ctl.kafka.jars import missing_tools

OURS: Final = "portico"
THEIRS: Final = "kafka"
_LARGE: Final = 1_000_000
_SMALL: Final = 16_000
_PARTITIONS: Final = 3
_MANY: Final = 2_000
_WINDOW: Final = 4
_RATE_BYTES_PER_S: Final = 20e6
_LATENCY_S: Final = 10.0
_SHORT_SESSION_MS: Final = 2_000
_LINGER_MS: Final = 50
_SMALL_SHARE: Final = 0.2
_WARM_UP_BYTES: Final = 2_000_000_000
_STORED_BATCHES: Final = 100


def run(rounds: int, megabytes: int, say: Say) -> dict[str, Any]:
    """All measurements; without Java only ours."""
    results: dict[str, Any] = {"start s": {}}
    with ExitStack() as running:
        directory = Path(running.enter_context(_scratch()))
        peers = [running.enter_context(_started(portico_cluster, OURS, directory, results))]
        if missing_tools():
            say(f"Apache Kafka is left out: {', '.join(missing_tools())} missing")
        else:
            peers.append(running.enter_context(_started(_kafka, THEIRS, directory, results)))
        bench = _Bench(peers, rounds, int(megabytes * 1e6), say)
        bench.throughput(results)
        bench.faults(results)
    say("a shorter session")
    with _scratch() as name, portico_cluster(Path(name), session_timeout_ms=_SHORT_SESSION_MS) as peer:
        create_topic(peer, "first", _PARTITIONS)
        bench = _Bench([peer], rounds, 0, say)
        results[f"leader killed, session {_SHORT_SESSION_MS} ms"] = bench.outages(signal.SIGKILL)
    return results


@contextmanager
def _scratch() -> Iterator[str]:
    directory = tempfile.mkdtemp(dir=servers.scratch_parent(12 * 10**9))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _kafka(directory: Path) -> Iterator[Peer]:
    with kafka_cluster(directory, settings=DELETED_SOON) as brokers:
        yield Peer(THEIRS, {broker.node_id: broker for broker in brokers})


@contextmanager
def _started(make: Any, name: str, directory: Path, results: dict[str, Any]) -> Iterator[Peer]:
    """A cluster; its start counts until a topic with three replicas is led."""
    own = directory / name
    own.mkdir()
    started_s = time.perf_counter()
    with make(own) as peer:
        create_topic(peer, "first", _PARTITIONS)
        results["start s"][name] = time.perf_counter() - started_s
        yield peer


class _Bench:
    """One set of measurements, for every peer in turn."""

    def __init__(self, peers: list[Peer], rounds: int, total_bytes: int, say: Say) -> None:
        self._peers = peers
        self._rounds = rounds
        self._total_bytes = total_bytes
        self._say = say

    def throughput(self, results: dict[str, Any]) -> None:
        """What carries bytes, and the memory it takes."""
        small_bytes = int(self._total_bytes * _SMALL_SHARE)
        self._warm_up()
        results["large produce"] = self._produce("large", _LARGE, self._total_bytes)
        results["small produce"] = self._produce("small", _SMALL, small_bytes)
        results["consume"] = self._consume(self._total_bytes * 2)
        results["end to end"] = self._end_to_end()
        results["memory, MB"] = {peer.name: peer.rss_bytes() / 1e6 for peer in self._peers}

    def faults(self, results: dict[str, Any]) -> None:
        """Deaths and returns, then many partitions."""
        for name, number in (("leader killed", signal.SIGKILL), ("leader stopped", signal.SIGTERM)):
            results[name] = self.outages(number)
        catch_up_bytes = self._total_bytes
        results["catch-up of a follower, MB/s"] = self._each(
            lambda peer: cluster_faults.catch_up_bytes_per_s(peer, "first", _PARTITIONS, catch_up_bytes) / 1e6
        )
        results["2,000 partitions created, s"] = self._each(self._create_many)
        for peer in self._peers:
            self._say("kill -9 of the controller")
            since_kill_s, since_end_s = cluster_faults.controller_failover(peer, "many", _MANY)
            results.setdefault("controller killed, all led after s", {})[peer.name] = since_kill_s
            if since_end_s is not None:
                results["controller's node gone, all led after s"] = since_end_s
        results["restart with 2,000 partitions"] = {peer.name: self._restart(peer) for peer in self._peers}

    def _restart(self, peer: Peer) -> dict[str, float]:
        self._say("restart of the cluster")
        took = cluster_faults.restart_all(peer, "many", _MANY)
        return {"all stopped s": took.stopped_s, "all led s": took.led_s, "all in sync s": took.in_sync_s}

    def _each(self, measure: Callable[[Peer], float]) -> dict[str, float]:
        return {peer.name: measure(peer) for peer in self._peers}

    def _warm_up(self) -> None:
        self._say("warm-up")
        for peer in self._peers:
            for size in (_LARGE, _SMALL):
                work = load.workload(size)
                total = _WARM_UP_BYTES if size == _LARGE else _WARM_UP_BYTES // 10
                cluster_load.produce(peer, "first", work, _PARTITIONS, total, _WINDOW)
                self._free(peer, "first")

    def _produce(self, name: str, size: int, total_bytes: int) -> dict[str, Any]:
        work = load.workload(size)
        for peer in self._peers:
            create_topic(peer, name, _PARTITIONS)

        def measure(peer: Peer) -> Cost:
            cost = cluster_load.produce(peer, name, work, _PARTITIONS, total_bytes, _WINDOW)
            self._free(peer, name)
            return cost

        return self._rounds_of(f"{name} produce", measure)

    def _consume(self, total_bytes: int) -> dict[str, Any]:
        work = load.workload(_LARGE)
        for peer in self._peers:
            create_topic(peer, "read", _PARTITIONS)
            stored_bytes = _PARTITIONS * _STORED_BATCHES * (len(work.batch) + 200)
            cluster_load.produce(peer, "read", work, _PARTITIONS, stored_bytes, _WINDOW)
        return self._rounds_of(
            "consume",
            lambda peer: cluster_load.consume(
                peer, "read", work, _PARTITIONS, total_bytes, _STORED_BATCHES - 10
            ),
        )

    def _rounds_of(self, name: str, measure: Callable[[Peer], Cost]) -> dict[str, Any]:
        costs: dict[str, list[Cost]] = {peer.name: [] for peer in self._peers}
        for turn in range(self._rounds):
            self._say(f"{name}, round {turn + 1}")
            for peer in self._peers[:: 1 if turn % 2 else -1]:
                costs[peer.name].append(measure(peer))
        return {peer: spreads(taken) for peer, taken in costs.items()}

    def _end_to_end(self) -> dict[str, Any]:
        for peer in self._peers:
            create_topic(peer, "latency", _PARTITIONS)
        taken: dict[str, list[dict[str, float]]] = {peer.name: [] for peer in self._peers}
        for turn in range(self._rounds):
            self._say(f"end to end, round {turn + 1}")
            for peer in self._peers[:: 1 if turn % 2 else -1]:
                taken[peer.name].append(
                    end_to_end.latencies(
                        peer, "latency", _PARTITIONS, _RATE_BYTES_PER_S, _LATENCY_S, _LINGER_MS
                    )
                )
                self._free(peer, "latency")
        return {
            peer: {name: Spread.of([each[name] for each in rounds]) for name in rounds[0]}
            for peer, rounds in taken.items()
        }

    def _create_many(self, peer: Peer) -> float:
        self._say("2,000 partitions")
        return seconds_of(lambda: create_topic(peer, "many", _MANY))

    def outages(self, number: signal.Signals) -> dict[str, Any]:
        """Outages of a leader, by a signal, once per round."""
        gaps: dict[str, Any] = {}
        discovered: list[float] = []
        for turn in range(self._rounds):
            self._say(f"{number.name} of a leader, round {turn + 1}")
            for peer in self._peers:
                outage = cluster_faults.leader_outage(peer, "first", _PARTITIONS, number)
                gaps.setdefault(peer.name, []).append(outage.gap_s)
                if outage.discovered_to_acknowledged_s is not None:
                    discovered.append(outage.discovered_to_acknowledged_s)
        found: dict[str, Any] = {
            f"{name}, longest time without acknowledgement s": Spread.of(taken)
            for name, taken in gaps.items()
        }
        if discovered:
            found["from the end of its node to an acknowledgement s"] = Spread.of(discovered)
        return found

    @staticmethod
    def _free(peer: Peer, topic: str) -> None:
        view = until_led(peer.any_endpoint, topic, _PARTITIONS)
        for index, partition in view.partitions.items():
            load.delete_records_of(peer.endpoint(partition.leader), topic, [index])
