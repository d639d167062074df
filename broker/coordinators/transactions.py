"""The transaction coordinators of this broker: one per partition of `__transaction_state` that it leads."""

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kio.schema.errors import ErrorCode

from broker.coordinators.marker_sending import MarkerSender
from broker.coordinators.runtime import CoordinatorRuntime
from broker.coordinators.shard import Shard, now
from broker.transactions.config import TransactionConfig
from broker.transactions.coordinator import TransactionCoordinator
from broker.transactions.messages import DrawProducerId, InitResult, ListedTransaction, SendMarkers
from broker.transactions.records import TRANSACTIONS_TOPIC
from broker.transactions.state import TopicPartition

if TYPE_CHECKING:
    from broker.coordinators.producer_ids import ProducerIds
    from broker.metadata_cache import MetadataCache
    from broker.replication.partition import Partition


class TransactionCoordinators(CoordinatorRuntime[TransactionCoordinator]):
    """Every transactional id of the cluster has its shard on one broker."""

    def __init__(
        self,
        metadata: "MetadataCache",
        producer_ids: "ProducerIds",
        markers: MarkerSender,
        config: TransactionConfig | None = None,
    ) -> None:
        super().__init__(TRANSACTIONS_TOPIC, metadata, self._new_coordinator, self._command)
        self.config: Final = config or TransactionConfig()
        self._producer_ids = producer_ids
        self._markers = markers

    def _new_coordinator(self, partition: "Partition") -> TransactionCoordinator:
        return TransactionCoordinator(self.config, partition.leader_epoch)

    def _command(self, shard: Shard[TransactionCoordinator], command: Any) -> None:
        if isinstance(command, SendMarkers):
            self._markers.send(command, shard, partial(_written, shard, command))
        else:
            assert isinstance(command, DrawProducerId), command
            self._producer_ids.draw(partial(_drawn, shard, command))

    def list_transactions(self) -> list[ListedTransaction]:
        """All transactional ids that are coordinated and served here."""
        return [each for shard in self if shard.error is None for each in shard.core.list_transactions()]

    def purge_instance(self, instance_id: str) -> None:
        """Everything of a deleted instance goes. Safe to repeat."""
        for shard in self:
            shard.once_loaded(lambda core=shard.core: core.purge_instance(instance_id, now()))  # type: ignore[misc]


def _written(
    shard: Shard[TransactionCoordinator], command: SendMarkers, partitions: list[TopicPartition]
) -> None:
    if shard.error is None:
        transactional_id, producer = command[:2]
        shard.submit(shard.core.markers_written(transactional_id, producer, partitions, now()))


def _drawn(shard: Shard[TransactionCoordinator], command: DrawProducerId, producer_id: int | None) -> None:
    request, token = command
    if shard.error is not None:
        token(InitResult(shard.error))
    elif producer_id is None:
        token(InitResult(ErrorCode.coordinator_not_available))
    else:
        shard.submit(shard.core.init(request, token, now(), producer_id))
