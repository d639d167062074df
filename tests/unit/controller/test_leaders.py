"""Who leads by an operator's order, by the clock, and where a log's directory has failed."""

from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from broker.controller.api import NewTopic, Verdict
from broker.controller.events import CreateTopics, ElectionKind, ElectLeaders, Tick
from broker.metadata.znode_paths import LOG_DIR_EVENT_PREFIX
from broker.metadata.znodes import encode_log_dir_event
from contracts.tree import Create
from tests.unit.controller.world import World

T = UUID(int=1)
_NOT_NEEDED = ErrorCode.election_not_needed


def _world(partitions: dict[int, tuple[int, ...]], *brokers: int, **config: int) -> World:
    """The last broker is the controller."""
    world = World(*brokers, **config)
    for broker_id in brokers:
        world.start(broker_id)
    world.elect(brokers[-1])
    world.run()
    world.call(CreateTopics(1, [NewTopic("t", T, assignment=partitions)], False))
    return world


def _restart(world: World, broker_id: int) -> None:
    """Others lead instead, and it is in sync again."""
    world.crash(broker_id)
    world.run()
    world.start(broker_id)
    world.run(catching_up=True)


def _leaders(world: World, count: int) -> list[int]:
    return [world.state("t", number).leader for number in range(count)]


def test_an_order_for_all_names_what_was_done_and_one_for_some_names_all_of_them() -> None:
    world = _world({0: (1, 2), 1: (2, 1), 2: (1, 2)}, 1, 2, 3)
    _restart(world, 1)
    assert _leaders(world, 3) == [2, 2, 2]
    asked = [("t", 1), ("t", 0), ("t", 7), ("u", 0)]
    answer = world.call(ElectLeaders(5, ElectionKind.PREFERRED, asked))
    missing = Verdict(ErrorCode.unknown_topic_or_partition, "The partition does not exist.")
    assert list(answer) == asked
    assert [answer["t", 1].error_code, answer["t", 0].error_code] == [_NOT_NEEDED, ErrorCode.none]
    assert answer["t", 7] == answer["u", 0] == missing
    assert world.call(ElectLeaders(6, ElectionKind.PREFERRED, None)) == {("t", 2): Verdict(ErrorCode.none)}
    assert world.call(ElectLeaders(7, ElectionKind.PREFERRED, None)) == {}
    assert _leaders(world, 3) == [1, 2, 1]


def test_an_unclean_order_is_for_partitions_without_a_leader() -> None:
    world = _world({0: (1, 2), 1: (2, 1), 2: (1, 4)}, 1, 2, 4, 3)
    world.shrink("t", 0, 1)
    world.run()
    for broker_id in (1, 4):
        world.crash(broker_id)
        world.run()
    assert _leaders(world, 3) == [-1, 2, -1]
    answer = world.call(ElectLeaders(5, ElectionKind.UNCLEAN, [("t", number) for number in range(3)]))
    assert [each.error_code for each in answer.values()] == [
        ErrorCode.none,
        _NOT_NEEDED,
        ErrorCode.eligible_leaders_not_available,
    ]
    assert _leaders(world, 3) == [2, 2, -1]


@pytest.mark.parametrize(
    ("away", "percentage", "moves"),
    [(1, 10, False), (2, 10, True), (2, 20, False), (3, 20, True), (0, 0, False), (1, 0, True)],
)
def test_leadership_is_given_back_above_a_share(away: int, percentage: int, moves: bool) -> None:
    """Of ten partitions that prefer broker 1; broker 2 prefers one, and leads it."""
    partitions: dict[int, tuple[int, ...]] = dict.fromkeys(range(10), (1, 2)) | {10: (2, 1)}
    world = _world(
        partitions,
        *(1, 2, 3),
        leader_imbalance_check_interval_seconds=30,
        leader_imbalance_per_broker_percentage=percentage,
    )
    _restart(world, 1)
    home = [("t", number) for number in range(away, 10)]
    world.call(ElectLeaders(5, ElectionKind.PREFERRED, home))
    assert _leaders(world, 11) == [2] * away + [1] * (10 - away) + [2]
    for _ in range(3):
        world.now_ms += 40_000
        world.post(Tick())
        world.run()
    assert _leaders(world, 11) == [1 if moves else 2] * away + [1] * (10 - away) + [2]


def test_a_broker_that_is_away_keeps_no_other_from_its_leaders() -> None:
    world = _world(
        {0: (1, 2), 1: (3, 2), 2: (1, 2)}, *(1, 2, 3, 4), leader_imbalance_check_interval_seconds=30
    )
    for broker_id in (1, 3):
        world.crash(broker_id)
    world.run()
    world.start(3)
    world.run(catching_up=True)
    assert _leaders(world, 3) == [2, 2, 2]
    for _ in range(3):
        world.now_ms += 40_000
        world.post(Tick())
        world.run()
    assert _leaders(world, 3) == [2, 3, 2]


def test_a_replica_in_a_failed_directory_neither_leads_nor_is_in_sync() -> None:
    """Its broker lives, and keeps the partitions of its other directories."""
    world = _world({0: (1, 2), 1: (1, 2), 2: (2, 1)}, 1, 2, 3)
    for name in (("t", 0), ("t", 2)):
        world.brokers[1].fail_log(name)
    world.commit(0, [Create(LOG_DIR_EVENT_PREFIX, encode_log_dir_event(1), sequential=True)])
    world.run()
    assert [(world.state("t", number).leader, world.state("t", number).isr) for number in range(3)] == [
        (2, (2,)),
        (1, (1, 2)),
        (2, (2,)),
    ]
    answer = world.call(ElectLeaders(5, ElectionKind.PREFERRED, [("t", 0), ("t", 1)]))
    assert answer["t", 0] == Verdict(
        ErrorCode.preferred_leader_not_available,
        "Failed to elect leader for partition t-0 under strategy "
        "PreferredReplicaPartitionLeaderElectionStrategy",
    )
    assert answer["t", 1].error_code is _NOT_NEEDED
    world.crash(2)
    world.run()
    assert _leaders(world, 3) == [-1, 1, -1]
    orders = [("t", 0), ("t", 2)]
    unclean = world.call(ElectLeaders(6, ElectionKind.UNCLEAN, orders))
    assert {each.error_code for each in unclean.values()} == {ErrorCode.eligible_leaders_not_available}
    assert _leaders(world, 3) == [-1, 1, -1]
