"""Who must have a record before it is committed, who may come into the ISR, and whose word is out of date.

Each test is a history in which one rule alone keeps an acknowledged record, or a stale request away.
"""

from dataclasses import replace
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from broker.log.errors import LogError
from contracts.cluster import LeaderAndIsrRequest, StopReplicaPartitionState, StopReplicaRequest
from tests.unit.replication.steps import carried_out
from tests.unit.replication.world import CONFIG, LAG_MAX_MS, TOPIC, TOPIC_ID, Produced, State, World


def _exchange(world: World, follower: int, leader: int) -> None:
    """One request of a follower, served and answered; the one that waits at the leader if there is one."""
    world.ask(follower, leader)
    world.serve(follower, leader)
    while world.run_soon():
        pass
    assert world.take_answer(follower, leader)


def _values(world: World, node_id: int) -> list[str]:
    return [value.decode() for _, _, value in world.nodes[node_id].contents()]


def _let_lag_pass(world: World) -> None:
    """Long enough for a silent follower to be out of sync; the others go on, and no ISR is written."""
    for _ in range(2 * LAG_MAX_MS // 100):
        world.tick(100)
        for step in (world.ask, world.serve, world.take_answer):
            step(2, 1)
        while world.run_soon():
            pass


def test_who_is_being_taken_into_the_isr_already_counts(tmp_path: Path) -> None:
    """The state node may hold the larger ISR before we hear of it: its member may be elected."""
    world = World(tmp_path)
    world.elect(1)
    world.kill(3)
    world.settle()
    assert world.state.isr == (1, 2)
    world.start(3)
    while not world.proposals:
        assert sum(step() for step in world.steps() if step != world.write_isr) or world.tick(25) is None
    assert world.nodes[1].partition.pending_isr is not None
    silent = world.nodes[3].pipes.pop(1)
    produced = world.append("acknowledged")
    _let_lag_pass(world)
    world.append("and another")
    while world.nodes[2].partition.log.log_end_offset < 2:
        _exchange(world, 2, 1)
    _let_lag_pass(world)
    assert produced.error is None, "the ISR as it stands has it, who may be in it by now has not"
    assert world.write_isr()
    assert set(world.state.isr) == {1, 2, 3}
    world.nodes[3].pipes[1] = silent
    world.kill(1)
    world.decide(3, world.state.isr)
    world.settle()
    assert produced.error is not ErrorCode.none, (
        "the record went with the leader, but nobody was told it stays"
    )


def test_who_is_being_taken_out_of_the_isr_still_counts(tmp_path: Path) -> None:
    """The shrink may fail: until it is written, the slow follower may be elected."""
    world = World(tmp_path)
    world.elect(1)
    world.nodes[3].pipes.pop(1)
    produced = world.append("acknowledged")
    _let_lag_pass(world)
    pending = world.nodes[1].partition.pending_isr
    assert pending is not None and pending.isr == (1, 2)
    world.append("and another")
    while world.nodes[2].partition.log.log_end_offset < 2:
        _exchange(world, 2, 1)
    _let_lag_pass(world)
    assert produced.error is None
    assert world.write_isr()
    assert produced.is_acked


def test_nobody_comes_into_the_isr_without_what_earlier_leaders_left(tmp_path: Path) -> None:
    """KIP-320: a new leader's high watermark lags behind what the former one acknowledged, so having
    everything below it is not enough: a follower must have reached where the leader's epoch began."""
    world = World(tmp_path)
    world.elect(1)
    world.append("everybody's")
    world.settle()
    world.kill(3)
    world.settle()
    acknowledged = world.append("acknowledged")
    while world.nodes[2].partition.log.log_end_offset < 2:
        _exchange(world, 2, 1)  # it has the record now,
    assert world.ask(2, 1) and world.serve(2, 1)  # says so, and dies with the leader before it is answered
    assert acknowledged.is_acked
    world.kill(1)
    world.deliver_command(2)
    leader = world.nodes[2].partition
    assert (leader.high_watermark, leader.log.log_end_offset) == (1, 2)
    world.start(3)
    while world.deliver_command(3):
        pass
    _exchange(world, 3, 2)  # where the epochs of its log end
    assert world.ask(3, 2) and world.serve(3, 2)  # it has all that is known to be committed
    remote = leader.remote(3)
    assert remote is not None and remote.log_end_offset == 1
    assert leader.pending_isr is None, "but lacks an acknowledged record"
    world.settle()
    assert set(world.state.isr) == {2, 3}
    world.kill(2)
    world.settle()
    assert world.state.leader == 3
    assert _values(world, 3) == ["everybody's", "acknowledged"]


def _error_of(world: World, node_id: int, epoch: int) -> ErrorCode:
    with pytest.raises(LogError) as refused:
        world.nodes[node_id].replicas.leader(TOPIC, 0, epoch)
    return refused.value.error_code


def test_requests_of_another_leader_epoch_are_told_which_side_is_behind(tmp_path: Path) -> None:
    """KIP-320: also by followers, before they say that they do not lead."""
    world = World(tmp_path)
    world.elect(1)
    world.elect(1)
    epoch = world.state.leader_epoch
    assert world.nodes[1].replicas.leader(TOPIC, 0, epoch) is world.nodes[1].partition
    assert world.nodes[1].replicas.leader(TOPIC, 0, -1) is world.nodes[1].partition
    for node_id in (1, 2):
        assert _error_of(world, node_id, epoch - 1) is ErrorCode.fenced_leader_epoch
        assert _error_of(world, node_id, epoch + 1) is ErrorCode.unknown_leader_epoch
    assert _error_of(world, 2, epoch) is ErrorCode.not_leader_or_follower


def test_a_follower_of_an_older_epoch_moves_nothing(tmp_path: Path) -> None:
    """Its offsets are those of another log."""
    world = World(tmp_path)
    world.elect(1)
    held = world.commands[2]
    world.commands[2] = type(held)()
    if not world.ask(2, 1):
        world.tick(LAG_MAX_MS)  # the request that waits is answered
        _exchange(world, 2, 1)
        assert world.ask(2, 1)
    world.decide(1, world.state.isr)
    world.deliver_command(1)
    produced = Produced("new")
    produced.send(world.nodes[1], -1)
    assert world.serve(2, 1)
    remote = world.nodes[1].partition.remote(2)
    assert remote is not None and remote.log_end_offset < 0, "nothing is known of it in this epoch"
    assert produced.error is None


def test_a_replica_obeys_no_controller_that_was_deposed(tmp_path: Path) -> None:
    """Neither to lead nor to stop: what it commands may be undone already."""
    world = World(tmp_path)
    world.elect(1)
    manager = world.nodes[2].replica_manager
    world.command(2)
    newest = world.commands[2].popleft()
    of_another = LeaderAndIsrRequest(
        controller_id=0,
        controller_epoch=newest.controller_epoch + 1,
        broker_epoch=0,
        partition_states=(),
        live_brokers=newest.live_brokers,
    )
    assert carried_out(manager.leader_and_isr(of_another)).error_code == 0
    stop = StopReplicaRequest(
        controller_id=0,
        controller_epoch=newest.controller_epoch,
        broker_epoch=0,
        partition_states=(
            StopReplicaPartitionState(
                topic=TOPIC, topic_id=TOPIC_ID, partition=0, leader_epoch=99, delete_partition=True
            ),
        ),
    )
    stale = ErrorCode.stale_controller_epoch.value
    assert carried_out(manager.leader_and_isr(newest)).error_code == stale
    assert carried_out(manager.stop_replica(stop)).error_code == stale
    assert world.nodes[2].replicas.hosted(TOPIC, 0) is not None


def test_a_deposed_leader_obeys_a_command_that_is_older_than_what_it_saw_in_the_tree(tmp_path: Path) -> None:
    """Its ISR change is refused after the new leader's first one; then the controller's command comes."""
    world = World(tmp_path)
    world.elect(1)
    world.append("nobody fetches it", acks=1)
    for _ in range(2 * LAG_MAX_MS // 100):
        world.tick(100)
    assert world.proposals, "both lag"
    world.decide(2, (1, 2, 3))
    assert world.deliver_command(2)
    for _ in range(2 * LAG_MAX_MS // 100):
        world.tick(100)
    world.proposals.rotate(-1)
    assert world.write_isr()
    assert (world.state.leader, world.state.isr) == (2, (2,))
    assert world.write_isr()
    assert not world.nodes[1].partition.is_leader, "it saw who leads"
    world.settle()
    assert world.nodes[1].leader_of == {(TOPIC, 0): 2}
    assert set(world.state.isr) == {1, 2, 3}


def test_a_producer_hears_of_its_own_record_and_not_of_those_before_it(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.elect(1)
    for number in range(3):
        world.append(f"told without waiting {number}", acks=1)
    while any(world.nodes[each].partition.log.log_end_offset < 3 for each in (2, 3)):
        for follower in (2, 3):
            world.ask(follower, 1)
            world.serve(follower, 1)
            while world.run_soon():
                pass
            world.take_answer(follower, 1)
    waits = world.append("waits for the others")
    for follower in (2, 3):
        world.ask(follower, 1)
        world.serve(follower, 1)
    assert world.nodes[1].partition.high_watermark == 3
    assert waits.error is None, "the followers have what is before it"
    world.settle()
    assert waits.is_acked
    told: list[ErrorCode] = []
    world.nodes[1].partition.when_committed(4, told.append)
    assert told == [ErrorCode.none], "it is committed already"


def test_who_joins_the_isr_is_named_with_the_life_it_joined_in(tmp_path: Path) -> None:
    """KIP-903: the write is refused when the follower was registered anew meanwhile."""
    world = World(tmp_path)
    world.elect(1)
    world.kill(3)
    world.settle()
    world.start(3)
    while not world.proposals:
        assert sum(step() for step in world.steps() if step != world.write_isr) or world.tick(25) is None
    joining = world.proposals[0][2].joining
    assert joining is not None
    assert (joining.replica_id, joining.broker_epoch) == (3, world.cluster.brokers[3].broker_epoch)


def test_a_command_within_the_epoch_begins_nothing_anew(tmp_path: Path) -> None:
    """Other replicas, or an ISR that the controller wrote: what is known of followers stays."""
    world = World(tmp_path)
    world.elect(1)
    world.append("one")
    world.settle()
    told: list[bool] = []
    for node in world.nodes.values():
        node.replicas.on_leadership(lambda _, is_leader: told.append(is_leader))
    world.state = State(1, world.state.leader_epoch, (1, 2, 3), world.state.version + 1)
    for node_id in world.nodes:
        world.command(node_id)
        assert world.deliver_command(node_id)
    assert told == []
    assert [node.partition.partition_epoch for node in world.nodes.values()] == [world.state.version] * 3
    world.append("two")
    _let_lag_pass(world)
    assert set(world.nodes[1].partition.isr) == {1, 2, 3}, "nobody was forgotten"
    world.settle()
    assert world.nodes[1].partition.high_watermark == 2


def test_everybody_who_waits_for_an_offset_is_told_and_bytes_add_up(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.elect(1)
    leader = world.nodes[1]
    moved: list[int] = []
    leader.replicas.on_committed(lambda _, committed_bytes: moved.append(committed_bytes))
    waiting = [world.append(each) for each in ("one", "two")]
    told: list[ErrorCode] = []
    for _ in range(3):
        leader.partition.when_committed(2, told.append)
    assert (told, moved) == ([], [])
    world.settle()
    assert told == [ErrorCode.none] * 3 and all(each.is_acked for each in waiting)
    assert moved[-1] == leader.partition.log.size_bytes, "all since everything was committed"


@pytest.mark.parametrize(
    ("asked", "replicas", "expected"),
    [(None, 1, 1), (None, 2, 1), (None, 3, 2), (None, 4, 2), (3, 3, 3), (3, 2, 2), (1, 3, 1)],
)
def test_how_many_must_be_in_sync_without_a_word_of_the_topic(
    tmp_path: Path, asked: int | None, replicas: int, expected: int
) -> None:
    world = World(tmp_path)
    world.elect(1)
    partition = world.nodes[1].partition
    partition.log.config = replace(CONFIG, min_insync_replicas=asked)
    partition.replicas = tuple(range(1, replicas + 1))
    partition.reconfigured()
    assert partition.min_isr == expected
