"""Where an instance moves to: how each engine takes topics and records from another cluster."""

import asyncio
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final, Protocol

from kio.schema.errors import ErrorCode
from kio.schema.produce.v8.request import PartitionProduceData, ProduceRequest, TopicProduceData
from kio.schema.types import ProducerId, TopicName
from kio.schema.write_txn_markers.v1.request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kio.static.primitive import Records, i16, i32

from contracts.adoption import PARTITIONS_MAX, Adopted, AdoptRecords, AdoptTopic
from contracts.names import physical_name
from contracts.specs import Engine
from runtime.clock import monotonic_ms
from tenants.backend import topics
from tenants.backend.copy_links import Layout, Links, Stored
from tenants.backend.topics import TopicPartition
from tenants.rules.errors import Conflict, NotFound, Unavailable
from tenants.rules.moves import EPOCHS_AHEAD, Topic
from tenants.rules.replays import Step, are_aborted, steps
from wire.batch import CODEC_ZSTD, NO_TIMESTAMP, Record, build_batch, encode_records, parse_header
from wire.codec import duration
from wire.compression import PayloadUnreadable, compress

_TRIES: Final = 40
_RETRY_S: Final = 0.25
_PRODUCE_TIMEOUT_MS: Final = 10_000
AT_A_TIME_MS: Final = 5_000
"""So long offsets without records are made up, or producer ids set aside, before somebody is told."""
PADDED_MAX: Final = 20_000_000_000
"""Offsets below the first of a log: about an hour, at 0.9 bytes each until they are deleted."""
_PADDING_MAX: Final = 100_000
"""Of them, in one batch."""
FILLED_MAX: Final = 10_000_000
"""Offsets without a record in one place of a log: some minutes, at 78 bytes each."""
_MARKERS_AT_ONCE: Final = 2_000
_FILLER_PRODUCER_ID: Final = 1 << 62
"""No coordinator comes to give it to a producer."""
_CAN_BE_FILLED: Final = (
    "With --fill-gaps such offsets are filled; then records from before the move are not found by time, and "
    "retention keeps them as if they were written when they moved"
)


class CannotMove(Conflict):
    """What the instance has cannot be kept at the target, now or later: the move ends."""


class _TooLarge(Unavailable):
    """The target wants smaller batches."""


class Target(Protocol):
    """One of the two."""

    links: Links
    takes_open: bool
    """Whether it takes transactions that are not decided; else it is given none of them."""
    compacted: frozenset[str]
    """Topics out of whose logs a cleaner takes records."""

    async def make(self, name: str, source: Topic, configs: dict[str, str]) -> None:
        """Make a topic. Raises: CannotMove, Unavailable."""

    async def end(self, layout: Layout, key: TopicPartition) -> int:
        """Where a log ends. Raises: Unavailable."""

    async def begin_at(self, layout: Layout, key: TopicPartition, offset: int) -> int:
        """Have a log that ends before this offset begin there; where it ends. Raises: CannotMove,
        Unavailable."""

    async def put(self, layout: Layout, key: TopicPartition, position: int, stored: Stored) -> int:
        """Put batches at the end of a log, which is `position`; where it ends then, which may be before they
        do. Raises: CannotMove, Unavailable."""

    def is_copy(self, key: TopicPartition, here: Stored, there: Stored, /) -> bool:
        """Whether what the target's log ends with is what the source has there; of both logs the first batch
        that is stored from that last offset on."""


async def remove(links: Links, name: str) -> None:
    """Remove a topic, if it is there. Raises: Unavailable."""
    try:
        await topics.delete(links.cluster, links.instance_id, name)
    except NotFound:
        return


def target_of(links: Links, *, fills_gaps: bool) -> Target:
    """How this cluster is written to."""
    if links.cluster.engine is Engine.BUILTIN:
        return BuiltinTarget(links)
    return ApacheTarget(links, fills_gaps=fills_gaps)


class BuiltinTarget:
    """Brokers of ours take over what another log has, byte for byte (`contracts.adoption`)."""

    takes_open = True

    def __init__(self, links: Links) -> None:
        self.links = links
        self.compacted: frozenset[str] = frozenset()

    async def make(self, name: str, source: Topic, configs: dict[str, str]) -> None:
        """With the source's id, and leader epochs behind its own."""
        if source.topic_id is None:
            raise CannotMove(f"topic '{name}' has no id at its cluster")
        if source.partitions > PARTITIONS_MAX:
            raise CannotMove(f"topic '{name}' has more than {PARTITIONS_MAX:,} partitions")
        message = AdoptTopic(
            topic=physical_name(self.links.instance_id, name),
            topic_id=source.topic_id,
            partitions=source.partitions,
            leader_epoch=source.leader_epoch + EPOCHS_AHEAD,
            configs=configs,
        )
        for _ in range(_TRIES):
            controller = int((await self.links.cluster.metadata(())).controller_id)
            answer = await self.links.adopt(controller, message)
            error_code = ErrorCode(answer.error_code)
            if error_code in (ErrorCode.none, ErrorCode.topic_already_exists):
                return
            if error_code not in (ErrorCode.not_controller, ErrorCode.request_timed_out):
                raise CannotMove(f"topic '{name}' is refused: {error_code.name.upper()} {answer.message}")
            await asyncio.sleep(_RETRY_S)
        raise Unavailable(f"topic '{name}' could not be made in time")

    async def end(self, layout: Layout, key: TopicPartition) -> int:
        return (await self._ask(layout, key)).log_end_offset

    async def begin_at(self, layout: Layout, key: TopicPartition, offset: int) -> int:
        return (await self._ask(layout, key, start_at=offset)).log_end_offset

    async def put(self, layout: Layout, key: TopicPartition, position: int, stored: Stored) -> int:
        assert stored.batches[0][1].base_offset >= position, "fetched from there on"
        return (await self._ask(layout, key, records=bytes(stored.records))).log_end_offset

    def is_copy(self, _key: TopicPartition, here: Stored, there: Stored, /) -> bool:
        ours, theirs = here.batches[0][1], there.batches[0][1]
        return ours[:2] == theirs[:2] and ours.crc == theirs.crc

    async def _ask(
        self, layout: Layout, key: TopicPartition, *, start_at: int | None = None, records: bytes = b""
    ) -> Adopted:
        name, index = key
        topic_id = layout.topics[name].topic_id
        assert topic_id is not None, "made with one"
        message = AdoptRecords(
            topic=physical_name(self.links.instance_id, name),
            partition=index,
            topic_id=topic_id,
            start_at=start_at,
            records=records,
        )
        answer = await self.links.adopt(layout.leaders[key], message)
        error_code = ErrorCode(answer.error_code)
        if error_code is not ErrorCode.none:
            raise Unavailable(f"'{name}' {index}: the target says {error_code.name.upper()} {answer.message}")
        return answer


class ApacheTarget:
    """An Apache Kafka gives offsets itself: they are the source's while each of them is taken in turn.

    A log begins anywhere behind so many records that are deleted at once. An offset in the middle that has no
    record is taken by the marker of a transaction that nobody began, which no consumer is shown. Markers have
    the time at which they are written, so offsets are found by time no more and retention begins anew: only
    where it was asked for.
    """

    takes_open = False

    def __init__(self, links: Links, *, fills_gaps: bool) -> None:
        self.links = links
        self.compacted: frozenset[str] = frozenset()
        self._fills_gaps = fills_gaps

    async def make(self, name: str, source: Topic, configs: dict[str, str]) -> None:
        """With an id that the cluster draws."""
        faults = config_faults(name, configs, fills_gaps=self._fills_gaps)
        if faults is not None:
            raise CannotMove(faults)
        await topics.create(self.links.cluster, self.links.instance_id, name, source.partitions, configs)

    async def end(self, layout: Layout, key: TopicPartition) -> int:
        ends = await topics.offsets(self.links.cluster, self.links.instance_id, {key: layout.leaders[key]})
        if key not in ends:
            raise Unavailable(f"'{key[0]}' {key[1]}: its leader at the target does not answer")
        return ends[key]

    async def begin_at(self, layout: Layout, key: TopicPartition, offset: int) -> int:
        name, index = key
        end = await self.end(layout, key)
        if end >= offset:
            return end
        if offset - end > PADDED_MAX:
            raise CannotMove(f"'{name}' {index} begins at offset {offset}: {PADDED_MAX:,} is the most")
        until_ms = monotonic_ms() + AT_A_TIME_MS
        size = _PADDING_MAX
        while end < offset and monotonic_ms() < until_ms:
            size = min(size, offset - end)
            try:
                await self._produce(layout, key, end, await asyncio.to_thread(_padding, size))
            except _TooLarge:
                if size == 1:
                    raise
                size = max(1, size // 10)  # its `max.message.bytes` is small
            else:
                end += size
        await topics.delete_records(self.links.cluster, self.links.instance_id, name, {index: end})
        if end < offset:
            raise Unavailable(f"'{name}' {index}: offsets below {offset:,} are being used up, now at {end:,}")
        return end

    async def put(self, layout: Layout, key: TopicPartition, position: int, stored: Stored) -> int:
        until_ms = monotonic_ms() + AT_A_TIME_MS
        for step in self._steps(key, stored):
            if step.end <= position:
                continue  # of a batch that was put in part
            if step.batch is None or step.first > position:
                end = step.end if step.batch is None else step.first
                position = await self._fill(layout, key, position, end, until_ms)
                if position < end:
                    return position
            if step.batch is not None:
                await self._produce(layout, key, position, step.batch)
                position = step.end
        return position

    def is_copy(self, key: TopicPartition, here: Stored, there: Stored, /) -> bool:
        theirs = there.batches[0][1]
        for step in self._steps(key, here):
            if step.batch is not None and step.first < theirs.next_offset <= step.end:
                crc = parse_header(step.batch).crc
                return (step.first, step.end, crc) == (theirs.base_offset, theirs.next_offset, theirs.crc)
        return theirs.is_control

    def _steps(self, key: TopicPartition, stored: Stored) -> Iterator[Step]:
        """Raises: CannotMove where the source has what is no record batch."""
        aborted = are_aborted((header for _, header in stored.batches), stored.aborted)
        for (at, header), is_aborted in zip(stored.batches, aborted, strict=True):
            try:
                yield from steps(
                    header,
                    stored.batch(at, header),
                    is_aborted=is_aborted,
                    forgets_producer=key[0] in self.compacted,
                )
            except (PayloadUnreadable, ValueError) as error:
                raise CannotMove(
                    f"'{key[0]}' {key[1]} has no readable records at offset {header.base_offset}: {error}"
                ) from error

    async def _fill(self, layout: Layout, key: TopicPartition, position: int, end: int, until_ms: int) -> int:
        """Take offsets up to `end` that have no record; where the log ends then."""
        name, index = key
        if not self._fills_gaps or end - position > FILLED_MAX:
            raise CannotMove(gap(key, position, end, fills_gaps=self._fills_gaps))
        topic = WritableTxnMarkerTopic(
            name=TopicName(physical_name(self.links.instance_id, name)), partition_indexes=(i32(index),)
        )
        marker = WritableTxnMarker(
            producer_id=ProducerId(_FILLER_PRODUCER_ID),
            producer_epoch=i16(0),
            transaction_result=False,
            topics=(topic,),
            coordinator_epoch=i32(0),
        )
        while position < end and monotonic_ms() < until_ms:
            count = min(end - position, _MARKERS_AT_ONCE)
            request = WriteTxnMarkersRequest(markers=(marker,) * count)
            answer = await self.links.call(layout.leaders[key], request)
            codes = {
                one.error_code for each in answer.markers for told in each.topics for one in told.partitions
            }
            if ErrorCode.cluster_authorization_failed in codes:
                raise CannotMove("the target does not let us fill gaps: we need ClusterAction on its cluster")
            if codes - {ErrorCode.none}:
                code = min(codes - {ErrorCode.none})
                raise Unavailable(f"'{name}' {index}: the target says {code.name.upper()}")
            position += count
        return position

    async def _produce(self, layout: Layout, key: TopicPartition, position: int, batch: bytes) -> None:
        name, index = key
        data = PartitionProduceData(index=i32(index), records=Records(batch))
        request = ProduceRequest(
            acks=i16(-1),
            timeout=duration(_PRODUCE_TIMEOUT_MS),
            topic_data=(
                TopicProduceData(
                    name=TopicName(physical_name(self.links.instance_id, name)), partition_data=(data,)
                ),
            ),
        )
        answer = await self.links.call(layout.leaders[key], request)
        (one,) = answer.responses[0].partition_responses
        if one.error_code in (ErrorCode.message_too_large, ErrorCode.record_list_too_large):
            raise _TooLarge(f"'{name}' {index}: the target says {one.error_code.name.upper()}")
        if one.error_code is not ErrorCode.none:
            said = one.error_message or ""
            raise Unavailable(
                f"'{name}' {index}: the target says {one.error_code.name.upper()} {said}".strip()
            )
        if one.base_offset != position:
            raise CannotMove(
                f"'{name}' {index}: what is at offset {position} got {one.base_offset} at the target: "
                "somebody else writes there"
            )


@lru_cache(maxsize=16)
def _padding(count: int) -> bytes:
    """A batch of so many records that say nothing; they have a key, for compacted topics want one."""
    records = (Record(0, NO_TIMESTAMP, b"", None),) * count
    payload = compress(encode_records(records), CODEC_ZSTD)
    return bytes(build_batch(records, attributes=CODEC_ZSTD, payload=payload))


def gap(key: TopicPartition, end: int, offset: int, *, fills_gaps: bool) -> str:
    """Why a log cannot be kept on an Apache Kafka."""
    if fills_gaps:
        return (
            f"'{key[0]}' {key[1]} has nothing between offsets {end} and {offset}: {FILLED_MAX:,} is the most "
            "that is filled"
        )
    return (
        f"'{key[0]}' {key[1]} has no records between offsets {end} and {offset} (compaction, or a "
        f"transaction's end): an Apache Kafka leaves no offset out. {_CAN_BE_FILLED}"
    )


def is_compacted(configs: Mapping[str, str]) -> bool:
    """Whether a cleaner takes records out of a topic's logs."""
    return "compact" in configs.get("cleanup.policy", "")


def config_faults(name: str, configs: Mapping[str, str], *, fills_gaps: bool) -> str | None:
    """Why a topic of these configs cannot be kept on an Apache Kafka."""
    if is_compacted(configs) and not fills_gaps:
        return f"topic '{name}' is compacted: its offsets have gaps. {_CAN_BE_FILLED}"
    if configs.get("message.timestamp.type") == "LogAppendTime":
        return f"topic '{name}' has LogAppendTime: an Apache Kafka would stamp its records anew"
    return None
