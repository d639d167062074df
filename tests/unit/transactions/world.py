"""A transaction coordinator with a clock and a log in memory; answers land in slots, markers in a list."""

from dataclasses import replace
from typing import Any

from kio.schema.errors import ErrorCode

from broker.coordination.effects import Moment
from broker.transactions.coordinator import TransactionCoordinator
from broker.transactions.messages import (
    Append,
    DescribedTransaction,
    DrawProducerId,
    Effects,
    EndRequest,
    EndResult,
    InitRequest,
    InitResult,
    Producer,
    SendMarkers,
)
from broker.transactions.state import State, TopicPartition
from broker.transactions.transaction_config import TransactionConfig
from tests.unit.groups.world import EPOCH_MS, Slot
from wire import batch
from wire.control import BUMPS_EPOCH_FROM

A = TopicPartition("a", 0)
B = TopicPartition("b", 1)


class World:
    """Appends are committed at once unless `hold` is set; then they wait for `release` or `refuse`."""

    def __init__(self, **changes: Any) -> None:
        self.config = replace(TransactionConfig(), **changes)
        self.now_ms = 0
        self.next_producer_id = 1000
        self.epoch = 5
        self.hold = False
        self.held: list[Append] = []
        self.markers: list[SendMarkers] = []
        self.batches: list[bytes] = []
        self.coordinator = TransactionCoordinator(self.config, self.epoch)
        self.run(self.coordinator.activate(self.now))

    @property
    def now(self) -> Moment:
        return Moment(self.now_ms, EPOCH_MS + self.now_ms)

    def run(self, effects: Effects) -> None:
        self.held += effects.appends
        for reply in effects.replies:
            reply.token(reply.result)
        for command in effects.commands:
            if isinstance(command, DrawProducerId):
                self.next_producer_id += 1
                request, token = command
                again = (
                    self.coordinator.end_with_bump
                    if isinstance(request, EndRequest)
                    else self.coordinator.init
                )
                self.run(again(request, token, self.now, self.next_producer_id))
            else:
                self.markers.append(command)
        while self.held and not self.hold:
            self.release()

    def release(self) -> None:
        append = self.held.pop(0)
        self.run(self.coordinator.committed(append, self.write(append), self.now))

    def write(self, append: Append) -> int:
        written = self.coordinator.encode(append, self.now).records
        offset = len(self.batches)
        batch.assign_offset(written, 0, offset, 0)
        self.batches.append(bytes(written))
        return offset

    def refuse(self, error: ErrorCode) -> None:
        self.run(self.coordinator.refused(self.held.pop(0), error, self.now))

    def let_wait(self) -> None:
        """The first held append takes too long."""
        self.held[0], effects = self.coordinator.overdue(self.held[0], ErrorCode.request_timed_out, self.now)
        held, self.hold = self.hold, True
        self.run(effects)
        self.hold = held

    def fail_over(self, *, lost: int = 0) -> None:
        """Another broker takes over; the last `lost` batches had not reached it."""
        for reply in self.coordinator.resigned(self.held):
            reply.token(reply.result)
        self.held.clear()
        self.markers.clear()
        if lost:
            del self.batches[-lost:]
        self.epoch += 1
        self.coordinator = TransactionCoordinator(self.config, self.epoch)
        for each in self.batches:
            header = batch.parse_header(each)
            self.coordinator.replay(header, batch.decode_records(header, each[batch.HEADER_SIZE :]))
        self.run(self.coordinator.activate(self.now))

    def pass_ms(self, duration_ms: int) -> None:
        """Let time go by, waking the coordinator at each of its deadlines."""
        end_ms = self.now_ms + duration_ms
        while True:
            due_ms = self.coordinator.next_deadline_ms()
            if due_ms is None or due_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, due_ms)
            self.run(self.coordinator.tick(self.now))
        self.now_ms = end_ms

    # -- requests

    def init_parked(
        self, transactional_id: str = "t", *, timeout_ms: int = 60_000, expected: Producer | None = None
    ) -> Slot:
        slot = Slot()
        request = InitRequest(transactional_id, timeout_ms, expected)
        self.run(self.coordinator.init(request, slot, self.now))
        return slot

    def init(self, transactional_id: str = "t", **options: Any) -> InitResult:
        result = self.init_parked(transactional_id, **options).result
        assert isinstance(result, InitResult)
        return result

    def producer(self, transactional_id: str = "t", **options: Any) -> Producer:
        """A producer that has begun."""
        result = self.init(transactional_id, **options)
        assert result.error is ErrorCode.none, result
        return result.producer

    def add_parked(
        self, producer: Producer, *partitions: TopicPartition, transactional_id: str = "t"
    ) -> Slot:
        slot = Slot()
        wanted = frozenset(partitions or (A,))
        self.run(self.coordinator.add_partitions(transactional_id, producer, wanted, slot, self.now))
        return slot

    def add(self, producer: Producer, *partitions: TopicPartition, transactional_id: str = "t") -> ErrorCode:
        return self.add_parked(producer, *partitions, transactional_id=transactional_id).error

    def end_parked(self, producer: Producer, is_commit: bool, transactional_id: str = "t") -> Slot:
        slot = Slot()
        self.run(self.coordinator.end(transactional_id, producer, is_commit, slot, self.now))
        return slot

    def join(self, producer: Producer, *partitions: TopicPartition) -> ErrorCode:
        """Partitions come in with their first batch (version 2)."""
        slot = Slot()
        wanted = frozenset(partitions or (A,))
        self.run(self.coordinator.add_partitions("t", producer, wanted, slot, self.now, BUMPS_EPOCH_FROM))
        return slot.error

    def bump_parked(self, producer: Producer, is_commit: bool, transactional_id: str = "t") -> Slot:
        slot = Slot()
        request = EndRequest(transactional_id, producer, is_commit)
        self.run(self.coordinator.end_with_bump(request, slot, self.now))
        return slot

    def bump(self, producer: Producer, *, commit: bool = True) -> EndResult:
        """The end of a transaction of version 2."""
        result = self.bump_parked(producer, commit).result
        assert isinstance(result, EndResult)
        return result

    def commit(self, producer: Producer) -> ErrorCode:
        return self.end_parked(producer, True).error

    def abort(self, producer: Producer) -> ErrorCode:
        return self.end_parked(producer, False).error

    def write_markers(self, *partitions: TopicPartition) -> None:
        """Markers of the newest command are written, all unless some are named."""
        sent = self.markers[-1]
        written = partitions or tuple(sent.partitions)
        effects = self.coordinator.markers_written(sent.transactional_id, sent.producer, written, self.now)
        self.run(effects)

    def verify(self, producer: Producer, partition: TopicPartition = A) -> ErrorCode:
        return self.coordinator.known.verify("t", producer, [partition])[partition]

    def describe(self, transactional_id: str = "t") -> DescribedTransaction:
        found = self.coordinator.known.describe(transactional_id)
        assert found is not None
        return found

    def state(self) -> State:
        return self.describe().state
