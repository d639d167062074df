"""What CreateTopics and CreatePartitions may ask for, and where replicas go."""

from collections import Counter
from collections.abc import Callable
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from broker.controller.api import NewPartitions, NewTopic
from broker.controller.context import BrokerRecord, ControllerContext, PartitionRecord, TopicRecord
from broker.controller.controller_config import ControllerConfig
from broker.controller.placement import PARTITIONS_PER_TOPIC_MAX, Placement, Refused
from broker.metadata.znodes import Assignment
from contracts.cluster import LiveBroker
from contracts.specs import Limits

ID = UUID(int=1)


def context(*live: int, factor: int | None = None, room: int = 100_000) -> ControllerContext:
    config = ControllerConfig(default_replication_factor=factor, partitions_per_broker_max=room)
    context = ControllerContext(9, config, lambda _below: 0, lambda: ID)
    for broker_id in live:
        broker = LiveBroker(broker_id=broker_id, host="h", port=1, broker_epoch=broker_id)
        context.brokers[broker_id] = BrokerRecord(broker, is_unclean=False, version=0)
    return context


def with_topic(context: ControllerContext, *replicas: tuple[int, ...]) -> ControllerContext:
    partitions = {index: PartitionRecord(Assignment(each)) for index, each in enumerate(replicas)}
    context.topics["t"] = TopicRecord("t", ID, 0, {}, partitions)
    return context


def new(
    partitions: int = -1, factor: int = -1, assignment: dict[int, tuple[int, ...]] | None = None
) -> NewTopic:
    return NewTopic("new", ID, partitions, factor, assignment)


def test_names_that_metrics_cannot_tell_apart() -> None:
    clustered = context(1)
    for name in ("iaaaaaaaaaaa.a.b", "iaaaaaaaaaaa.c", "x_y"):
        clustered.topics[name] = TopicRecord(name, ID, 0, {}, {})
    for name, other in (("iaaaaaaaaaaa.a_b", "iaaaaaaaaaaa.a.b"), ("x.y", "x_y")):
        with pytest.raises(Refused) as refused:
            Placement(clustered).topic(NewTopic(name, ID))
        assert refused.value.verdict == (
            ErrorCode.invalid_topic_exception,
            f"Topic '{name}' collides with existing topic: {other}",
        )
    for name in ("ibbbbbbbbbbb.a_b", "iaaaaaaaaaaa.ab", "iaaaaaaaaaaa.c_"):
        assert Placement(clustered).topic(NewTopic(name, ID)) == [(1,)]


def test_defaults() -> None:
    assert Placement(context(1)).topic(new()) == [(1,)]
    assert Placement(context(1, 2)).topic(new()) == [(1, 2)]
    assert Placement(context(1, 2, 3, 4)).topic(new(2)) == [(1, 2, 3), (2, 3, 4)]
    assert Placement(context(1, 2, 3, factor=2)).topic(new()) == [(1, 2)]


def test_brokers_that_are_down_get_replicas_when_the_default_needs_them() -> None:
    down = with_topic(context(1, 2), (1, 2, 3))
    assert set(Placement(down).topic(new())[0]) == {1, 2, 3}
    with pytest.raises(Refused, match="only 2 broker"):
        Placement(down).topic(new(1, 3))


def test_a_broker_that_stops_gets_none_while_there_are_others() -> None:
    leaving = context(1, 2, 3)
    leaving.shutting_down.add(2)
    placed = Placement(leaving).topic(new(6, 2))
    assert Counter(each for replicas in placed for each in replicas) == {1: 6, 3: 6}


REFUSALS: dict[str, tuple[ControllerContext, Callable[[Placement], object], ErrorCode, str]] = {
    "no partitions": (context(1), lambda p: p.topic(new(0)), ErrorCode.invalid_partitions, "non-positive"),
    "negative": (context(1), lambda p: p.topic(new(-2)), ErrorCode.invalid_partitions, "non-positive"),
    "factor 0": (
        context(1),
        lambda p: p.topic(new(1, 0)),
        ErrorCode.invalid_replication_factor,
        "non-positive",
    ),
    "too few": (
        context(1),
        lambda p: p.topic(new(1, 2)),
        ErrorCode.invalid_replication_factor,
        "only 1 broker",
    ),
    "configured factor": (
        context(1, factor=3),
        lambda p: p.topic(new(1)),
        ErrorCode.invalid_replication_factor,
        "only 1 broker",
    ),
    "nobody": (context(), lambda p: p.topic(new(1)), ErrorCode.invalid_replication_factor, "only 0 broker"),
    "no room": (context(1, room=5), lambda p: p.topic(new(10**9)), ErrorCode.policy_violation, "room for 5"),
    "one too many": (
        context(1, room=10**6),
        lambda p: p.topic(new(PARTITIONS_PER_TOPIC_MAX + 1)),
        ErrorCode.policy_violation,
        "at most 10000",
    ),
    "taken": (
        with_topic(context(1), (1,)),
        lambda p: p.topic(NewTopic("t", ID)),
        ErrorCode.topic_already_exists,
        "already exists",
    ),
    "both": (
        context(1),
        lambda p: p.topic(new(1, -1, {0: (1,)})),
        ErrorCode.invalid_request,
        "numPartitions was not",
    ),
    "gap": (
        context(1),
        lambda p: p.topic(new(assignment={1: (1,)})),
        ErrorCode.invalid_replica_assignment,
        "consecutive",
    ),
    "nothing assigned": (
        context(1),
        lambda p: p.topic(new(assignment={})),
        ErrorCode.invalid_replica_assignment,
        "consecutive",
    ),
    "empty": (
        context(1),
        lambda p: p.topic(new(assignment={0: ()})),
        ErrorCode.invalid_replica_assignment,
        "no replicas",
    ),
    "twice": (
        context(1),
        lambda p: p.topic(new(assignment={0: (1, 1)})),
        ErrorCode.invalid_replica_assignment,
        "twice",
    ),
    "unknown": (
        context(1),
        lambda p: p.topic(new(assignment={0: (2,)})),
        ErrorCode.invalid_replica_assignment,
        "broker 2",
    ),
    "uneven": (
        context(1, 2),
        lambda p: p.topic(new(assignment={0: (1, 2), 1: (2,)})),
        ErrorCode.invalid_replica_assignment,
        "same number",
    ),
    "unknown topic": (
        context(1),
        lambda p: p.added(NewPartitions("t", 3)),
        ErrorCode.unknown_topic_or_partition,
        "does not exist",
    ),
    "same": (
        with_topic(context(1), (1,)),
        lambda p: p.added(NewPartitions("t", 1)),
        ErrorCode.invalid_partitions,
        "already has 1",
    ),
    "fewer": (
        with_topic(context(1), (1,), (1,)),
        lambda p: p.added(NewPartitions("t", -1)),
        ErrorCode.invalid_partitions,
        "not be an increase",
    ),
    "wrong count": (
        with_topic(context(1), (1,)),
        lambda p: p.added(NewPartitions("t", 3, [(1,)])),
        ErrorCode.invalid_replica_assignment,
        "by 2 but 1",
    ),
    "no room to grow": (
        with_topic(context(1, room=3), (1,)),
        lambda p: p.added(NewPartitions("t", 2**31 - 1)),
        ErrorCode.policy_violation,
        "room for 2",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_is_refused(case: str) -> None:
    cluster, ask, error_code, words = REFUSALS[case]
    with pytest.raises(Refused, match=words) as refused:
        ask(Placement(cluster))
    assert refused.value.verdict.error_code is error_code


def test_topics_of_one_call_share_the_room() -> None:
    placement = Placement(context(1, room=5))
    placement.topic(NewTopic("a", ID, 3))
    with pytest.raises(Refused, match="room for 2 more partitions, not 3"):
        placement.topic(NewTopic("b", ID, 3))


def test_a_moving_topic_does_not_grow() -> None:
    moving = with_topic(context(1, 2), (1,))
    moving.reassigning.add(("t", 0))
    with pytest.raises(Refused, match="in progress") as refused:
        Placement(moving).added(NewPartitions("t", 2))
    assert refused.value.verdict.error_code is ErrorCode.reassignment_in_progress


def test_growing_goes_on_where_the_topic_began() -> None:
    grown = with_topic(context(1, 2, 3), (2, 3))
    assert Placement(grown).added(NewPartitions("t", 3)) == [(3, 2), (1, 3)]
    assert Placement(grown).added(NewPartitions("t", 2, [(1, 2)])) == [(1, 2)]


A, B = "iaaaaaaaaaaa", "ibbbbbbbbbbb"


def sold(**partitions_max: int) -> ControllerContext:
    """A cluster of one broker with instances that may have so many partitions, and one topic of each."""
    limits = {instance: Limits(partitions_max=most) for instance, most in partitions_max.items()}
    there = context(1)
    there.limits_of = lambda topic: limits.get(topic[:12])
    for instance in (A, B):
        name = f"{instance}.old"
        partitions = {index: PartitionRecord(Assignment((1,))) for index in range(6)}
        there.topics[name] = TopicRecord(name, ID, 0, {}, partitions)
    return there


def topic(name: str, partitions: int) -> NewTopic:
    return NewTopic(name, ID, partitions)


def test_an_instance_gets_no_more_partitions_than_it_was_sold() -> None:
    placement = Placement(sold(iaaaaaaaaaaa=10))
    assert len(placement.topic(topic(f"{A}.new", 3))) == 3
    with pytest.raises(Refused, match="has 9 of at most 10 partitions; 2 more do not fit") as refused:
        placement.topic(topic(f"{A}.more", 2))
    assert refused.value.verdict.error_code is ErrorCode.policy_violation
    with pytest.raises(Refused, match="has 9 of at most 10 partitions; 2 more"):
        placement.added(NewPartitions(f"{A}.old", 8))
    assert len(placement.added(NewPartitions(f"{A}.old", 7))) == 1
    with pytest.raises(Refused, match="has 10 of at most 10"):
        placement.topic(NewTopic(f"{A}.placed", ID, assignment={0: (1,)}))


def test_what_one_instance_has_takes_nothing_from_another_or_from_who_has_no_limit() -> None:
    placement = Placement(sold(iaaaaaaaaaaa=6, ibbbbbbbbbbb=300))
    with pytest.raises(Refused, match="has 6 of at most 6"):
        placement.topic(topic(f"{A}.new", 1))
    assert len(placement.topic(topic(f"{B}.new", 294))) == 294
    assert len(placement.topic(topic("iccccccccccc.unknown", 500))) == 500
    assert len(placement.topic(topic("an.operators.own", 500))) == 500


def test_an_instance_above_a_lowered_limit_keeps_what_it_has_and_gets_nothing() -> None:
    placement = Placement(sold(iaaaaaaaaaaa=2))
    with pytest.raises(Refused, match="has 6 of at most 2"):
        placement.topic(topic(f"{A}.new", 1))
