"""Transactions of version 2 (KIP-890): each ends with a bump of the epoch, or with a new producer id."""

import pytest
from kio.schema.errors import ErrorCode

from broker.transactions.messages import EndResult, InitResult, Producer
from broker.transactions.state import EPOCH_MAX, LAST_USABLE_EPOCH, State
from tests.unit.transactions.world import A, B, World

TIMEOUT_MS = 60_000


def _at_epoch(world: World, epoch: int) -> Producer:
    """A producer in this epoch, which the log has, too."""
    producer = world.producer()
    entry = world.coordinator._registry.get("t")
    assert entry is not None and entry.value is not None
    entry.value = entry.value._replace(producer_epoch=epoch)
    return producer._replace(producer_epoch=epoch)


def _next(producer: Producer) -> Producer:
    return producer._replace(producer_epoch=producer.producer_epoch + 1)


@pytest.mark.parametrize("commit", [True, False])
def test_markers_have_the_next_epoch_and_so_has_the_producer(commit: bool) -> None:
    world = World()
    producer = world.producer()
    assert world.join(producer, A) is ErrorCode.none
    assert world.join(producer, A, B) is ErrorCode.none
    assert world.bump(producer, commit=commit) == EndResult(ErrorCode.none, _next(producer))
    sent = world.markers[-1]
    assert (sent.producer, sent.is_commit, sent.partitions) == (_next(producer), commit, {A, B})
    assert world.join(_next(producer)) is ErrorCode.concurrent_transactions, "markers are missing"
    world.write_markers()
    assert world.join(producer) is ErrorCode.producer_fenced
    assert world.join(_next(producer)) is ErrorCode.none


@pytest.mark.parametrize("fails_over", [True, False])
@pytest.mark.parametrize("commit", [True, False])
def test_a_repeated_end_gets_the_same_answer(commit: bool, fails_over: bool) -> None:
    world = World()
    producer = world.producer()
    other = ErrorCode.invalid_txn_state if commit else ErrorCode.producer_fenced
    world.join(producer)
    world.bump(producer, commit=commit)
    if fails_over:
        world.fail_over()
    assert world.bump(producer, commit=commit).error is ErrorCode.concurrent_transactions
    assert world.bump(producer, commit=not commit).error is other
    world.write_markers()
    if fails_over:
        world.fail_over()
    assert world.bump(producer, commit=commit) == EndResult(ErrorCode.none, _next(producer))
    assert world.bump(producer, commit=not commit).error is other
    world.join(_next(producer))
    assert world.bump(producer, commit=commit).error is ErrorCode.producer_fenced


def test_without_partitions_only_the_epoch_changes() -> None:
    world = World()
    producer = world.producer()
    assert world.bump(producer, commit=True).error is ErrorCode.invalid_txn_state
    assert world.bump(producer, commit=False) == EndResult(ErrorCode.none, _next(producer))
    assert not world.markers and world.state() is State.COMPLETE_ABORT
    assert world.bump(_next(producer), commit=True).error is ErrorCode.invalid_txn_state


@pytest.mark.parametrize("fails_over", [True, False])
def test_epochs_that_are_used_up_end_in_a_new_producer_id(fails_over: bool) -> None:
    world = World()
    producer = _at_epoch(world, LAST_USABLE_EPOCH)
    assert world.join(producer) is ErrorCode.none
    told = world.bump(producer)
    successor = told.producer
    assert told.error is ErrorCode.none and successor.producer_epoch == 0
    assert successor.producer_id != producer.producer_id
    assert world.markers[-1].producer == (producer.producer_id, EPOCH_MAX)
    if fails_over:
        world.fail_over()
    assert world.join(successor) is ErrorCode.concurrent_transactions
    assert world.bump(successor, commit=False).error is ErrorCode.concurrent_transactions
    assert world.init(expected=successor).error is ErrorCode.concurrent_transactions
    world.write_markers()
    if fails_over:
        world.fail_over()
    assert world.bump(producer) == EndResult(ErrorCode.none, successor), "asked again"
    assert world.join(producer) is ErrorCode.invalid_producer_id_mapping
    assert world.join(successor) is ErrorCode.none
    assert world.bump(successor) == EndResult(ErrorCode.none, _next(successor))


def test_nobody_is_the_producer_of_the_last_epoch() -> None:
    world = World()
    producer = _at_epoch(world, LAST_USABLE_EPOCH)
    world.join(producer)
    world.pass_ms(TIMEOUT_MS)
    world.write_markers()
    last = producer._replace(producer_epoch=EPOCH_MAX)
    assert world.describe().producer == last
    assert world.bump(producer, commit=False).error is ErrorCode.producer_fenced
    assert world.bump(last, commit=False).error is ErrorCode.producer_fenced
    assert world.add(last) is ErrorCode.producer_fenced
    assert world.abort(last) is ErrorCode.producer_fenced
    assert world.producer().producer_epoch == 0


@pytest.mark.parametrize("fails_over", [True, False])
def test_who_took_too_long_goes_on_behind_its_abort(fails_over: bool) -> None:
    world = World()
    producer = world.producer()
    world.join(producer)
    world.pass_ms(TIMEOUT_MS)
    assert world.bump(producer, commit=True).error is ErrorCode.producer_fenced, "Java begins anew"
    assert world.bump(producer, commit=False).error is ErrorCode.concurrent_transactions
    if fails_over:
        world.fail_over()
    world.write_markers()
    assert world.bump(producer, commit=True).error is ErrorCode.producer_fenced
    assert world.bump(producer, commit=False) == EndResult(ErrorCode.none, _next(producer))
    assert world.join(_next(producer)) is ErrorCode.none


def test_whose_id_was_taken_over_is_fenced() -> None:
    world = World()
    zombie = world.producer()
    world.join(zombie)
    world.bump(zombie)
    world.write_markers()
    zombie = _next(zombie)
    current = world.producer()
    assert world.bump(zombie, commit=False).error is ErrorCode.producer_fenced
    assert world.add(current) is ErrorCode.none
    assert world.commit(current) is ErrorCode.none
    world.write_markers()
    assert world.bump(zombie).error is ErrorCode.producer_fenced, "what ended was of version 1"
    assert world.bump(current._replace(producer_id=1)).error is ErrorCode.invalid_producer_id_mapping
    assert world.bump_parked(current, True, "other").error is ErrorCode.invalid_producer_id_mapping
    assert world.bump_parked(current, True, "").error is ErrorCode.invalid_request


@pytest.mark.parametrize("fails_over", [True, False])
def test_who_was_fenced_by_its_successor_does_not_go_on(fails_over: bool) -> None:
    world = World()
    zombie = world.producer()
    world.join(zombie)
    assert world.init().error is ErrorCode.concurrent_transactions
    if fails_over:
        world.fail_over()
    for commit in (True, False):
        assert world.bump(zombie, commit=commit).error is ErrorCode.producer_fenced
    world.write_markers()
    for commit in (True, False):
        assert world.bump(zombie, commit=commit).error is ErrorCode.producer_fenced
    assert world.join(zombie) is ErrorCode.producer_fenced
    successor = world.producer()
    assert successor == _next(_next(zombie)), "behind the epoch of the markers"
    assert world.join(successor) is ErrorCode.none
    assert world.bump(successor) == EndResult(ErrorCode.none, _next(successor))


@pytest.mark.parametrize("fails_over", [True, False])
@pytest.mark.parametrize("bumps", [True, False])
def test_a_producer_id_that_is_used_up_does_not_come_back(bumps: bool, fails_over: bool) -> None:
    world = World()
    used_up = _at_epoch(world, LAST_USABLE_EPOCH)
    world.join(used_up)
    successor = world.bump(used_up).producer
    world.write_markers()
    if not fails_over:
        assert world.init(expected=used_up) == InitResult(ErrorCode.none, successor), "its answer was lost"
    world.join(successor) if bumps else world.add(successor)
    world.bump(successor) if bumps else world.commit(successor)
    world.write_markers()
    if fails_over:
        world.fail_over()
    assert world.init(expected=used_up).error is ErrorCode.producer_fenced
    current = Producer(*world.describe().producer)
    assert world.bump(used_up).error is ErrorCode.invalid_producer_id_mapping
    entry = world.coordinator._registry.get("t")
    assert entry is not None and entry.value is not None
    entry.value = entry.value._replace(producer_epoch=LAST_USABLE_EPOCH)
    assert world.init(expected=used_up).error is ErrorCode.producer_fenced, "an epoch is one of its id"
    assert world.init(expected=current._replace(producer_epoch=-1)).error is ErrorCode.producer_fenced


def test_an_end_that_the_log_refuses_or_is_slow_with() -> None:
    world = World()
    producer = world.producer()
    world.join(producer)
    world.hold = True
    slot = world.bump_parked(producer, True)
    assert world.bump(producer).error is ErrorCode.concurrent_transactions
    world.refuse(ErrorCode.not_enough_replicas)
    assert slot.error is ErrorCode.coordinator_not_available
    slot = world.bump_parked(producer, True)
    world.let_wait()
    assert slot.error is ErrorCode.coordinator_not_available
    world.hold = False
    world.release()
    world.write_markers()
    assert world.bump(producer) == EndResult(ErrorCode.none, _next(producer))


def test_older_and_newer_clients_take_turns_with_an_id() -> None:
    world = World()
    older = world.producer()
    assert world.add(older) is ErrorCode.none
    assert world.commit(older) is ErrorCode.none
    world.write_markers()
    assert world.join(older) is ErrorCode.none
    newer = world.bump(older).producer
    world.write_markers()
    assert world.add(newer) is ErrorCode.none
    assert world.commit(newer) is ErrorCode.none
    world.write_markers()
    assert world.commit(newer) is ErrorCode.none, "no bump: it is the same attempt again"
    assert world.producer() == _next(newer)
