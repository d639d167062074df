"""Committed offsets: who may commit, what comes back, what expires, what is deleted; and recovery."""

from kio.schema.errors import ErrorCode

from broker.groups.group_config import GroupConfig
from broker.groups.records import GroupRecord, OffsetAndMetadata, OffsetRecord
from tests.unit.groups.world import CONFIG, EPOCH_MS, Slot, World, subscription

_DAY_MS = 24 * 3_600_000
_WEEK_MS = 7 * _DAY_MS


def _expire(world: World) -> None:
    world.run(world.coordinator.sweep(world.now))


def test_a_simple_consumer_commits_without_a_group() -> None:
    world = World()
    assert world.commit(42, metadata="note", leader_epoch=3) is ErrorCode.none
    assert world.coordinator.fetch_offset("g", "t", 0) == OffsetAndMetadata(42, 3, "note", EPOCH_MS)
    assert world.state() == "Empty"
    assert world.coordinator.describe("g").protocol_type == ""
    assert world.offset(partition=1) is None
    assert world.coordinator.fetch_all_offsets("none") == {}


def test_the_answer_waits_until_the_offset_is_durable() -> None:
    world = World()
    world.hold = True
    slot = world.commit_parked(7)
    assert slot.is_parked
    assert world.offset() is None
    world.release()
    assert list(slot.result.errors.values()) == [ErrorCode.none]
    assert world.offset() == 7


def test_an_offset_that_cannot_be_stored_is_refused_and_changes_nothing() -> None:
    world = World()
    world.commit(1)
    world.hold = True
    for error, answered in (
        (ErrorCode.kafka_storage_error, ErrorCode.not_coordinator),
        (ErrorCode.message_too_large, ErrorCode.invalid_commit_offset_size),
    ):
        slot = world.commit_parked(2)
        world.refuse(error)
        assert list(slot.result.errors.values()) == [answered]
    assert world.offset() == 1


def test_a_refused_first_commit_leaves_no_group() -> None:
    world = World()
    world.hold = True
    world.commit_parked(2)
    world.refuse(ErrorCode.kafka_storage_error)
    assert world.state() == "Dead"


def test_members_commit_with_their_generation() -> None:
    world = World()
    (member,) = world.stable()
    assert world.commit(1, member_id=member.member_id, generation=1) is ErrorCode.none
    assert world.commit(2, member_id=member.member_id, generation=0) is ErrorCode.illegal_generation
    assert world.commit(2, member_id=member.member_id, generation=2) is ErrorCode.illegal_generation
    assert world.commit(2, member_id="x", generation=1) is ErrorCode.unknown_member_id
    assert world.commit(2) is ErrorCode.unknown_member_id, "not while the group has members"
    assert world.commit(2, group="none", generation=1, member_id="x") is ErrorCode.illegal_generation
    assert world.offset() == 1


def test_commits_during_a_rebalance() -> None:
    world = World()
    (member,) = world.stable()
    newcomer = world.join()
    assert world.commit(5, member_id=member.member_id, generation=1) is ErrorCode.none, "members gather: fine"
    joined = world.join(member.member_id)
    assert newcomer.result.generation_id == 2
    completing = world.commit(6, member_id=joined.result.member_id, generation=2)
    assert completing is ErrorCode.rebalance_in_progress
    assert world.commit(6, member_id=joined.result.member_id, generation=1) is ErrorCode.illegal_generation


def test_metadata_has_a_bound_in_bytes() -> None:
    world = World()
    assert world.commit(1, metadata="x" * 4096) is ErrorCode.none
    assert world.commit(2, metadata="x" * 4097) is ErrorCode.offset_metadata_too_large
    assert world.commit(2, metadata="é" * 2049) is ErrorCode.offset_metadata_too_large
    assert world.offset() == 1


def test_restart_brings_everything_back() -> None:
    world = World()
    leader, follower = world.stable(2)
    world.commit(10, member_id=leader.member_id, generation=2)
    world.commit(11, member_id=leader.member_id, generation=2, metadata="m")
    world.commit(5, group="simple")
    world.restart()
    assert world.state() == "Stable"
    assert world.offset() == 11
    assert world.offset(group="simple") == 5
    assert world.heartbeat(leader.member_id, 2) is ErrorCode.none
    assert world.sync(follower).result.assignment == follower.member_id.encode()
    assert world.commit(12, member_id=follower.member_id, generation=2) is ErrorCode.none


def test_sessions_run_from_the_restart() -> None:
    world = World()
    leader, follower = world.stable(2, session_ms=10_000)
    world.restart()
    world.pass_ms(9_000)
    world.heartbeat(leader.member_id, 2)
    world.pass_ms(1_000)
    assert world.heartbeat(leader.member_id, 2) is ErrorCode.rebalance_in_progress
    assert world.heartbeat(follower.member_id, 2) is ErrorCode.unknown_member_id
    assert world.join(leader.member_id).result.generation_id == 3


def test_a_rebalance_cut_short_by_a_restart_starts_over() -> None:
    world = World()
    (leader,) = world.stable()
    newcomer = world.join()
    again = world.join(leader.member_id)
    assert newcomer.result.generation_id == 2
    world.restart()
    assert world.sync(again.result, {leader.member_id: b"x"}).error is ErrorCode.illegal_generation
    assert world.sync(newcomer.result).error is ErrorCode.unknown_member_id
    assert world.join(leader.member_id).result.generation_id == 2


def test_offsets_are_deleted_unless_subscribed() -> None:
    world = World()
    (member,) = world.stable(protocols={"range": subscription("t")})
    for topic in ("t", "old"):
        world.commit(1, topic=topic, member_id=member.member_id, generation=1)
    result = world.delete_offset("t")
    assert result.errors == {("t", 0): ErrorCode.group_subscribed_to_topic}
    assert world.delete_offset("old").errors == {("old", 0): ErrorCode.none}
    assert world.delete_offset("never").errors == {("never", 0): ErrorCode.none}
    assert (world.offset("t"), world.offset("old")) == (1, None)
    assert world.log[-1] == OffsetRecord("g", "old", 0, None)


def test_a_group_without_offsets_can_be_deleted_until_the_next_sweep() -> None:
    world = World()
    for group in ("g", "swept", "used", "iaaaaaaaaaaa.purged"):
        world.commit(1, group=group)
        world.delete_offset("t", group=group)
        assert world.state(group) == "Empty"
    assert world.delete_group() is ErrorCode.none
    assert world.delete_group() is ErrorCode.group_id_not_found
    world.run(world.coordinator.purge_instance("iaaaaaaaaaaa", world.now))
    assert world.state("iaaaaaaaaaaa.purged") == "Dead"
    world.commit(2, group="used")
    world.run(world.coordinator.sweep(world.now))
    assert (world.state("swept"), world.state("used")) == ("Dead", "Empty")
    assert world.offset(group="used") == 2


def test_offsets_of_unreadable_or_other_groups_are_not_deleted() -> None:
    world = World()
    world.stable(group="odd", protocols={"range": b"\x00"})
    assert world.delete_offset("t", group="odd").errors == {("t", 0): ErrorCode.group_subscribed_to_topic}
    world.stable(group="connect", protocol_type="connect", protocols={"v1": b""})
    assert world.delete_offset("t", group="connect").error is ErrorCode.non_empty_group
    assert world.delete_offset("t", group="none").error is ErrorCode.group_id_not_found


def test_only_empty_groups_are_deleted() -> None:
    world = World()
    (member,) = world.stable()
    world.commit(1, member_id=member.member_id, generation=1)
    assert world.delete_group() is ErrorCode.non_empty_group
    world.leave(member.member_id)
    assert world.delete_group() is ErrorCode.none
    assert world.log[-2:] == [OffsetRecord("g", "t", 0, None), GroupRecord("g", None)]
    assert world.state() == "Dead"
    assert world.offset() is None
    assert world.delete_group() is ErrorCode.group_id_not_found
    world.restart()
    assert world.state() == "Dead"


def test_deleting_a_group_somebody_is_about_to_join() -> None:
    world = World()
    pending = world.join(requires_id=True)
    assert world.delete_group() is ErrorCode.none
    assert world.state() == "Dead"
    assert world.join(pending.result.member_id).error is ErrorCode.unknown_member_id
    assert world.coordinator.next_deadline_ms() is None


def test_deletion_that_cannot_be_stored_changes_nothing() -> None:
    world = World()
    world.commit(1)
    world.hold = True
    slot = Slot()
    world.run(world.coordinator.delete_group("g", slot, world.now))
    world.refuse(ErrorCode.kafka_storage_error)
    assert slot.error is ErrorCode.not_coordinator
    assert world.offset() == 1
    assert world.state() == "Empty"


def test_a_deleted_topic_takes_its_offsets_along() -> None:
    world = World()
    for group in ("a", "b"):
        for topic in ("gone", "stays"):
            world.commit(1, group=group, topic=topic)
    world.commit(1, group="only", topic="gone")
    world.run(world.coordinator.forget_topics(["gone"], world.now))
    for group in ("a", "b"):
        assert (world.offset("gone", group=group), world.offset("stays", group=group)) == (None, 1)
    assert world.state("only") == "Dead", "nothing is left of a group that never had members"


def test_a_deleted_instance_takes_its_groups_along() -> None:
    world = World()
    mine, other = "iaaaaaaaaaaa.g", "ibbbbbbbbbbb.g"
    (member,) = world.stable(group=mine)
    world.commit(1, group=mine, member_id=member.member_id, generation=1)
    parked = world.join(group=mine)
    world.commit(1, group=other)
    world.run(world.coordinator.purge_instance("iaaaaaaaaaaa", world.now))
    assert parked.error is ErrorCode.unknown_member_id
    assert world.state(mine) == "Dead"
    assert world.offset(group=mine) is None
    assert world.offset(group=other) == 1
    assert world.coordinator.next_deadline_ms() is None
    world.restart()
    assert [one.group_id for one in world.coordinator.list_groups()] == [other]
    world.run(world.coordinator.purge_instance("iaaaaaaaaaaa", world.now))


def test_offsets_of_an_empty_group_expire_a_week_after_it_became_empty() -> None:
    world = World()
    (member,) = world.stable()
    world.commit(1, member_id=member.member_id, generation=1)
    world.pass_ms(0)
    for _ in range(3):
        world.now_ms += 3 * _DAY_MS  # without waking the coordinator: the member is alive all the time
        world.heartbeat(member.member_id, 1)
    _expire(world)
    assert world.offset() == 1, "subscribed topics do not expire"
    world.leave(member.member_id)
    world.now_ms += _WEEK_MS - 1
    _expire(world)
    assert world.offset() == 1
    world.now_ms += 1
    _expire(world)
    assert world.offset() is None
    assert world.state() == "Dead"
    assert world.log[-1] == GroupRecord("g", None)


def test_offsets_a_simple_consumer_committed_expire_by_commit() -> None:
    world = World()
    world.commit(1, partition=0)
    world.now_ms += 1000
    world.commit(1, partition=1)
    world.now_ms += _WEEK_MS - 1000
    _expire(world)
    assert (world.offset(partition=0), world.offset(partition=1)) == (None, 1)
    world.now_ms += 1000
    _expire(world)
    assert world.state() == "Dead"


def test_offsets_of_a_held_instance_do_not_expire() -> None:
    world = World()
    world.commit(1)
    world.withheld.add("g")
    world.now_ms += 3 * _WEEK_MS
    _expire(world)
    assert world.offset() == 1
    world.withheld.clear()
    _expire(world)
    assert world.offset() is None


def test_topics_no_longer_subscribed_expire_while_the_group_lives() -> None:
    world = World()
    (member,) = world.stable(protocols={"range": subscription("t")}, session_ms=1_800_000)
    for topic in ("t", "old"):
        world.commit(1, topic=topic, member_id=member.member_id, generation=1)
    world.now_ms += _WEEK_MS
    _expire(world)
    assert (world.offset("t"), world.offset("old")) == (1, None)
    assert world.state() == "Stable"


def test_offsets_of_groups_that_are_not_consumers_do_not_expire_while_they_live() -> None:
    world = World()
    (member,) = world.stable(protocol_type="connect", protocols={"v1": b""})
    world.commit(1, member_id=member.member_id, generation=1)
    world.now_ms += _WEEK_MS
    _expire(world)
    assert world.offset() == 1


def test_a_retention_given_by_the_client_counts_instead() -> None:
    world = World()
    world.commit(1, retention_ms=1000)
    world.commit(1, partition=1, retention_ms=2 * _WEEK_MS)
    world.now_ms += 1000
    world.restart()
    _expire(world)
    assert (world.offset(), world.offset(partition=1)) == (None, 1)
    world.now_ms += _WEEK_MS
    _expire(world)
    assert world.offset(partition=1) == 1


def test_a_young_commit_to_an_old_empty_group_is_kept() -> None:
    world = World()
    (member,) = world.stable()
    world.leave(member.member_id)
    world.now_ms += _WEEK_MS - 1
    assert world.commit(9) is ErrorCode.none
    world.now_ms += 1000
    _expire(world)
    assert world.offset() == 9


def test_an_empty_group_without_offsets_goes_with_the_next_look() -> None:
    world = World()
    (member,) = world.stable()
    world.leave(member.member_id)
    _expire(world)
    assert world.state() == "Dead"


def test_the_bounds_of_the_settings() -> None:
    assert CONFIG.faults() == []
    bad = GroupConfig(
        session_timeout_min_ms=5,
        session_timeout_max_ms=4,
        initial_rebalance_delay_ms=-1,
        offsets_partitions=0,
        group_size_max=0,
    )
    assert len(bad.faults()) == 4
