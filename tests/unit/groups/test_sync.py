"""SyncGroup, Heartbeat, LeaveGroup, sessions."""

from kio.schema.errors import ErrorCode

from broker.groups.messages import LeavingMember
from tests.unit.groups.world import World, subscription


def test_followers_wait_for_the_leader_and_everyone_gets_their_part() -> None:
    world = World()
    leader, follower = world.stable(2)
    slots = [world.join(leader.member_id), world.join(follower.member_id)]
    waiting = world.sync(slots[1].result)
    assert waiting.is_parked
    parts = {leader.member_id: b"L", follower.member_id: b"F", "stranger": b"X"}
    assert world.sync(slots[0].result, parts).result.assignment == b"L"
    assert waiting.result.assignment == b"F"
    assert waiting.result.protocol_type == "consumer"
    assert waiting.result.protocol_name == "range"
    assert world.state() == "Stable"


def test_a_member_the_leader_forgot_gets_an_empty_assignment() -> None:
    world = World()
    leader, follower = world.stable(2)
    slots = [world.join(leader.member_id), world.join(follower.member_id)]
    world.sync(slots[0].result, {leader.member_id: b"L"})
    assert world.sync(slots[1].result).result.assignment == b""


def test_the_assignment_leaves_only_when_it_is_durable() -> None:
    world = World()
    joined = world.join()
    world.pass_ms(0)
    world.hold = True
    slot = world.sync(joined.result, {joined.result.member_id: b"A"})
    assert slot.is_parked
    assert world.state() == "CompletingRebalance"
    world.release()
    assert slot.result.assignment == b"A"
    assert world.state() == "Stable"


def test_an_assignment_that_cannot_be_stored_starts_a_rebalance() -> None:
    world = World()
    joined = world.join()
    world.pass_ms(0)
    world.hold = True
    slot = world.sync(joined.result, {joined.result.member_id: b"A"})
    world.refuse(ErrorCode.kafka_storage_error)
    assert slot.error is ErrorCode.not_coordinator
    assert world.state() == "PreparingRebalance"
    world.hold = False
    assert world.join(joined.result.member_id).result.generation_id == 2


def test_an_assignment_stored_after_the_next_rebalance_began_is_not_handed_out() -> None:
    world = World()
    joined = world.join()
    world.pass_ms(0)
    world.hold = True
    slot = world.sync(joined.result, {joined.result.member_id: b"OLD"})
    world.join()
    assert slot.error is ErrorCode.rebalance_in_progress
    world.release()
    assert world.state() == "PreparingRebalance"
    assert world.join(joined.result.member_id).result.generation_id == 2


def test_a_stable_member_that_syncs_again_gets_the_same() -> None:
    world = World()
    (leader,) = world.stable()
    assert world.sync(leader).result.assignment == leader.member_id.encode()


def test_a_repeated_parked_sync_answers_the_former_call() -> None:
    world = World()
    leader, follower = world.stable(2)
    slots = [world.join(leader.member_id), world.join(follower.member_id)]
    former, latter = world.sync(slots[1].result), world.sync(slots[1].result)
    assert former.error is ErrorCode.rebalance_in_progress
    world.sync(slots[0].result, {follower.member_id: b"F"})
    assert latter.result.assignment == b"F"


def test_who_may_not_sync() -> None:
    world = World()
    (leader,) = world.stable()
    assert world.sync(leader, group="").error is ErrorCode.invalid_group_id
    assert world.sync(leader, group="other").error is ErrorCode.unknown_member_id
    assert world.sync(leader._replace(member_id="x")).error is ErrorCode.unknown_member_id
    assert world.sync(leader, generation=0).error is ErrorCode.illegal_generation
    assert world.sync(leader, generation=2).error is ErrorCode.illegal_generation
    inconsistent = ErrorCode.inconsistent_group_protocol
    assert world.sync(leader, protocol_type="connect").error is inconsistent
    assert world.sync(leader, protocol_name="sticky").error is inconsistent
    assert world.sync(leader, protocol_type="consumer", protocol_name="range").error is ErrorCode.none
    world.join()
    assert world.sync(leader).error is ErrorCode.rebalance_in_progress


def test_a_newcomer_sends_waiting_followers_back_to_join() -> None:
    world = World()
    leader, follower = world.stable(2)
    slots = [world.join(leader.member_id), world.join(follower.member_id)]
    waiting = world.sync(slots[1].result)
    world.join()
    assert waiting.error is ErrorCode.rebalance_in_progress
    assert waiting.result.protocol_name is None


def test_members_that_never_sync_are_out_after_the_rebalance_timeout() -> None:
    world = World()
    leader, follower = world.stable(2, rebalance_ms=20_000, session_ms=6_000)
    world.join(leader.member_id, rebalance_ms=20_000)
    world.join(follower.member_id, rebalance_ms=20_000)
    world.sync(world.join(leader.member_id).result, {})
    for _ in range(9):
        world.pass_ms(2_000)
        assert world.heartbeat(follower.member_id, 3) is ErrorCode.none
        assert world.heartbeat(leader.member_id, 3) is ErrorCode.none
    world.pass_ms(2_000)
    assert world.heartbeat(follower.member_id, 3) is ErrorCode.unknown_member_id
    assert world.heartbeat(leader.member_id, 3) is ErrorCode.rebalance_in_progress
    assert world.join(leader.member_id).result.generation_id == 4


def test_a_leader_that_never_syncs_is_out_and_another_leads() -> None:
    world = World()
    leader, follower = world.stable(2, rebalance_ms=20_000, session_ms=30_000)
    slots = [world.join(one.member_id, rebalance_ms=20_000, session_ms=30_000) for one in (leader, follower)]
    waiting = world.sync(slots[1].result)
    world.pass_ms(20_000)
    assert waiting.error is ErrorCode.rebalance_in_progress
    again = world.join(follower.member_id)
    assert again.result.leader == follower.member_id
    assert again.result.generation_id == 4


def test_heartbeats_keep_the_session() -> None:
    world = World()
    (member,) = world.stable(session_ms=10_000)
    for _ in range(5):
        world.pass_ms(9_999)
        assert world.heartbeat(member.member_id, 1) is ErrorCode.none
    world.pass_ms(10_000)
    assert world.heartbeat(member.member_id, 1) is ErrorCode.unknown_member_id
    assert world.state() == "Empty"


def test_commits_keep_the_session_too() -> None:
    world = World()
    (member,) = world.stable(session_ms=10_000)
    for _ in range(3):
        world.pass_ms(9_999)
        assert world.commit(1, member_id=member.member_id, generation=1) is ErrorCode.none
    assert world.heartbeat(member.member_id, 1) is ErrorCode.none


def test_a_session_that_ran_out_while_parked_starts_anew_with_the_generation() -> None:
    world = World()
    leader, follower = world.stable(2, session_ms=10_000)
    parked = world.join(follower.member_id, protocols={"range": subscription("u")})
    world.pass_ms(5_000)
    world.heartbeat(leader.member_id, 2)
    world.pass_ms(8_000)
    again = world.join(leader.member_id)
    assert parked.result.generation_id == 3
    world.sync(again.result, {})
    world.sync(parked.result)  # the group is stable already: this restarts nothing
    world.pass_ms(9_999)
    assert world.heartbeat(leader.member_id, 3) is ErrorCode.none
    world.pass_ms(1)
    assert world.heartbeat(leader.member_id, 3) is ErrorCode.rebalance_in_progress
    assert world.heartbeat(follower.member_id, 3) is ErrorCode.unknown_member_id


def test_a_session_that_ran_out_while_its_sync_was_parked_starts_anew_with_the_assignment() -> None:
    world = World()
    leader, follower = world.stable(2, session_ms=10_000)
    slots = [world.join(leader.member_id), world.join(follower.member_id)]
    waiting = world.sync(slots[1].result)
    world.pass_ms(6_000)
    world.heartbeat(leader.member_id, 3)
    world.pass_ms(6_000)
    assert waiting.is_parked
    world.sync(slots[0].result, {})
    world.pass_ms(9_999)
    assert world.heartbeat(leader.member_id, 3) is ErrorCode.none
    world.pass_ms(1)
    assert world.heartbeat(leader.member_id, 3) is ErrorCode.rebalance_in_progress
    assert world.heartbeat(follower.member_id, 3) is ErrorCode.unknown_member_id


def test_a_group_lives_while_the_record_of_its_emptiness_is_under_way() -> None:
    world = World()
    joined = world.join()
    world.pass_ms(0)
    world.hold = True
    world.leave(joined.result.member_id)
    assert world.state() == "Empty"
    again = world.join()
    world.hold = False
    world.pass_ms(0)
    assert again.result.generation_id == 3, "1, 2 when it was empty, 3"


def test_heartbeats_that_are_refused() -> None:
    world = World()
    (member,) = world.stable()
    assert world.heartbeat(member.member_id, 1, group="") is ErrorCode.invalid_group_id
    assert world.heartbeat(member.member_id, 1, group="x") is ErrorCode.unknown_member_id
    assert world.heartbeat("x", 1) is ErrorCode.unknown_member_id
    assert world.heartbeat(member.member_id, 2) is ErrorCode.illegal_generation
    assert world.heartbeat(member.member_id, 1, instance="i") is ErrorCode.unknown_member_id


def test_heartbeats_while_the_leader_assigns_are_fine() -> None:
    world = World()
    joined = world.join()
    world.pass_ms(0)
    assert world.heartbeat(joined.result.member_id, 1) is ErrorCode.none


def test_leaving_rebalances_the_rest_at_once() -> None:
    world = World()
    leader, follower = world.stable(2)
    left = world.leave(leader.member_id)
    assert left.members == ((LeavingMember(leader.member_id, None), ErrorCode.none),)
    again = world.join(follower.member_id)
    assert again.result.leader == follower.member_id
    assert again.result.generation_id == 3


def test_leaving_during_a_rebalance_completes_it() -> None:
    world = World()
    leader, follower = world.stable(2)
    waiting = world.join(leader.member_id)
    world.leave(follower.member_id)
    assert waiting.result.generation_id == 3


def test_the_last_to_leave_empties_the_group() -> None:
    world = World()
    (member,) = world.stable()
    world.leave(member.member_id)
    assert world.state() == "Empty"
    assert world.coordinator.describe("g").protocol_type == "consumer"
    world.restart()
    assert world.state() == "Empty"


def test_leaving_answers_each_member_for_itself() -> None:
    world = World()
    (member,) = world.stable()
    pending = world.join(requires_id=True).result.member_id
    named = world.join(instance="i")
    assert named.is_parked
    result = world.leave(member.member_id, pending, "x", LeavingMember("", "i"), LeavingMember("", None))
    unknown = ErrorCode.unknown_member_id
    assert [error for _, error in result.members] == [
        ErrorCode.none,
        ErrorCode.none,
        unknown,
        ErrorCode.none,
        unknown,
    ]
    assert named.error is unknown, "its parked JoinGroup was answered"
    assert world.state() == "Empty"


def test_leaving_what_does_not_exist() -> None:
    world = World()
    assert world.leave("x", group="").error is ErrorCode.invalid_group_id
    result = world.leave("x")
    assert result.error is ErrorCode.none
    assert result.members == ((LeavingMember("x", None), ErrorCode.unknown_member_id),)
    assert world.state() == "Dead"


def test_a_members_parked_sync_is_answered_when_an_administrator_removes_it() -> None:
    world = World()
    leader, follower = world.stable(2)
    slots = [world.join(leader.member_id), world.join(follower.member_id)]
    waiting = world.sync(slots[1].result)
    world.leave(follower.member_id)
    assert waiting.error is ErrorCode.unknown_member_id


def test_describe_shows_metadata_and_assignment_only_while_stable() -> None:
    world = World()
    (leader,) = world.stable()
    shown = world.coordinator.describe("g")
    assert shown.protocol_name == "range"
    assert shown.members[0].metadata == subscription("t")
    assert shown.members[0].assignment == leader.member_id.encode()
    assert shown.members[0].client_id == "c"
    assert shown.members[0].client_host == "/127.0.0.1"
    world.join()
    shown = world.coordinator.describe("g")
    assert shown.state == "PreparingRebalance"
    assert shown.protocol_name == ""
    assert {(member.metadata, member.assignment) for member in shown.members} == {(b"", b"")}


def test_list_filters_by_state_in_any_case() -> None:
    world = World()
    world.stable(group="a")
    world.commit(1, group="b")
    assert [one.group_id for one in world.coordinator.list_groups()] == ["a", "b"]
    listed = world.coordinator.list_groups(frozenset({"empty"}))
    assert [(one.group_id, one.protocol_type, one.state) for one in listed] == [("b", "", "Empty")]
    assert world.coordinator.list_groups(frozenset({"Nonsense"})) == []
