"""Reads committed record batches of one partition, the next ones while these are worked on."""

import time
from collections.abc import Iterator
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from pipeline.mirror.cluster import Cluster
from pipeline.mirror.frames import FetchedPartition, parse_fetch
from pipeline.mirror.kafka import Connection
from pipeline.mirror.planning.errors import Paused, Unreachable, expect_success
from wire.api_table import ApiKey
from wire.batch import (
    BATCH_LENGTH_MIN,
    CODEC_NONE,
    HEADER_SIZE,
    BatchError,
    BatchHeader,
    check_crc,
    check_magic,
    parse_header,
)
from wire.compression import PayloadUnreadable, decompress
from wire.control import marker_at
from wire.faults import MalformedFrame

_FETCH_BYTES: Final = 4 * 1024 * 1024
_RESPONSE_BYTES: Final = 8 * 1024 * 1024
_WAIT_MS: Final = 500
_PATIENCE_MS: Final = 2_000
READ_COMMITTED: Final = 1


class OutOfRange(Exception):  # noqa: N818 - what a position is
    """The log does not have this offset: retention removed it, or the log is shorter."""


class Fetched(NamedTuple):
    """What one request brought. Its batches hold everything committed from the position asked for on."""

    part: FetchedPartition
    next_offset: int

    @property
    def is_empty(self) -> bool:
        """There was nothing to read, not even for a client that may read at once."""
        return self.part.records_at == self.part.records_end and not self.part.throttle_ms


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
        """The offset that the next request asks for."""
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
        frame = self._connection.receive_raw()
        self._asked = False
        try:
            part = parse_fetch(frame, self._connection.version(ApiKey.FETCH))
        except MalformedFrame as error:
            raise Unreachable(f"{self._connection.address} gave no answer: {error}") from error
        if part.error_code == ErrorCode.offset_out_of_range:
            raise OutOfRange(f"{self._topic}-{self._partition} has no offset {self.position}")
        expect_success(part.error_code, f"reading {self._topic}-{self._partition}")
        if part.throttle_ms and part.records_at == part.records_end:
            time.sleep(min(part.throttle_ms, _PATIENCE_MS) / 1000)
        for _, header in whole_batches(part):
            self.position = max(self.position, header.next_offset)
        return Fetched(part, self.position)

    def close(self) -> None:
        """Replies that are on their way are not wanted."""
        self._cluster.drop(self._connection)


def whole_batches(part: FetchedPartition) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of batches; the last may be cut off and is left out. Raises: Paused."""
    at, end = part.records_at, part.records_end
    try:
        while at + HEADER_SIZE <= end:
            header = parse_header(part.frame, at)
            check_magic(header)
            if header.batch_length < BATCH_LENGTH_MIN:
                raise Paused(
                    f"the batch at offset {header.base_offset} has a length of {header.batch_length}"
                )
            if at + header.size_bytes > end:
                return
            yield at, header
            at += header.size_bytes
    except BatchError as error:
        raise Paused(f"the records cannot be read: {error.message}") from error


def committed_batches(part: FetchedPartition) -> Iterator[tuple[int, BatchHeader]]:
    """The batches with data that readers of committed data see.

    Source: Kafka CompletedFetch.nextFetchedRecord. Raises: Paused.
    """
    coming = sorted(part.aborted, key=lambda each: each[1])
    in_aborted: set[int] = set()
    for at, header in whole_batches(part):
        while coming and coming[0][1] <= header.last_offset:
            in_aborted.add(coming.pop(0)[0])
        if header.is_control:
            marker = marker_at(part.frame, at, header)
            if marker is not None and not marker.is_commit:
                in_aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in in_aborted) and header.record_count:
            yield at, header


class Payload(NamedTuple):
    """The records of a batch, decompressed: bytes from `at` up to `end`."""

    data: bytes
    at: int
    end: int


def payload_of(part: FetchedPartition, at: int, header: BatchHeader) -> Payload:
    """The records of a batch whose checksum holds. Raises: Paused."""
    try:
        check_crc(part.frame, at, header)
        if header.codec == CODEC_NONE:
            return Payload(part.frame, at + HEADER_SIZE, at + header.size_bytes)
        data = bytes(decompress(part.frame[at + HEADER_SIZE : at + header.size_bytes], header.codec))
        return Payload(data, 0, len(data))
    except (BatchError, PayloadUnreadable) as error:
        raise Paused(f"the batch at offset {header.base_offset} cannot be read: {error}") from error
