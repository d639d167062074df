"""Throughput of a cluster: one connection to each leader, prebuilt frames, the same for every peer."""

import threading
import time
from collections.abc import Callable
from typing import Final

from ctl.bench import load
from ctl.bench.measure import Cost
from ctl.bench.peers import Peer, until_agreed

_MOVING_S: Final = 20.0


def produce(
    peer: Peer, topic: str, work: load.Workload, partitions: int, total_bytes: int, window: int
) -> Cost:
    """Send acks=all batches to the leaders of all partitions at once."""
    frames = load.produce_frames(topic, work, partitions)
    leaders = _accepting(peer, topic, frames)
    share = total_bytes // len(leaders)

    def of_leader(node_id: int, led: list[int]) -> int:
        own = [frames[index] for index in led]
        return load.produce(peer.endpoint(node_id), own, share, window=window, check=False)

    return _measured(peer, leaders, of_leader)


def consume(
    peer: Peer, topic: str, work: load.Workload, partitions: int, total_bytes: int, stored: int
) -> Cost:
    """Fetch what is stored from the leaders of all partitions at once, 1 MB at a time."""
    leaders = _by_leader(peer, topic, partitions)
    share = total_bytes // len(leaders)

    def of_leader(node_id: int, led: list[int]) -> int:
        return load.consume(
            *(peer.endpoint(node_id), topic, work, share),
            fetch_bytes=1_000_000,
            stored=stored,
            partitions=led[:1],
        )

    return _measured(peer, leaders, of_leader)


def _accepting(peer: Peer, topic: str, frames: list[bytes]) -> dict[int, list[int]]:
    """The leaders, once each has accepted a batch: they may still be moving. Raises: RuntimeError."""
    deadline = time.monotonic() + _MOVING_S
    while True:
        leaders = _by_leader(peer, topic, len(frames))
        try:
            for node_id, led in leaders.items():
                with load.connected(peer.endpoint(node_id)) as client:
                    for index in led:
                        load.check_produced(client, frames[index])
        except RuntimeError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.25)
        else:
            return leaders


def _by_leader(peer: Peer, topic: str, partitions: int) -> dict[int, list[int]]:
    view = until_agreed(peer, topic, partitions)
    leaders: dict[int, list[int]] = {}
    for index, partition in view.partitions.items():
        leaders.setdefault(partition.leader, []).append(index)
    return leaders


def _measured(peer: Peer, leaders: dict[int, list[int]], work: Callable[[int, list[int]], int]) -> Cost:
    """Raises: what a thread raised."""
    carried: list[int] = []
    faults: list[BaseException] = []

    def run(node_id: int, led: list[int]) -> None:
        try:
            carried.append(work(node_id, led))
        except (OSError, RuntimeError) as error:
            faults.append(error)

    threads = [threading.Thread(target=run, args=item) for item in leaders.items()]
    cpu_s, started = peer.cpu_seconds(), time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    elapsed_s = time.perf_counter() - started
    if faults:
        raise faults[0]
    return Cost(sum(carried) / elapsed_s, (peer.cpu_seconds() - cpu_s) / sum(carried) * 1e9)
