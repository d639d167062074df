"""Sending the ends of transactions to the partitions' leaders, for as long as it takes.

Every partition of a decided transaction gets its marker, whichever broker leads it by then; only a partition
that is no more is let off. A broker is asked for all markers it is due in one request.
Source: Kafka TransactionMarkerChannelManager, TransactionMarkerRequestCompletionHandler.
"""

import asyncio
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Final, NamedTuple, Protocol
from weakref import WeakKeyDictionary

import kio.schema.write_txn_markers.v1.request
import kio.schema.write_txn_markers.v2.request
from kio.schema.api_versions.v0 import ApiVersionsRequest
from kio.schema.errors import ErrorCode
from kio.static.protocol import Entity, Payload

from broker.coordinators.fair_queue import ITEM_BYTES
from broker.coordinators.marker_writing import MarkerWriter
from broker.coordinators.peers import Lanes, Peers
from broker.groups.messages import Producer
from broker.metadata.metadata_cache import MetadataCache
from broker.transactions.messages import SendMarkers
from broker.transactions.state import TopicPartition
from contracts.cluster import NO_LEADER
from contracts.names import owner_of
from runtime.kafka_client import KafkaConnection
from runtime.logs import get_logger
from wire.api_table import ApiKey
from wire.build import make
from wire.control import EndMarker

_log = get_logger(__name__)
_RETRY_MS: Final = 100
_GONE_AFTER_MS: Final = 2_000
_EXCHANGE_TIMEOUT_S: Final = 30.0
_LOWEST, _HIGHEST = 1, 2
_SHAPES: Final[dict[int, ModuleType]] = {
    1: kio.schema.write_txn_markers.v1.request,
    2: kio.schema.write_txn_markers.v2.request,
}
_FENCED: Final = frozenset({ErrorCode.invalid_producer_epoch, ErrorCode.transaction_coordinator_fenced})
"""A newer coordinator has taken over and ends the transaction, or it is over and the next one is open."""


class Coordinating(Protocol):
    """Where the transaction is coordinated."""

    @property
    def is_closed(self) -> bool:
        """Whether it no longer is: then the next coordinator sends the markers."""


class _Job:
    """One transaction whose markers are being sent."""

    __slots__ = ("command", "is_fenced", "missed_since_ms", "owner", "written")

    def __init__(
        self, command: SendMarkers, owner: Coordinating, written: Callable[[list[TopicPartition]], None]
    ) -> None:
        self.command: Final = command
        self.owner: Final = owner
        self.written: Final = written
        self.is_fenced = False
        self.missed_since_ms: dict[TopicPartition, int] = {}
        """Since when a partition is not in the metadata."""

    @property
    def is_over(self) -> bool:
        return self.is_fenced or self.owner.is_closed

    @property
    def end(self) -> EndMarker:
        command = self.command
        return EndMarker(command.is_commit, command.coordinator_epoch, command.transaction_version)


class _Due(NamedTuple):
    """Markers of one transaction for partitions that one broker leads."""

    job: _Job
    partitions: tuple[TopicPartition, ...]

    @property
    def size_bytes(self) -> int:
        """What they take of a request, or somewhat more."""
        return ITEM_BYTES + sum(ITEM_BYTES + len(each.topic) for each in self.partitions)


class MarkerSender:
    """Sends markers; retries what was not written."""

    def __init__(
        self,
        broker_id: int,
        metadata: MetadataCache,
        writer: MarkerWriter,
        peers: Peers,
        now_ms: Callable[[], int],
    ) -> None:
        self._now_ms = now_ms
        self._broker_id = broker_id
        self._metadata = metadata
        self._writer = writer
        self._lanes: Lanes[_Due] = Lanes(peers, self._exchange, self._failed)
        self._retries: set[asyncio.TimerHandle] = set()
        self._versions: WeakKeyDictionary[KafkaConnection, int] = WeakKeyDictionary()
        """Of WriteTxnMarkers, that the broker at the other end speaks: it may be one of before."""

    def send(
        self, command: SendMarkers, owner: Coordinating, written: Callable[[list[TopicPartition]], None]
    ) -> None:
        """Have the markers written; `written` is told of partitions as they come."""
        self._dispatch(_Job(command, owner, written), command.partitions)

    def _dispatch(self, job: _Job, partitions: Iterable[TopicPartition]) -> None:
        if job.is_over:
            return
        gone: list[TopicPartition] = []
        leaderless: list[TopicPartition] = []
        by_leader: dict[int, list[TopicPartition]] = {}
        for each in partitions:
            state = self._metadata.partition(*each)
            if state is None:
                (gone if self._is_gone(job, each) else leaderless).append(each)
            elif state.leader == NO_LEADER:
                leaderless.append(each)
            else:
                by_leader.setdefault(state.leader, []).append(each)
        if gone:
            job.written(gone)
        if leaderless:
            self._retry(job, leaderless)
        for leader, theirs in by_leader.items():
            if leader != self._broker_id:
                due = _Due(job, tuple(theirs))
                self._lanes.add(leader, due, owner_of(job.command.transactional_id), due.size_bytes)
                continue
            for each in theirs:
                self._write_here(job, each)

    def _is_gone(self, job: _Job, each: TopicPartition) -> bool:
        """A partition that is not in the metadata was deleted, unless the metadata is only behind."""
        now_ms = self._now_ms()
        since_ms = job.missed_since_ms.setdefault(each, now_ms)
        return self._metadata.controller_epoch >= 0 and now_ms - since_ms >= _GONE_AFTER_MS

    def _write_here(self, job: _Job, each: TopicPartition) -> None:
        producer = Producer(*job.command.producer)
        self._writer.write(*each, producer, job.end, lambda error: self._told(job, each, error))

    def _told(self, job: _Job, each: TopicPartition, error: ErrorCode) -> None:
        if error is ErrorCode.none:
            if not job.is_over:
                job.written([each])
        elif error in _FENCED:
            job.is_fenced = True
            _log.warning(
                "markers are left to another coordinator",
                transactional_id=job.command.transactional_id,
                topic=each.topic,
                partition=each.partition,
                error=error.name,
            )
        else:
            self._retry(job, [each])

    def _retry(self, job: _Job, partitions: Iterable[TopicPartition]) -> None:
        def again() -> None:
            self._retries.discard(handle)
            self._dispatch(job, partitions)

        handle = asyncio.get_running_loop().call_later(_RETRY_MS / 1000, again)
        self._retries.add(handle)

    # -- other brokers

    async def _exchange(self, connection: KafkaConnection, items: list[_Due]) -> None:
        due = [each for each in items if not each.job.is_over]
        if not due:
            return
        request = _request(due, await self._version(connection))
        response = await connection.call(request, timeout_s=_EXCHANGE_TIMEOUT_S)
        # Answers stand in the order of the markers asked for: a producer id may stand there twice.
        for each, answer in zip(due, response.markers, strict=False):
            errors = {
                TopicPartition(topic.name, one.partition_index): one.error_code
                for topic in answer.topics
                for one in topic.partitions
            }
            for partition in each.partitions:
                self._told(each.job, partition, errors.get(partition, ErrorCode.unknown_server_error))
        for each in due[len(response.markers) :]:
            self._retry(each.job, each.partitions)

    async def _version(self, connection: KafkaConnection) -> int:
        """Raises: KafkaUnavailable."""
        version = self._versions.get(connection)
        if version is None:
            told = await connection.call(ApiVersionsRequest())
            highest = (api.max_version for api in told.api_keys if api.api_key == ApiKey.WRITE_TXN_MARKERS)
            version = self._versions[connection] = min(next(highest, _LOWEST), _HIGHEST)
        return version

    def _failed(self, items: list[_Due]) -> None:
        for each in items:
            self._retry(each.job, each.partitions)

    def close(self) -> None:
        """Stop; the next start goes on where the log stands."""
        for handle in self._retries:
            handle.cancel()
        self._lanes.close()


def _request(due: list[_Due], version: int) -> Payload:
    shape = _SHAPES[version]
    request: Payload = make(shape.WriteTxnMarkersRequest, markers=tuple(_marker(shape, each) for each in due))
    return request


def _marker(shape: ModuleType, due: _Due) -> Entity:
    command = due.job.command
    topics: dict[str, list[int]] = {}
    for topic, partition in due.partitions:
        topics.setdefault(topic, []).append(partition)
    marker: Entity = make(
        shape.WritableTxnMarker,
        producer_id=command.producer.producer_id,
        producer_epoch=command.producer.producer_epoch,
        transaction_result=command.is_commit,
        topics=tuple(
            make(shape.WritableTxnMarkerTopic, name=name, partition_indexes=tuple(indexes))
            for name, indexes in topics.items()
        ),
        coordinator_epoch=command.coordinator_epoch,
        transaction_version=command.transaction_version,
    )
    return marker
