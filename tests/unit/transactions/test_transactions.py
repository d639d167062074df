"""A transaction's life: partitions, decision, markers, end; and what each request gets at each point."""

from kio.schema.errors import ErrorCode

from broker.transactions.messages import DescribedTransaction, ListedTransaction
from broker.transactions.state import State
from tests.unit.transactions.world import A, B, World


def test_a_transaction_from_begin_to_end() -> None:
    world = World()
    producer = world.producer()
    assert producer == (1001, 0)
    assert world.state() is State.EMPTY
    assert world.add(producer, A) is ErrorCode.none
    assert world.add(producer, A, B) is ErrorCode.none
    assert (world.state(), world.describe().partitions) == (State.ONGOING, frozenset({A, B}))
    assert world.commit(producer) is ErrorCode.none
    (sent,) = world.markers
    assert (sent.producer, sent.coordinator_epoch, sent.is_commit) == (producer, 5, True)
    assert sent.partitions == {A, B}
    world.write_markers(A)
    assert (world.state(), world.describe().partitions) == (State.PREPARE_COMMIT, frozenset({B}))
    world.write_markers(B)
    assert (world.state(), world.describe().partitions) == (State.COMPLETE_COMMIT, frozenset())
    assert world.add(producer, B) is ErrorCode.none
    assert world.describe().partitions == {B}
    assert world.abort(producer) is ErrorCode.none
    assert not world.markers[-1].is_commit
    world.write_markers()
    assert world.state() is State.COMPLETE_ABORT


def test_what_is_known_already_needs_no_record() -> None:
    world = World()
    producer = world.producer()
    world.add(producer, A, B)
    before = len(world.batches)
    assert world.add(producer, A) is ErrorCode.none
    assert len(world.batches) == before


def test_ending_twice_and_the_other_way() -> None:
    world = World()
    producer = world.producer()
    assert world.commit(producer) is ErrorCode.invalid_txn_state
    world.add(producer)
    world.commit(producer)
    assert world.commit(producer) is ErrorCode.concurrent_transactions
    assert world.abort(producer) is ErrorCode.invalid_txn_state
    assert world.add(producer) is ErrorCode.concurrent_transactions
    assert world.init().error is ErrorCode.concurrent_transactions
    world.write_markers()
    assert world.commit(producer) is ErrorCode.none
    assert world.abort(producer) is ErrorCode.invalid_txn_state


def test_who_is_not_the_producer() -> None:
    world = World()
    producer = world.producer()
    other = producer._replace(producer_id=producer.producer_id + 1)
    assert world.add(other) is ErrorCode.invalid_producer_id_mapping
    assert world.commit(other) is ErrorCode.invalid_producer_id_mapping
    for epoch in (-1, 1):
        stranger = producer._replace(producer_epoch=epoch)
        assert world.add(stranger) is ErrorCode.producer_fenced
        assert world.commit(stranger) is ErrorCode.producer_fenced
    assert world.add(producer, transactional_id="never") is ErrorCode.invalid_producer_id_mapping
    assert world.add(producer, transactional_id="") is ErrorCode.invalid_request


def test_one_record_of_an_id_at_a_time() -> None:
    world = World()
    producer = world.producer()
    world.hold = True
    first = world.add_parked(producer, A)
    assert first.is_parked
    assert world.add_parked(producer, B).error is ErrorCode.concurrent_transactions
    assert world.end_parked(producer, True).error is ErrorCode.concurrent_transactions
    assert world.init_parked().result.error is ErrorCode.concurrent_transactions
    world.release()
    assert first.error is ErrorCode.none


def test_the_decision_is_durable_before_it_is_told_and_before_markers_go_out() -> None:
    world = World()
    producer = world.producer()
    world.add(producer)
    world.hold = True
    slot = world.end_parked(producer, True)
    assert slot.is_parked and not world.markers
    world.release()
    assert slot.error is ErrorCode.none
    assert len(world.markers) == 1


def test_a_refused_record_changes_nothing() -> None:
    world = World()
    producer = world.producer()
    world.hold = True
    slot = world.add_parked(producer)
    world.refuse(ErrorCode.not_enough_replicas)
    assert slot.error is ErrorCode.coordinator_not_available
    assert world.state() is State.EMPTY
    slot = world.add_parked(producer)
    world.release()
    slot = world.end_parked(producer, True)
    world.refuse(ErrorCode.kafka_storage_error)
    assert slot.error is ErrorCode.not_coordinator
    assert (world.state(), world.markers) == (State.ONGOING, [])
    world.end_parked(producer, True)
    world.release()
    assert world.state() is State.PREPARE_COMMIT


def test_the_end_is_written_again_until_it_is_there() -> None:
    world = World()
    producer = world.producer()
    world.add(producer)
    world.commit(producer)
    world.hold = True
    world.write_markers()
    world.refuse(ErrorCode.not_enough_replicas)
    assert world.state() is State.PREPARE_COMMIT
    world.pass_ms(world.config.retry_ms)
    world.release()
    assert world.state() is State.COMPLETE_COMMIT


def test_a_decision_that_takes_too_long_is_carried_out_all_the_same() -> None:
    world = World()
    producer = world.producer()
    world.add(producer)
    world.hold = True
    slot = world.end_parked(producer, True)
    world.let_wait()
    assert slot.error is ErrorCode.coordinator_not_available
    assert world.end_parked(producer, True).error is ErrorCode.concurrent_transactions
    world.release()
    assert world.markers[-1].is_commit


def test_another_coordinator_goes_on_where_the_log_stands() -> None:
    world = World()
    producer = world.producer()
    world.add(producer, A, B)
    world.commit(producer)
    world.write_markers(A)
    world.fail_over()
    assert world.markers[-1].partitions == {A, B}, "which markers are written is not in the log"
    assert world.markers[-1].coordinator_epoch == 6
    world.write_markers()
    assert world.state() is State.COMPLETE_COMMIT
    world.fail_over()
    assert (world.state(), world.markers) == (State.COMPLETE_COMMIT, [])


def test_what_waits_when_the_coordinator_goes_is_sent_away() -> None:
    world = World()
    producer = world.producer()
    world.hold = True
    adding = world.add_parked(producer)
    other = world.init_parked("u")
    world.fail_over()
    assert adding.error is ErrorCode.not_coordinator
    assert other.result.error is ErrorCode.not_coordinator


def test_markers_of_an_earlier_transaction_end_no_later_one() -> None:
    world = World()
    producer = world.producer()
    world.add(producer)
    world.commit(producer)
    stale = world.markers[-1]
    world.write_markers()
    again = world.producer()
    world.add(again, A)
    world.commit(again)
    world.run(world.coordinator.markers_written("t", stale.producer, [A], world.now))
    assert world.state() is State.PREPARE_COMMIT
    world.run(world.coordinator.markers_written("never", stale.producer, [A], world.now))


def test_verification_knows_what_is_in_the_open_transaction() -> None:
    world = World()
    producer = world.producer()
    assert world.verify(producer) is ErrorCode.invalid_txn_state
    world.add(producer, A)
    assert world.verify(producer, A) is ErrorCode.none
    assert world.verify(producer, B) is ErrorCode.invalid_txn_state
    assert world.verify(producer._replace(producer_epoch=9)) is ErrorCode.producer_fenced
    assert world.verify(producer._replace(producer_id=9)) is ErrorCode.invalid_producer_id_mapping
    world.commit(producer)
    assert world.verify(producer, A) is ErrorCode.concurrent_transactions
    world.write_markers()
    assert world.verify(producer, A) is ErrorCode.invalid_txn_state


def test_listing_tells_since_when_a_transaction_is_open() -> None:
    world = World()
    world.producer("idle")
    world.pass_ms(500)
    world.add(world.producer())
    listed = {each.transactional_id: each for each in world.coordinator.known.list_transactions()}
    assert listed["idle"].open_since_ms == -1
    assert listed["t"].open_since_ms == world.now.epoch_ms
    assert listed["t"].state.label == "Ongoing"
    assert State.PREPARE_COMMIT.label == "PrepareCommit"
    assert world.coordinator.known.describe("never") is None


def test_partitions_are_added_to_the_open_transaction_and_to_no_earlier_one() -> None:
    world = World()
    producer = world.producer()
    world.add(producer, A)
    opened_ms = world.now.epoch_ms
    world.pass_ms(700)
    world.add(producer, B)
    described = world.coordinator.known.describe("t")
    assert described is not None
    assert (described.partitions, described.start_ms) == ({A, B}, opened_ms)
    world.commit(producer)
    world.write_markers()
    world.pass_ms(700)
    world.add(producer, B)
    described = world.coordinator.known.describe("t")
    assert described is not None
    assert (described.partitions, described.start_ms) == ({B}, world.now.epoch_ms)


def test_what_is_told_of_an_id() -> None:
    world = World()
    producer = world.producer(timeout_ms=12_345)
    world.add(producer, A, B)
    assert world.coordinator.known.describe("t") == DescribedTransaction(
        "t", State.ONGOING, producer, 12_345, world.now.epoch_ms, frozenset({A, B})
    )
    assert world.coordinator.known.list_transactions() == [
        ListedTransaction("t", producer.producer_id, State.ONGOING, world.now.epoch_ms)
    ]


def test_a_guard_is_asked_for_while_a_record_is_on_its_way() -> None:
    """Verification reads what is durable; it need not rest."""
    world = World()
    producer = world.producer()
    world.add(producer, A)
    world.hold = True
    world.add_parked(producer, B)
    assert world.verify(producer, A) is ErrorCode.none
    assert world.verify(producer, B) is ErrorCode.invalid_txn_state, "not yet"


def test_one_timeout_after_the_other_is_noticed_in_one_tick() -> None:
    world = World()
    names = ("t1", "t2", "t3")
    producers = {name: world.producer(name, timeout_ms=10_000) for name in names}
    for name, producer in producers.items():
        world.add(producer, transactional_id=name)
    world.hold = True
    world.run(
        world.coordinator.add_partitions("t1", producers["t1"], frozenset({B}), lambda _: None, world.now)
    )
    world.now_ms += 10_000
    world.run(world.coordinator.tick(world.now))
    ended = [each.record.transactional_id for each in world.held[1:]]
    assert ended == ["t2", "t3"], "the first has a record on its way, which does not keep the others waiting"
