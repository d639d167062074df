"""Leaders and followers in one process: replication, ISR, failover, truncation."""

from pathlib import Path

from kio.schema.errors import ErrorCode

from tests.unit.replication.steps import carried_out
from tests.unit.replication.world import TOPIC, World


def _values(world: World, node_id: int) -> list[str]:
    return [value.decode() for _, _, value in world.nodes[node_id].contents()]


def test_records_are_committed_when_all_of_the_isr_has_them(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.elect(1)
    produced = world.append("a")
    assert produced.error is None
    world.settle()
    assert produced.is_acked
    for node in world.nodes.values():
        assert node.partition.high_watermark == node.partition.log.log_end_offset == 1
    assert _values(world, 2) == _values(world, 3) == ["a"]


def test_a_follower_that_stops_leaves_the_isr_and_comes_back(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.elect(1)
    world.kill(3)
    world.settle()
    assert world.state.isr == (1, 2)
    produced = [world.append(str(number)) for number in range(10)]
    world.settle()
    assert all(each.is_acked for each in produced)
    world.start(3)
    world.settle()
    assert sorted(world.state.isr) == [1, 2, 3]
    assert _values(world, 3) == _values(world, 1)
    assert world.nodes[3].partition.high_watermark == 10


def test_a_silent_follower_is_dropped_after_the_lag_and_what_waits_is_committed(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.elect(1)
    silent = world.nodes[3].pipes.pop(1)
    produced = world.append("a")
    world.settle(20)
    assert produced.error is None, "the ISR still counts three"
    world.settle(40)
    assert world.state.isr == (1, 2)
    assert produced.is_acked
    world.nodes[3].pipes[1] = silent
    world.nodes[3].disconnect(1)
    world.settle()
    assert sorted(world.state.isr) == [1, 2, 3]


def test_an_idle_follower_stays_in_the_isr(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.elect(1)
    world.append("a")
    world.settle(400)
    produced = world.append("b")
    world.tick(1)
    assert sorted(world.state.isr) == [1, 2, 3]
    world.settle()
    assert produced.is_acked
    assert sorted(world.state.isr) == [1, 2, 3]


def test_too_few_in_sync_refuse_before_the_append(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.elect(1)
    world.kill(2)
    world.kill(3)
    world.settle()
    assert world.append("a").error is ErrorCode.not_enough_replicas
    alone = world.append("b", acks=1)
    world.settle()
    assert alone.is_acked
    assert world.nodes[1].partition.high_watermark == 0, "not while under min.insync.replicas"
    world.start(2)
    world.settle()
    assert world.nodes[1].partition.high_watermark == 1


def test_committed_records_survive_the_leader(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.elect(1)
    produced = [world.append(str(number)) for number in range(5)]
    world.settle()
    world.kill(1)
    world.settle()
    assert world.state.leader == 2
    more = world.append("more")
    world.settle()
    assert more.is_acked
    world.start(1)
    world.settle()
    assert all(each.is_acked for each in produced)
    assert _values(world, 1) == _values(world, 2) == [*"01234", "more"]


def test_what_only_the_dead_leader_had_is_cut_when_it_comes_back(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.elect(1)
    world.append("committed")
    world.settle()
    lost = world.append("only here")
    world.kill(1)
    world.settle()
    assert lost.error is not ErrorCode.none
    world.append("instead")
    world.settle()
    world.start(1)
    world.settle()
    assert _values(world, 1) == _values(world, 2) == _values(world, 3) == ["committed", "instead"]
    assert sorted(world.state.isr) == [1, 2, 3]


def test_two_fast_failovers_truncate_to_the_common_epoch(tmp_path: Path) -> None:
    """KIP-279: the new leader never knew the epoch that the follower's log ends with."""
    world = World(tmp_path)
    world.elect(1)
    world.append("both")
    world.settle()
    world.append("one")
    world.kill(1)
    world.decide(2, (2,))
    world.deliver_command(2)
    world.append("two", acks=1)
    world.kill(2)
    world.start(1)
    world.decide(1, (1,))  # as an unclean election would
    world.deliver_command(1)
    world.append("other", acks=1)
    world.start(2)
    world.settle()
    assert _values(world, 2) == _values(world, 1)
    assert _values(world, 1)[0] == "both"


def test_a_follower_with_an_empty_log_starts_at_the_leaders_log_start(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.elect(1)
    world.kill(3)
    for number in range(40):
        world.append(f"{number}".rjust(60))
    world.settle()
    leader = world.nodes[1].partition.log
    leader.retention.delete_records_before(30)
    world.start(3)
    world.settle()
    log = world.nodes[3].partition.log
    assert (log.log_start_offset, log.log_end_offset) == (30, 40)
    assert _values(world, 3) == _values(world, 1)


def test_deleted_records_are_deleted_at_followers(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.elect(1)
    for number in range(10):
        world.append(str(number))
    world.settle()
    world.nodes[1].partition.log.retention.delete_records_before(7)
    world.nodes[1].replica_sessions.noted((TOPIC, 0))
    world.settle()
    assert [node.partition.log.log_start_offset for node in world.nodes.values()] == [7, 7, 7]


def test_a_zombie_leader_neither_commits_nor_serves(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.elect(1)
    zombie = world.nodes[1]
    world.decide(2, (2, 3))
    world.deliver_command(2)
    world.deliver_command(3)
    from tests.unit.replication.world import Produced

    produced = Produced("zombie")
    produced.send(zombie, -1)
    held = world.commands[1]
    world.commands[1] = type(held)()
    world.settle(200)
    assert produced.error is ErrorCode.not_leader_or_follower, "the state node told it"
    assert not zombie.partition.is_leader
    world.commands[1] = held
    world.settle()
    assert _values(world, 1) == _values(world, 2) == []


def test_commands_that_come_late_are_ignored(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.elect(1)
    old = world.commands[2]
    world.command(2)
    late = old.popleft()
    world.elect(2)
    response = carried_out(world.nodes[2].replica_manager.leader_and_isr(late))
    assert [each.error_code for each in response.partition_errors] == [ErrorCode.fenced_leader_epoch.value]
    assert world.nodes[2].partition.is_leader


def _ms_to_catch_up(directory: Path, limits: dict[str, str]) -> int:
    """How long a broker that was away takes to fetch 20 KB and join the ISR again."""
    world = World(directory)
    world.elect(1)
    world.kill(3)
    world.settle()
    for number in range(40):
        world.append(f"{number}".ljust(400))
    world.settle()
    world.cluster.topic_configs = {
        "leader.replication.throttled.replicas": "0:3",
        "follower.replication.throttled.replicas": "*",
    }
    world.cluster.broker_configs = {"": limits}
    world.start(3)
    began_ms = world.now_ms
    while sorted(world.state.isr) != [1, 2, 3]:
        world.settle(1)
        assert world.now_ms - began_ms < 120_000
    assert _values(world, 3) == _values(world, 1)
    return world.now_ms - began_ms


def test_an_operators_limit_holds_back_who_catches_up(tmp_path: Path) -> None:
    rate = "2000"
    free_ms = _ms_to_catch_up(tmp_path / "free", {})
    for side in ("leader", "follower"):
        limited_ms = _ms_to_catch_up(tmp_path / side, {f"{side}.replication.throttled.rate": rate})
        assert free_ms + 5_000 < limited_ms < 20_000, (side, free_ms, limited_ms)
