"""Transactions of version 2 over three brokers: partitions join at their leaders, whichever coordinates, and
the coordinator or a leader dies behind that."""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import pytest
from kio.schema.errors import ErrorCode

from tests.integration.broker.raw import request
from tests.integration.cluster.brokers import Cluster, eventually, running_cluster
from tests.integration.transactions.clients import read
from tests.integration.transactions.own_epochs import Writer
from tests.integration.zookeeper.server import running_zookeeper

_PARTITIONS = 6
_ELSEWHERE = (
    ErrorCode.concurrent_transactions,
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
    ErrorCode.not_enough_replicas,
    ErrorCode.not_leader_or_follower,
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    zookeeper_directory = tmp_path_factory.mktemp("zookeeper")
    with (
        running_zookeeper(zookeeper_directory) as zookeeper,
        running_cluster(tmp_path_factory.mktemp("cluster"), zookeeper.new_chroot()) as running,
    ):
        running.controller_id()
        yield running


def _coordinator(cluster: Cluster, transactional_id: str) -> int:
    """The broker that coordinates an id; -1 while none does."""
    wanted = request(10, 2, key=transactional_id, key_type=1)
    alive = next(node_id for node_id, broker in cluster.brokers.items() if broker.is_running)
    node_id = int(cluster.call(alive, wanted).node_id)
    return node_id if node_id in cluster.brokers and cluster.brokers[node_id].is_running else -1


def _leaders(cluster: Cluster, topic: str) -> dict[int, int]:
    """Partition -> leader."""
    (found,) = cluster.metadata(topic).topics
    return {each.partition_index: each.leader_id for each in found.partitions}


def _is_whole(cluster: Cluster, topic: str) -> bool:
    (found,) = cluster.metadata(topic).topics
    return bool(found.partitions) and all(len(each.isr_nodes) == 3 for each in found.partitions)


def _up(cluster: Cluster, *topics: str) -> None:
    for broker in cluster.brokers.values():
        if not broker.is_running:
            broker.start()
    for topic in topics:
        eventually(partial(_is_whole, cluster, topic))


def _at(cluster: Cluster, writer: Writer, node_id: int, stack: ExitStack) -> None:
    writer.raw = stack.enter_context(cluster.client(node_id))


def _begin(cluster: Cluster, writer: Writer) -> None:
    with ExitStack() as stack:
        coordinator = eventually(
            partial(_coordinator, cluster, writer.transactional_id), lambda found: found >= 0
        )
        _at(cluster, writer, coordinator, stack)
        writer.begin()


def _write_everywhere(cluster: Cluster, writer: Writer, topic: str, value: bytes) -> None:
    """To every partition at its leader, again where what may pass has not."""
    for index in range(_PARTITIONS):

        def once(index: int = index) -> list[ErrorCode]:
            with ExitStack() as stack:
                leader = _leaders(cluster, topic)[index]
                if leader not in cluster.brokers or not cluster.brokers[leader].is_running:
                    return [ErrorCode.not_leader_or_follower]
                try:
                    _at(cluster, writer, leader, stack)
                    return writer.produce(topic, value, indexes=(index,))
                except OSError:
                    return [ErrorCode.not_leader_or_follower]

        errors = eventually(once, lambda found: not set(found) & set(_ELSEWHERE))
        assert errors == [ErrorCode.none], (index, errors)


def _end(cluster: Cluster, writer: Writer, *, commit: bool) -> None:
    def once() -> ErrorCode:
        coordinator = _coordinator(cluster, writer.transactional_id)
        if coordinator < 0:
            return ErrorCode.not_coordinator
        with ExitStack() as stack:
            try:
                _at(cluster, writer, coordinator, stack)
                error, epoch = writer.end_once(commit=commit)
            except OSError:
                return ErrorCode.not_coordinator
        if error is ErrorCode.none:
            writer.epoch = epoch
        return error

    error = eventually(once, lambda found: found not in _ELSEWHERE)
    assert error is ErrorCode.none


@pytest.mark.parametrize(
    "dies",
    [
        pytest.param("nobody", marks=pytest.mark.long),
        pytest.param("coordinator", marks=pytest.mark.long),
        "leader",
    ],
)
def test_what_was_acknowledged_is_there_and_nothing_else(cluster: Cluster, dies: str) -> None:
    topic = f"spread-{dies}"
    _up(cluster, "__transaction_state")
    cluster.create(topic, _PARTITIONS)
    eventually(partial(_is_whole, cluster, topic))
    writer = Writer(None, topic)
    _begin(cluster, writer)
    first = writer.epoch
    seen: list[str] = []
    for number, commit in enumerate((True, False, True)):
        value = f"{dies}-{number}"
        _write_everywhere(cluster, writer, topic, value.encode())
        if dies != "nobody" and number < 2:
            victim = _coordinator(cluster, topic) if dies == "coordinator" else _leaders(cluster, topic)[0]
            cluster.brokers[victim].kill()
        _end(cluster, writer, commit=commit)
        _up(cluster, "__transaction_state", topic)
        seen += [value] * _PARTITIONS if commit else []
    assert writer.epoch == (first.producer_id, first.producer_epoch + 3)
    found = read(cluster.config(), topic, len(seen), partitions=_PARTITIONS, within_s=40)
    assert sorted(found) == sorted(seen)
