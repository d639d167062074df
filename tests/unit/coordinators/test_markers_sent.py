"""Markers for partitions that other brokers lead: what is said to brokers of now and of before."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from kio.schema.errors import ErrorCode

from broker.coordinators.marker_sending import MarkerSender
from broker.coordinators.marker_writing import MarkerWriter
from broker.coordinators.peers import Peers
from broker.metadata.metadata_cache import MetadataCache
from broker.transactions.messages import Producer, SendMarkers
from broker.transactions.state import TopicPartition
from runtime.kafka_client import KafkaConnection
from tests.unit.coordinators.world import until
from wire.api_table import ApiKey
from wire.build import response_shape
from wire.codec import duration

ORDERS = TopicPartition("orders", 0)
OTHER = 2


class OtherBroker:
    """Speaks WriteTxnMarkers up to a version; answers as it is told to."""

    is_closed = False

    def __init__(self, version: int, *answers: ErrorCode) -> None:
        self.version = version
        self.answers = list(answers)
        self.requests: list[Any] = []

    def close(self) -> None:
        """Nobody is there."""

    async def call(self, request: Any, **_options: Any) -> Any:
        self.requests.append(request)
        if request.__api_key__ == ApiKey.API_VERSIONS:
            shape = response_shape(ApiKey.API_VERSIONS, 0)
            key = shape.nested("ApiVersion", api_key=27, min_version=1, max_version=self.version)
            return shape.make(error_code=ErrorCode.none, api_keys=(key,), throttle_time=duration(0))
        shape = response_shape(ApiKey.WRITE_TXN_MARKERS, request.__version__)
        partition = shape.nested(
            "WritableTxnMarkerPartitionResult", partition_index=0, error_code=self.answers.pop(0)
        )
        topic = shape.nested("WritableTxnMarkerTopicResult", name="orders", partitions=(partition,))
        return shape.make(markers=(shape.nested("WritableTxnMarkerResult", producer_id=7, topics=(topic,)),))


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_who_knows_of_versions_is_told_the_transactions(version: int) -> None:
    other = OtherBroker(version, ErrorCode.not_enough_replicas, ErrorCode.none)
    address = object()
    metadata = SimpleNamespace(brokers={OTHER: address}, partition=lambda *_: SimpleNamespace(leader=OTHER))

    async def connect(_broker_id: int) -> tuple[object, KafkaConnection]:
        return address, cast(KafkaConnection, other)

    sender = MarkerSender(
        1,
        cast(MetadataCache, metadata),
        cast(MarkerWriter, None),
        cast(Peers, SimpleNamespace(metadata=metadata, connect=connect)),
        lambda: 0,
    )
    written: list[TopicPartition] = []
    command = SendMarkers("t", Producer(7, 5), 3, True, frozenset({ORDERS}), 2)
    sender.send(command, cast(Any, SimpleNamespace(is_closed=False)), written.extend)
    await until(lambda: written == [ORDERS])
    sender.close()
    asked, *sent = other.requests
    assert asked.__api_key__ == ApiKey.API_VERSIONS, "once for a connection"
    assert [each.__version__ for each in sent] == [min(version, 2)] * 2
    assert [getattr(each.markers[0], "transaction_version", None) for each in sent] == [
        None if version == 1 else 2
    ] * 2
    assert all((each.markers[0].producer_id, each.markers[0].producer_epoch) == (7, 5) for each in sent)
