"""Records of an instance's topics, fetched and produced at the instance's own expense."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple, Protocol

from kio.schema.errors import ErrorCode
from kio.schema.fetch.v11.request import FetchPartition, FetchRequest, FetchTopic
from kio.schema.fetch.v11.response import FetchResponse
from kio.schema.produce.v8.request import PartitionProduceData, ProduceRequest, TopicProduceData
from kio.schema.types import TopicName
from kio.static.primitive import Records, i8, i16, i32, i64
from kio.static.protocol import Payload

from contracts.names import physical_name
from runtime.kafka_client import KafkaConnection, KafkaUnavailable
from tenants.backend.cluster import Cluster, text_for_tenant
from tenants.backend.topics import no_topic
from tenants.rules.errors import Conflict, Invalid, Refused, Unavailable
from tenants.rules.lifecycle import unfit
from wire.codec import duration

_NO_ANSWER: Final = (
    "the brokers do not answer in time: they are away, or the instance has used up its rate and what it "
    "asks waits. Try again in a few seconds"
)
_ACKS_OF_ALL: Final = i16(-1)
_PRODUCE_TIMEOUT_MS: Final = 8_000
_TELLS_WHAT_IS_WRONG: Final = (
    ErrorCode.invalid_record,
    ErrorCode.message_too_large,
    ErrorCode.record_list_too_large,
    ErrorCode.invalid_timestamp,
    ErrorCode.corrupt_message,
)


class Wanted(Protocol):
    """A partition that is read."""

    @property
    def partition(self) -> int: ...

    @property
    def position(self) -> int:
        """The offset that is read next."""
        ...

    @property
    def answer_bytes_max(self) -> int:
        """How much of it a broker is asked for at once."""
        ...


class Fetched(NamedTuple):
    """What a broker answered of one partition."""

    partition: int
    error_code: ErrorCode
    records: memoryview
    aborted: tuple[tuple[int, int], ...]
    """(first offset, producer id) of transactions that were."""


class PaidConnections:
    """Connections to brokers for which one instance pays."""

    def __init__(self, cluster: Cluster, instance_id: str) -> None:
        self._cluster, self._instance_id = cluster, instance_id
        self._open: dict[int, KafkaConnection] = {}

    async def call(self, node_id: int, request: Payload, timeout_s: float) -> Any:
        """Raises: Unavailable."""
        try:
            connection = self._open.get(node_id)
            if connection is None:
                connection = await self._cluster.connect_for(self._instance_id, node_id, timeout_s=timeout_s)
                self._open[node_id] = connection
            return await connection.call(request, timeout_s=timeout_s)
        except KafkaUnavailable as error:
            raise Unavailable(_NO_ANSWER) from error

    def close(self) -> None:
        """Close them."""
        for connection in self._open.values():
            connection.close()


@asynccontextmanager
async def paid_connections(cluster: Cluster, instance_id: str) -> AsyncIterator[PaidConnections]:
    """Connections that are closed at the end."""
    connections = PaidConnections(cluster, instance_id)
    try:
        yield connections
    finally:
        connections.close()


def fetch_request(
    topic: str, wanted: Iterable[Wanted], bytes_max: int, *, read_committed: bool
) -> FetchRequest:
    """What is there now, from where each partition is read. `topic`: the physical name."""
    partitions = tuple(
        FetchPartition(
            partition=i32(one.partition),
            fetch_offset=i64(one.position),
            partition_max_bytes=i32(min(one.answer_bytes_max, bytes_max)),
        )
        for one in wanted
    )
    return FetchRequest(
        max_wait=duration(0),
        min_bytes=i32(1),
        max_bytes=i32(bytes_max),
        isolation_level=i8(read_committed),
        topics=(FetchTopic(topic=TopicName(topic), partitions=partitions),),
        forgotten_topics_data=(),
    )


def fetched(answer: FetchResponse) -> list[Fetched]:
    """An answer, in its order."""
    return [
        Fetched(
            int(one.partition_index),
            one.error_code,
            memoryview(one.records or b""),
            tuple((int(each.first_offset), int(each.producer_id)) for each in one.aborted_transactions or ()),
        )
        for topic in answer.responses
        for one in topic.partitions
    ]


async def produce(
    connections: PaidConnections,
    instance_id: str,
    topic: str,
    partition: int,
    node_id: int,
    batch: bytes,
    *,
    timeout_s: float,
) -> int:
    """Write one batch, and wait until all replicas in sync have it: its offset.

    Raises: NotFound, Invalid, Conflict, Unavailable, after which it may have been written.
    """
    data = PartitionProduceData(index=i32(partition), records=Records(batch))
    request = ProduceRequest(
        acks=_ACKS_OF_ALL,
        timeout=duration(_PRODUCE_TIMEOUT_MS),
        topic_data=(
            TopicProduceData(name=TopicName(physical_name(instance_id, topic)), partition_data=(data,)),
        ),
    )
    answer = await connections.call(node_id, request, timeout_s)
    (one,) = answer.responses[0].partition_responses
    if one.error_code is not ErrorCode.none:
        said = [each.batch_index_error_message for each in one.record_errors] + [one.error_message]
        text = text_for_tenant(instance_id, next((each for each in said if each), None))
        raise _refusal(topic, one.error_code, text)
    return int(one.base_offset)


def _refusal(topic: str, error_code: ErrorCode, text: str) -> Refused:
    name = error_code.name.upper()
    if error_code is ErrorCode.unknown_topic_or_partition:
        return no_topic(topic)
    if error_code in _TELLS_WHAT_IS_WRONG:
        return Invalid([unfit("value", f"the broker refused the message ({name}){text and f': {text}'}")])
    if error_code is ErrorCode.policy_violation:
        return Conflict(text or "the instance may not be written to now")
    return Unavailable(
        f"the cluster answered {name}. Look whether the message was written before you try again"
    )
