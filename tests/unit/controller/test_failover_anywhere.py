"""The controller dies after any of its effects, or of the brokers' answers: the next one does the rest."""

from collections.abc import Callable
from uuid import UUID

import pytest

from broker.controller.api import DeletedTopicName, NewPartitions, NewTopic
from broker.controller.events import (
    AlterReassignments,
    ControlledShutdown,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    Event,
)
from broker.metadata.znode_paths import (
    DELETE_TOPICS,
    LEFTOVER_REPLICAS,
    PREFERRED_REPLICA_ELECTION,
    REASSIGN_PARTITIONS,
)
from broker.metadata.znodes import Assignment, encode_partitions, encode_reassignment
from contracts.cluster import ControlledShutdownRequest
from tests.unit.controller.world import World

FIRST, SECOND = 7, 8
"""Controllers; no partition is on them."""
T = UUID(int=1)


def _cluster() -> World:
    """Topic t has partition 0 on {1,2,3}, partition 1 on {2,3,1}; brokers 4 to 6 are empty."""
    world = World(*range(1, 9))
    for broker_id in range(1, 9):
        world.start(broker_id)
    world.elect(FIRST)
    world.run()
    topic = NewTopic("t", T, assignment={0: (1, 2, 3), 1: (2, 3, 1)})
    world.call(CreateTopics(1, [topic], False))
    return world


Check = Callable[[World], None]


def _post(event: Event) -> Check:
    return lambda world: world.post(event)


def _reassign(world: World) -> None:
    world.post(AlterReassignments(2, {("t", 0): (4, 5, 6), ("t", 1): (1, 4)}))


def _reassign_by_node(world: World) -> None:
    world.write(REASSIGN_PARTITIONS, encode_reassignment({("t", 0): (4, 5, 6), ("t", 1): (1, 4)}))


def _cancel(world: World) -> None:
    world.call(AlterReassignments(2, {("t", 0): (4, 5, 6)}))
    world.run()
    world.post(AlterReassignments(3, {("t", 0): None}))


def _shutdown(world: World) -> None:
    broker = world.brokers[1]
    request = ControlledShutdownRequest(broker_id=1, broker_epoch=broker.broker_epoch)
    world.post(ControlledShutdown(2, request))


def _preferred(world: World) -> None:
    world.crash(1)
    world.start(1)
    world.run(catching_up=True)
    assert world.state("t", 0).leader != 1
    world.write(PREFERRED_REPLICA_ELECTION, encode_partitions([("t", 0)]))


def _is_moved(world: World) -> None:
    topic = world.topic("t")
    assert topic is not None
    assert topic.partitions == {0: Assignment((4, 5, 6)), 1: Assignment((1, 4))}
    assert world.state("t", 0).leader == 4
    assert set(world.state("t", 0).isr) == {4, 5, 6}


def _is_back(world: World) -> None:
    topic = world.topic("t")
    assert topic is not None
    replicas = topic.partitions[0].replicas
    assert topic.partitions[0] == Assignment(replicas)
    assert set(replicas) in ({1, 2, 3}, {4, 5, 6}), "the call was lost with the controller, or done"


def _is_gone(world: World) -> None:
    """Either the call never began, or it is done to the end."""
    if world.topic("t") is not None:
        assert world.tree.children(DELETE_TOPICS) == []
        return
    assert all(not broker.logs for broker in world.brokers.values())


def _exists_or_not(world: World) -> None:
    topic = world.topic("u")
    if topic is not None:
        assert sorted(topic.partitions) == list(range(100))
        assert all(world.state("u", index).has_leader for index in topic.partitions)


def _grew_or_not(world: World) -> None:
    topic = world.topic("t")
    assert topic is not None and len(topic.partitions) in (2, 5)
    assert all(world.state("t", index).has_leader for index in topic.partitions)


def _is_led(world: World) -> None:
    for index in (0, 1):
        state = world.state("t", index)
        assert state.has_leader and world.brokers[state.leader].is_alive


def _is_preferred(world: World) -> None:
    assert world.state("t", 0).leader == 1


def _nothing(_world: World) -> None:
    pass


_BIG = NewTopic("u", UUID(int=2), assignment=dict.fromkeys(range(100), (1, 2)))
SCENARIOS: dict[str, tuple[Check, Check]] = {
    "reassignment": (_reassign, _nothing),
    "reassignment by node": (_reassign_by_node, _is_moved),
    "cancelled reassignment": (_cancel, _is_back),
    "deletion": (_post(DeleteTopics(2, [DeletedTopicName("t")])), _is_gone),
    "deletion of a dead broker's logs": (
        lambda world: (world.crash(3), world.post(DeleteTopics(2, [DeletedTopicName("t")]))),
        _is_gone,
    ),
    "creation": (_post(CreateTopics(2, [_BIG], False)), _exists_or_not),
    "growth": (_post(CreatePartitions(2, [NewPartitions("t", 5)], False)), _grew_or_not),
    "broker failure": (lambda world: world.crash(2), _is_led),
    "broker start": (lambda world: (world.crash(2), world.run(), world.start(2)), _is_led),
    "unclean start": (
        lambda world: (world.crash(2), world.crash(3), world.run(), world.start(2, unclean=True)),
        _is_led,
    ),
    "preferred election": (_preferred, _is_preferred),
    "controlled shutdown": (_shutdown, _is_led),
    "configs": (lambda world: world.configure("t", **{"retention.ms": "1"}), _is_led),
}


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("dies", [True, False], ids=["dies", "is deposed"])
def test_the_next_controller_finishes(name: str, dies: bool) -> None:
    begin, expected = SCENARIOS[name]
    for actions in range(10_000):
        world = _cluster()
        begin(world)
        is_over = _act(world, actions)
        if dies:
            world.crash(FIRST)
        else:
            world.oust()
        world.elect(SECOND)
        world.run(catching_up=True)
        for broker_id, broker in world.brokers.items():
            if not broker.is_alive:
                world.start(broker_id)
        world.run(catching_up=True)
        expected(world)
        assert_at_rest(world)
        if is_over:
            return
    raise AssertionError("the work does not end")


def _act(world: World, actions: int) -> bool:
    """So many steps of anyone; True: there were no more."""
    for _ in range(actions):
        action = next(world.actions(), None)
        if action is None:
            if not world.catch_up():
                return True
            continue
        action()
    return False


def assert_at_rest(world: World) -> None:
    """Everything is led, in sync, on the disks where it belongs and nowhere else, and known to everyone."""
    assert world.tree.get(REASSIGN_PARTITIONS) is None
    assert world.tree.get(PREFERRED_REPLICA_ELECTION) is None
    assert world.tree.children(LEFTOVER_REPLICAS) == []
    logs: dict[int, set[tuple[str, int]]] = {broker_id: set() for broker_id in world.brokers}
    known: dict[tuple[str, int], tuple[int, tuple[int, ...]]] = {}
    for name in world.tree.children("/brokers/topics") or []:
        topic = world.topic(name)
        assert topic is not None
        for index, assignment in topic.partitions.items():
            state = world.state(name, index)
            assert assignment == Assignment(assignment.replicas), (
                f"{name}-{index} is being moved: {assignment}"
            )
            assert state.has_leader, f"{name}-{index} has no leader"
            assert set(state.isr) == set(assignment.replicas), f"{name}-{index}: {state} {assignment}"
            known[name, index] = (state.leader, state.isr)
            for broker_id in assignment.replicas:
                logs[broker_id].add((name, index))
    for broker_id, broker in world.brokers.items():
        assert set(broker.logs) == logs[broker_id], f"logs of broker {broker_id}"
        assert broker.metadata == known, f"metadata of broker {broker_id}"
        for key, role in broker.roles.items():
            assert role.leader == known[key][0], f"broker {broker_id} plays {key}: {role}"
