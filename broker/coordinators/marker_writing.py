"""Writing the end of a transaction to a partition that this broker leads (WriteTxnMarkers)."""

from collections.abc import Callable
from typing import Final

from kio.schema.errors import ErrorCode

from broker.coordinators.groups import GroupCoordinators
from broker.groups.messages import Marker, Producer
from broker.log.errors import LogError
from broker.log.results import AppendOrigin
from broker.replication.replicas import Replicas
from wire.control import EndMarker, build_marker

Tell = Callable[[ErrorCode], None]


class MarkerWriter:
    """Appends markers; those of the offsets topic go through the group coordinator, which acts on them."""

    def __init__(self, replicas: Replicas, groups: GroupCoordinators, epoch_ms: Callable[[], int]) -> None:
        self._epoch_ms = epoch_ms
        self._replicas: Final = replicas
        self._groups: Final = groups

    def write(self, topic: str, index: int, producer: Producer, end: EndMarker, tell: Tell) -> None:
        """Append one marker; `tell` is called once, when it is committed or why it will not be."""
        if topic == self._groups.topic:
            shard = self._groups.at(index)
            if isinstance(shard, ErrorCode):
                tell(shard)
            else:
                shard.submit(shard.core.end_transaction(Marker(producer, end), tell, shard.now()))
            return
        try:
            partition = self._replicas.leader(topic, index)
            epoch_ms = self._epoch_ms()
            marker = build_marker(*producer, end, now_ms=epoch_ms)
            result = partition.append(
                marker,
                now_ms=epoch_ms,
                origin=AppendOrigin.COORDINATOR,
                transaction_version=end.transaction_version,
            )
        except LogError as error:
            tell(error.error_code)
        else:
            partition.when_committed(result.last_offset + 1, tell)
