"""JoinGroup and the rebalances it starts, told as short stories. Kafka's behaviour is the expectation."""

import struct
from dataclasses import replace

import pytest
from kio.schema.errors import ErrorCode

from broker.groups.subscription import names_in
from tests.unit.groups.world import World, subscription


def test_the_first_member_waits_for_others_then_leads() -> None:
    world = World(initial_rebalance_delay_ms=500)
    first = world.join()
    world.pass_ms(499)
    assert first.is_parked
    assert world.state() == "PreparingRebalance"
    world.pass_ms(1)
    assert first.result.generation_id == 1
    assert first.result.leader == first.result.member_id == "c-1"
    assert first.result.protocol_type == "consumer"
    assert first.result.protocol_name == "range"
    assert [member.member_id for member in first.result.members] == ["c-1"]
    assert world.state() == "CompletingRebalance"


def test_each_newcomer_prolongs_the_first_wait_up_to_the_rebalance_timeout() -> None:
    world = World(initial_rebalance_delay_ms=500)
    slots = [world.join(rebalance_ms=1200)]
    world.pass_ms(400)
    slots.append(world.join(rebalance_ms=1200))
    world.pass_ms(500)
    assert all(slot.is_parked for slot in slots), "500 ms more since 500 ms: somebody came"
    slots.append(world.join(rebalance_ms=1200))
    world.pass_ms(299)
    assert all(slot.is_parked for slot in slots)
    world.pass_ms(1)
    assert [slot.result.generation_id for slot in slots] == [1, 1, 1], "1,200 ms are over"
    assert len(slots[0].result.members) == 3
    assert slots[1].result.members == ()


def test_from_v4_on_a_new_member_is_told_its_id_first() -> None:
    world = World()
    told = world.join(requires_id=True, client="app")
    assert told.error is ErrorCode.member_id_required
    assert told.result.member_id == "app-1"
    assert world.state() == "Empty"
    joined = world.join("app-1", requires_id=True)
    world.pass_ms(0)
    assert joined.error is ErrorCode.none
    assert joined.result.member_id == "app-1"


def test_a_pending_member_that_does_not_come_back_is_forgotten_with_its_group() -> None:
    world = World()
    world.join(requires_id=True, session_ms=6000)
    world.pass_ms(5999)
    assert world.state() == "Empty"
    world.pass_ms(1)
    assert world.state() == "Dead"
    assert world.join("c-1").error is ErrorCode.unknown_member_id
    assert world.log == []


def test_a_rebalance_waits_for_pending_members() -> None:
    world = World()
    (leader,) = world.stable()
    pending = world.join(requires_id=True, session_ms=6000)
    world.join()
    assert world.heartbeat(leader.member_id, 1) is ErrorCode.rebalance_in_progress
    again = world.join(leader.member_id)
    assert again.is_parked, "the pending member may come"
    joined = world.join(pending.result.member_id, requires_id=True)
    assert again.result.generation_id == joined.result.generation_id == 2
    assert len(again.result.members) == 3


def test_a_pending_members_end_completes_the_joins() -> None:
    world = World()
    (leader,) = world.stable()
    world.join(requires_id=True, session_ms=6000)
    other = world.join()
    again = world.join(leader.member_id)
    assert again.is_parked
    world.pass_ms(6000)
    assert again.result.generation_id == other.result.generation_id == 2


def test_a_newcomer_makes_a_stable_group_rebalance_the_moment_all_are_there() -> None:
    world = World()
    first, second = world.stable(2)
    third = world.join()
    assert world.state() == "PreparingRebalance"
    assert world.heartbeat(first.member_id, 2) is ErrorCode.rebalance_in_progress
    one = world.join(first.member_id)
    assert one.is_parked
    two = world.join(second.member_id)
    assert {one.result.generation_id, two.result.generation_id, third.result.generation_id} == {3}
    assert one.result.leader == first.member_id, "the leader stays"


def test_who_misses_the_rebalance_timeout_is_out_and_another_leads() -> None:
    world = World()
    first, second = world.stable(2, rebalance_ms=20_000, session_ms=30_000)
    slot = world.join(second.member_id, protocols={"range": subscription("t", "u")}, rebalance_ms=20_000)
    world.pass_ms(19_999)
    assert slot.is_parked
    world.pass_ms(1)
    assert slot.result.leader == second.member_id
    assert [member.member_id for member in slot.result.members] == [second.member_id]
    assert world.heartbeat(first.member_id, 3) is ErrorCode.unknown_member_id


def test_the_slowest_members_rebalance_timeout_counts() -> None:
    world = World()
    world.stable(rebalance_ms=20_000, session_ms=60_000)
    slow = world.join(rebalance_ms=40_000)
    world.pass_ms(39_999)
    assert slow.is_parked
    world.pass_ms(1)
    assert slow.error is ErrorCode.none


def test_a_leader_that_joins_again_forces_a_rebalance_and_a_follower_does_not() -> None:
    world = World()
    leader, follower = world.stable(2)
    again = world.join(follower.member_id)
    assert again.result.generation_id == 2
    assert again.result.members == ()
    assert world.state() == "Stable"
    parked = world.join(leader.member_id)
    assert parked.is_parked
    assert world.state() == "PreparingRebalance"


def test_a_follower_with_another_subscription_forces_a_rebalance() -> None:
    world = World()
    _, follower = world.stable(2)
    assert world.join(follower.member_id, protocols={"range": subscription("x")}).is_parked
    assert world.state() == "PreparingRebalance"


def test_a_lost_join_answer_is_given_again_while_the_leader_assigns() -> None:
    world = World()
    first = world.join()
    world.pass_ms(0)
    again = world.join(first.result.member_id)
    assert again.result == first.result


def test_a_repeated_parked_join_answers_the_former_call() -> None:
    world = World()
    leader, follower = world.stable(2)
    former = world.join(leader.member_id)
    latter = world.join(leader.member_id)
    assert former.error is ErrorCode.rebalance_in_progress
    assert latter.is_parked
    world.join(follower.member_id)
    assert latter.result.generation_id == 3


def test_protocols_are_chosen_by_votes_among_those_all_support() -> None:
    world = World(initial_rebalance_delay_ms=100)
    slots = [
        world.join(protocols={"a": b"", "b": b"", "c": b""}),
        world.join(protocols={"b": b"", "a": b"", "c": b""}),
        world.join(protocols={"c": b"", "b": b""}),
        world.join(protocols={"b": b"", "c": b"", "x": b""}),
    ]
    world.pass_ms(200)
    assert {slot.result.protocol_name for slot in slots} == {"b"}


def test_members_must_share_a_protocol_and_its_type() -> None:
    world = World()
    world.stable()
    inconsistent = ErrorCode.inconsistent_group_protocol
    assert world.join(protocols={"sticky": b""}).error is inconsistent
    assert world.join(protocol_type="connect").error is inconsistent
    assert world.join(protocols={}).error is inconsistent
    assert world.join(group="new", protocols={}).error is inconsistent
    assert world.join(group="new", protocol_type="").error is inconsistent
    assert world.state("new") == "Dead"
    assert world.state() == "Stable"


@pytest.mark.parametrize("session_ms", [-1, 0, 5999, 1_800_001, 2**31 - 1])
def test_sessions_have_bounds(session_ms: int) -> None:
    assert World().join(session_ms=session_ms).error is ErrorCode.invalid_session_timeout


def test_names_that_cannot_be_stored_are_refused() -> None:
    world = World()
    assert world.join(group="").error is ErrorCode.invalid_group_id
    assert world.join(group="g" * 32_768).error is ErrorCode.invalid_group_id
    assert world.join(instance="é" * 20_000).error is ErrorCode.invalid_request
    assert world.join(protocols={"p" * 32_768: b""}).error is ErrorCode.invalid_request
    assert world.join(protocols={"p": bytes(1_048_577)}).error is ErrorCode.invalid_request


def test_a_long_client_id_still_gives_a_member_id() -> None:
    world = World()
    slot = world.join(client="x" * 32_767)
    world.pass_ms(0)
    assert slot.error is ErrorCode.none
    assert len(slot.result.member_id) < 2_000


def test_a_member_id_nobody_gave_is_unknown() -> None:
    world = World()
    assert world.join("made-up").error is ErrorCode.unknown_member_id
    world.stable()
    assert world.join("made-up").error is ErrorCode.unknown_member_id


def test_a_full_group_takes_nobody_else() -> None:
    world = World(group_size_max=2)
    first, second = world.stable(2)
    full = ErrorCode.group_max_size_reached
    refused = world.join()
    assert refused.error is full
    assert refused.result.member_id == ""
    assert world.join(requires_id=True).error is full
    assert world.state() == "Stable"
    assert world.join(first.member_id).is_parked
    assert world.join(second.member_id).error is ErrorCode.none


def test_an_instance_may_have_so_many_groups() -> None:
    world = World(groups_per_instance_max=2)
    mine, other = "iaaaaaaaaaaa.", "ibbbbbbbbbbb."
    world.stable(group=f"{mine}1")
    assert world.commit(1, group=f"{mine}2") is ErrorCode.none
    assert world.commit(1, group=f"{mine}3") is ErrorCode.group_max_size_reached
    assert world.join(group=f"{mine}3").error is ErrorCode.group_max_size_reached
    assert world.commit(1, group=f"{other}3") is ErrorCode.none
    assert world.delete_group(f"{mine}2") is ErrorCode.none
    assert world.commit(1, group=f"{mine}3") is ErrorCode.none


def test_an_instance_may_take_so_much_memory() -> None:
    world = World(instance_bytes_max=10_000)
    mine, other = "iaaaaaaaaaaa.", "ibbbbbbbbbbb."
    (member,) = world.stable(group=f"{mine}1", protocols={"range": bytes(4_000)})
    too_much = {"range": bytes(5_500)}
    assert world.join(group=f"{mine}2", protocols=too_much).error is ErrorCode.group_max_size_reached
    assert world.state(f"{mine}2") == "Dead"
    assert world.join(group=f"{other}2", protocols=too_much).is_parked
    assert world.join(group="standalone", protocols={"range": bytes(500_000)}).is_parked
    again = world.join(member.member_id, group=f"{mine}1", protocols={"range": bytes(4_100)})
    assert again.error is ErrorCode.none, "who is in may change what it has"
    parts = {member.member_id: bytes(6_000)}
    assert world.sync(again.result, parts, group=f"{mine}1").error is ErrorCode.unknown_server_error
    world.leave(member.member_id, group=f"{mine}1")
    assert world.join(group=f"{mine}2", protocols=too_much).is_parked


def test_a_leader_is_told_of_so_many_bytes_at_once() -> None:
    world = World(group_metadata_bytes_max=1_000)
    two = {"range": bytes(400), "other": bytes(100)}
    leader, member = world.stable(2, protocols=two, protocol_type="own")
    beyond = {"range": bytes(50), "other": bytes(201)}
    refused = world.join(protocols=beyond, protocol_type="own")
    assert refused.error is ErrorCode.group_max_size_reached
    assert world.heartbeat(leader.member_id, 2) is ErrorCode.none, "those who are in do not notice"
    assert world.join(group="another", protocols=beyond, protocol_type="own").is_parked
    grown = world.join(member.member_id, protocols={"range": bytes(601)}, protocol_type="own")
    assert grown.error is ErrorCode.group_max_size_reached, "nor may who is in bring so much more"
    assert world.join(protocols={"range": bytes(600)}, protocol_type="own").is_parked, "in its place"


def test_who_brings_no_more_than_before_is_never_turned_away() -> None:
    world = World()
    leader, member = world.stable(2, protocols={"range": bytes(500)}, protocol_type="own")
    world.config = replace(world.config, group_metadata_bytes_max=900)
    world.restart()
    parked = [
        world.join(each.member_id, protocols={"range": bytes(500)}, protocol_type="own")
        for each in (leader, member)
    ]
    assert [each.error for each in parked] == [ErrorCode.none] * 2
    newcomer = world.join(protocols={"range": b""}, protocol_type="own")
    assert newcomer.error is ErrorCode.group_max_size_reached


def test_a_leader_is_told_of_so_many_names_at_once() -> None:
    world = World(group_names_max=100)
    forty = {"range": subscription(*(f"t{number}" for number in range(40)))}
    world.stable(2, protocols=forty)
    assert world.join(protocols=forty).error is ErrorCode.group_max_size_reached
    assert world.join(protocols={"range": subscription("t")}).is_parked
    assert world.join(group="another", protocols=forty).is_parked
    many = {"range": subscription(*(f"t{number}" for number in range(200)))}
    assert world.join(group="consumers", protocols=many).error is ErrorCode.group_max_size_reached
    own = world.join(group="own", protocols=many, protocol_type="connect")
    assert own.is_parked, "names are what gateways find in consumers' metadata"


def _owned(*topics: str) -> bytes:
    entries = b"".join(
        struct.pack(">h", len(each)) + each.encode() + struct.pack(">iii", 2, 0, 1) for each in topics
    )
    return struct.pack(">i", len(topics)) + entries


@pytest.mark.parametrize(
    ("metadata", "names"),
    [
        (subscription(), 0),
        (subscription("a", "b"), 2),
        (b"\0\1" + subscription("a", "b")[2:] + _owned("c", "d", "e"), 5),
        (subscription("a", "b") + _owned("c", "d", "e"), 2),
        (b"\0\1" + subscription("a", "b")[2:] + _owned("c", "d", "e")[:-9], 4),
        (b"\0\1" + subscription("a", "b")[2:-1], 2),
        (subscription("a", "b")[:-5], 1),
        (struct.pack(">hih", 0, 2**31 - 1, 1) + b"a", 1),
        (struct.pack(">hih", 0, 9, -1), 0),
        (struct.pack(">hi", 0, -5), 0),
        (b"", 0),
    ],
)
def test_names_are_counted_as_far_as_they_can_be_read(metadata: bytes, names: int) -> None:
    assert names_in(metadata) == names


def test_committed_offsets_count_as_memory() -> None:
    world = World(instance_bytes_max=2_000)
    group = "iaaaaaaaaaaa.g"
    fitting = [world.commit(1, group=group, partition=number) for number in range(7)]
    assert fitting == [ErrorCode.none] * 7
    too_large = ErrorCode.invalid_commit_offset_size
    assert world.commit(1, group=group, partition=7) is too_large
    assert world.commit(2, group=group, partition=6) is ErrorCode.none, "no more than before"
    assert world.commit(2, group=group, partition=6, metadata="x" * 300) is too_large
    world.restart()
    assert world.commit(1, group=group, partition=7) is too_large, "counted by replay too"
    assert world.delete_offset("t", 0, group=group).error is ErrorCode.none
    assert world.commit(1, group=group, partition=7) is ErrorCode.none
    assert world.delete_group(group) is ErrorCode.none
    assert world.commit(1, group=group, metadata="x" * 1_500) is ErrorCode.none


def test_a_new_member_whose_join_stays_parked_for_five_minutes_is_dropped() -> None:
    world = World()
    world.stable(session_ms=1_800_000, rebalance_ms=1_000_000)
    parked = world.join(session_ms=10_000, rebalance_ms=1_000_000)
    world.pass_ms(299_999)
    assert parked.is_parked, "its session does not count: it cannot heartbeat"
    world.pass_ms(1)
    assert parked.error is ErrorCode.unknown_member_id


def test_a_known_member_with_a_parked_join_needs_no_heartbeat() -> None:
    world = World()
    leader, follower = world.stable(2, session_ms=10_000, rebalance_ms=60_000)
    parked = world.join(leader.member_id, session_ms=10_000)
    for _ in range(5):
        world.pass_ms(9_000)
        assert world.heartbeat(follower.member_id, 2) is ErrorCode.rebalance_in_progress
    assert parked.is_parked
    assert world.join(follower.member_id).result.generation_id == 3
    assert parked.result.generation_id == 3


def test_the_last_silent_member_leaves_an_empty_group_of_the_next_generation() -> None:
    world = World()
    world.stable(session_ms=10_000)
    world.pass_ms(10_000)
    assert world.state() == "Empty"
    joined = world.join()
    world.pass_ms(0)
    assert joined.result.generation_id == 3
