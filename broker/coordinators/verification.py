"""Asking a transaction's coordinator whether a partition is in it, before a batch opens it there (KIP-890).

The question is AddPartitionsToTxn v4 with `verify_only`; a coordinator here is asked directly.
Source: Kafka AddPartitionsToTxnManager, ReplicaManager.maybeSendPartitionsToTransactionCoordinator.
"""

from collections.abc import Callable
from typing import Final, Protocol

from kio.schema.add_partitions_to_txn.v4.request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kio.schema.errors import ErrorCode

from broker.coordinators.peers import Lanes, Peers
from broker.coordinators.shard import Shard
from broker.transactions.coordinator import TransactionCoordinator
from broker.transactions.messages import Producer
from broker.transactions.state import TopicPartition
from contracts.cluster import NO_LEADER
from runtime.kafka_client import KafkaConnection
from wire.build import make

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
}
"""What the producer is told: what may pass is an error that every client retries."""


class _Question:
    """One partition of one transaction."""

    __slots__ = ("_tell", "partition", "producer", "transactional_id")

    def __init__(
        self, transactional_id: str, producer: Producer, partition: TopicPartition, tell: Tell
    ) -> None:
        self.transactional_id: Final = transactional_id
        self.producer: Final = producer
        self.partition: Final = partition
        self._tell: Tell | None = tell

    def answer(self, error: ErrorCode) -> None:
        """Tell the answer, in the producer's terms. Only the first counts: it lets a batch be appended."""
        tell, self._tell = self._tell, None
        if tell is not None:
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

    def verify(
        self, transactional_id: str, producer: Producer, partition: TopicPartition, tell: Tell
    ) -> None:
        """Ask; `tell` is called once, perhaps at once."""
        question = _Question(transactional_id, producer, partition, tell)
        index = self._coordinators.partition_of(transactional_id)
        leader = NO_LEADER
        if index is not None:
            state = self._peers.metadata.partition(self._coordinators.topic, index)
            leader = NO_LEADER if state is None else state.leader
        if leader == NO_LEADER:
            question.answer(ErrorCode.coordinator_not_available)
        elif leader == self._broker_id:
            shard = self._coordinators.of(transactional_id)
            if isinstance(shard, ErrorCode):
                question.answer(shard)
            else:
                question.answer(shard.core.known.verify(transactional_id, producer, [partition])[partition])
        else:
            self._lanes.add(leader, question)

    async def _exchange(self, connection: KafkaConnection, items: list[_Question]) -> None:
        # A transactional id may stand in a request once only: of several producers the first is asked about.
        asked: dict[str, list[_Question]] = {}
        for each in items:
            same = asked.setdefault(each.transactional_id, [])
            if same and same[0].producer != each.producer:
                each.answer(ErrorCode.concurrent_transactions)
            else:
                same.append(each)
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
                each.answer(errors.get((each.transactional_id, each.partition), fallback))

    def _failed(self, items: list[_Question]) -> None:
        for each in items:
            each.answer(ErrorCode.network_exception)

    def close(self) -> None:
        """Stop; parked calls end with their connections."""
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
        verify_only=True,
        topics=tuple(
            make(AddPartitionsToTxnTopic, name=name, partitions=tuple(dict.fromkeys(indexes)))
            for name, indexes in topics.items()
        ),
    )
