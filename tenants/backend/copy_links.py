"""What moving an instance asks of a cluster: topics with their ids, and record batches as they are stored."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode
from kio.schema.fetch.v11.request import FetchPartition, FetchRequest, FetchTopic
from kio.schema.fetch.v11.response import PartitionData
from kio.schema.metadata.v12 import MetadataRequest
from kio.schema.metadata.v12.request import MetadataRequestTopic
from kio.schema.types import TopicName
from kio.static.primitive import i8, i32, i64
from kio.static.protocol import Payload

from contracts import adoption
from contracts.adoption import ADOPT_KEY, Adopted, Adoption
from contracts.names import physical_name, tenant_name
from runtime.kafka_client import KafkaConnection, KafkaUnavailable
from tenants.backend.cluster import Cluster
from tenants.backend.topics import TopicPartition
from tenants.rules.errors import Unavailable
from tenants.rules.moves import Topic
from tenants.rules.replays import Aborted
from wire.batch import HEADER_SIZE, BatchHeader, parse_header
from wire.codec import duration
from wire.request_bounds import pieces

_TIMEOUT_S: Final = 15.0
_NAMES_PER_ASK: Final = 200
PARTITION_BYTES: Final = 1024 * 1024
"""Fetched of a partition at once, but for a batch that is larger."""
_ANSWER_BYTES: Final = 4 * 1024 * 1024
_ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024


class Layout(NamedTuple):
    """Topics of an instance on one cluster, by the tenant's names, and who leads their partitions."""

    topics: dict[str, Topic]
    leaders: dict[TopicPartition, int]


class Stored(NamedTuple):
    """What a broker answered of one partition."""

    error_code: ErrorCode
    readable_to: int
    """The high watermark; the last stable offset where only what is decided was asked for."""
    records: memoryview
    """Whole batches."""
    batches: list[tuple[int, BatchHeader]]
    """Where each begins in `records`."""
    aborted: list[Aborted]
    """Transactions among them, where only what is decided was asked for."""

    def batch(self, at: int, header: BatchHeader) -> memoryview:
        """The bytes of one of `batches`."""
        return self.records[at : at + header.size_bytes]


class Links:
    """Connections to the brokers of one cluster, kept while an instance moves."""

    def __init__(self, cluster: Cluster, instance_id: str) -> None:
        self.cluster = cluster
        self.instance_id = instance_id
        self._open: dict[int, KafkaConnection] = {}
        self._opening: dict[int, asyncio.Lock] = {}

    async def call(self, node_id: int, request: Payload) -> Any:
        """Raises: Unavailable."""
        try:
            connection = await self._connection(node_id)
            return await connection.call(request, timeout_s=_TIMEOUT_S, response_bytes_max=_ANSWER_BYTES_MAX)
        except KafkaUnavailable as error:
            raise Unavailable(f"broker {node_id}: {error}") from error

    async def adopt(self, node_id: int, message: Adoption) -> Adopted:
        """Of a broker of ours. Raises: Unavailable."""
        try:
            connection = await self._connection(node_id)
            body = await connection.call_message(ADOPT_KEY, 0, adoption.encode(message), timeout_s=_TIMEOUT_S)
        except KafkaUnavailable as error:
            raise Unavailable(f"broker {node_id}: {error}") from error
        return adoption.decode_response(body)

    async def _connection(self, node_id: int) -> KafkaConnection:
        async with self._opening.setdefault(node_id, asyncio.Lock()):
            connection = self._open.get(node_id)
            if connection is None or connection.is_closed:
                connection = await self.cluster.connect(node_id, timeout_s=_TIMEOUT_S)
                self._open[node_id] = connection
            return connection

    def close(self) -> None:
        """Close them."""
        for connection in self._open.values():
            connection.close()

    async def layout(self) -> Layout:
        """As one broker knows it now. Raises: Unavailable, also while a partition has no leader."""
        names = sorted(await self.cluster.topics(self.instance_id))
        topics: dict[str, Topic] = {}
        leaders: dict[TopicPartition, int] = {}
        for some in pieces(names, _NAMES_PER_ASK):
            asked = tuple(
                MetadataRequestTopic(topic_id=None, name=TopicName(physical_name(self.instance_id, name)))
                for name in some
            )
            answer = await self.cluster.ask(
                MetadataRequest(
                    topics=asked,
                    allow_auto_topic_creation=False,
                    include_topic_authorized_operations=False,
                )
            )
            for topic in answer.topics:
                name = tenant_name(self.instance_id, topic.name or "")
                if name is None or topic.error_code is ErrorCode.unknown_topic_or_partition:
                    continue  # deleted meanwhile
                for one in topic.partitions:
                    if one.leader_id < 0:
                        raise Unavailable(f"partition {one.partition_index} of '{name}' has no leader now")
                    leaders[name, int(one.partition_index)] = int(one.leader_id)
                epoch = max((int(one.leader_epoch) for one in topic.partitions), default=0)
                topics[name] = Topic(topic.topic_id, len(topic.partitions), epoch)
        return Layout(topics, leaders)

    async def fetch(
        self, node_id: int, positions: Mapping[TopicPartition, int], *, only_decided: bool = False
    ) -> dict[TopicPartition, Stored]:
        """What is stored from these offsets on, of partitions that a broker leads; aborted transactions and
        markers among it, and open transactions unless it is to be `only_decided`. Raises: Unavailable."""
        by_topic: dict[str, list[FetchPartition]] = {}
        for (topic, index), position in positions.items():
            by_topic.setdefault(topic, []).append(
                FetchPartition(
                    partition=i32(index),
                    fetch_offset=i64(position),
                    partition_max_bytes=i32(PARTITION_BYTES),
                )
            )
        request = FetchRequest(
            max_wait=duration(0),
            min_bytes=i32(0),
            max_bytes=i32(_ANSWER_BYTES),
            isolation_level=i8(only_decided),
            topics=tuple(
                FetchTopic(
                    topic=TopicName(physical_name(self.instance_id, topic)), partitions=tuple(partitions)
                )
                for topic, partitions in by_topic.items()
            ),
            forgotten_topics_data=(),
        )
        answer = await self.call(node_id, request)
        return {
            (tenant_name(self.instance_id, topic.topic) or "", int(one.partition_index)): _stored(
                one, only_decided
            )
            for topic in answer.responses
            for one in topic.partitions
        }


def _stored(one: PartitionData, only_decided: bool) -> Stored:
    records = memoryview(one.records or b"")
    batches = list(whole_batches(records))
    end = batches[-1][0] + batches[-1][1].size_bytes if batches else 0
    aborted = [
        Aborted(int(each.producer_id), int(each.first_offset)) for each in one.aborted_transactions or ()
    ]
    readable_to = int(one.last_stable_offset if only_decided else one.high_watermark)
    return Stored(one.error_code, readable_to, records[:end], batches, aborted)


def whole_batches(records: memoryview) -> Iterable[tuple[int, BatchHeader]]:
    """Where batches begin; the last of an answer may be cut off, and is left out."""
    at = 0
    while len(records) - at >= HEADER_SIZE:
        header = parse_header(records, at)
        if at + header.size_bytes > len(records):
            return
        yield at, header
        at += header.size_bytes
