"""Partitions moved to other brokers under load, the controller killed in the middle: nothing is lost."""

import time
from pathlib import Path
from typing import Any, Final

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.records import CountingProducer, create_topic, read_all
from tests.e2e.test_commands import portico
from tests.integration.stack import Stack, running_stack

DONE_WITHIN_S: Final = 120.0
RECORDS: Final = 6_000
PADDING: Final = 1_000
RATE_PER_S: Final = 1_200
THROTTLE: Final = "1MB/s"
"""So slow that the move takes some seconds: there is a middle in which to kill the controller."""


def _plan(stack: Stack, topic: str, brokers: str, path: Path) -> None:
    told = portico(stack, "reassign", "generate", "--brokers", brokers, "--topics", topic, "--out", str(path))
    assert told.returncode == 0, told.stderr


def _execute(stack: Stack, plan: Path, *arguments: str) -> None:
    told = portico(stack, "reassign", "execute", str(plan), *arguments)
    assert told.returncode == 0, (told.stdout, told.stderr)


def _is_done(stack: Stack, plan: Path) -> bool:
    return portico(stack, "reassign", "verify", str(plan)).returncode == 0


def _until_done(stack: Stack, plan: Path) -> None:
    deadline = time.monotonic() + DONE_WITHIN_S
    while not _is_done(stack, plan):
        assert time.monotonic() < deadline, portico(stack, "reassign", "verify", str(plan)).stdout
        time.sleep(0.2)


def _hosts(stack: Stack, topic: str) -> set[int]:
    """The brokers that have a directory of any of the topic's partitions."""
    return {
        broker["node_id"]
        for broker in stack.facts["brokers"]
        if list((stack.data_dir / f"broker-{broker['node_id']}" / "logs").glob(f"{topic}-*"))
    }


def _replicas(cluster: Cluster, topic: str) -> set[int]:
    partitions: Any = cluster.look(topic).topics[0].partitions
    return {int(replica) for each in partitions for replica in each.replica_nodes}


def _move_under_load(tmp_path: Path, brokers: int, partitions: int, there: str) -> None:
    with running_stack(
        tmp_path / "data", "--session-timeout-ms", "2000", "--workers", "1", brokers=brokers
    ) as stack:
        cluster = Cluster(stack)
        instance = stack.create_instance("moving")
        bootstrap, topic = instance["bootstrap_servers"], f"{instance['id']}.moved"
        create_topic(bootstrap, "moved", partitions)
        first, plan = tmp_path / "first.json", tmp_path / "plan.json"
        _plan(stack, topic, "1,2,3", first)
        _execute(stack, first)
        _until_done(stack, first)
        assert _replicas(cluster, topic) == {1, 2, 3}
        _plan(stack, topic, there, plan)
        with CountingProducer(
            bootstrap, "moved", partitions, rate_per_s=RATE_PER_S, padding=PADDING
        ) as producer:
            producer.wait_for_progress(RECORDS)
            _execute(stack, plan, "--throttle", THROTTLE)
            assert not _is_done(stack, plan), "too quick to kill anybody in the middle"
            cluster.kill(cluster.controller())
            producer.wait_for_progress(300)
            assert not _is_done(stack, plan), "the move ended before the controller was killed"
            _execute(stack, plan, "--throttle", "100MB/s", "--additional")
            _until_done(stack, plan)
            producer.wait_for_progress(300)
        assert producer.failed == []
        assert _replicas(cluster, topic) == set(map(int, there.split(",")))
        _until_hosted_by(stack, topic, set(map(int, there.split(","))))
        for partition, acknowledged in producer.acknowledged.items():
            assert read_all(bootstrap, "moved", partition) == sorted(acknowledged)


def _until_hosted_by(stack: Stack, topic: str, brokers: set[int]) -> None:
    """Old replicas are deleted a moment after the move is done."""
    deadline = time.monotonic() + 20
    while _hosts(stack, topic) != brokers:
        assert time.monotonic() < deadline, f"{topic} is on {_hosts(stack, topic)}"
        time.sleep(0.1)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_partitions_move_while_their_controller_dies(tmp_path: Path) -> None:
    _move_under_load(tmp_path, brokers=5, partitions=12, there="3,4,5")


@pytest.mark.long
@pytest.mark.timeout(900)
def test_sixty_partitions_move_to_brokers_that_had_none(tmp_path: Path) -> None:
    _move_under_load(tmp_path, brokers=6, partitions=60, there="4,5,6")
