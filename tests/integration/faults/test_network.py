"""Two brokers that do not reach each other, although everybody else reaches both."""

import time

import pytest

from tests.e2e.records import CountingProducer, read_all
from tests.integration.cluster.brokers import Cluster, eventually
from tests.integration.faults.conftest import World

PARTITIONS = 3


def _pair(cluster: Cluster, topic: str, *, with_controller: bool) -> tuple[int, int]:
    """Two brokers to part; one of them leads partition 0 of the topic."""
    controller = cluster.controller_id()
    if with_controller:
        leader = cluster.leader(topic)
        other = next(each for each in cluster.brokers if each != controller)
        return controller, leader if leader != controller else other
    one, other = (each for each in cluster.brokers if each != controller)
    return one, other


@pytest.mark.parametrize(
    ("with_controller", "silently"),
    [
        pytest.param(True, True, id="the controller and another, silently"),
        pytest.param(False, False, id="two others, refused", marks=pytest.mark.long),
        pytest.param(True, False, id="the controller and another, refused", marks=pytest.mark.long),
        pytest.param(False, True, id="two others, silently", marks=pytest.mark.long),
    ],
)
def test_two_brokers_are_parted(
    world: World, cluster: Cluster, with_controller: bool, silently: bool
) -> None:
    topic, meanwhile = (f"{each}-{with_controller}-{silently}" for each in ("parted", "meanwhile"))
    cluster.create(topic, PARTITIONS)
    security = cluster.config()
    with CountingProducer(cluster.addresses, topic, PARTITIONS, config=security) as producer:
        producer.wait_for_progress(500)
        pair = _pair(cluster, topic, with_controller=with_controller)
        (third,) = cluster.brokers.keys() - pair
        with world.network.parted(*pair, silently=silently):
            eventually(lambda: _smallest_isr(cluster, topic, third), lambda size: size == 2)
            producer.wait_for_progress(1000)
            cluster.create(meanwhile)
        producer.wait_for_progress(1000)
        for partition in range(PARTITIONS):
            cluster.until_in_sync(topic, partition)
        cluster.until_in_sync(meanwhile)
    assert producer.failed == []
    for partition, acknowledged in producer.acknowledged.items():
        assert read_all(cluster.addresses, topic, partition, config=security) == acknowledged


def _smallest_isr(cluster: Cluster, topic: str, node_id: int) -> int:
    """As a broker sees it whom the controller reaches."""
    partitions = cluster.metadata(topic, node_id=node_id).topics[0].partitions
    return min(len(each.isr_nodes) for each in partitions)


@pytest.mark.long
def test_zookeeper_hangs_for_longer_than_the_sessions(world: World, cluster: Cluster) -> None:
    """Who leads goes on leading; then all sessions are gone at once."""
    cluster.create("hanging", PARTITIONS)
    security = cluster.config()
    with CountingProducer(cluster.addresses, "hanging", PARTITIONS, config=security) as producer:
        producer.wait_for_progress(500)
        world.zookeeper.pause()
        try:
            time.sleep(4)
            producer.wait_for_progress(1000)
        finally:
            world.zookeeper.resume()
        producer.wait_for_progress(1000)
        _check_whole(cluster, "hanging", "after-hanging")
        producer.wait_for_progress(1000)
    assert producer.failed == []
    for partition, acknowledged in producer.acknowledged.items():
        assert read_all(cluster.addresses, "hanging", partition, config=security) == acknowledged


def test_zookeeper_is_killed_and_comes_back(world: World, cluster: Cluster) -> None:
    cluster.create("killed", PARTITIONS)
    security = cluster.config()
    with CountingProducer(cluster.addresses, "killed", PARTITIONS, config=security) as producer:
        producer.wait_for_progress(500)
        world.zookeeper.kill()
        producer.wait_for_progress(4000)
        world.zookeeper.start()
        _check_whole(cluster, "killed", "after-killed")
        producer.wait_for_progress(1000)
    assert producer.failed == []
    for partition, acknowledged in producer.acknowledged.items():
        assert read_all(cluster.addresses, "killed", partition, config=security) == acknowledged


def _check_whole(cluster: Cluster, topic: str, new: str) -> None:
    for partition in range(PARTITIONS):
        cluster.until_in_sync(topic, partition)
    eventually(lambda: _is_created(cluster, new))
    cluster.until_in_sync(new)


def _is_created(cluster: Cluster, topic: str) -> bool:
    """The controller may be on its way to another broker."""
    try:
        cluster.create(topic)
    except (AssertionError, OSError):
        return bool(cluster.metadata(topic).topics[0].partitions)
    return True
