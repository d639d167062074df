"""Writes batches to one target partition: in transactions with their progress, or alone under a lease."""

import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from pipeline.mirror.cluster import TRANSACTION, Cluster
from pipeline.mirror.kafka import Connection
from pipeline.mirror.planning.errors import TooLarge, Unreachable, expect_success
from pipeline.mirror.planning.rebatch import Draft
from wire.api_table import ApiKey
from wire.batch import (
    CODEC_NONE,
    HEADER_SIZE,
    MAGIC_V2,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    SEQUENCE_MAX,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Record,
    build_batch,
    seal_batch,
    seal_in_place,
)
from wire.compression import compress
from wire.hot.produce import request_head

TRANSACTION_TIMEOUT_MS: Final = 120_000
_PRODUCE_TIMEOUT_MS: Final = 20_000
_IN_FLIGHT_MAX: Final = 4
_FENCE_WITHIN_S: Final = TRANSACTION_TIMEOUT_MS / 1000 + 10
_AGAIN_AFTER_S: Final = 0.02
_WAITED_FOR: Final = frozenset({ErrorCode.concurrent_transactions, ErrorCode.coordinator_load_in_progress})


class Producer(NamedTuple):
    """Who writes, as batches say it."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


NOBODY: Final = Producer()


def seal(draft: Draft, producer: Producer, base_sequence: int) -> bytearray:
    """The batch as it is produced, compressed as it was at the source."""
    attributes = draft.codec | (TRANSACTIONAL_BIT if producer.producer_id >= 0 else 0)
    header = BatchHeader(
        base_offset=0,
        batch_length=0,
        partition_leader_epoch=-1,
        magic=MAGIC_V2,
        crc=0,
        attributes=attributes,
        last_offset_delta=draft.record_count - 1,
        base_timestamp_ms=draft.base_timestamp_ms,
        max_timestamp_ms=draft.max_timestamp_ms,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=base_sequence,
        record_count=draft.record_count,
    )
    if draft.codec == CODEC_NONE:
        seal_in_place(header, draft.buffer)
        return draft.buffer
    return seal_batch(header, compress(bytes(draft.buffer[HEADER_SIZE:]), draft.codec))[1]


class TargetPartition:
    """Produce requests to one partition, several on their way, replies in order."""

    def __init__(
        self, cluster: Cluster, topic: str, partition: int, transactional_id: str | None, in_flight_max: int
    ) -> None:
        self._topic = topic
        self._partition = partition
        self._transactional_id = transactional_id
        self._in_flight_max = in_flight_max
        self._connection: Connection = cluster.leader(topic, partition, f"produce {topic}-{partition}")
        self._counts: deque[int] = deque()
        self.first_base_offset = -1
        """Where the oldest batch since the last `flush` went."""
        self.next_offset = -1
        """Behind the newest."""
        self.next_sequence = 0

    def send(self, batch: bytearray, count: int) -> None:
        """Send a batch of `count` records, after waiting for replies while too many are on their way."""
        while len(self._counts) >= self._in_flight_max:
            self._collect()
        head = request_head(
            self._transactional_id, _PRODUCE_TIMEOUT_MS, self._topic, self._partition, len(batch)
        )
        self._connection.send_raw(ApiKey.PRODUCE, head, batch)
        self._counts.append(count)
        self.next_sequence = (self.next_sequence + count) & SEQUENCE_MAX

    def settle(self) -> None:
        """Wait for all replies."""
        while self._counts:
            self._collect()

    def flush(self) -> tuple[int, int]:
        """Wait for all replies: (offset of the first batch since the last flush, offset behind the last)."""
        self.settle()
        written = self.first_base_offset, self.next_offset
        self.first_base_offset = -1
        return written

    def _collect(self) -> None:
        count = self._counts.popleft()
        part = self._connection.receive().responses[0].partition_responses[0]
        expect_success(
            part.error_code,
            f"writing to {self._topic}-{self._partition} of the target",
            getattr(part, "error_message", None),
        )
        if self.first_base_offset < 0:
            self.first_base_offset = part.base_offset
        self.next_offset = part.base_offset + count


def fence(cluster: Cluster, transactional_id: str) -> Producer:
    """Take a transactional id over: whoever had it writes no more, and its open transaction is aborted."""
    answer = _patiently(
        cluster,
        cluster.coordinator(transactional_id, TRANSACTION),
        ApiKey.INIT_PRODUCER_ID,
        lambda reply: reply.error_code,
        "taking over the partition",
        transactional_id=transactional_id,
        transaction_timeout=TRANSACTION_TIMEOUT_MS,
    )
    return Producer(answer.producer_id, answer.producer_epoch)


def _patiently(
    cluster: Cluster,
    coordinator: Connection,
    api: ApiKey,
    error_of: Callable[[Any], ErrorCode],
    doing: str,
    **fields: Any,
) -> Any:
    """A call to a coordinator, again while an earlier transaction is being completed."""
    deadline = time.monotonic() + _FENCE_WITHIN_S
    while True:
        answer = cluster.call(coordinator, api, **fields)
        error_code = error_of(answer)
        if error_code not in _WAITED_FOR or time.monotonic() > deadline:
            expect_success(error_code, doing)
            return answer
        time.sleep(_AGAIN_AFTER_S)


class TransactionalWriter:
    """One producer for one unit: who opens it last is the only one that writes on.

    Data and progress are committed together or not at all; what an earlier one left open is aborted.
    """

    def __init__(
        self, cluster: Cluster, transactional_id: str, data: tuple[str, int], progress: tuple[str, int]
    ) -> None:
        self._cluster = cluster
        self._id = transactional_id
        self._places = (data, progress)
        self._open = False
        self._coordinator = cluster.coordinator(transactional_id, TRANSACTION)
        self._producer = fence(cluster, transactional_id)
        self._data = TargetPartition(cluster, *data, transactional_id, _IN_FLIGHT_MAX)
        self._progress = TargetPartition(cluster, *progress, transactional_id, _IN_FLIGHT_MAX)

    def _named(self) -> dict[str, Any]:
        return {
            "transactional_id": self._id,
            "producer_id": self._producer.producer_id,
            "producer_epoch": self._producer.producer_epoch,
        }

    def _begin(self) -> None:
        if self._open:
            return
        topics = [{"name": topic, "partitions": (partition,)} for topic, partition in self._places]
        fields = {f"v3_and_below_{name}": value for name, value in self._named().items()}
        _patiently(
            self._cluster,
            self._coordinator,
            ApiKey.ADD_PARTITIONS_TO_TXN,
            _first_partition_error,
            "beginning a transaction",
            v3_and_below_topics=topics,
            **fields,
        )
        self._open = True

    def append(self, draft: Draft, bytes_max: int) -> int:
        """Write a batch in the open transaction; returns its size in bytes. Raises: TooLarge before it writes
        anything of a batch that the target would not take."""
        batch = sealed_within(draft, self._producer, self._data.next_sequence, bytes_max)
        self._begin()
        self._data.send(batch, draft.record_count)
        return len(batch)

    def flush(self) -> tuple[int, int]:
        """(first target offset of this transaction, target offset behind it), -1 where it has no data."""
        return self._data.flush()

    def commit(self, progress: list[Record]) -> None:
        """Write the progress and commit it with the data."""
        self._begin()
        batch = build_batch(
            progress,
            producer_id=self._producer.producer_id,
            producer_epoch=self._producer.producer_epoch,
            base_sequence=self._progress.next_sequence,
            attributes=TRANSACTIONAL_BIT,
        )
        self._progress.send(batch, len(progress))
        self._progress.flush()
        self._end(committed=True)

    def abort(self) -> None:
        """Give up what is open, so that readers need not wait for its timeout."""
        if self._open:
            self._end(committed=False)

    def _end(self, *, committed: bool) -> None:
        self._open = False
        _patiently(
            self._cluster,
            self._coordinator,
            ApiKey.END_TXN,
            lambda reply: reply.error_code,
            "ending a transaction",
            committed=committed,
            **self._named(),
        )


def _first_partition_error(answer: Any) -> ErrorCode:
    for topic in answer.results_by_topic_v3_and_below:
        for partition in topic.results_by_partition:
            if partition.partition_error_code != ErrorCode.none:
                return ErrorCode(partition.partition_error_code)
    return ErrorCode.none


class LeasedWriter:
    """Without transactions: one batch at a time, each while the lease holds; its headers are its progress."""

    def __init__(
        self, cluster: Cluster, data: tuple[str, int], progress: tuple[str, int], lease_until_ms: int
    ) -> None:
        self._data = TargetPartition(cluster, *data, None, 1)
        self._progress = TargetPartition(cluster, *progress, None, 1)
        self._lease_until_ms = lease_until_ms

    def append(self, draft: Draft, bytes_max: int) -> int:
        """Write a batch and wait for its reply: a later one must not take its place."""
        batch = sealed_within(draft, NOBODY, NO_SEQUENCE, bytes_max)
        self._data.settle()
        self._check_lease()
        self._data.send(batch, draft.record_count)
        return len(batch)

    def flush(self) -> tuple[int, int]:
        """Wait for all replies: records and bytes, as the transactional writer's."""
        return self._data.flush()

    def commit(self, progress: list[Record]) -> None:
        """Note the progress, which is only a hint where to look for the tail."""
        self._check_lease()
        self._progress.send(build_batch(progress), len(progress))
        self._progress.flush()

    def abort(self) -> None:
        """Nothing is ever open."""

    def _check_lease(self) -> None:
        if time.time_ns() // 1_000_000 >= self._lease_until_ms:
            raise Unreachable("the lease of this round is over")


def sealed_within(draft: Draft, producer: Producer, base_sequence: int, bytes_max: int) -> bytearray:
    """`seal`, of a batch that the target takes. Raises: TooLarge."""
    batch = seal(draft, producer, base_sequence)
    if len(batch) > bytes_max:
        raise TooLarge(
            f"the record at offset {draft.first_offset} needs a batch of {len(batch)} bytes, the target takes"
            f" {bytes_max}: raise max.message.bytes of the target topic"
        )
    return batch
