"""Reads committed record batches of one partition, the next ones while these are worked on."""

import time
from collections.abc import Iterator
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from pipeline.mirror.cluster import Cluster
from pipeline.mirror.errors import Paused, expect_success
from pipeline.mirror.kafka import Connection
from wire.api_table import ApiKey
from wire.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    BatchError,
    BatchHeader,
    check_crc,
    check_magic,
    parse_header,
)
from wire.codec import milliseconds
from wire.compression import PayloadUnreadable, decompress
from wire.control import marker_at

_FETCH_BYTES: Final = 4 * 1024 * 1024
_RESPONSE_BYTES: Final = 8 * 1024 * 1024
_WAIT_MS: Final = 500
_PATIENCE_MS: Final = 2_000
READ_COMMITTED: Final = 1


class OutOfRange(Exception):  # noqa: N818 - what a position is
    """The log does not have this offset: retention removed it, or the log is shorter."""


class Fetched(NamedTuple):
    """What one request brought. Its batches hold everything committed from the position asked for on."""

    records: bytes
    aborted: list[tuple[int, int]]
    """(producer id, first offset) of transactions that were aborted."""
    next_offset: int
    high_watermark: int
    throttle_ms: int
    """How long the source wants to be left alone, because of the instance's rate."""


class PartitionReader:
    """One partition from an offset on."""

    def __init__(
        self, cluster: Cluster, topic: str, partition: int, position: int, *, isolation: int = READ_COMMITTED
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._partition = partition
        self._isolation = isolation
        self.position = position
        """Of the next request's reply."""
        self._connection: Connection = cluster.leader(topic, partition, "fetch")
        self._asked = False

    def ask(self) -> None:
        """Send the next request ahead."""
        if self._asked:
            return
        partition = {
            "partition": self._partition,
            "fetch_offset": self.position,
            "partition_max_bytes": _FETCH_BYTES,
        }
        self._connection.send(
            ApiKey.FETCH,
            max_wait=_WAIT_MS,
            min_bytes=1,
            max_bytes=_RESPONSE_BYTES,
            isolation_level=self._isolation,
            topics=[{"topic": self._topic, "partitions": [partition]}],
            forgotten_topics_data=(),
        )
        self._asked = True

    def read(self) -> Fetched:
        """What comes next; nothing where there is nothing within half a second. Raises: OutOfRange."""
        self.ask()
        answer = self._connection.receive()
        self._asked = False
        doing = f"reading {self._topic}-{self._partition}"
        expect_success(answer.error_code, doing)
        part = answer.responses[0].partitions[0]
        if part.error_code == ErrorCode.offset_out_of_range:
            raise OutOfRange(f"{self._topic}-{self._partition} has no offset {self.position}")
        expect_success(part.error_code, doing)
        records = bytes(part.records or b"")
        throttle_ms = milliseconds(answer.throttle_time)
        if throttle_ms and not records:
            time.sleep(min(throttle_ms, _PATIENCE_MS) / 1000)
        aborted = [(each.producer_id, each.first_offset) for each in part.aborted_transactions or ()]
        self.position = max(self.position, _next_offset(records, self.position))
        return Fetched(records, aborted, self.position, part.high_watermark, throttle_ms)

    def close(self) -> None:
        """Replies that are on their way are not wanted."""
        self._cluster.drop(self._connection)


def whole_batches(records: bytes) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of batches; the last may be cut off and is left out.

    Raises: BatchError.
    """
    at, size = 0, len(records)
    while at + HEADER_SIZE <= size:
        header = parse_header(records, at)
        check_magic(header)
        if header.batch_length < HEADER_SIZE - LOG_OVERHEAD:
            raise BatchError(ErrorCode.corrupt_message, f"batch length {header.batch_length} is below 49")
        if at + header.size_bytes > size:
            return
        yield at, header
        at += header.size_bytes


def _next_offset(records: bytes, position: int) -> int:
    for _, header in whole_batches(records):
        position = header.next_offset
    return position


def committed_batches(records: bytes, aborted: list[tuple[int, int]]) -> Iterator[tuple[int, BatchHeader]]:
    """The batches with data that readers of committed data see.

    Source: Kafka CompletedFetch.nextFetchedRecord. Raises: BatchError.
    """
    coming = sorted(aborted, key=lambda each: each[1])
    in_aborted: set[int] = set()
    for at, header in whole_batches(records):
        while coming and coming[0][1] <= header.last_offset:
            in_aborted.add(coming.pop(0)[0])
        if header.is_control:
            marker = marker_at(records, at, header)
            if marker is not None and not marker.is_commit:
                in_aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in in_aborted) and header.record_count:
            yield at, header


def payload_of(records: bytes, at: int, header: BatchHeader) -> bytes:
    """The records of a batch whose checksum holds, decompressed. Raises: Paused."""
    try:
        check_crc(records, at, header)
        payload = records[at + HEADER_SIZE : at + header.size_bytes]
        return bytes(decompress(payload, header.codec))
    except (BatchError, PayloadUnreadable) as error:
        raise Paused(f"the batch at offset {header.base_offset} cannot be read: {error}") from error
