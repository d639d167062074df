"""Where an instance moves to: how each engine takes topics and records from another cluster."""

import asyncio
from collections.abc import Mapping
from typing import Final, Protocol

from kio.schema.errors import ErrorCode
from kio.schema.produce.v8.request import PartitionProduceData, ProduceRequest, TopicProduceData
from kio.schema.types import TopicName
from kio.static.primitive import Records, i16, i32

from contracts.adoption import PARTITIONS_MAX, Adopted, AdoptRecords, AdoptTopic
from contracts.names import physical_name
from contracts.specs import Engine
from tenants.backend import topics
from tenants.backend.copy_links import Layout, Links, Stored
from tenants.backend.topics import TopicPartition
from tenants.rules.errors import Conflict, NotFound, Unavailable
from tenants.rules.moves import EPOCHS_AHEAD, Topic
from wire.codec import duration

_TRIES: Final = 40
_RETRY_S: Final = 0.25
_CONTROL: Final = 0x20
_TRANSACTIONAL: Final = 0x10
_BASE_OFFSET_BYTES: Final = 8
"""In front of a batch; a client's has to say 0."""
_PRODUCE_TIMEOUT_MS: Final = 10_000


class CannotMove(Conflict):
    """What the instance has cannot be kept at the target, now or later: the move ends."""


class Target(Protocol):
    """One of the two."""

    links: Links
    keeps_gaps: bool
    """Whether a log may begin anywhere, and have gaps."""

    async def make(self, name: str, source: Topic, configs: dict[str, str]) -> None:
        """Make a topic. Raises: CannotMove, Unavailable."""

    async def end(self, layout: Layout, key: TopicPartition) -> int:
        """Where a log ends. Raises: Unavailable."""

    async def begin_at(self, layout: Layout, key: TopicPartition, offset: int) -> int:
        """Have a log that ends before this offset begin there; where it ends. Raises: CannotMove,
        Unavailable."""

    async def put(self, layout: Layout, key: TopicPartition, position: int, stored: Stored) -> int:
        """Put batches at the end of a log, which is `position`; where it ends then. Raises: CannotMove,
        Unavailable."""


async def remove(links: Links, name: str) -> None:
    """Remove a topic, if it is there. Raises: Unavailable."""
    try:
        await topics.delete(links.cluster, links.instance_id, name)
    except NotFound:
        return


def target_of(links: Links) -> Target:
    """How this cluster is written to."""
    return BuiltinTarget(links) if links.cluster.engine is Engine.BUILTIN else ApacheTarget(links)


class BuiltinTarget:
    """Brokers of ours take over what another log has, byte for byte (`contracts.adoption`)."""

    keeps_gaps = True

    def __init__(self, links: Links) -> None:
        self.links = links

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
    """An Apache Kafka gives offsets itself: they are the source's while each of them is taken in turn."""

    keeps_gaps = False

    def __init__(self, links: Links) -> None:
        self.links = links

    async def make(self, name: str, source: Topic, configs: dict[str, str]) -> None:
        """With an id that the cluster draws."""
        faults = config_faults(name, configs)
        if faults is not None:
            raise CannotMove(faults)
        await topics.create(self.links.cluster, self.links.instance_id, name, source.partitions, configs)

    async def end(self, layout: Layout, key: TopicPartition) -> int:
        ends = await topics.offsets(self.links.cluster, self.links.instance_id, {key: layout.leaders[key]})
        if key not in ends:
            raise Unavailable(f"'{key[0]}' {key[1]}: its leader at the target does not answer")
        return ends[key]

    async def begin_at(self, layout: Layout, key: TopicPartition, offset: int) -> int:
        end = await self.end(layout, key)
        if end < offset:
            raise CannotMove(gap(key, end, offset))
        return end

    async def put(self, layout: Layout, key: TopicPartition, position: int, stored: Stored) -> int:
        for at, header in stored.batches:
            if header.base_offset != position or header.last_offset_delta + 1 != header.record_count:
                raise CannotMove(gap(key, position, header.base_offset))
            if header.attributes & (_CONTROL | _TRANSACTIONAL):
                raise CannotMove(
                    f"'{key[0]}' {key[1]} has records of a transaction at offset {position}: an Apache Kafka "
                    "takes neither them nor the offset of their marker from anybody but their producer"
                )
            body = stored.records[at + _BASE_OFFSET_BYTES : at + header.size_bytes]
            await self._produce(layout, key, position, bytes(_BASE_OFFSET_BYTES) + bytes(body))
            position = header.next_offset
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


def gap(key: TopicPartition, end: int, offset: int) -> str:
    """Why a log cannot be kept on an Apache Kafka."""
    return (
        f"'{key[0]}' {key[1]} has nothing between offsets {end} and {offset} (retention, compaction or the "
        "marker of a transaction): an Apache Kafka cannot begin a log at an offset nor leave one out, so "
        "offsets would change"
    )


def config_faults(name: str, configs: Mapping[str, str]) -> str | None:
    """Why a topic of these configs cannot be kept on an Apache Kafka."""
    if "compact" in configs.get("cleanup.policy", ""):
        return f"topic '{name}' is compacted: its offsets have gaps, which an Apache Kafka cannot be given"
    if configs.get("message.timestamp.type") == "LogAppendTime":
        return f"topic '{name}' has LogAppendTime: an Apache Kafka would stamp its records anew"
    return None
