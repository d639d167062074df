"""The system instance's topic `usage`, read from where somebody stopped."""

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v12.response import MetadataResponse
from kio.schema.types import TopicName

from contracts.names import SYSTEM_INSTANCE_ID, physical_name
from contracts.usage_records import USAGE_TOPIC
from tenants.backend import topics
from tenants.backend.cluster import Cluster
from tenants.backend.messages import Fetched, fetch_request, fetched
from tenants.rules.counted_usage import Position
from tenants.rules.errors import Unavailable
from wire.batch import HEADER_SIZE, BatchError, check_crc
from wire.compression import PayloadUnreadable, decompress
from wire.record_views import record_views, whole_batches
from wire.record_walk import check_count

ANSWER_BYTES_MAX: Final = 64 * 1024
"""Bytes of one partition that are read at once, and one batch more."""
_ANSWERS_BYTES_MAX: Final = 1024 * 1024
_BATCH_BYTES_MAX: Final = 16 * 1024 * 1024
_NAME: Final = physical_name(SYSTEM_INSTANCE_ID, USAGE_TOPIC)


class _Place(NamedTuple):
    partition: int
    position: int
    answer_bytes_max: int = ANSWER_BYTES_MAX


class _Found(NamedTuple):
    partition: int
    next_offset: int
    values: list[bytes]
    unreadable: str | None


class Values(NamedTuple):
    """What lies behind a position of one partition."""

    partition: int
    position: Position
    """Where it goes on."""
    values: list[bytes]
    unreadable: str | None
    """Why some of it cannot be read; it is passed over."""


async def read(cluster: Cluster, positions: Mapping[int, Position]) -> list[Values]:
    """The next records of each partition whose leader answers; one without a position, or with one of a topic
    that is gone, begins with its oldest record. Empty while there is no such topic.

    Raises: Unavailable, where no leader answers.
    """
    request = MetadataRequest(
        topics=(MetadataRequestTopic(topic_id=None, name=TopicName(_NAME)),),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
    answer: MetadataResponse = await cluster.ask(request)
    (topic,) = answer.topics
    if topic.error_code is ErrorCode.unknown_topic_or_partition:
        return []
    if topic.error_code is not ErrorCode.none:
        raise Unavailable(f"topic '{USAGE_TOPIC}' answers {topic.error_code.name.upper()}")
    topic_id = str(topic.topic_id)
    by_leader: dict[int, list[_Place]] = {}
    for one in topic.partitions:
        if int(one.leader_id) in cluster.addresses:
            partition = int(one.partition_index)
            known = positions.get(partition)
            at = known.next_offset if known is not None and known.topic_id == topic_id else 0
            by_leader.setdefault(int(one.leader_id), []).append(_Place(partition, at))
    answers = await asyncio.gather(
        *(_read_of(cluster, leader, places) for leader, places in by_leader.items()), return_exceptions=True
    )
    found: list[_Found] = []
    failed: list[Unavailable] = []
    for each in answers:
        if isinstance(each, Unavailable):
            failed.append(each)
        elif isinstance(each, BaseException):
            raise each
        else:
            found.extend(each)
    if failed and len(failed) == len(answers):
        raise failed[0]
    return [
        Values(one.partition, Position(topic_id, one.next_offset), one.values, one.unreadable)
        for one in found
    ]


async def _read_of(cluster: Cluster, leader: int, places: list[_Place]) -> list[_Found]:
    """Raises: Unavailable."""
    request = fetch_request(_NAME, places, _ANSWERS_BYTES_MAX, read_committed=False)
    at = {place.partition: place.position for place in places}
    found = []
    for one in fetched(await cluster.ask(request, leader)):
        if one.error_code is ErrorCode.offset_out_of_range:
            found.append(await _from_the_begin(cluster, leader, one.partition, at[one.partition]))
        elif one.error_code is ErrorCode.none and len(one.records):
            found.append(await asyncio.to_thread(_values, one, at[one.partition]))
    return found


async def _from_the_begin(cluster: Cluster, leader: int, partition: int, position: int) -> _Found:
    """What lay at the position is gone: it goes on where the log starts."""
    key = (USAGE_TOPIC, partition)
    start = (await topics.offsets(cluster, SYSTEM_INSTANCE_ID, {key: leader}, topics.EARLIEST)).get(key)
    if start is None:
        return _Found(partition, position, [], None)
    told = None if position == 0 else f"offset {position} is not there, it goes on at {start}"
    return _Found(partition, start, [], told)


def _values(answer: Fetched, position: int) -> _Found:
    values: list[bytes] = []
    unreadable: str | None = None
    try:
        for at, header in whole_batches(answer.records):
            if header.next_offset <= position:
                continue
            if not header.is_control:
                try:
                    batch = answer.records[at : at + header.size_bytes]
                    check_crc(batch, 0, header)
                    check_count(header)
                    inflated = decompress(bytes(batch[HEADER_SIZE:]), header.codec, _BATCH_BYTES_MAX)
                    for record in record_views(header, memoryview(inflated), position, header.next_offset):
                        if record is not None and record.value is not None:
                            values.append(bytes(record.value))
                except (BatchError, PayloadUnreadable) as error:
                    unreadable = f"the batch at {header.base_offset}: {error}"
            position = header.next_offset
    except BatchError as error:  # no begin of a batch: what follows is asked for again, from there
        unreadable = f"behind {position}: {error}"
    return _Found(answer.partition, position, values, unreadable)
