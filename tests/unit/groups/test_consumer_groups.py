"""Consumer groups of the new protocol: epochs, reconciliation, fencing, what is durable."""

import pytest
from kio.schema.errors import ErrorCode

from tests.unit.groups.consumers import NOTHING, Member, all_owned, settle
from tests.unit.groups.world import World

ALL = list(range(12))


def test_the_first_member_is_given_everything_at_once() -> None:
    world = World()
    member = Member(world, "a")
    result = member.beat()
    assert (result.error, result.member_epoch, member.has()) == (ErrorCode.none, 1, ALL)
    assert world.coordinator.describe_consumers("g").state == "Stable"


def test_a_partition_is_given_on_only_when_its_owner_has_let_go() -> None:
    world = World()
    first, second = Member(world, "a"), Member(world, "b")
    first.beat()
    second.beat()
    assert second.has() == []
    told = first.send().result
    assert sum(map(len, told.assigned.values())) == 6
    assert second.beat().assigned is None, "nobody has confirmed anything"
    first.hear(told)
    first.beat()
    second.beat()
    assert len(first.has()) == len(second.has()) == 6
    assert all_owned(first, second) == ALL


def test_who_says_nothing_of_what_it_owns_has_confirmed_nothing() -> None:
    world = World()
    first, second = Member(world, "a"), Member(world, "b")
    first.beat()
    second.beat()
    first.send()
    first.epoch = 1
    first.send(owned=None)
    second.beat()
    assert second.has() == []


def test_members_that_come_together_cost_one_assignment() -> None:
    world = World()
    world.hold = True
    members = [Member(world, f"m{number}") for number in range(20)]
    slots = [member.send() for member in members]
    world.hold = False
    world.release()
    for member, slot in zip(members, slots, strict=True):
        member.hear(slot.result)
    assert world.coordinator.describe_consumers("g").epoch == 2, "one for the first, one for the rest"
    settle(*members)
    assert all_owned(*members) == ALL


def test_a_member_that_leaves_frees_its_partitions() -> None:
    world = World()
    first, second = Member(world, "a"), Member(world, "b")
    settle(first, second)
    assert first.leave().member_epoch == -1
    settle(second)
    assert second.has() == ALL


def test_a_silent_member_is_out_after_its_session() -> None:
    world = World()
    first, second = Member(world, "a"), Member(world, "b")
    settle(first, second)
    for _ in range(10):
        world.pass_ms(world.config.consumer_session_timeout_ms // 9)
        second.beat()
    settle(second)
    assert second.has() == ALL
    assert first.beat().error is ErrorCode.unknown_member_id


def test_a_member_that_does_not_let_go_in_time_is_out() -> None:
    world = World()
    first, second = Member(world, "a", rebalance_ms=5_000), Member(world, "b")
    first.beat()
    second.beat()
    first.send()
    world.pass_ms(4_000)
    first.epoch = 1
    assert first.send(owned={world.topics.id_of("t"): frozenset(ALL)}).error is ErrorCode.none
    world.pass_ms(1_000)
    assert first.beat().error is ErrorCode.unknown_member_id
    settle(second)
    assert second.has() == ALL


@pytest.mark.parametrize(("epoch", "error"), [(7, "fenced_member_epoch"), (1, "fenced_member_epoch")])
def test_other_epochs_are_fenced(epoch: int, error: str) -> None:
    world = World()
    first, second = Member(world, "a"), Member(world, "b")
    settle(first, second)
    assert first.send(member_epoch=epoch, owned={world.topics.id_of("t"): frozenset(ALL)}).error.name == error


def test_a_lost_answer_is_told_again() -> None:
    world = World()
    member = Member(world, "a")
    member.send()
    lost = world.coordinator.describe_consumers("g").members[0].current.member_epoch
    assert lost == 1
    assert member.beat().assigned, "it joins again, with the id it has"
    other = Member(world, "b")
    other.beat()
    member.beat()
    before = member.epoch
    member.send()  # lets go; the answer, with the next epoch, is lost
    member.epoch = before
    assert member.beat().error is ErrorCode.none


def test_who_is_not_there_is_told_so() -> None:
    world = World()
    member = Member(world, "a")
    assert member.send(member_epoch=3).error is ErrorCode.group_id_not_found
    member.beat()
    assert Member(world, "b").send(member_epoch=3).error is ErrorCode.unknown_member_id
    assert Member(world, "b").send(member_epoch=-1).error is ErrorCode.unknown_member_id


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"group_id": ""}, "invalid_request"),
        ({"member_epoch": -3}, "invalid_request"),
        ({"member_epoch": -2}, "invalid_request"),
        ({"rebalance_timeout_ms": None}, "invalid_request"),
        ({"topic_names": None}, "invalid_request"),
        ({"owned": None}, "invalid_request"),
        ({"instance_id": ""}, "invalid_request"),
        ({"member_id": "m" * 40_000}, "invalid_request"),
        ({"server_assignor": "mine"}, "unsupported_assignor"),
        ({"topic_regex": "("}, "invalid_regular_expression"),
        ({"topic_regex": "(a{900}){900}"}, "invalid_regular_expression"),
        ({"topic_regex": r"(a)\1"}, "invalid_regular_expression"),
        ({"topic_regex": "a" * 5_000}, "invalid_regular_expression"),
    ],
)
def test_what_is_no_heartbeat_changes_nothing(changes: dict[str, object], error: str) -> None:
    world = World()
    assert Member(world, "a").send(**changes).error.name == error
    assert world.log == []


def test_a_static_member_comes_back_to_what_it_had() -> None:
    world = World()
    first, second = Member(world, "a", instance="i"), Member(world, "b")
    settle(first, second)
    had = first.has()
    rival = Member(world, "c", instance="i")
    assert rival.send().error is ErrorCode.unreleased_instance_id
    assert first.leave(-2).member_epoch == -2
    settle(second)
    assert second.has() != ALL, "the instance is awaited"
    settle(rival, second)
    assert rival.has() == had
    assert first.send(member_epoch=2).error is ErrorCode.fenced_instance_id


def test_a_static_member_that_stays_away_is_out_after_its_session() -> None:
    world = World()
    first, second = Member(world, "a", instance="i"), Member(world, "b")
    settle(first, second)
    first.leave(-2)
    for _ in range(10):
        world.pass_ms(world.config.consumer_session_timeout_ms // 9)
        second.beat()
    settle(second)
    assert second.has() == ALL


def test_topics_that_grow_come_or_go_are_noticed_at_the_next_heartbeat() -> None:
    world = World()
    member = Member(world, "a", "t", "later")
    member.beat()
    world.topics.set("t", 14)
    settle(member)
    assert member.has() == list(range(14))
    world.topics.set("later", 2)
    settle(member)
    assert member.has("later") == [0, 1]
    world.topics.set("t", 0)
    settle(member)
    assert [len(indexes) for indexes in member.owned.values()] == [2]


def test_patterns_match_whole_names_of_the_groups_own_instance() -> None:
    world = World()
    mine, other = "iaaaaaaaaaaa.orders", "ibbbbbbbbbbb.orders"
    for name in (mine, other, "orders", "iaaaaaaaaaaa.orders.dead"):
        world.topics.set(name, 2)
    member = Member(world, "a", group="iaaaaaaaaaaa.g", regex=".*orders")
    settle(member)
    assert set(member.owned) == {world.topics.id_of(mine)}
    world.topics.set("iaaaaaaaaaaa.new.orders", 1)
    settle(member)
    assert len(member.owned) == 2


def test_range_gives_runs() -> None:
    world = World()
    members = [Member(world, name, assignor="range") for name in "abc"]
    settle(*members)
    assert [member.has() for member in members] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


def test_heartbeats_of_a_settled_group_write_nothing() -> None:
    world = World()
    members = [Member(world, name) for name in "abc"]
    settle(*members)
    written = len(world.log)
    settle(*members)
    assert len(world.log) == written


def heard_of_sooner(world: World, *members: Member) -> list[Member]:
    """The other ones are heard of as ever."""
    config = world.config
    soon = [member for member in members if member.interval_ms == config.mover_heartbeat_interval_ms]
    assert {member.interval_ms for member in members if member not in soon} == {
        config.consumer_heartbeat_interval_ms
    }
    return soon


def test_whom_one_more_would_wait_for_is_heard_of_sooner() -> None:
    """Of 40 partitions twelve members have 4 or 3: a thirteenth gets one of each of three."""
    world = World()
    world.topics.set("t", 40)
    members = [Member(world, f"m{number:02}") for number in range(12)]
    settle(*members)
    soon = heard_of_sooner(world, *members)
    one_more = Member(world, "n")
    one_more.beat()
    for member in soon:
        member.beat()
        member.beat()
    one_more.beat()
    assert len(one_more.has()) == 3, "nobody else had to say anything"


@pytest.mark.parametrize("at", range(12))
def test_who_would_be_given_what_one_had_that_leaves_is_heard_of_sooner(at: int) -> None:
    """Whoever of the twelve leaves, what it had is read as soon as those few have been heard of."""
    world = World()
    world.topics.set("t", 40)
    members = [Member(world, f"m{number:02}") for number in range(12)]
    settle(*members)
    soon = heard_of_sooner(world, *members)
    assert len(soon) < len(members)
    leaving = members.pop(at)
    leaving.leave()
    for member in soon:
        if member is not leaving:
            member.beat()
    assert sum(len(member.has()) for member in members) == 40, "nobody else had to say anything"


def test_an_instance_has_so_many_heartbeats_that_come_sooner() -> None:
    """60 of one instance at a time, in whatever groups: 0.6 s between them. Another's are as before."""
    world = World(mover_heartbeat_interval_ms=100)
    world.topics.set("iaaaaaaaaaaa.t", 12)
    world.topics.set("ibbbbbbbbbbb.t", 12)
    groups = [
        [Member(world, name, "iaaaaaaaaaaa.t", group=f"iaaaaaaaaaaa.g{number}") for name in "ab"]
        for number in range(30)
    ]
    neighbour = Member(world, "a", "ibbbbbbbbbbb.t", group="ibbbbbbbbbbb.g")
    for members in groups:
        settle(*members)
    settle(neighbour, *groups[0])
    assert {member.interval_ms for member in groups[0]} == {600}
    assert neighbour.interval_ms == 100
    for members in groups[1:]:
        for member in members:
            member.leave()
    settle(*groups[0])
    assert {member.interval_ms for member in groups[0]} == {100}


def test_members_that_join_wait_for_others() -> None:
    """Each that comes is waited for anew, the first as well: there is one assignment, nobody lets go."""
    world = World(gather_ms_max=1_000)
    members = [Member(world, f"m{number}") for number in range(12)]
    slots = []
    for member in members:
        slots.append(member.send())
        world.pass_ms(world.config.gather_ms_min - 1)
    assert all(slot.is_parked for slot in slots)
    world.pass_ms(1)
    for member, slot in zip(members, slots, strict=True):
        member.hear(slot.result)
    assert world.coordinator.describe_consumers("g").epoch == 1
    assert all_owned(*members) == ALL


def test_members_wait_for_others_for_a_second_at_most() -> None:
    world = World(gather_ms_max=1_000)
    slots = []
    for number in range(26):
        slots.append(Member(world, f"m{number}").send())
        world.pass_ms(40)
    assert all(slot.error is ErrorCode.none for slot in slots[:25]), "those of 0 to 960 ms"
    assert slots[25].is_parked, "it began to wait at 1,000 ms"


def test_who_joins_a_group_waits_by_its_size() -> None:
    world = World(gather_ms_max=1_000)
    first, *others = (Member(world, f"m{number}") for number in range(20))
    joining = first.send()
    world.pass_ms(world.config.gather_ms_min)
    first.hear(joining.result)
    slots = [member.send() for member in others]
    assert first.beat().error is ErrorCode.none, "who says nothing new is answered meanwhile"
    world.pass_ms(world.config.gather_ms_min)
    assert all(slot.is_parked for slot in slots), "12 partitions and a member: a millisecond more"
    world.pass_ms(1)
    for member, slot in zip(others, slots, strict=True):
        member.hear(slot.result)
    assert world.coordinator.describe_consumers("g").epoch == 2
    settle(first, *others)
    assert all_owned(first, *others) == ALL


def gathered(world: World, *members: Member) -> None:
    """They join together and are given what is theirs."""
    slots = [member.send() for member in members]
    world.pass_ms(world.config.gather_ms_max)
    for member, slot in zip(members, slots, strict=True):
        member.hear(slot.result)
    settle(*members)


def test_members_that_leave_cost_one_assignment() -> None:
    world = World(gather_ms_max=1_000)
    members = [Member(world, f"m{number}") for number in range(10)]
    gathered(world, *members)
    slots = [member.send(member_epoch=-1) for member in members[1:]]
    assert all(slot.is_parked for slot in slots)
    world.pass_ms(60)
    assert all(slot.error is ErrorCode.none for slot in slots)
    assert world.coordinator.describe_consumers("g").epoch == 2
    settle(members[0])
    assert members[0].has() == list(range(12))


def test_who_leaves_and_is_back_at_once_has_a_session() -> None:
    """Both are decided together: it is put out when it falls silent, as everybody is."""
    world = World(gather_ms_max=1_000)
    member = Member(world, "a")
    gathered(world, member)
    member.send(member_epoch=-1)
    member.epoch, member.owned = 0, {}
    gathered(world, member)
    world.pass_ms(world.config.consumer_session_timeout_ms + 1_000)
    assert world.coordinator.describe_consumers("g").members == ()


def test_members_that_fall_silent_cost_one_assignment() -> None:
    world = World(gather_ms_max=1_000)
    members = [Member(world, f"m{number}") for number in range(10)]
    gathered(world, *members)
    for member in members:
        member.beat()
        world.pass_ms(5)
    world.pass_ms(world.config.consumer_session_timeout_ms - 50)
    assert world.coordinator.describe_consumers("g").epoch == 1
    world.pass_ms(150)
    described = world.coordinator.describe_consumers("g")
    assert (described.epoch, described.members) == (2, ())


def test_a_member_that_changes_its_mind_again_and_again_costs_an_assignment_each_gather() -> None:
    """As it is said by each heartbeat, 5 ms after the one before: a second of it is one assignment."""
    world = World(gather_ms_max=1_000)
    world.topics.set("u", 1)
    fickle = Member(world, "a")
    gathered(world, fickle)
    for number in range(200):
        fickle.send(topic_names=frozenset({"t", "u"} if number % 2 else {"u"}))
        world.pass_ms(5)
    assert world.coordinator.describe_consumers("g").epoch == 2


def test_assignments_of_an_instance_wait_for_each_other() -> None:
    """Of 400 partitions each takes 40 ms: the tenth group waits for nine, a neighbour's does not."""
    world = World(gather_ms_max=1_000)
    world.topics.set("iaaaaaaaaaaa.t", 400)
    world.topics.set("ibbbbbbbbbbb.t", 400)
    groups = [Member(world, "a", "iaaaaaaaaaaa.t", group=f"iaaaaaaaaaaa.g{number}") for number in range(10)]
    neighbour = Member(world, "a", "ibbbbbbbbbbb.t", group="ibbbbbbbbbbb.g")
    gathered(world, *groups, neighbour)
    second = [Member(world, "b", f"{one.group[:12]}.t", group=one.group) for one in (*groups, neighbour)]
    slots = [member.send() for member in second]
    world.pass_ms(world.config.gather_ms_min + 40)
    assert [slot.is_parked for slot in slots] == [False] + [True] * 9 + [False]
    world.pass_ms(8 * 40)
    assert [slot.is_parked for slot in slots] == [False] * 9 + [True] + [False]
    world.pass_ms(40)
    assert not slots[9].is_parked


def test_what_is_said_of_many_members_is_counted_once_each() -> None:
    """What bounds names and patterns looks at the group's own count, also when members change and go."""
    world = World(group_names_max=5)
    first, second = Member(world, "a", "t", "u", "v"), Member(world, "b", "t", "w")
    settle(first, second)
    assert Member(world, "c", "t").send().error is ErrorCode.invalid_request
    assert first.beat(topic_names=frozenset({"t"})).error is ErrorCode.none
    assert Member(world, "c", "t", "x").send().error is ErrorCode.none
    assert Member(world, "d", "t").send().error is ErrorCode.invalid_request
    second.leave()
    assert Member(world, "d", "t", "y").send().error is ErrorCode.none


def test_groups_that_begin_meanwhile_are_counted() -> None:
    """They are none yet while their first members wait for others."""
    world = World(gather_ms_max=1_000, groups_per_instance_max=2)
    slots = [Member(world, "a", group=f"iaaaaaaaaaaa.g{number}").send() for number in range(5)]
    world.pass_ms(1_000)
    errors = sorted(slot.error.name for slot in slots)
    assert errors == ["group_max_size_reached"] * 3 + ["none"] * 2


def test_a_join_waits_also_behind_records_in_flight() -> None:
    world = World(gather_ms_max=1_000)
    slots = []
    for name in "ab":
        slots.append(Member(world, name).send())
        world.hold = True
        world.pass_ms(60)
    world.hold = False
    world.release()
    assert slots[1].is_parked, "it waits for others, too"
    world.pass_ms(60)
    assert world.coordinator.describe_consumers("g").epoch == 2


@pytest.mark.parametrize("is_there", [True, False])
def test_a_purge_ends_the_wait_of_those_that_join(is_there: bool) -> None:
    world = World(gather_ms_max=1_000)
    if is_there:
        Member(world, "a", group="iaaaaaaaaaaa.g").send()
        world.pass_ms(60)
    joining = Member(world, "b", group="iaaaaaaaaaaa.g").send()
    neighbour = Member(world, "b", group="ibbbbbbbbbbb.g").send()
    world.run(world.coordinator.purge_instance("iaaaaaaaaaaa", world.now))
    assert joining.error is ErrorCode.group_id_not_found
    world.pass_ms(60)
    assert neighbour.error is ErrorCode.none
    world.run(world.coordinator.purge_instance("ibbbbbbbbbbb", world.now))
    assert world.coordinator.next_deadline_ms() is None
    assert world.coordinator.list_groups() == []


def test_members_on_their_way_are_told_to_come_again_soon() -> None:
    world = World()
    first, second = Member(world, "a"), Member(world, "b")
    first.beat()
    second.beat()
    assert second.interval_ms == world.config.unsettled_heartbeat_interval_ms


def test_a_restart_loses_nothing() -> None:
    world = World()
    first, second, away = Member(world, "a"), Member(world, "b"), Member(world, "c", instance="i")
    settle(first, second, away)
    away.leave(-2)
    before = world.coordinator.describe_consumers("g")
    world.restart()
    assert world.coordinator.describe_consumers("g") == before
    written = len(world.log)
    assert first.beat().error is ErrorCode.none
    assert len(world.log) == written
    world.pass_ms(world.config.consumer_session_timeout_ms)
    assert first.beat().error is ErrorCode.unknown_member_id


def test_the_time_to_let_go_goes_on_after_a_restart() -> None:
    world = World()
    first, second = Member(world, "a", rebalance_ms=5_000), Member(world, "b")
    first.beat()
    second.beat()
    first.send()
    world.restart()
    world.pass_ms(5_000)
    assert first.beat().error is ErrorCode.unknown_member_id


def test_records_that_are_refused_change_nothing() -> None:
    world = World()
    member = Member(world, "a")
    world.hold = True
    slots = [member.send(), Member(world, "b").send()]
    world.refuse(ErrorCode.not_enough_replicas)
    assert slots[0].error is ErrorCode.coordinator_not_available
    world.hold = False
    while world.held:
        world.release()
    assert slots[1].error is ErrorCode.none
    assert [each.member_id for each in world.coordinator.describe_consumers("g").members] == ["b"]


def test_a_session_that_could_not_be_ended_ends_later() -> None:
    world = World()
    Member(world, "a").beat()
    world.hold = True
    world.pass_ms(world.config.consumer_session_timeout_ms)
    world.refuse(ErrorCode.kafka_storage_error)
    world.hold = False
    assert world.coordinator.describe_consumers("g").members
    world.pass_ms(world.config.consumer_session_timeout_ms)
    assert not world.coordinator.describe_consumers("g").members


def test_who_waits_when_the_coordinator_moves_is_sent_away() -> None:
    world = World()
    world.hold = True
    slots = [Member(world, "a").send(), Member(world, "b").send()]
    for reply in world.coordinator.resigned(world.held):
        reply.token(reply.result)
    assert [slot.error for slot in slots] == [ErrorCode.not_coordinator] * 2


def test_an_overdue_join_is_told_so_and_lands_all_the_same() -> None:
    world = World()
    world.hold = True
    slot, waits = Member(world, "a").send(), Member(world, "b").send()
    late, effects = world.coordinator.overdue(world.held[0], ErrorCode.request_timed_out, world.now)
    world.held[0] = late
    world.run(effects)
    assert slot.error is ErrorCode.coordinator_not_available
    world.hold = False
    world.release()
    assert waits.error is ErrorCode.none
    assert len(world.coordinator.describe_consumers("g").members) == 2


def test_offsets_want_the_members_epoch() -> None:
    world = World()
    member = Member(world, "a")
    assert world.commit(4) is ErrorCode.none, "by an administrator, before there is a group"
    member.beat()
    assert world.commit(5) is ErrorCode.unknown_member_id
    assert world.commit(5, member_id="a", generation=member.epoch) is ErrorCode.none
    assert world.commit(6, member_id="a", generation=member.epoch + 1) is ErrorCode.stale_member_epoch
    assert world.commit(6, member_id="b", generation=member.epoch) is ErrorCode.unknown_member_id
    assert world.offset() == 5
    assert world.coordinator.member_fault("g", "a", member.epoch) is None
    assert world.coordinator.member_fault("g", "a", 0) is ErrorCode.stale_member_epoch
    assert world.coordinator.member_fault("g", None, -1) is None


def test_offsets_of_a_group_with_members_do_not_expire() -> None:
    world = World()
    member = Member(world, "a")
    member.beat()
    world.commit(5, member_id="a", generation=member.epoch)
    member.leave()
    member.beat()
    for _ in range(20):
        world.pass_ms(30_000)
        member.beat()
    world.now_ms += world.config.offsets_retention_ms
    world.run(world.coordinator.sweep(world.now))
    assert world.offset() == 5
    member.leave()
    world.run(world.coordinator.sweep(world.now))
    assert world.offset() is None
    assert world.coordinator.list_groups() == []


def test_a_group_is_deleted_when_nobody_is_in_it() -> None:
    world = World()
    member = Member(world, "a")
    member.beat()
    assert world.delete_group() is ErrorCode.non_empty_group
    assert world.delete_offset("t").errors["t", 0] is ErrorCode.group_subscribed_to_topic
    member.leave()
    assert [(each.state, each.group_type) for each in world.coordinator.list_groups()] == [
        ("Empty", "consumer")
    ]
    assert world.delete_group() is ErrorCode.none
    assert world.coordinator.describe_consumers("g") is None
    world.restart()
    assert world.coordinator.list_groups() == []


def test_an_empty_classic_group_becomes_a_consumer_group_and_back() -> None:
    world = World()
    (classic,) = world.stable()
    world.commit(5, member_id=classic.member_id, generation=classic.generation_id)
    member = Member(world, "a")
    assert member.send().error is ErrorCode.group_id_not_found, "a classic member is in it"
    world.leave(classic.member_id)
    assert member.beat().error is ErrorCode.none
    assert world.offset() == 5
    assert world.state() == "Dead", "it is no classic group"
    assert world.join().error is ErrorCode.inconsistent_group_protocol
    member.leave()
    assert world.join().error is ErrorCode.coordinator_load_in_progress
    world.stable()
    assert world.offset() == 5
    world.restart()
    assert world.state() == "Stable"
    assert world.coordinator.describe_consumers("g") is None


def test_an_instance_has_so_many_members_groups_and_bytes() -> None:
    world = World(group_size_max=2, groups_per_instance_max=1, instance_bytes_max=20_000)
    group = "iaaaaaaaaaaa.g"
    for name in "ab":
        assert Member(world, name, group=group).beat().error is ErrorCode.none
    assert Member(world, "c", group=group).send().error is ErrorCode.group_max_size_reached
    assert Member(world, "c", group="iaaaaaaaaaaa.h").send().error is ErrorCode.group_max_size_reached
    assert Member(world, "c", group="ibbbbbbbbbbb.h").send().error is ErrorCode.none
    names = frozenset(f"topic{number}" for number in range(1_000))
    big = Member(world, "d", *names, group="ibbbbbbbbbbb.h")
    assert big.send().error is ErrorCode.group_max_size_reached
    assert len(world.coordinator.describe_consumers("ibbbbbbbbbbb.h").members) == 1


def test_a_group_has_so_many_patterns() -> None:
    world = World()
    members = [Member(world, f"m{number}", regex=f"t{number}.*") for number in range(9)]
    errors = [member.send().error for member in members]
    assert errors == [ErrorCode.none] * 8 + [ErrorCode.invalid_regular_expression]


def test_a_purge_takes_members_and_their_deadlines() -> None:
    world = World()
    Member(world, "a", group="iaaaaaaaaaaa.g").beat()
    world.run(world.coordinator.purge_instance("iaaaaaaaaaaa", world.now))
    assert world.coordinator.list_groups() == []
    assert world.coordinator.next_deadline_ms() is None


def test_a_join_and_a_leave_that_waited_together() -> None:
    world = World()
    world.hold = True
    Member(world, "a").send()
    member = Member(world, "b")
    joined = member.send()
    left = member.send(member_epoch=-1, owned=NOTHING)
    world.hold = False
    world.release()
    assert joined.error is ErrorCode.unknown_member_id
    assert left.error is ErrorCode.none
    assert [each.member_id for each in world.coordinator.describe_consumers("g").members] == ["a"]
