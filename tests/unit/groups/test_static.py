"""Static membership (KIP-345): a member that comes back takes its own place."""

from kio.schema.errors import ErrorCode

from broker.groups.messages import JoinResult, LeavingMember, SyncResult
from tests.unit.groups.world import World, subscription


def _stable_pair(world: World, session_ms: int = 10_000) -> tuple[JoinResult, JoinResult]:
    """A leader "i1" and a follower "i2", stable in generation 2."""
    first = world.join(instance="i1", session_ms=session_ms)
    world.pass_ms(0)
    second = world.join(instance="i2", session_ms=session_ms)
    leader = world.join(first.result.member_id, instance="i1", session_ms=session_ms)
    assert second.result.generation_id == 2
    parts = {leader.result.member_id: b"1", second.result.member_id: b"2"}
    world.sync(second.result, instance="i2")
    assert isinstance(world.sync(leader.result, parts, instance="i1").result, SyncResult)
    assert world.state() == "Stable"
    return leader.result, second.result


def test_a_static_member_needs_no_second_join() -> None:
    world = World()
    slot = world.join(instance="i1", requires_id=True)
    world.pass_ms(0)
    assert slot.error is ErrorCode.none
    assert slot.result.member_id.startswith("i1-")
    assert slot.result.members[0].group_instance_id == "i1"


def test_a_follower_that_restarts_gets_its_assignment_without_a_rebalance() -> None:
    world = World()
    leader, follower = _stable_pair(world)
    back = world.join(instance="i2", requires_id=True)
    assert back.result.generation_id == 2
    assert back.result.member_id != follower.member_id
    assert back.result.leader == leader.member_id
    assert world.sync(back.result, instance="i2").result.assignment == b"2"
    assert world.heartbeat(leader.member_id, 2, instance="i1") is ErrorCode.none


def test_a_leader_that_restarts_is_not_told_that_it_leads() -> None:
    world = World()
    leader, _ = _stable_pair(world)
    back = world.join(instance="i1")
    assert back.result.leader == leader.member_id != back.result.member_id
    assert back.result.members == ()
    assert world.sync(back.result, instance="i1").result.assignment == b"1"
    assert world.state() == "Stable"
    forced = world.join(back.result.member_id, instance="i1")
    assert forced.is_parked, "it does lead: joining again rebalances"


def test_a_leader_that_restarts_leads_without_assigning_where_it_can_be_told_so() -> None:
    world = World()
    _, follower = _stable_pair(world)
    back = world.join(instance="i1", may_skip=True)
    assert back.result.skip_assignment
    assert back.result.leader == back.result.member_id
    assert [member.group_instance_id for member in back.result.members] == ["i1", "i2"]
    assert world.sync(back.result, instance="i1").result.assignment == b"1"
    assert world.state() == "Stable"
    assert world.heartbeat(follower.member_id, 2, instance="i2") is ErrorCode.none
    again = world.join(back.result.member_id, instance="i1", may_skip=True)
    world.join(follower.member_id, instance="i2", may_skip=True)
    assert again.result.generation_id == 3
    assert not again.result.skip_assignment, "a new generation wants an assignment"


def test_a_follower_that_restarts_has_nothing_to_skip() -> None:
    world = World()
    leader, _ = _stable_pair(world)
    back = world.join(instance="i2", may_skip=True)
    assert back.result.leader == leader.member_id
    assert not back.result.skip_assignment
    assert back.result.members == ()


def test_the_former_self_is_fenced_everywhere() -> None:
    world = World()
    _, follower = _stable_pair(world)
    world.join(instance="i2")
    fenced = ErrorCode.fenced_instance_id
    old = follower.member_id
    assert world.join(old, instance="i2").error is fenced
    assert world.sync(follower, instance="i2").error is fenced
    assert world.heartbeat(old, 2, instance="i2") is fenced
    assert world.commit(1, member_id=old, generation=2, instance="i2") is fenced
    assert world.leave(LeavingMember(old, "i2")).members[0][1] is fenced
    assert world.heartbeat(old, 2) is ErrorCode.unknown_member_id, (
        "without its instance id it is just unknown"
    )


def test_the_new_id_is_durable_before_it_is_told() -> None:
    world = World()
    _stable_pair(world)
    world.hold = True
    back = world.join(instance="i2")
    assert back.is_parked
    world.hold = False
    world.release()
    member_id = back.result.member_id
    world.restart()
    assert world.heartbeat(member_id, 2, instance="i2") is ErrorCode.none
    assert world.sync(back.result, instance="i2").result.assignment == b"2"


def test_a_new_id_that_cannot_be_stored_is_not_told() -> None:
    world = World()
    _stable_pair(world)
    world.hold = True
    back = world.join(instance="i2")
    world.refuse(ErrorCode.kafka_storage_error)
    assert back.error is ErrorCode.not_coordinator
    assert back.result.member_id == ""
    world.hold = False
    assert world.join(instance="i2").result.generation_id == 2


def test_a_rebalance_while_the_new_id_is_stored_answers_it() -> None:
    world = World()
    leader, _ = _stable_pair(world)
    world.hold = True
    back = world.join(instance="i2")
    world.join(leader.member_id, instance="i1")
    assert back.result.generation_id == 3
    world.hold = False
    world.release()
    assert world.state() == "CompletingRebalance"


def test_a_restart_that_changes_the_protocol_rebalances() -> None:
    world = World()
    first = world.join(instance="i1", protocols={"range": b"", "sticky": b""})
    world.pass_ms(0)
    world.sync(first.result, {first.result.member_id: b"1"}, instance="i1")
    back = world.join(instance="i1", protocols={"sticky": b""})
    assert back.result.generation_id == 2
    assert back.result.protocol_name == "sticky"
    assert back.result.leader == back.result.member_id


def test_a_restart_with_another_subscription_alone_does_not_rebalance() -> None:
    world = World()
    _stable_pair(world)
    back = world.join(instance="i2", protocols={"range": subscription("t", "u")})
    assert back.result.generation_id == 2
    group = world.coordinator.group("g")
    assert group is not None
    assert group.subscribed == {"t", "u"}


def test_a_restart_while_the_leader_assigns_rebalances() -> None:
    world = World()
    leader, follower = _stable_pair(world)
    world.join(leader.member_id, instance="i1")
    again = world.join(follower.member_id, instance="i2")
    assert again.result.generation_id == 3
    waiting = world.sync(again.result, instance="i2")
    back = world.join(instance="i2")
    assert waiting.error is ErrorCode.fenced_instance_id
    assert back.is_parked
    assert world.state() == "PreparingRebalance"
    assert world.join(leader.member_id, instance="i1").result.generation_id == 4
    assert back.result.generation_id == 4


def test_a_restart_while_members_gather_fences_the_parked_join() -> None:
    world = World()
    leader, follower = _stable_pair(world)
    parked = world.join(leader.member_id, instance="i1")
    back = world.join(instance="i1")
    assert parked.error is ErrorCode.fenced_instance_id
    assert back.is_parked
    world.join(follower.member_id, instance="i2")
    assert back.result.generation_id == 3
    assert back.result.leader == back.result.member_id


def test_a_silent_static_member_stays_through_a_rebalance() -> None:
    world = World()
    leader, follower = _stable_pair(world, session_ms=120_000)
    parked = world.join(leader.member_id, instance="i1", rebalance_ms=60_000)
    world.pass_ms(60_000)
    assert parked.result.generation_id == 3
    assert [member.group_instance_id for member in parked.result.members] == ["i1", "i2"]
    world.sync(parked.result, {follower.member_id: b"still"}, instance="i1")
    back = world.join(instance="i2")
    assert world.sync(back.result, instance="i2").result.assignment == b"still"


def test_a_silent_static_leader_gives_the_lead_to_one_who_joined() -> None:
    world = World()
    leader, follower = _stable_pair(world, session_ms=120_000)
    parked = world.join(follower.member_id, instance="i2", protocols={"range": subscription("t", "u")})
    world.pass_ms(60_000)
    assert parked.result.leader == follower.member_id
    assert leader.member_id in {member.member_id for member in parked.result.members}


def test_a_dead_static_member_keeps_its_place_until_its_session_ends() -> None:
    world = World()
    leader, _ = _stable_pair(world)
    for _ in range(9):
        world.pass_ms(1_000)
        assert world.heartbeat(leader.member_id, 2, instance="i1") is ErrorCode.none
    world.pass_ms(1_000)
    assert world.heartbeat(leader.member_id, 2, instance="i1") is ErrorCode.rebalance_in_progress


def test_an_unknown_instance_id_with_a_member_id_is_unknown() -> None:
    world = World()
    leader, _ = _stable_pair(world)
    assert world.join(leader.member_id, instance="i9").error is ErrorCode.unknown_member_id


def test_a_full_group_still_takes_its_static_members_back() -> None:
    world = World(group_size_max=2)
    _stable_pair(world)
    assert world.join(instance="i3").error is ErrorCode.group_max_size_reached
    assert world.join(instance="i2").error is ErrorCode.none


def test_an_administrator_removes_by_instance_id() -> None:
    world = World()
    _stable_pair(world)
    assert world.leave(LeavingMember("", "i2")).members[0][1] is ErrorCode.none
    assert world.leave(LeavingMember("", "i2")).members[0][1] is ErrorCode.unknown_member_id


def test_while_only_silent_static_members_are_left_the_generation_waits() -> None:
    world = World()
    leader, _ = _stable_pair(world, session_ms=120_000)
    newcomer = world.join(requires_id=True)
    newcomer = world.join(newcomer.result.member_id)
    world.leave("c-3")
    assert newcomer.error is ErrorCode.unknown_member_id
    world.pass_ms(60_000)
    assert world.state() == "PreparingRebalance"
    world.pass_ms(59_000)
    parked = world.join(leader.member_id, instance="i1")
    assert parked.is_parked
    world.pass_ms(1_000)
    assert parked.result.generation_id == 3
