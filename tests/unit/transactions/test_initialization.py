"""InitProducerId: epochs, fencing, going on after an error (KIP-360), timeouts, expiry, bounds."""

import pytest
from kio.schema.errors import ErrorCode

from broker.transactions.id_totals import IdTotals
from broker.transactions.messages import Producer
from broker.transactions.registry import Registry
from broker.transactions.state import EPOCH_MAX, LAST_USABLE_EPOCH, State
from broker.transactions.transaction_config import TransactionConfig
from tests.unit.transactions.world import A, World


def _exhausted(world: World) -> Producer:
    """A producer in its last epoch."""
    producer = world.producer()
    entry = world.coordinator._registry.get("t")
    assert entry is not None and entry.value is not None
    entry.value = entry.value._replace(producer_epoch=LAST_USABLE_EPOCH)
    return producer._replace(producer_epoch=LAST_USABLE_EPOCH)


def test_each_producer_gets_the_next_epoch_and_fences_the_former() -> None:
    world = World()
    former = world.producer()
    current = world.producer()
    assert current == (former.producer_id, former.producer_epoch + 1)
    assert world.add(former) is ErrorCode.producer_fenced
    assert world.add(current) is ErrorCode.none


def test_an_open_transaction_is_aborted_first() -> None:
    world = World()
    zombie = world.producer()
    world.add(zombie, A)
    assert world.init().error is ErrorCode.concurrent_transactions
    sent = world.markers[-1]
    assert (sent.is_commit, sent.producer.producer_epoch) == (False, zombie.producer_epoch + 1)
    assert world.commit(zombie) is ErrorCode.producer_fenced
    assert world.init().error is ErrorCode.concurrent_transactions
    world.write_markers()
    assert world.producer().producer_epoch == zombie.producer_epoch + 2


def test_aborting_first_fails_with_the_log() -> None:
    world = World()
    producer = world.producer()
    world.add(producer)
    world.hold = True
    slot = world.init_parked()
    world.refuse(ErrorCode.not_enough_replicas)
    assert slot.result.error is ErrorCode.coordinator_not_available
    world.hold = False
    assert world.commit(producer) is ErrorCode.none, "nothing has changed"


def test_a_producer_goes_on_with_the_next_epoch_and_may_ask_twice() -> None:
    world = World()
    producer = world.producer()
    bumped = world.producer(expected=producer)
    assert bumped == (producer.producer_id, producer.producer_epoch + 1)
    assert world.producer(expected=producer) == bumped, "the first answer was lost"
    assert world.producer(expected=bumped).producer_epoch == bumped.producer_epoch + 1
    assert world.init(expected=producer).error is ErrorCode.producer_fenced


def test_who_was_replaced_does_not_go_on() -> None:
    world = World()
    former = world.producer()
    world.producer()
    assert world.init(expected=former).error is ErrorCode.producer_fenced
    stranger = former._replace(producer_id=1)
    assert world.init(expected=stranger).error is ErrorCode.producer_fenced


def test_an_id_that_was_forgotten_begins_anew_also_for_who_brings_one() -> None:
    world = World()
    assert world.init(expected=Producer(77, 3)).producer == (1001, 0)


def test_exhausted_epochs_bring_a_new_producer_id() -> None:
    world = World()
    last = _exhausted(world)
    renewed = world.producer()
    assert renewed.producer_id != last.producer_id
    assert renewed.producer_epoch == 0
    assert world.add(last) is ErrorCode.invalid_producer_id_mapping


def test_going_on_over_the_last_epoch_may_be_asked_twice() -> None:
    world = World()
    last = _exhausted(world)
    renewed = world.producer(expected=last)
    assert renewed.producer_epoch == 0
    assert world.producer(expected=last) == renewed


def test_the_last_epoch_of_all_is_for_fencing() -> None:
    world = World()
    last = _exhausted(world)
    world.add(last)
    assert world.init().error is ErrorCode.concurrent_transactions
    assert world.markers[-1].producer.producer_epoch == EPOCH_MAX
    world.write_markers()
    assert world.producer().producer_epoch == 0


@pytest.mark.parametrize("timeout_ms", [-1, 0, 900_001])
def test_timeouts_are_checked(timeout_ms: int) -> None:
    assert World().init(timeout_ms=timeout_ms).error is ErrorCode.invalid_transaction_timeout


def test_ids_that_no_record_holds() -> None:
    assert World().init("").error is ErrorCode.invalid_request
    assert World().init("é" * 20_000).error is ErrorCode.invalid_request


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced() -> None:
    world = World()
    producer = world.producer(timeout_ms=10_000)
    world.add(producer)
    world.pass_ms(9_999)
    assert world.state() is State.ONGOING
    world.pass_ms(1)
    assert (world.state(), world.markers[-1].is_commit) == (State.PREPARE_ABORT, False)
    assert world.commit(producer) is ErrorCode.producer_fenced
    world.write_markers()
    assert world.state() is State.COMPLETE_ABORT


def test_a_timeout_counts_from_the_first_partition_also_at_the_next_coordinator() -> None:
    world = World()
    producer = world.producer(timeout_ms=10_000)
    world.add(producer, A)
    world.pass_ms(6_000)
    world.fail_over()
    world.pass_ms(3_999)
    assert world.state() is State.ONGOING
    world.pass_ms(1)
    assert world.state() is State.PREPARE_ABORT


def test_a_refused_commit_does_not_bring_the_timeout_forward() -> None:
    world = World()
    producer = world.producer(timeout_ms=10_000)
    world.add(producer)
    world.hold = True
    world.end_parked(producer, True)
    world.refuse(ErrorCode.not_enough_replicas)
    world.hold = False
    world.pass_ms(9_999)
    assert world.state() is State.ONGOING
    world.pass_ms(1)
    assert world.state() is State.PREPARE_ABORT


def test_an_abort_that_the_log_refuses_is_tried_again() -> None:
    world = World()
    world.add(world.producer(timeout_ms=10_000))
    world.hold = True
    world.pass_ms(10_000)
    world.refuse(ErrorCode.not_enough_replicas)
    world.hold = False
    world.pass_ms(world.config.retry_ms)
    assert world.state() is State.PREPARE_ABORT


def test_ids_expire_when_nothing_is_open() -> None:
    world = World()
    world.producer("idle")
    busy = world.producer("t", timeout_ms=900_000)
    world.add(busy)
    world.now_ms += world.config.id_expiration_ms
    world.run(world.coordinator.sweep(world.now))
    assert world.coordinator.known.describe("idle") is None
    assert world.state() is State.ONGOING
    world.fail_over()
    assert world.coordinator.known.describe("idle") is None
    assert world.producer("idle").producer_epoch == 0


def test_an_id_whose_tombstone_is_refused_belongs_to_the_client_that_returns() -> None:
    world = World()
    world.producer()
    world.now_ms += world.config.id_expiration_ms
    world.hold = True
    world.run(world.coordinator.sweep(world.now))
    world.refuse(ErrorCode.not_enough_replicas)
    world.hold = False
    producer = world.producer()
    assert world.add(producer) is ErrorCode.none
    world.pass_ms(10 * world.config.retry_ms)
    assert world.state() is State.ONGOING, "its open transaction is not forgotten"
    assert world.commit(producer) is ErrorCode.none
    world.write_markers()
    assert world.state() is State.COMPLETE_COMMIT


def test_a_tombstone_that_was_refused_is_written_by_the_next_sweep() -> None:
    world = World()
    world.producer()
    world.now_ms += world.config.id_expiration_ms
    world.hold = True
    world.run(world.coordinator.sweep(world.now))
    world.refuse(ErrorCode.not_enough_replicas)
    world.hold = False
    world.run(world.coordinator.sweep(world.now))
    assert world.coordinator.known.describe("t") is None


def test_nobody_uses_an_id_of_a_deleted_instance_while_its_tombstone_is_refused() -> None:
    world = World()
    name = "iaaaaaaaaaaa.t"
    producer = world.producer(name)
    world.hold = True
    world.run(world.coordinator.purge_instance("iaaaaaaaaaaa", world.now))
    world.refuse(ErrorCode.not_enough_replicas)
    assert world.init(name).error is ErrorCode.concurrent_transactions
    assert world.add(producer, transactional_id=name) is ErrorCode.concurrent_transactions
    world.hold = False
    world.pass_ms(world.config.retry_ms)
    assert world.coordinator.known.describe(name) is None


def test_an_instance_that_is_deleted_takes_its_ids_along() -> None:
    world = World()
    mine, other = "iaaaaaaaaaaa.t", "ibbbbbbbbbbb.t"
    world.add(world.producer(mine), transactional_id=mine)
    world.producer(other)
    world.hold = True
    pending = world.init_parked("iaaaaaaaaaaa.u")
    world.run(world.coordinator.purge_instance("iaaaaaaaaaaa", world.now))
    while world.held:
        world.release()
    assert pending.result.error is ErrorCode.none, "it came before"
    listed = [each.transactional_id for each in world.coordinator.known.list_transactions()]
    assert listed == [other]
    world.hold = False
    world.fail_over()
    assert [each.transactional_id for each in world.coordinator.known.list_transactions()] == [other]


def test_one_instance_does_not_fill_the_memory_of_all() -> None:
    world = World(ids_per_instance_max=2)
    for name in ("a", "b"):
        world.producer(f"iaaaaaaaaaaa.{name}")
    assert world.init("iaaaaaaaaaaa.c").error is ErrorCode.policy_violation
    assert world.init("iaaaaaaaaaaa.a").error is ErrorCode.none
    assert world.init("ibbbbbbbbbbb.c").error is ErrorCode.none
    for number in range(3):
        assert world.init(f"standalone-{number}").error is ErrorCode.none


def test_partitions_count_an_instances_ids_together() -> None:
    """Else an instance could have so many in each partition of the log."""
    config, usage = TransactionConfig(ids_per_instance_max=2), IdTotals()
    one, other = Registry(config, usage), Registry(config, usage)
    one.create("iaaaaaaaaaaa.a")
    other.create("iaaaaaaaaaaa.b")
    assert not one.may_create("iaaaaaaaaaaa.c") and not other.may_create("iaaaaaaaaaaa.c")
    assert one.may_create("ibbbbbbbbbbb.c")
    other.release()
    assert one.may_create("iaaaaaaaaaaa.c"), "what is coordinated elsewhere counts there"


def test_an_id_of_which_no_record_came_to_be_is_nothing() -> None:
    world = World(ids_per_instance_max=1)
    world.hold = True
    slot = world.init_parked("iaaaaaaaaaaa.a")
    world.refuse(ErrorCode.not_enough_replicas)
    assert slot.result.error is ErrorCode.coordinator_not_available
    world.hold = False
    assert world.init("iaaaaaaaaaaa.b").error is ErrorCode.none


def test_only_ids_that_rested_for_long_expire() -> None:
    world = World()
    world.producer("iaaaaaaaaaaa.old")
    world.now_ms += 1
    world.producer("iaaaaaaaaaaa.young")
    world.hold = True
    slot = world.init_parked("iaaaaaaaaaaa.busy")
    world.now_ms += world.config.id_expiration_ms - 1
    before = len(world.held)
    world.run(world.coordinator.sweep(world.now))
    assert [each.record.transactional_id for each in world.held[before:]] == ["iaaaaaaaaaaa.old"]
    world.hold = False
    while world.held:
        world.release()
    assert slot.result.error is ErrorCode.none
    known = {each.transactional_id for each in world.coordinator.known.list_transactions()}
    assert known == {"iaaaaaaaaaaa.young", "iaaaaaaaaaaa.busy"}


def test_nobody_goes_on_with_anothers_id_however_high_its_epoch() -> None:
    world = World()
    world.producer()
    assert world.init(expected=Producer(1, LAST_USABLE_EPOCH)).error is ErrorCode.producer_fenced


def test_an_epoch_that_was_fenced_for_a_timeout_does_not_go_on() -> None:
    world = World()
    producer = world.producer(timeout_ms=10_000)
    current = world.producer(expected=producer, timeout_ms=10_000)
    world.add(current)
    world.pass_ms(10_000)
    world.write_markers()
    assert world.init(expected=producer).error is ErrorCode.producer_fenced, "no longer the epoch before"
    assert world.init(expected=current).error is ErrorCode.producer_fenced


def test_an_answer_that_was_lost_may_be_asked_for_again_and_again() -> None:
    world = World()
    producer = world.producer()
    bumped = world.producer(expected=producer)
    assert [world.producer(expected=producer) for _ in range(3)] == [bumped] * 3


def test_each_id_that_goes_makes_room_for_one_more() -> None:
    usage = IdTotals()
    registry = Registry(TransactionConfig(ids_per_instance_max=2), usage)
    other = Registry(TransactionConfig(ids_per_instance_max=2), usage)
    names = [f"iaaaaaaaaaaa.{number}" for number in range(4)]
    registry.create(names[0])
    registry.create(names[1])
    registry.remove(names[0])
    assert (usage.ids("iaaaaaaaaaaa"), registry.may_create(names[2])) == (1, True)
    registry.create(names[2])
    assert not registry.may_create(names[3])
    registry.remove(names[1])
    registry.remove(names[2])
    assert (usage.ids("iaaaaaaaaaaa"), dict(registry.by_instance)) == (0, {})
    registry.create(names[0])
    other.create(names[1])
    other.release()
    assert usage.ids("iaaaaaaaaaaa") == 1, "what is coordinated elsewhere counts there"
