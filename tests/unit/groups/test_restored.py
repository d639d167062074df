"""What a restart finds of a group, what refused appends look like, and what members are told again."""

import struct

import pytest
from kio.schema.errors import ErrorCode

from broker.groups.failures import failure_replies
from broker.groups.messages import (
    AfterCommit,
    AfterGroupDeletion,
    AfterHousekeeping,
    AfterMarker,
    AfterOffsetsDeletion,
    Append,
    CommitResult,
    OffsetsDeletionResult,
)
from broker.groups.subscription import subscribed_topics
from tests.unit.groups.world import Slot, World, subscription


def _pair(world: World) -> tuple[str, str]:
    """A stable group of a static leader, who has come back under another id, and a member."""
    began = world.join(instance="one", client="a", session_ms=7_000, rebalance_ms=8_000)
    world.pass_ms(world.config.initial_rebalance_delay_ms)
    first = began.result
    second = world.join(client="b")
    again = world.join(first.member_id, instance="one", client="a", session_ms=7_000, rebalance_ms=8_000)
    leader, member = again.result, second.result
    assigned = {leader.member_id: b"for a", member.member_id: b"for b"}
    assert world.sync(leader, assigned, instance="one").error is ErrorCode.none
    assert world.sync(member).error is ErrorCode.none
    returned = world.join(instance="one", client="a", session_ms=7_000, rebalance_ms=8_000).result
    assert returned.error is ErrorCode.none and returned.member_id != leader.member_id
    return returned.member_id, member.member_id


def test_a_restart_finds_the_group_as_it_was() -> None:
    world = World()
    leader_id, member_id = _pair(world)
    before = world.coordinator.describe("g")
    assert {
        each.member_id: (each.group_instance_id, each.client_id, each.assignment) for each in before.members
    } == {
        leader_id: ("one", "a", b"for a"),
        member_id: (None, "b", b"for b"),
    }
    assert {each.metadata for each in before.members} == {subscription("t")}
    world.restart()
    assert world.coordinator.describe("g") == before
    generation = world.join(member_id).result.generation_id
    assert world.heartbeat(member_id, generation) is ErrorCode.none
    assert world.heartbeat(leader_id, generation, instance="one") is ErrorCode.none


def test_a_restart_knows_who_leads_and_how_long_each_may_be_silent() -> None:
    world = World()
    leader_id, member_id = _pair(world)
    world.restart()
    told = world.join(member_id).result
    assert (told.error, told.leader, told.protocol_name) == (ErrorCode.none, leader_id, "range")
    assert told.protocol_type == "consumer"
    world.pass_ms(7_001)
    assert [each.member_id for each in world.coordinator.describe("g").members] == [member_id]
    world = World()
    leader_id, member_id = _pair(world)
    world.restart()
    assert world.join(leader_id, instance="one").is_parked, "a leader that joins again wants a new assignment"


def test_who_asks_again_in_a_stable_group_is_told_all_of_it() -> None:
    world = World()
    _, member_id = _pair(world)
    joined = world.join(member_id).result
    synced = world.sync(joined, protocol_type="consumer", protocol_name="range").result
    assert (synced.error, synced.protocol_type, synced.protocol_name, synced.assignment) == (
        ErrorCode.none,
        "consumer",
        "range",
        b"for b",
    )


def test_a_group_that_is_not_there_is_dead() -> None:
    found = World().coordinator.describe("nothing")
    assert (found.group_id, found.state, found.protocol_type, found.protocol_name, found.members) == (
        "nothing",
        "Dead",
        "",
        "",
        (),
    )


@pytest.mark.parametrize(
    ("error", "to_members", "to_commits"),
    [
        (
            ErrorCode.not_enough_replicas,
            ErrorCode.coordinator_not_available,
            ErrorCode.coordinator_not_available,
        ),
        (ErrorCode.message_too_large, ErrorCode.unknown_server_error, ErrorCode.invalid_commit_offset_size),
        (ErrorCode.not_leader_or_follower, ErrorCode.not_coordinator, ErrorCode.not_coordinator),
        (ErrorCode.policy_violation, ErrorCode.policy_violation, ErrorCode.policy_violation),
    ],
)
def test_who_waits_for_an_append_hears_why_it_failed(
    error: ErrorCode, to_members: ErrorCode, to_commits: ErrorCode
) -> None:
    token = Slot()
    told = {("t", 0): ErrorCode.none, ("t", 1): ErrorCode.offset_metadata_too_large}
    for then, expected in (
        (AfterCommit(token, told), CommitResult(told | {("t", 0): to_commits})),
        (AfterOffsetsDeletion(token, told), OffsetsDeletionResult(to_members, {})),
        (AfterGroupDeletion(token), to_members),
        (AfterMarker(token), error),
    ):
        (reply,) = failure_replies(Append("g", (), then), error)
        assert (reply.token, reply.result) == (token, expected)
    assert failure_replies(Append("g", (), AfterHousekeeping()), error) == []


def test_expiry_passes_groups_that_are_withheld() -> None:
    """They are an absent instance's: the next group's offsets go all the same."""
    world = World()
    for group in ("a", "b", "c"):
        world.commit(5, group=group)
    world.withheld |= {"a", "b"}
    world.pass_ms(world.config.offsets_retention_ms + 1)
    world.run(world.coordinator.sweep(world.now))
    assert [world.offset(group=group) for group in ("a", "b", "c")] == [5, 5, None]


@pytest.mark.parametrize("topics", [(), ("t",), ("t", ""), ("", "topic")])
def test_every_cut_of_a_subscription_names_no_topics(topics: tuple[str, ...]) -> None:
    whole = subscription(*topics)
    names_end = len(whole) - 4  # the size of the user data
    assert subscribed_topics(whole) == set(topics)
    assert subscribed_topics(whole[:names_end]) == set(topics)
    for end in range(names_end):
        assert subscribed_topics(whole[:end]) is None
    assert subscribed_topics(struct.pack(">h", -1) + whole[2:]) is None
    assert subscribed_topics(whole[:2] + struct.pack(">i", -1) + whole[6:]) is None
