"""All brokers end at once, and the disk of one is not what it was: nothing acknowledged is lost.

The damaged broker starts first and alone, and was the leader: it must not lead before it has fetched what it
lacks.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.broker.raw import batch, fetch, produce
from tests.integration.cluster.brokers import Cluster, eventually
from wire.batch import iterate_batches

RECORDS = 60


def _segment(directory: Path) -> Path:
    (segment,) = directory.glob("*.log")
    return segment


def _truncated(directory: Path) -> None:
    content = _segment(directory).read_bytes().rstrip(b"\0")
    _segment(directory).write_bytes(content[: 2 * len(content) // 3])


def _bit_flipped(directory: Path) -> None:
    content = bytearray(_segment(directory).read_bytes())
    content[2 * len(content.rstrip(b"\0")) // 3] ^= 4
    _segment(directory).write_bytes(content)


def _data_removed(directory: Path) -> None:
    shutil.rmtree(directory.parent.parent)


def _logs_removed(directory: Path) -> None:
    shutil.rmtree(directory.parent)


DAMAGES: list[Callable[[Path], Any]] = [_truncated, _bit_flipped, shutil.rmtree, _logs_removed, _data_removed]


def _fill(cluster: Cluster, topic: str, leader: int) -> None:
    with cluster.client(leader) as client:
        for number in range(RECORDS):
            answer = produce(client, topic, batch(b"%d" % number + b" " * 500))
            assert answer.error_code.value == 0


def _values(cluster: Cluster, topic: str) -> list[int]:
    with cluster.client(cluster.leader(topic)) as client:
        records = bytes(fetch(client, topic, 0, max_bytes=10_000_000).records)
    return [header.base_offset for _, header in iterate_batches(memoryview(records))]


def _checkpointed(directory: Path, topic: str) -> bool:
    text = (directory.parent / "replication-offset-checkpoint").read_text()
    return f"{topic} 0 {RECORDS}\n" in text


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda each: each.__name__.strip("_"))
def test_the_leader_comes_back_first_with_a_damaged_disk(
    cluster: Cluster, damage: Callable[[Path], Any]
) -> None:
    topic = f"damage-{damage.__name__.strip('_')}"
    cluster.create(topic)
    cluster.until_in_sync(topic)
    leader = cluster.leader(topic)
    directory = cluster.brokers[leader].data_dir / "logs" / f"{topic}-0"
    _fill(cluster, topic, leader)
    eventually(lambda: _checkpointed(directory, topic))
    for broker in cluster.brokers.values():
        broker.kill()
    damage(directory)
    cluster.brokers[leader].start()
    assert cluster.partition(topic).leader_id == -1, "it waits for those who have everything"
    others = [broker for node_id, broker in cluster.brokers.items() if node_id != leader]
    for broker in others:
        broker.launch()
    for broker in others:
        broker.wait()
    eventually(lambda: _values(cluster, topic), lambda values: values == list(range(RECORDS)))
    cluster.until_in_sync(topic)
    for node_id in set(cluster.brokers) - {leader}:
        cluster.brokers[node_id].kill()
    for node_id in set(cluster.brokers) - {leader}:
        cluster.brokers[node_id].start()
    cluster.until_in_sync(topic)
    eventually(lambda: _values(cluster, topic), lambda values: values == list(range(RECORDS)))
