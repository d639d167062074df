"""The transaction coordinators of this broker: one per partition of `__transaction_state` that it leads."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker.coordinators.groups import GroupCoordinators
from broker.coordinators.marker_sending import MarkerSender
from broker.coordinators.marker_writing import MarkerWriter
from broker.coordinators.peers import Peers
from broker.coordinators.producer_ids import ProducerIds
from broker.coordinators.runtime import CoordinatorRuntime
from broker.coordinators.shard import Shard, Written, nobody_pays
from broker.coordinators.verification import Verifier
from broker.replication.partition import Partition
from broker.replication.replicas import Replicas
from broker.transactions.coordinator import TransactionCoordinator
from broker.transactions.id_totals import IdTotals
from broker.transactions.messages import (
    DrawProducerId,
    EndRequest,
    EndResult,
    InitResult,
    ListedTransaction,
    Producer,
    SendMarkers,
)
from broker.transactions.records import TRANSACTIONS_TOPIC
from broker.transactions.state import TopicPartition
from broker.transactions.transaction_config import TransactionConfig
from runtime.clock import SYSTEM_CLOCK, Clock
from wire.control import EndMarker, build_marker

_MARKER_BYTES: Final = len(build_marker(0, 0, EndMarker(True, 0), now_ms=0))
"""What each partition of a transaction gets, on whichever broker, in the name of the transactional id."""


class TransactionCoordinators(CoordinatorRuntime[TransactionCoordinator]):
    """Every transactional id of the cluster has its shard on one broker."""

    def __init__(
        self,
        replicas: Replicas,
        groups: GroupCoordinators,
        producer_ids: ProducerIds,
        peers: Peers,
        config: TransactionConfig | None = None,
        on_written: Written = nobody_pays,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        metadata, broker_id = peers.metadata, replicas.broker_id
        super().__init__(
            TRANSACTIONS_TOPIC, metadata, self._new_coordinator, self._command, on_written, clock
        )
        self.config: Final = config or TransactionConfig()
        self.marker_writer: Final = MarkerWriter(replicas, groups, clock.epoch_ms)
        self._usage = IdTotals()
        self._producer_ids = producer_ids
        self._markers = MarkerSender(broker_id, metadata, self.marker_writer, peers, clock.monotonic_ms)
        self._verifier = Verifier(broker_id, self, peers)

    def _new_coordinator(self, partition: Partition) -> TransactionCoordinator:
        return TransactionCoordinator(self.config, partition.leader_epoch, self._usage)

    def _command(self, shard: Shard[TransactionCoordinator], command: Any) -> None:
        if isinstance(command, SendMarkers):
            self._on_written(command.transactional_id, _MARKER_BYTES * len(command.partitions))
            self._markers.send(command, shard, partial(_written, shard, command))
        else:
            assert isinstance(command, DrawProducerId), command
            self._producer_ids.draw(partial(_drawn, shard, command))

    def list_transactions(self) -> list[ListedTransaction]:
        """All transactional ids that are coordinated and served here."""
        return [
            each for shard in self if shard.error is None for each in shard.core.known.list_transactions()
        ]

    def verify(
        self,
        topic: str,
        index: int,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        tell: Callable[[ErrorCode], None],
    ) -> None:
        """Ask a transaction's coordinator, here or elsewhere, whether a partition is in it (KIP-890).

        `tell` is called once, perhaps at once, with the error for the producer; `none` allows the append.
        """
        producer, partition = Producer(producer_id, producer_epoch), TopicPartition(topic, index)
        self._verifier.verify(transactional_id, producer, partition, tell)

    def add(
        self,
        topic: str,
        index: int,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        tell: Callable[[ErrorCode], None],
    ) -> None:
        """Have a transaction's coordinator, here or elsewhere, take a partition in as its first batch comes
        (transactions of version 2). `tell` is called once, later, as by `verify`."""
        producer, partition = Producer(producer_id, producer_epoch), TopicPartition(topic, index)
        self._verifier.add(transactional_id, producer, partition, tell)

    def close(self) -> None:
        """Stop; parked calls end with their connections."""
        super().close()
        self._markers.close()
        self._verifier.close()

    def purge_instance(self, instance_id: str) -> None:
        """Everything of a deleted instance goes. Safe to repeat."""
        for shard in self:
            shard.once_loaded(lambda each=shard: each.core.purge_instance(instance_id, each.now()))  # type: ignore[misc]


def _written(
    shard: Shard[TransactionCoordinator], command: SendMarkers, partitions: list[TopicPartition]
) -> None:
    if shard.error is None:
        transactional_id, producer = command[:2]
        shard.submit(shard.core.markers_written(transactional_id, producer, partitions, shard.now()))


def _drawn(shard: Shard[TransactionCoordinator], command: DrawProducerId, producer_id: int | None) -> None:
    request, token = command
    error = shard.error
    if error is None and producer_id is None:
        error = ErrorCode.coordinator_not_available
    if isinstance(request, EndRequest):
        if error is not None:
            token(EndResult(error))
        else:
            shard.submit(shard.core.end_with_bump(request, token, shard.now(), producer_id))
    elif error is not None:
        token(InitResult(error))
    else:
        shard.submit(shard.core.init(request, token, shard.now(), producer_id))
