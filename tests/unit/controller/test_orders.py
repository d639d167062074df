"""What brokers and operators order of a controller: to stop, delete, grow, move, and elect uncleanly."""

from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from broker.controller.api import DeletedTopicName, DeletionOutcome, NewPartitions, NewTopic, Verdict
from broker.controller.events import (
    AlterReassignments,
    ControlledShutdown,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ListReassignments,
)
from contracts.cluster import UNKNOWN_BROKER_EPOCH, ControlledShutdownRequest, ControlledShutdownResponse
from tests.unit.controller.world import World

T, U = UUID(int=1), UUID(int=2)


def _world(partitions: dict[int, tuple[int, ...]], *brokers: int) -> World:
    """The last broker is the controller."""
    world = World(*brokers)
    for broker_id in brokers:
        world.start(broker_id)
    world.elect(brokers[-1])
    world.run()
    _create(world, "t", T, partitions)
    return world


def _create(world: World, name: str, topic_id: UUID, partitions: dict[int, tuple[int, ...]]) -> None:
    world.call(CreateTopics(1, [NewTopic(name, topic_id, assignment=partitions)], False))


def _stop(world: World, broker_id: int) -> list[tuple[str, int]]:
    """What it still leads alone."""
    answer = world.call(
        ControlledShutdown(
            9, ControlledShutdownRequest(broker_id=broker_id, broker_epoch=UNKNOWN_BROKER_EPOCH)
        )
    )
    assert isinstance(answer, ControlledShutdownResponse)
    return [(each.topic, each.partition) for each in answer.remaining_partitions]


def test_a_broker_that_stops_leaves_every_isr_but_those_that_it_is_alone_in() -> None:
    world = _world({0: (1, 2), 1: (2, 1), 2: (1, 2), 3: (2, 3)}, 1, 2, 3)
    _create(world, "u", U, {0: (1,)})
    world.shrink("t", 2, 1)
    world.run()
    assert _stop(world, 1) == [("t", 2)], "one replica alone does not count"
    assert [world.state("t", number).leader for number in range(4)] == [2, 2, 1, 2]
    assert [world.state("t", number).isr for number in range(4)] == [(2,), (2,), (1,), (2, 3)]
    assert world.state("u", 0).leader == 1
    world.run(catching_up=True)
    assert world.state("t", 0).isr == (2,), "leaders do not take back who is about to go"


def test_a_topic_whose_owner_allows_it_gets_an_unclean_leader_at_once() -> None:
    world = _world({0: (1, 2), 1: (2, 1)}, 1, 2, 3)
    world.shrink("t", 0, 1)
    world.run()
    world.crash(1)
    world.run()
    assert world.state("t", 0).leader == -1
    world.configure("t", **{"unclean.leader.election.enable": "false"})
    world.run()
    assert world.state("t", 0).leader == -1
    world.configure("t", **{"unclean.leader.election.enable": "true"})
    world.run()
    assert world.state("t", 0).leader == 2


def test_a_deletion_is_answered_for_each_topic_with_its_name_and_id() -> None:
    world = _world({0: (1,)}, 1, 2)
    _create(world, "u", U, {0: (2,)})
    asked = [
        DeletedTopicName(None, T),
        DeletedTopicName("nobody's"),
        DeletedTopicName("u"),
        DeletedTopicName(None, UUID(int=9)),
    ]
    outcomes = world.call(DeleteTopics(3, asked))
    assert [(each.name, each.topic_id) for each in outcomes] == [
        ("t", T),
        ("nobody's", None),
        ("u", U),
        (None, UUID(int=9)),
    ]
    assert [each.verdict.error_code for each in outcomes] == [
        ErrorCode.none,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.none,
        ErrorCode.unknown_topic_id,
    ]
    assert all(isinstance(each, DeletionOutcome) for each in outcomes)
    assert world.topic("t") is None and world.topic("u") is None


def test_one_topic_that_cannot_grow_keeps_no_other_from_it() -> None:
    world = _world({0: (1, 2), 1: (2, 1)}, 1, 2, 3)
    _create(world, "u", U, {0: (1, 2)})
    asked = [
        NewPartitions("nobody's", 3),
        NewPartitions("t", 2),
        NewPartitions("t", 1),
        NewPartitions("u", 3, [(3, 1), (2, 3)]),
        NewPartitions("t", 3),
    ]
    verdicts = world.call(CreatePartitions(4, asked, False))
    assert [each.error_code for each in verdicts] == [
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.invalid_partitions,
        ErrorCode.invalid_partitions,
        ErrorCode.none,
        ErrorCode.none,
    ]
    assert "would not be an increase" in str(verdicts[2].message)
    assert "already has" in str(verdicts[1].message)
    grown = world.topic("u")
    assert grown is not None
    assert [grown.partitions[number].replicas for number in range(3)] == [(1, 2), (3, 1), (2, 3)]


@pytest.mark.parametrize("validate_only", [False, True])
def test_new_partitions_as_asked_are_checked(validate_only: bool) -> None:
    world = _world({0: (1, 2), 1: (2, 1)}, 1, 2, 3)
    verdicts = world.call(CreatePartitions(4, [NewPartitions("t", 4, [(1, 2), (3,)])], validate_only))
    assert verdicts[0].error_code is ErrorCode.invalid_replica_assignment
    found = world.topic("t")
    assert found is not None and len(found.partitions) == 2


def test_one_move_that_is_refused_keeps_no_other_from_beginning_and_lists_name_what_is_asked() -> None:
    world = _world({0: (1, 2), 1: (2, 1), 2: (1, 2)}, 1, 2, 3, 4)
    targets: dict[tuple[str, int], tuple[int, ...] | None] = {
        ("t", 7): (1, 3),
        ("t", 2): None,
        ("t", 0): (3, 4),
        ("t", 1): (0, 2),
    }
    verdicts = world.call(AlterReassignments(5, targets))
    assert list(verdicts) == list(targets)
    assert verdicts["t", 7] == Verdict(ErrorCode.unknown_topic_or_partition, "The partition does not exist.")
    assert verdicts["t", 2].error_code is ErrorCode.no_reassignment_in_progress
    assert verdicts["t", 1].error_code is ErrorCode.invalid_replica_assignment
    assert "not alive: [0]" in str(verdicts["t", 1].message)
    assert verdicts["t", 0].error_code is ErrorCode.none
    assert list(world.call(ListReassignments(6, None))) == [("t", 0)]
    assert list(world.call(ListReassignments(7, [("t", 0), ("t", 1)]))) == [("t", 0)]
    assert world.call(ListReassignments(8, [("t", 1)])) == {}
    found = world.topic("t")
    assert found is not None and found.partitions[0].adding_replicas == (3, 4)
