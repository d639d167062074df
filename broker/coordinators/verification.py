"""Asking a transaction's coordinator whether a partition is in it, before a batch opens it there, or having
it taken in (KIP-890).

The question is AddPartitionsToTxn v4, with `verify_only` where the client has added the partition itself; a
coordinator here is asked directly. What is asked for one transaction at the same time goes together, for
while one record of it is on its way, others must come again. That, and the markers of the transaction before,
take milliseconds: it is waited for here, so that its client need not come again.
Source: Kafka AddPartitionsToTxnManager, ReplicaManager.maybeSendPartitionsToTransactionCoordinator.
"""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, Protocol

from kio.schema.add_partitions_to_txn.v4.request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kio.schema.errors import ErrorCode

from broker.coordinators.fair_queue import ITEM_BYTES
from broker.coordinators.peers import Lanes, Peers
from broker.coordinators.shard import Shard
from broker.transactions.coordinator import TransactionCoordinator
from broker.transactions.messages import Producer
from broker.transactions.state import TopicPartition
from contracts.cluster import NO_LEADER
from contracts.names import owner_of
from runtime.kafka_client import KafkaConnection
from wire.build import make
from wire.control import BUMPS_EPOCH_FROM

Tell = Callable[[ErrorCode], None]
_AS_TOLD: Final = {
    ErrorCode.producer_fenced: ErrorCode.invalid_producer_epoch,
    ErrorCode.concurrent_transactions: ErrorCode.not_enough_replicas,
    ErrorCode.coordinator_load_in_progress: ErrorCode.not_enough_replicas,
    ErrorCode.coordinator_not_available: ErrorCode.not_enough_replicas,
    ErrorCode.not_coordinator: ErrorCode.not_enough_replicas,
    ErrorCode.network_exception: ErrorCode.not_enough_replicas,
    ErrorCode.cluster_authorization_failed: ErrorCode.not_enough_replicas,
    ErrorCode.transactional_id_not_found: ErrorCode.invalid_txn_state,
    ErrorCode.unsupported_version: ErrorCode.not_enough_replicas,
}
"""What the producer is told: what may pass is an error that every client retries."""
_AGAIN_MS: Final = 20
_ATTEMPTS_MAX: Final = 6
"""How often a partition is asked to be taken in before the producer hears CONCURRENT_TRANSACTIONS, which it
retries."""


class _Question:
    """One partition of one transaction."""

    __slots__ = ("_tell", "adds", "attempts", "partition", "producer", "transactional_id")

    def __init__(
        self, transactional_id: str, producer: Producer, partition: TopicPartition, tell: Tell, *, adds: bool
    ) -> None:
        self.transactional_id: Final = transactional_id
        self.producer: Final = producer
        self.partition: Final = partition
        self.adds: Final = adds
        """Whether the partition is to be taken in."""
        self.attempts = 0
        self._tell: Tell | None = tell

    @property
    def size_bytes(self) -> int:
        """What it takes of a request, or somewhat more."""
        return ITEM_BYTES + len(self.transactional_id.encode()) + len(self.partition.topic)

    def answer(self, error: ErrorCode) -> None:
        """Tell the answer, in the producer's terms. Only the first counts: it lets a batch be appended."""
        tell, self._tell = self._tell, None
        if tell is None:
            return
        if self.adds and error is ErrorCode.concurrent_transactions:
            tell(error)  # who has its partitions taken in knows it
        else:
            tell(_AS_TOLD.get(error, error))


class Coordinated(Protocol):
    """The transactions whose coordinators are asked."""

    @property
    def topic(self) -> str: ...

    def partition_of(self, key: str) -> int | None: ...

    def of(self, key: str) -> Shard[TransactionCoordinator] | ErrorCode: ...


class Verifier:
    """Asks, and tells the answer as the error of a Produce partition; `none` allows the append."""

    def __init__(self, broker_id: int, coordinators: Coordinated, peers: Peers) -> None:
        self._broker_id = broker_id
        self._coordinators = coordinators
        self._peers = peers
        self._lanes: Lanes[_Question] = Lanes(peers, self._exchange, self._failed)
        self._gathered: dict[str, list[_Question]] = {}
        """Partitions to be taken in by coordinators here, by transactional id, until the loop's next turn."""
        self._timers: set[asyncio.TimerHandle] = set()

    def verify(
        self, transactional_id: str, producer: Producer, partition: TopicPartition, tell: Tell
    ) -> None:
        """Ask; `tell` is called once, perhaps at once."""
        self._ask(_Question(transactional_id, producer, partition, tell, adds=False))

    def add(self, transactional_id: str, producer: Producer, partition: TopicPartition, tell: Tell) -> None:
        """Have the partition taken in; `tell` is called once, later."""
        self._ask(_Question(transactional_id, producer, partition, tell, adds=True))

    def _ask(self, question: _Question) -> None:
        transactional_id = question.transactional_id
        index = self._coordinators.partition_of(transactional_id)
        leader = NO_LEADER
        if index is not None:
            state = self._peers.metadata.partition(self._coordinators.topic, index)
            leader = NO_LEADER if state is None else state.leader
        if leader == NO_LEADER:
            question.answer(ErrorCode.coordinator_not_available)
        elif leader != self._broker_id:
            self._lanes.add(leader, question, owner_of(transactional_id), question.size_bytes)
        elif question.adds:
            gathered = self._gathered.setdefault(transactional_id, [])
            gathered.append(question)
            if len(gathered) == 1:
                asyncio.get_running_loop().call_soon(self._add_here, transactional_id)
        else:
            shard = self._coordinators.of(transactional_id)
            if isinstance(shard, ErrorCode):
                question.answer(shard)
            else:
                partition = question.partition
                known = shard.core.known.verify(transactional_id, question.producer, [partition])
                question.answer(known[partition])

    def _add_here(self, transactional_id: str) -> None:
        for questions in self._by_id(self._gathered.pop(transactional_id)).values():
            shard = self._coordinators.of(transactional_id)
            tell = partial(self._told, questions)
            if isinstance(shard, ErrorCode):
                tell(shard)
                continue
            partitions = frozenset(each.partition for each in questions)
            producer, version = questions[0].producer, BUMPS_EPOCH_FROM
            shard.submit(
                shard.core.add_partitions(transactional_id, producer, partitions, tell, shard.now(), version)
            )

    def _by_id(self, questions: Iterable[_Question]) -> dict[str, list[_Question]]:
        """A transactional id may stand in a request once only: what is not asked as the first of it is asked
        again."""
        asked: dict[str, list[_Question]] = {}
        for each in questions:
            same = asked.setdefault(each.transactional_id, [])
            if same and (same[0].producer, same[0].adds) != (each.producer, each.adds):
                self._told([each], ErrorCode.concurrent_transactions)
            else:
                same.append(each)
        return asked

    def _told(self, questions: Iterable[_Question], error: ErrorCode) -> None:
        for each in questions:
            each.attempts += 1
            if each.adds and error is ErrorCode.concurrent_transactions and each.attempts < _ATTEMPTS_MAX:
                self._again(each)
            else:
                each.answer(error)

    def _again(self, question: _Question) -> None:
        def ask() -> None:
            self._timers.discard(handle)
            self._ask(question)

        handle = asyncio.get_running_loop().call_later(_AGAIN_MS / 1000, ask)
        self._timers.add(handle)

    async def _exchange(self, connection: KafkaConnection, items: list[_Question]) -> None:
        asked = self._by_id(items)
        request = AddPartitionsToTxnRequest(
            transactions=tuple(_transaction(questions) for questions in asked.values())
        )
        response = await connection.call(request)
        errors: dict[tuple[str, TopicPartition], ErrorCode] = {}
        for result in response.results_by_transaction:
            for topic in result.topic_results:
                for one in topic.results_by_partition:
                    partition = TopicPartition(topic.name, one.partition_index)
                    errors[result.transactional_id, partition] = one.partition_error_code
        fallback = response.error_code
        if fallback is ErrorCode.none:
            fallback = ErrorCode.network_exception
        for questions in asked.values():
            for each in questions:
                self._told([each], errors.get((each.transactional_id, each.partition), fallback))

    def _failed(self, items: list[_Question]) -> None:
        for each in items:
            each.answer(ErrorCode.network_exception)

    def close(self) -> None:
        """Stop; parked calls end with their connections."""
        for handle in self._timers:
            handle.cancel()
        self._lanes.close()


def _transaction(questions: list[_Question]) -> AddPartitionsToTxnTransaction:
    topics: dict[str, list[int]] = {}
    for each in questions:
        topics.setdefault(each.partition.topic, []).append(each.partition.partition)
    first = questions[0]
    return make(
        AddPartitionsToTxnTransaction,
        transactional_id=first.transactional_id,
        producer_id=first.producer.producer_id,
        producer_epoch=first.producer.producer_epoch,
        verify_only=not first.adds,
        topics=tuple(
            make(AddPartitionsToTxnTopic, name=name, partitions=tuple(dict.fromkeys(indexes)))
            for name, indexes in topics.items()
        ),
    )
