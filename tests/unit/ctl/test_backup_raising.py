"""An older metadata tree meets the logs that went on without it."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from broker.metadata import znode_paths as paths
from broker.metadata.topic_names import OFFSETS_TOPIC
from broker.metadata.znodes import (
    Assignment,
    PartitionState,
    TopicNode,
    decode_config,
    decode_controller_epoch,
    decode_kept_until,
    decode_producer_id_block,
    decode_state,
    decode_topic,
    encode_config,
    encode_controller_epoch,
    encode_producer_id_block,
    encode_state,
    encode_topic,
)
from contracts.cluster import NO_LEADER
from contracts.masters import MASTER_EPOCH_PATH
from ctl.backup.raising import EPOCHS_AHEAD, PRODUCER_IDS_AHEAD, Raised, Replica, brokers_of, raise_tree

OLD: Final = UUID(int=1)
NEW: Final = UUID(int=2)
NOT_KNOWN: Final = UUID(int=0)


def tree(
    topics: Mapping[str, list[tuple[int, ...]]], *, epoch: int = 5, isr: tuple[int, ...] | None = None
) -> dict[str, bytes]:
    """Topics with the replicas of their partitions, all with one leader epoch."""
    nodes = dict.fromkeys(paths.PERSISTENT_PATHS, b"")
    nodes |= {paths.CONTROLLER_EPOCH: encode_controller_epoch(3)}
    nodes |= {paths.PRODUCER_ID_BLOCK: encode_producer_id_block(1, 4000, 4999)}
    for topic, replicas in topics.items():
        assigned = {index: Assignment(each) for index, each in enumerate(replicas)}
        nodes[paths.topic_path(topic)] = encode_topic(TopicNode(OLD, assigned))
        nodes[paths.topic_config_path(topic)] = encode_config({"retention.ms": "1000"})
        nodes[paths.partitions_path(topic)] = b""
        for index, each in enumerate(replicas):
            nodes[paths.partition_path(topic, index)] = b""
            state = PartitionState(each[0], epoch, isr or each, 3)
            nodes[paths.state_path(topic, index)] = encode_state(state)
    return nodes


def held(
    broker_id: int,
    *,
    topic: str = "a",
    partition: int = 0,
    topic_id: UUID = OLD,
    epoch: int = 5,
    end: int = 10,
    made_ns: int = 0,
) -> Replica:
    return Replica(broker_id, topic, partition, topic_id, epoch, end, made_ns)


def raised_tree(nodes: Mapping[str, bytes], replicas: Iterable[Replica], seen: Collection[int]) -> Raised:
    return raise_tree(nodes, replicas, seen, kept_until_ms=77)


def state(raised: Raised, topic: str = "a", partition: int = 0) -> PartitionState:
    return decode_state(raised.nodes[paths.state_path(topic, partition)])


def topic_of(raised: Raised, topic: str = "a") -> TopicNode:
    return decode_topic(raised.nodes[paths.topic_path(topic)])


def test_who_may_lead_is_who_has_the_most_in_the_latest_epoch() -> None:
    nodes = tree({"a": [(1, 2, 3)]}, isr=(1,))
    replicas = [held(1, epoch=5, end=900), held(2, epoch=7, end=40), held(3, epoch=7, end=30)]
    raised = raised_tree(nodes, replicas, {1, 2, 3})
    assert state(raised).isr == (2,)
    assert state(raised).leader == NO_LEADER
    assert state(raised).leader_epoch == 7 + EPOCHS_AHEAD
    assert raised.changed.behind == 1
    alike = raised_tree(nodes, [held(each, epoch=7, end=40) for each in (1, 2, 3)], {1, 2, 3})
    assert state(alike).isr == (1, 2, 3)
    assert alike.changed.behind == 0


def test_whatever_fences_goes_above_what_was_given_out() -> None:
    nodes = tree({"a": [(1,)]}, epoch=9) | {MASTER_EPOCH_PATH: b"57"}
    raised = raised_tree(nodes, [held(1, epoch=2)], {1})
    assert state(raised).leader_epoch == 9 + EPOCHS_AHEAD
    epoch = decode_controller_epoch(raised.nodes[paths.CONTROLLER_EPOCH])
    assert epoch == 3 + EPOCHS_AHEAD == state(raised).controller_epoch
    last = decode_producer_id_block(raised.nodes[paths.PRODUCER_ID_BLOCK])
    assert last == 4999 + PRODUCER_IDS_AHEAD
    assert int(raised.nodes[MASTER_EPOCH_PATH]) == 57 + EPOCHS_AHEAD
    never = raised_tree({}, [], set())
    assert decode_producer_id_block(never.nodes[paths.PRODUCER_ID_BLOCK]) == PRODUCER_IDS_AHEAD - 1


def test_a_topic_that_only_the_disk_knows_comes_into_the_tree_and_expires_by_nobodys_default() -> None:
    replicas = [
        held(broker, topic="b", partition=index, topic_id=NEW, end=index)
        for broker in (2, 3)
        for index in (0, 2)
    ]
    raised = raised_tree(tree({"a": [(1, 2)]}), [held(1), held(2), *replicas], {1, 2, 3})
    assert raised.changed.found == ("b",)
    node = topic_of(raised, "b")
    assert node.topic_id == NEW
    assert {index: each.replicas for index, each in node.partitions.items()} == dict.fromkeys(
        range(3), (2, 3)
    )
    config = decode_config(raised.nodes[paths.topic_config_path("b")])
    assert config == {"retention.ms": "-1", "retention.bytes": "-1"}
    assert state(raised, "b", 2).isr == (2, 3)
    assert paths.state_path("b", 1) not in raised.nodes, "a controller gives it its first leader"
    internal = raised_tree({}, [held(1, topic=OFFSETS_TOPIC)], {1})
    layer = decode_config(internal.nodes[paths.topic_config_path(OFFSETS_TOPIC)])
    assert layer["cleanup.policy"] == "compact"


def test_a_topic_that_was_made_anew_is_the_newer_one() -> None:
    nodes = tree({"a": [(1, 2), (1, 2)]})
    stale = held(2, topic_id=OLD, epoch=30, end=9_000)  # its broker was away when it was deleted
    raised = raised_tree(nodes, [held(1, topic_id=NEW, epoch=0, end=5), stale], {1, 2})
    assert raised.changed.made_anew == ("a",)
    assert topic_of(raised).topic_id == NEW
    assert set(topic_of(raised).partitions) == {0}
    assert state(raised).isr == (1,)
    assert state(raised).leader_epoch == EPOCHS_AHEAD
    config = decode_config(raised.nodes[paths.topic_config_path("a")])
    assert config["retention.ms"] == "-1", "the layer of then was another topic's"
    third = UUID(int=3)
    twice = [held(1, topic_id=NEW, made_ns=1), held(2, topic_id=third, made_ns=2)]
    assert topic_of(raised_tree(nodes, twice, {1, 2})).topic_id == third


def test_the_layer_of_a_topic_that_is_the_same_stays() -> None:
    raised = raised_tree(tree({"a": [(1,)]}), [held(1), held(1, partition=1)], {1})
    assert raised.changed.grown == ("a",)
    assert topic_of(raised).partitions[1].replicas == (1,)
    assert decode_config(raised.nodes[paths.topic_config_path("a")]) == {"retention.ms": "1000"}


def test_a_partition_that_was_moved_is_where_its_logs_are() -> None:
    nodes = tree({"a": [(1, 2)]})
    moved = raised_tree(nodes, [held(2, end=3), held(4, epoch=8)], {1, 2, 3, 4})
    assert topic_of(moved).partitions[0].replicas == (2, 4)
    assert state(moved).isr == (4,)
    assert moved.changed.moved == 1
    unseen = raised_tree(nodes, [held(4, epoch=8)], {2, 4})
    assert topic_of(unseen).partitions[0].replicas == (1, 4), "broker 1 may hold it"
    lost_disk = raised_tree(nodes, [held(2)], {1, 2})
    assert topic_of(lost_disk).partitions[0].replicas == (1, 2), "broker 1 fetches it again"
    assert state(lost_disk).isr == (2,)


def test_a_move_that_was_under_way_is_over() -> None:
    node = TopicNode(OLD, {0: Assignment((1, 2, 3), adding_replicas=(3,), removing_replicas=(1,))})
    nodes = tree({"a": [(1, 2, 3)]}) | {
        paths.topic_path("a"): encode_topic(node),
        paths.REASSIGN_PARTITIONS: b"{}",
        paths.delete_topic_path("a"): b"",
        paths.leftover_replicas_path(2): b"{}",
        f"{paths.ISR_CHANGE_PREFIX}0000000001": b"{}",
        paths.broker_path(1): b"{}",
        paths.CONTROLLER: b"{}",
    }
    raised = raised_tree(nodes, [held(each) for each in (1, 2, 3)], {1, 2, 3})
    assert topic_of(raised).partitions[0] == Assignment((1, 2, 3))
    assert raised.changed.orders == 3
    assert decode_kept_until(raised.nodes[paths.KEPT_UNTIL]) == 77
    gone = nodes.keys() - raised.nodes.keys()
    assert gone == nodes.keys() - tree({"a": [(1, 2, 3)]}).keys()
    assert paths.DELETE_TOPICS in raised.nodes and paths.LEFTOVER_REPLICAS in raised.nodes


def test_a_topic_without_any_log_is_told_of_and_begins_above_what_was() -> None:
    raised = raised_tree(tree({"a": [(1, 2)]}), [], {1, 2})
    assert raised.changed.empty == ("a",)
    assert state(raised).isr == (1, 2)
    assert state(raised).leader_epoch == 5 + EPOCHS_AHEAD


def test_files_that_do_not_say_whose_they_are() -> None:
    of_known = raised_tree(tree({"a": [(1,)]}), [held(1, topic_id=NOT_KNOWN, epoch=8)], {1})
    assert topic_of(of_known).topic_id == OLD
    assert state(of_known).leader_epoch == 8 + EPOCHS_AHEAD
    of_nobody = raised_tree({}, [held(1, topic_id=NOT_KNOWN)], {1})
    assert paths.topic_path("a") not in of_nobody.nodes


def test_who_has_replicas() -> None:
    assert brokers_of(tree({"a": [(1, 2)], "b": [(5,)]})) == {1, 2, 5}
    assert brokers_of({}) == set()


_IDS = st.sampled_from([OLD, NEW, NOT_KNOWN])
_REPLICAS = st.lists(
    st.builds(
        Replica,
        broker_id=st.integers(1, 4),
        topic=st.sampled_from("ab"),
        partition=st.integers(0, 2),
        topic_id=_IDS,
        leader_epoch=st.integers(-1, 20),
        end_offset=st.integers(0, 50),
        made_ns=st.integers(0, 3),
    ),
    max_size=12,
    unique_by=lambda each: (each.broker_id, each.topic, each.partition),
)
_ASSIGNED = st.lists(
    st.lists(st.integers(1, 4), min_size=1, max_size=3, unique=True).map(tuple), min_size=1, max_size=3
)


@given(topics=st.dictionaries(st.sampled_from("ac"), _ASSIGNED), replicas=_REPLICAS)
def test_nothing_on_a_disk_is_left_out_or_fenced_out(
    topics: dict[str, list[tuple[int, ...]]], replicas: list[Replica]
) -> None:
    raised = raised_tree(tree(topics), replicas, range(1, 5))
    for path in raised.nodes:
        assert path.rpartition("/")[0] in {"", *raised.nodes}, path
    for replica in replicas:
        path = paths.topic_path(replica.topic)
        if path not in raised.nodes:
            assert not any(each.topic_id != NOT_KNOWN for each in replicas if each.topic == replica.topic)
            continue
        node = topic_of(raised, replica.topic)
        if replica.topic_id not in (node.topic_id, NOT_KNOWN):
            continue  # of a topic that is older than this one: its broker sets it aside
        assert replica.broker_id in node.partitions[replica.partition].replicas
        found = state(raised, replica.topic, replica.partition)
        assert found.leader_epoch > replica.leader_epoch
        others = [
            each
            for each in replicas
            if each[1:3] == replica[1:3] and each.topic_id in (node.topic_id, NOT_KNOWN)
        ]
        best = max((each.leader_epoch, each.end_offset) for each in others)
        assert (replica.broker_id in found.isr) == ((replica.leader_epoch, replica.end_offset) == best)
