"""Whether all replicas of partitions hold the same records, read from every broker and compared.

Batches are compared by offset, leader epoch and CRC up to the lowest high watermark of the replicas: what is
above it may still differ. Of compacted topics, which every broker cleans by itself, the records that both
replicas have are compared instead.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode
from kio.schema.fetch.v11.request import FetchPartition, FetchRequest, FetchTopic
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i64

from ctl.cluster_client import Cluster
from ctl.tools.partitions import PartitionRow
from runtime.kafka_client import KafkaUnavailable
from wire.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    BatchError,
    BatchHeader,
    check_crc,
    decode_records,
    parse_header,
)
from wire.codec import duration
from wire.compression import PayloadUnreadable, decompress

_DEBUGGING_REPLICA: Final = BrokerId(-2)
"""Kafka's id for tools: followers answer it, too."""
_READ_BYTES: Final = 1024 * 1024
_HEARSAY_S: Final = 5.0
"""Followers hear of the high watermark with their next fetch, half a second later when nothing comes."""
_LOOK_AGAIN_S: Final = 0.2


class Batch(NamedTuple):
    """One batch of one replica."""

    header: BatchHeader
    data: bytes

    @property
    def mark(self) -> tuple[int, int, int, int]:
        """What equal batches have in common."""
        header = self.header
        return header.base_offset, header.last_offset, header.partition_leader_epoch, header.crc


class Ends(NamedTuple):
    """How far a replica's log goes, as it says itself."""

    log_start_offset: int
    high_watermark: int


class Unreadable(Exception):  # noqa: N818 - says what is so
    """A replica cannot be read; the reason in a few words."""

    def __init__(self, broker: int, reason: str) -> None:
        super().__init__(reason)
        self.broker = broker
        """Whose replica it is."""


class Verdict(NamedTuple):
    """What is so of one replica."""

    topic: str
    partition: int
    replica: int
    in_sync: bool
    high_watermark: int | None
    lag: int | None
    """Records behind the replica with the highest high watermark."""
    fault: str | None
    """Why it differs from the others, or cannot be compared."""


class ReplicaReader:
    """The records of one replica from an offset on."""

    def __init__(self, cluster: Cluster, broker: int, row: PartitionRow) -> None:
        self._cluster = cluster
        self._broker = broker
        self._row = row

    async def ends(self) -> Ends:
        """Raises: Unreadable."""
        answer = await self._fetch(0, 1)
        if answer.error_code is ErrorCode.offset_out_of_range:
            answer = await self._fetch(int(answer.log_start_offset), 1)
        self._check(answer)
        return Ends(int(answer.log_start_offset), int(answer.high_watermark))

    async def batches(self, start: int, end: int) -> AsyncIterator[Batch]:
        """Whole batches from the one that holds `start` on, up to `end`. Raises: Unreadable."""
        offset = start
        while offset < end:
            answer = await self._fetch(offset, _READ_BYTES)
            self._check(answer)
            found = self._cut(bytes(answer.records or b""), end)
            if not found:
                raise Unreadable(self._broker, f"no records from offset {offset} on")
            for batch in found:
                yield batch
                offset = batch.header.next_offset

    async def _fetch(self, offset: int, bytes_max: int) -> Any:
        partition = FetchPartition(
            partition=i32(self._row.partition), fetch_offset=i64(offset), partition_max_bytes=i32(bytes_max)
        )
        request = FetchRequest(
            replica_id=_DEBUGGING_REPLICA,
            max_wait=duration(0),
            min_bytes=i32(0),
            max_bytes=i32(bytes_max),
            isolation_level=i8(0),
            topics=(FetchTopic(topic=TopicName(self._row.topic), partitions=(partition,)),),
            forgotten_topics_data=(),
        )
        if self._broker not in self._cluster.addresses:
            raise Unreadable(self._broker, f"broker {self._broker} is not registered")
        try:
            answer = await self._cluster.ask(self._broker, request)
        except KafkaUnavailable as error:
            raise Unreadable(self._broker, str(error)) from error
        return answer.responses[0].partitions[0]

    def _check(self, answer: Any) -> None:
        if answer.error_code is not ErrorCode.none:
            raise Unreadable(self._broker, answer.error_code.name.upper())

    def _cut(self, data: bytes, end: int) -> list[Batch]:
        """The whole batches in `data` below `end`. Raises: Unreadable for one whose CRC is not its own."""
        found = []
        at = 0
        while len(data) - at >= HEADER_SIZE:
            header = parse_header(data, at)
            behind = at + LOG_OVERHEAD + header.batch_length
            if behind > len(data) or header.base_offset >= end:
                break
            try:
                check_crc(data, at, header)
            except BatchError as error:
                reason = f"the batch at offset {header.base_offset} is damaged: {error}"
                raise Unreadable(self._broker, reason) from error
            found.append(Batch(header, data[at:behind]))
            at = behind
        return found

    async def records(self, start: int, end: int) -> AsyncIterator[Sequence[Any]]:
        """Records, batch by batch taken apart. Raises: Unreadable."""
        async for batch in self.batches(start, end):
            if not batch.header.record_count:
                continue
            try:
                payload = decompress(batch.data[HEADER_SIZE:], batch.header.codec)
                for record in decode_records(batch.header, payload):
                    yield record
            except (PayloadUnreadable, BatchError) as error:
                reason = f"the batch at offset {batch.header.base_offset}: {error}"
                raise Unreadable(self._broker, reason) from error


async def verify(cluster: Cluster, row: PartitionRow, *, compacted: bool) -> list[Verdict]:
    """Compare the replicas of one partition with its leader's, or the first that can be read."""
    readers = {broker: ReplicaReader(cluster, broker, row) for broker in row.replicas}
    ends, faults = await _settled_ends(readers, row.isr)
    sound = dict(ends)
    while len(sound) > 1:
        reference = row.leader if row.leader in sound else next(iter(sound))
        found = await _compare(readers, sound, reference, compacted=compacted)
        if reference not in found:
            faults |= found
            break
        faults[reference] = found[reference]  # it is no measure of the others
        del sound[reference]
    return [_verdict(row, broker, ends, faults.get(broker)) for broker in row.replicas]


async def _compare(
    readers: Mapping[int, ReplicaReader], ends: Mapping[int, Ends], reference: int, *, compacted: bool
) -> dict[int, str]:
    """What is wrong with which replica; only the reference's damage, if it has any."""
    differ = _different_records if compacted else _different_batches
    faults = {}
    for broker in ends.keys() - {reference}:
        pair = ends[reference], ends[broker]
        start = max(one.log_start_offset for one in pair)
        end = min(one.high_watermark for one in pair)
        try:
            fault = await differ(readers[reference], readers[broker], start, end)
        except Unreadable as error:
            if error.broker == reference:
                return {reference: str(error)}
            fault = str(error)
        if fault is not None:
            faults[broker] = f"{fault} (compared with broker {reference})"
    return faults


async def _settled_ends(
    readers: Mapping[int, ReplicaReader], isr: Sequence[int]
) -> tuple[dict[int, Ends], dict[int, str]]:
    """How far each replica goes once those in sync have heard of what was committed when we came."""
    ends, faults = await _ends(readers)
    committed = max((ends[broker].high_watermark for broker in isr if broker in ends), default=0)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _HEARSAY_S
    while behind := [broker for broker in isr if broker in ends and ends[broker].high_watermark < committed]:
        if loop.time() > deadline:
            text = f"is in sync but has not heard of what was committed up to offset {committed}"
            return ends, faults | dict.fromkeys(behind, text)
        await asyncio.sleep(_LOOK_AGAIN_S)
        ends, faults = await _ends(readers)
    return ends, faults


async def _ends(readers: Mapping[int, ReplicaReader]) -> tuple[dict[int, Ends], dict[int, str]]:
    """How far each replica goes, and why some cannot be read."""
    answers = await asyncio.gather(*(reader.ends() for reader in readers.values()), return_exceptions=True)
    ends: dict[int, Ends] = {}
    faults: dict[int, str] = {}
    for broker, answer in zip(readers, answers, strict=True):
        if isinstance(answer, Ends):
            ends[broker] = answer
        elif isinstance(answer, Unreadable):
            faults[broker] = str(answer)
        else:
            raise answer
    return ends, faults


def _verdict(row: PartitionRow, broker: int, ends: dict[int, Ends], fault: str | None) -> Verdict:
    own = ends.get(broker)
    lag = None
    if own is not None:
        lag = max(one.high_watermark for one in ends.values()) - own.high_watermark
    watermark = None if own is None else own.high_watermark
    return Verdict(row.topic, row.partition, broker, broker in row.isr, watermark, lag, fault)


async def _different_batches(left: ReplicaReader, right: ReplicaReader, start: int, end: int) -> str | None:
    """Where two replicas first differ, in words, or None. Raises: Unreadable."""
    theirs = right.batches(start, end)
    async for batch in left.batches(start, end):
        other = await anext(theirs, None)
        if other is None or other.mark != batch.mark:
            return _said(batch, other)
    return None


def _said(batch: Batch, other: Batch | None) -> str:
    if other is None:
        return f"ends before offset {batch.header.base_offset}"
    ours, theirs = batch.header, other.header
    if ours.base_offset != theirs.base_offset or ours.last_offset != theirs.last_offset:
        return (
            f"has a batch {theirs.base_offset}-{theirs.last_offset} for {ours.base_offset}-{ours.last_offset}"
        )
    if ours.partition_leader_epoch != theirs.partition_leader_epoch:
        return (
            f"offset {ours.base_offset} is of leader epoch {theirs.partition_leader_epoch}, "
            f"not {ours.partition_leader_epoch}"
        )
    return f"offset {ours.base_offset} has CRC {theirs.crc:08x}, not {ours.crc:08x}"


async def _different_records(left: ReplicaReader, right: ReplicaReader, start: int, end: int) -> str | None:
    """Walks replicas of a compacted topic in step, and compares what both have. Raises: Unreadable."""
    ours, theirs = left.records(start, end), right.records(start, end)
    mine, other = await anext(ours, None), await anext(theirs, None)
    while mine is not None and other is not None:
        if mine[0] < other[0]:
            mine = await anext(ours, None)
        elif other[0] < mine[0]:
            other = await anext(theirs, None)
        elif mine != other:
            return f"offset {mine[0]} has another record"
        else:
            mine, other = await anext(ours, None), await anext(theirs, None)
    return None
