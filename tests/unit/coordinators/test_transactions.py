"""Transaction coordinators over real partitions: markers, offsets of groups, failover, verification."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from broker.coordinators.groups import GroupCoordinators
from broker.coordinators.peers import Peers
from broker.coordinators.producer_ids import ProducerIds
from broker.coordinators.shard import Shard
from broker.coordinators.transactions import TransactionCoordinators
from broker.groups.coordinator import GroupCoordinator
from broker.groups.messages import OffsetToCommit, TransactionalCommit
from broker.groups.messages import Producer as GroupProducer
from broker.groups.records import OFFSETS_TOPIC
from broker.log.results import AppendOrigin
from broker.transactions.coordinator import TransactionCoordinator
from broker.transactions.messages import EndRequest, EndResult, InitRequest, InitResult, Producer
from broker.transactions.records import TRANSACTIONS_TOPIC
from broker.transactions.state import State, TopicPartition
from runtime.clock import monotonic_ms
from runtime.tree.local import LocalTree
from tests.unit.coordinators.world import FOLLOWER, ME, Disk, until
from tests.unit.groups.world import Slot
from wire.batch import TRANSACTIONAL_BIT, Record, build_batch
from wire.control import BUMPS_EPOCH_FROM, EndMarker

DATA = TopicPartition("orders", 1)


class Broker:
    """The coordinators of one broker, wired as the process wires them."""

    def __init__(self, disk: Disk, tree: LocalTree) -> None:
        self.disk = disk
        self.groups = GroupCoordinators(disk.metadata)
        peers = Peers(disk.metadata, None, lambda: None)
        ids = ProducerIds(tree, ME)
        self.transactions = TransactionCoordinators(disk.replicas, self.groups, ids, peers)
        disk.replicas.on_leadership(self.groups.leadership)
        disk.replicas.on_leadership(self.transactions.leadership)

    async def lead(self) -> None:
        self.disk.lead()
        await until(lambda: not (self.groups.is_loading or self.transactions.is_loading))

    def shard(self) -> Shard[TransactionCoordinator]:
        found = self.transactions.of("t")
        assert isinstance(found, Shard), found
        return found

    async def init(self) -> Producer:
        slot = Slot()
        shard = self.shard()
        shard.submit(shard.core.init(InitRequest("t", 60_000, None), slot, shard.now()))
        await until(lambda: not slot.is_parked)
        assert isinstance(slot.result, InitResult)
        assert slot.result.error is ErrorCode.none
        return slot.result.producer

    def add(self, producer: Producer, *partitions: TopicPartition) -> Slot:
        slot, shard = Slot(), self.shard()
        wanted = frozenset(partitions)
        shard.submit(shard.core.add_partitions("t", producer, wanted, slot, shard.now()))
        return slot

    def end(self, producer: Producer, *, commit: bool) -> Slot:
        slot, shard = Slot(), self.shard()
        shard.submit(shard.core.end("t", producer, commit, slot, shard.now()))
        return slot

    def join(self, producer: Producer, *partitions: TopicPartition) -> None:
        """As the first batch of a transaction of version 2 does."""
        slot, shard = Slot(), self.shard()
        wanted = frozenset(partitions)
        shard.submit(shard.core.add_partitions("t", producer, wanted, slot, shard.now(), BUMPS_EPOCH_FROM))
        assert slot.error is ErrorCode.none

    def bump(self, producer: Producer, *, commit: bool) -> EndResult:
        """The end of one."""
        slot, shard = Slot(), self.shard()
        shard.submit(shard.core.end_with_bump(EndRequest("t", producer, commit), slot, shard.now()))
        assert isinstance(slot.result, EndResult)
        return slot.result

    def verify(self, producer: Producer, partition: TopicPartition = DATA) -> Slot:
        slot = Slot()
        self.transactions.verify(*partition, "t", *producer, slot)
        return slot

    def write(self, producer: Producer, sequence: int = 0) -> None:
        """One record, as Produce writes it."""
        partition = self.disk.partition(DATA.partition, DATA.topic)
        guard = partition.log.producers.begin_verification(*producer, sequence, monotonic_ms())
        assert guard is None or self.verify(producer).error is ErrorCode.none
        records = build_batch(
            [Record(0, 1, b"k", b"v")],
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=sequence,
            attributes=TRANSACTIONAL_BIT,
        )
        partition.append(records, now_ms=1, origin=AppendOrigin.CLIENT, verification=guard)

    def state(self) -> State:
        described = self.shard().core.known.describe("t")
        assert described is not None
        return described.state

    def group(self) -> Shard[GroupCoordinator]:
        found = self.groups.of("g")
        assert isinstance(found, Shard), found
        return found

    def commit_offset(self, producer: Producer, offset: int) -> Slot:
        slot, shard = Slot(), self.group()
        partition = shard.partition
        guard = partition.log.producers.begin_verification(*producer, 0, monotonic_ms())
        commit = TransactionalCommit(
            *("g", -1, "", None, GroupProducer(*producer), guard),
            (OffsetToCommit("orders", 0, offset, -1, ""),),
        )
        shard.submit(shard.core.commit_in_transaction(commit, slot, shard.now()))
        return slot

    def offset(self) -> int | None:
        found = self.group().core.fetch_offset("g", "orders", 0)
        return None if found is None else found.offset


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    made = Disk(tmp_path / "logs", TRANSACTIONS_TOPIC, OFFSETS_TOPIC, "orders")
    yield made
    made.close()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Disk]:
    """With a follower: nothing is committed before it has it."""
    topics = (TRANSACTIONS_TOPIC, OFFSETS_TOPIC, "orders")
    made = Disk(tmp_path / "logs", *topics, replicas=(ME, FOLLOWER))
    yield made
    made.close()


@pytest.fixture
async def tree(tmp_path: Path) -> Any:
    made = LocalTree(tmp_path / "tree.sqlite")
    await made.start()
    yield made
    await made.aclose()


async def test_markers_end_a_transaction_everywhere(disk: Disk, tree: LocalTree) -> None:
    broker = Broker(disk, tree)
    await broker.lead()
    producer = await broker.init()
    group = broker.group().partition
    offsets = TopicPartition(OFFSETS_TOPIC, group.index)
    assert broker.add(producer, DATA, offsets).error is ErrorCode.none
    broker.write(producer)
    slot = broker.commit_offset(producer, 7)
    assert list(slot.result.errors.values()) == [ErrorCode.none]
    orders = disk.partition(DATA.partition, "orders")
    assert (orders.last_stable_offset, orders.high_watermark) == (0, 1)
    assert broker.offset() is None
    assert broker.group().core.is_unstable("g", "orders", 0)
    assert broker.end(producer, commit=True).error is ErrorCode.none
    assert broker.state() is State.COMPLETE_COMMIT
    assert orders.last_stable_offset == 2
    assert broker.offset() == 7
    assert not broker.group().core.is_unstable("g", "orders", 0)


async def test_aborted_offsets_are_forgotten_also_by_who_reads_the_log(disk: Disk, tree: LocalTree) -> None:
    broker = Broker(disk, tree)
    await broker.lead()
    producer = await broker.init()
    offsets = TopicPartition(OFFSETS_TOPIC, broker.group().partition.index)
    for offset, commit in ((5, True), (9, False)):
        broker.add(producer, offsets)
        broker.commit_offset(producer, offset)
        broker.end(producer, commit=commit)
        assert broker.offset() == 5
    broker.add(producer, offsets)
    broker.commit_offset(producer, 11)
    disk.restart()
    again = Broker(disk, tree)
    await again.lead()
    assert again.offset() == 5
    assert again.group().core.is_unstable("g", "orders", 0)
    assert again.end(producer, commit=True).error is ErrorCode.none
    assert again.offset() == 11


async def test_late_markers_are_refused_also_where_offsets_are(disk: Disk, tree: LocalTree) -> None:
    broker = Broker(disk, tree)
    await broker.lead()
    producer = await broker.init()
    offsets = TopicPartition(OFFSETS_TOPIC, broker.group().partition.index)
    after = producer._replace(producer_epoch=producer.producer_epoch + 1)

    def mark(of: Producer, *, commit: bool) -> list[ErrorCode]:
        told: list[ErrorCode] = []
        end = EndMarker(commit, 1, 2)
        for topic, index in (DATA, offsets):
            broker.transactions.marker_writer.write(topic, index, GroupProducer(*of), end, told.append)
        return told

    for each, offset in ((producer, 5), (after, 7)):
        broker.join(each, DATA, offsets)
        broker.write(each)
        broker.commit_offset(each, offset)
        if each == producer:
            assert broker.bump(each, commit=False) == EndResult(ErrorCode.none, after)
    assert mark(after, commit=False) == [ErrorCode.invalid_producer_epoch] * 2, "a copy that comes late"
    broker.bump(after, commit=True)
    assert broker.offset() == 7 and broker.state() is State.COMPLETE_COMMIT
    last = after._replace(producer_epoch=after.producer_epoch + 1)
    assert mark(last, commit=True) == [ErrorCode.none] * 2, "nothing is open: the same attempt again"


async def test_a_decision_is_carried_out_by_the_next_leader(pair: Disk, tree: LocalTree) -> None:
    broker = Broker(pair, tree)
    pair.lead()
    await until(lambda: not broker.transactions.is_loading)
    task = asyncio.create_task(broker.init())
    await asyncio.sleep(0.05)
    pair.replicate()
    producer = await task
    adding = broker.add(producer, DATA)
    pair.replicate()
    assert adding.error is ErrorCode.none
    broker.write(producer)
    ending = broker.end(producer, commit=True)
    assert ending.is_parked, "the follower does not have the decision"
    pair.lead(FOLLOWER)
    assert ending.error is ErrorCode.not_coordinator
    pair.lead()
    await asyncio.sleep(0.02)
    pair.replicate()
    await until(lambda: not broker.transactions.is_loading)
    orders = pair.partition(DATA.partition, "orders")
    await until(lambda: orders.log.log_end_offset == 2)
    assert broker.state() is State.PREPARE_COMMIT
    pair.replicate()
    pair.replicate()
    assert broker.state() is State.COMPLETE_COMMIT
    assert orders.last_stable_offset == 2


async def test_markers_wait_for_a_leader_and_skip_what_was_deleted(
    disk: Disk, tree: LocalTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.coordinators.marker_sending._GONE_AFTER_MS", 100)
    broker = Broker(disk, tree)
    await broker.lead()
    producer = await broker.init()
    broker.add(producer, DATA, TopicPartition("deleted", 0))
    broker.write(producer)
    assert broker.end(producer, commit=True).error is ErrorCode.none
    assert broker.state() is State.PREPARE_COMMIT
    assert disk.partition(DATA.partition, "orders").last_stable_offset == 2, "one does not wait for the other"
    await until(lambda: broker.state() is State.COMPLETE_COMMIT)


async def test_verification_here(disk: Disk, tree: LocalTree) -> None:
    broker = Broker(disk, tree)
    slot = broker.verify(Producer(1, 0))
    assert slot.error is ErrorCode.not_enough_replicas, "nobody coordinates yet: to be retried"
    await broker.lead()
    producer = await broker.init()
    assert broker.verify(producer).error is ErrorCode.invalid_txn_state
    broker.add(producer, DATA)
    assert broker.verify(producer).error is ErrorCode.none
    assert broker.verify(producer._replace(producer_epoch=5)).error is ErrorCode.invalid_producer_epoch
    disk.lead(FOLLOWER)
    slot = broker.verify(producer)
    await until(lambda: not slot.is_parked)
    assert slot.error is ErrorCode.not_enough_replicas, "the coordinator cannot be reached"
    broker.transactions.close()
