"""Offsets committed inside transactions: pending until the marker, aged by where their record stands."""

import pytest
from kio.schema.errors import ErrorCode

from broker.groups.messages import Marker, OffsetToCommit, Producer, TransactionalCommit
from broker.groups.records import OffsetRecord
from tests.unit.groups.world import Slot, World
from wire.control import EndMarker

P, Q = Producer(1, 0), Producer(2, 0)


def _commit_parked(
    world: World,
    producer: Producer,
    offset: int,
    *,
    group: str = "g",
    partition: int = 0,
    member_id: str = "",
    generation: int = -1,
    metadata: str = "",
) -> Slot:
    slot = Slot()
    one = OffsetToCommit("t", partition, offset, -1, metadata)
    request = TransactionalCommit(group, generation, member_id, None, producer, None, (one,))
    world.run(world.coordinator.commit_in_transaction(request, slot, world.now))
    return slot


def _commit(world: World, producer: Producer, offset: int, **options: object) -> ErrorCode:
    slot = _commit_parked(world, producer, offset, **options)  # type: ignore[arg-type]
    (error,) = slot.result.errors.values()
    assert isinstance(error, ErrorCode)
    return error


def _end(world: World, producer: Producer, *, commit: bool) -> ErrorCode:
    slot = Slot()
    marker = Marker(producer, EndMarker(commit, 3))
    world.run(world.coordinator.end_transaction(marker, slot, world.now))
    return slot.error


def _is_unstable(world: World, group: str = "g") -> bool:
    return world.coordinator.is_unstable(group, "t", 0)


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("commit", [False, True])
def test_an_offset_waits_for_its_marker(commit: bool, restarted: bool) -> None:
    world = World()
    world.commit(1)
    assert _commit(world, P, 5) is ErrorCode.none
    if restarted:
        world.restart()
    assert (world.offset(), _is_unstable(world)) == (1, True)
    assert _end(world, P, commit=commit) is ErrorCode.none
    assert (world.offset(), _is_unstable(world)) == (5 if commit else 1, False)
    world.restart()
    assert (world.offset(), _is_unstable(world)) == (5 if commit else 1, False)


def test_what_is_on_its_way_to_the_log_is_unstable_already() -> None:
    world = World()
    world.hold = True
    slot = _commit_parked(world, P, 5)
    assert slot.is_parked and _is_unstable(world)
    world.refuse(ErrorCode.not_enough_replicas)
    assert list(slot.result.errors.values()) == [ErrorCode.coordinator_not_available]
    assert not _is_unstable(world)


@pytest.mark.parametrize("restarted", [False, True])
def test_what_was_written_later_wins_whatever_ends_first(restarted: bool) -> None:
    world = World()
    _commit(world, P, 5)
    _commit(world, Q, 7)
    _end(world, Q, commit=True)
    assert world.offset() == 7
    if restarted:
        world.restart()
    _end(world, P, commit=True)
    assert world.offset() == 7, "compaction would keep the record that stands later"
    _commit(world, P, 8)
    world.commit(9)
    _end(world, P, commit=True)
    assert world.offset() == 9
    world.restart()
    assert world.offset() == 9


def test_the_last_of_several_in_one_transaction_counts() -> None:
    world = World()
    _commit(world, P, 5)
    _commit(world, P, 6)
    _commit(world, P, 1, partition=1)
    _end(world, P, commit=True)
    assert (world.offset(), world.offset(partition=1)) == (6, 1)


def test_a_marker_ends_only_its_producers_transaction() -> None:
    world = World()
    _commit(world, P, 5, group="g")
    _commit(world, Q, 6, group="h")
    _end(world, P, commit=True)
    assert (world.offset(), world.offset(group="h")) == (5, None)
    assert _is_unstable(world, "h")
    assert _end(world, Producer(99, 0), commit=True) is ErrorCode.none, "nothing of it is here"


def test_a_member_is_checked_when_it_is_named() -> None:
    world = World()
    (member,) = world.stable()
    mine = {"member_id": member.member_id, "generation": 1}
    assert _commit(world, P, 5, **mine) is ErrorCode.none
    assert _commit(world, P, 5, **mine | {"generation": 9}) is ErrorCode.illegal_generation
    assert _commit(world, P, 5, **mine | {"member_id": "x"}) is ErrorCode.unknown_member_id
    assert _commit(world, P, 5) is ErrorCode.none, "older clients name none"
    assert _commit(world, P, 5, group="never", generation=3, member_id="x") is ErrorCode.illegal_generation


def test_metadata_is_bounded_here_too() -> None:
    world = World()
    assert _commit(world, P, 5, metadata="m" * 5_000) is ErrorCode.offset_metadata_too_large


def test_a_group_of_pending_offsets_alone_is_there_and_does_not_expire() -> None:
    world = World()
    _commit(world, P, 5)
    assert world.state() == "Empty"
    world.now_ms += world.config.offsets_retention_ms * 2
    world.run(world.coordinator.sweep(world.now))
    assert world.state() == "Empty" and _is_unstable(world)
    _end(world, P, commit=False)
    assert world.state() == "Dead"


def test_an_offset_that_is_being_replaced_does_not_expire() -> None:
    world = World()
    world.commit(1)
    _commit(world, P, 5)
    world.now_ms += world.config.offsets_retention_ms * 2
    world.run(world.coordinator.sweep(world.now))
    assert world.offset() == 1
    _end(world, P, commit=False)
    world.run(world.coordinator.sweep(world.now))
    assert world.offset() is None


@pytest.mark.parametrize("restarted", [False, True])
def test_what_is_deleted_does_not_come_back_with_a_marker(restarted: bool) -> None:
    world = World()
    for group in ("deleted", "forgotten", "iaaaaaaaaaaa.purged"):
        world.commit(1, group=group)
        _commit(world, P, 5, group=group)
    assert world.delete_group("deleted") is ErrorCode.none
    world.run(world.coordinator.forget_topics(["t"], world.now))
    world.run(world.coordinator.purge_instance("iaaaaaaaaaaa", world.now))
    assert OffsetRecord("deleted", "t", 0, None) in world.log
    if restarted:
        world.restart()
    _end(world, P, commit=True)
    for group in ("deleted", "forgotten", "iaaaaaaaaaaa.purged"):
        assert world.offset(group=group) is None
        assert not _is_unstable(world, group)


def test_one_instance_does_not_fill_the_memory_with_pending_offsets() -> None:
    world = World(instance_bytes_max=2_000)
    group = "iaaaaaaaaaaa.g"
    errors = {_commit(world, P, 1, group=group, partition=number) for number in range(20)}
    assert ErrorCode.invalid_commit_offset_size in errors
    assert _commit(world, P, 1, group="ibbbbbbbbbbb.g") is ErrorCode.none
    _end(world, P, commit=False)
    assert _commit(world, P, 1, group=group) is ErrorCode.none


def test_who_waits_for_a_marker_learns_what_became_of_it() -> None:
    world = World()
    _commit(world, P, 5)
    world.hold = True
    slot = Slot()
    marker = Marker(P, EndMarker(True, 3))
    world.run(world.coordinator.end_transaction(marker, slot, world.now))
    world.refuse(ErrorCode.not_enough_replicas)
    assert slot.error is ErrorCode.not_enough_replicas
    slot = Slot()
    world.run(world.coordinator.end_transaction(marker, slot, world.now))
    late, effects = world.coordinator.overdue(world.held.pop(), ErrorCode.request_timed_out, world.now)
    world.run(effects)
    assert slot.error is ErrorCode.request_timed_out
    world.held.append(late)
    world.release()
    assert world.offset() == 5
