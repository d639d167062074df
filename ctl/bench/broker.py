"""`bench broker`: one node, direct, against a floor loop of the same work in the same run."""

import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final
from uuid import UUID

from ctl.bench import load, servers
from ctl.bench.measure import Cost, Say, Spread, Stopwatch, cpu_seconds, rss_bytes, spreads
from ctl.bench.process import ServerProcess, running
from ctl.stack.layout import free_port

_LARGE: Final = 1_000_000
_SMALL: Final = 16_000
_PARTITIONS: Final = 6
_STORED: Final = 30
"""Large batches in each of them."""
_CHECKPOINT_S: Final = 7.0
"""Longer than the broker's checkpoint interval and a flush."""
_SINCE_CHECKPOINT_BYTES: Final = 200_000_000


def run(rounds: int, megabytes: int, say: Say) -> dict[str, object]:
    """All measurements; see `report.py` for the table."""
    results: dict[str, object] = {}
    with tempfile.TemporaryDirectory(dir=servers.scratch_parent(14 * 10**9)) as name:
        directory = Path(name)
        with servers.broker(directory) as broker:
            results["start CPU s"] = cpu_seconds(broker.pid)
            load.create_topic(broker.port, "one")
            load.create_topic(broker.port, "three", partitions=3)
            load.create_topic(broker.port, "six", partitions=_PARTITIONS)
            frames = load.produce_frames("six", load.workload(_LARGE), _PARTITIONS)
            load.produce(broker.port, frames, _STORED * sum(map(len, frames)), window=4)
            for case, size, partitions, window in (
                ("large produce", _LARGE, 1, 4),
                ("small produce", _SMALL, 1, 1),
                ("1 topic, 3 partitions, one machine, produce (seed 002)", _LARGE, 3, 4),
            ):
                say(case)
                topic = "three" if partitions == 3 else "one"
                total = int(megabytes * 1e6 * (0.2 if size == _SMALL else 1))
                results[case] = _produce(directory, broker, topic, size, partitions, window, total, rounds)
            say("large consume")
            results["large consume"] = _consume(directory, broker, int(megabytes * 1e6), rounds)
            for case, topic, carry, versions in _OF_VERSIONS:
                say(case)
                results[case] = _versions(broker, topic, carry, versions, int(megabytes * 1e6), rounds)
            say("memory after 5 GB")
            _fill(broker.port, 5_000_000_000)
            results["RSS MB after 5 GB"] = rss_bytes(broker.pid) / 1e6
            load.delete_all_records(broker.port, "three", 3)
    say("recovery after kill -9")
    results["recovery"] = _recovery()
    return results


def _alternate(rounds: int, ours: Callable[[], Cost], floor: Callable[[], Cost]) -> dict[str, object]:
    taken: dict[str, list[Cost]] = {"broker": [], "floor": []}
    for measure in (ours, floor):
        measure()  # a warm-up that does not count
    for turn in range(rounds):
        for peer, measure in (("broker", ours), ("floor", floor))[:: 1 if turn % 2 else -1]:
            taken[peer].append(measure())
    return {peer: spreads(costs) for peer, costs in taken.items()}


def _produce(
    directory: Path,
    broker: servers.Server,
    topic: str,
    size: int,
    partitions: int,
    window: int,
    total: int,
    rounds: int,
) -> dict[str, object]:
    work = load.workload(size)
    frames = load.produce_frames(topic, work, partitions)
    with load.connected(broker.port) as client:
        answer_size = client.exchange(frames[0])
    batch_at = len(frames[0]) - 4 - len(work.batch)
    with servers.floor(directory, batch_at, answer_size) as floor:

        def ours() -> Cost:
            watch = Stopwatch(broker.pid)
            cost = watch.cost(load.produce(broker.port, frames, total, window=window))
            load.delete_all_records(broker.port, topic, partitions)
            return cost

        def peer() -> Cost:
            watch = Stopwatch(floor.pid)
            return watch.cost(load.produce(floor.port, frames, total, window=window, check=False))

        return _alternate(rounds, ours, peer)


def _consume(directory: Path, broker: servers.Server, total: int, rounds: int) -> dict[str, object]:
    work = load.workload(_LARGE)
    load.create_topic(broker.port, "read")
    stored = 200
    frame = load.produce_frames("read", work, 1)[0]
    load.produce(broker.port, [frame], stored * len(frame), window=4)
    with servers.floor(directory, 0, 0, len(work.batch)) as floor:

        def ours() -> Cost:
            watch = Stopwatch(broker.pid)
            return watch.cost(
                load.consume(broker.port, "read", work, total, fetch_bytes=_LARGE, stored=stored)
            )

        def peer() -> Cost:
            watch = Stopwatch(floor.pid)
            return watch.cost(
                load.consume(floor.port, "read", work, total, fetch_bytes=_LARGE, stored=stored)
            )

        return _alternate(rounds, ours, peer)


def _produce_large(port: int, topic: str | UUID, work: load.Workload, total: int) -> int:
    return load.produce(port, load.produce_frames(topic, work, 1), total, window=4)


def _consume_one(port: int, topic: str | UUID, work: load.Workload, total: int) -> int:
    return load.consume(port, topic, work, total, fetch_bytes=_LARGE, stored=_STORED)


def _consume_six(port: int, topic: str | UUID, work: load.Workload, total: int) -> int:
    return load.consume(
        port, topic, work, total, fetch_bytes=_LARGE, stored=_STORED, partitions=range(_PARTITIONS)
    )


_OF_VERSIONS: Final = (
    ("versions, large produce", "one", _produce_large, (8, load.PRODUCE_NEWEST)),
    ("versions, large consume", "six", _consume_one, (11, load.FETCH_NEWEST)),
    ("versions, large consume, 6 partitions", "six", _consume_six, (11, load.FETCH_NEWEST)),
)


def _versions(
    broker: servers.Server,
    topic: str,
    carry: Callable[[int, str | UUID, load.Workload, int], int],
    versions: tuple[int, int],
    total: int,
    rounds: int,
) -> dict[str, object]:
    """What the newest version of an API costs beside that of clients of Kafka 2.x, in turns."""
    by_id = load.topic_id(broker.port, topic)
    taken: dict[int, list[float]] = {version: [] for version in versions}
    work = load.workload(_LARGE)
    for turn in range(rounds + 1):
        for version, called in ((versions[0], topic), (versions[1], by_id))[:: 1 if turn % 2 else -1]:
            watch = Stopwatch(broker.pid)
            cost = watch.cost(carry(broker.port, called, work, total))
            load.delete_all_records(broker.port, "one")
            if turn:  # the first does not count
                taken[version].append(cost.cpu_s_per_gb)
    of_pairs = [new / old for old, new in zip(*taken.values(), strict=True)]
    each = {f"version {version}, CPU s/GB": Spread.of(costs) for version, costs in taken.items()}
    return {**each, "newest : old, of pairs": Spread.of(of_pairs)}


def _fill(port: int, total: int) -> None:
    frames = load.produce_frames("three", load.workload(_LARGE), 3)
    load.produce(port, frames, total, window=4)


def _recovery() -> dict[str, object]:
    """Store 5 GB, let a checkpoint pass, store a little more, kill -9, start again: seconds, and the bytes
    that recovery read, by its own metric. It may read what came since the last checkpoint."""
    with tempfile.TemporaryDirectory(dir=servers.scratch_parent(14 * 10**9)) as name:
        directory = Path(name)
        port, metrics_port = free_port(), free_port()
        command = [
            *(sys.executable, "-m", "broker", "--node-id", "1", "--cluster-id", "bench"),
            *("--data-dir", str(directory / "broker"), "--listen", f"127.0.0.1:{port}"),
            *("--metrics", f"127.0.0.1:{metrics_port}"),
        ]
        server = ServerProcess("a broker", port, command, directory / "broker.log", start_timeout_s=60.0)
        with running(server) as broker:
            load.create_topic(port, "three", partitions=3)
            _fill(port, 5_000_000_000)
            time.sleep(_CHECKPOINT_S)
            _fill(port, _SINCE_CHECKPOINT_BYTES)
            os.kill(broker.pid, signal.SIGKILL)
            broker.until_ended()
            started = time.perf_counter()
            broker.start()
            broker.until_serving()
            elapsed_s = time.perf_counter() - started
            read = _metric(metrics_port, "portico_broker_recovered_bytes_total")
    return {
        "seconds to serve": elapsed_s,
        "MB read": read / 1e6,
        "MB since the last checkpoint, at most": _SINCE_CHECKPOINT_BYTES / 1e6,
        "MB stored": 5000.0 + _SINCE_CHECKPOINT_BYTES / 1e6,
    }


def _metric(port: int, name: str) -> float:
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        text = b"".join(iter(lambda: connection.recv(65536), b"")).decode()
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name))
