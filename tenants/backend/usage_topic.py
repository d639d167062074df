"""The system instance's topic `usage`, read from where somebody stopped."""

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from contracts.names import SYSTEM_INSTANCE_ID, physical_name
from contracts.usage_records import USAGE_TOPIC
from tenants.backend import topics
from tenants.backend.cluster import Cluster
from tenants.backend.messages import Fetched, fetch_request, fetched
from tenants.rules.errors import Unavailable
from wire.batch import HEADER_SIZE, BatchError, check_crc
from wire.compression import PayloadUnreadable, decompress
from wire.record_views import record_views, whole_batches
from wire.record_walk import check_count

ANSWER_BYTES_MAX: Final = 256 * 1024
"""Bytes of one partition that are read at once, and one batch more."""
_ANSWERS_BYTES_MAX: Final = 4 * 1024 * 1024
_BATCH_BYTES_MAX: Final = 16 * 1024 * 1024


class _Place(NamedTuple):
    partition: int
    position: int
    answer_bytes_max: int = ANSWER_BYTES_MAX


class Values(NamedTuple):
    """What lies behind a position of one partition."""

    partition: int
    next_offset: int
    values: list[bytes]
    unreadable: str | None
    """Why some of it cannot be read; it is passed over."""


async def read(cluster: Cluster, positions: Mapping[int, int]) -> list[Values]:
    """The next records of each partition whose leader answers; a partition without a position begins with its
    oldest one. Empty while there is no such topic. Raises: Unavailable."""
    topic = (await cluster.topics(SYSTEM_INSTANCE_ID, [USAGE_TOPIC])).get(USAGE_TOPIC)
    if topic is None or topic.error_code is not ErrorCode.none:
        return []
    by_leader: dict[int, list[_Place]] = {}
    for one in topic.partitions:
        if int(one.leader_id) in cluster.addresses:
            partition = int(one.partition_index)
            place = _Place(partition, positions.get(partition, 0))
            by_leader.setdefault(int(one.leader_id), []).append(place)
    answers = await asyncio.gather(
        *(_fetch(cluster, leader, places) for leader, places in by_leader.items()), return_exceptions=True
    )
    found: list[Values] = []
    for (leader, places), answer in zip(by_leader.items(), answers, strict=True):
        if isinstance(answer, Unavailable):
            continue
        if isinstance(answer, BaseException):
            raise answer
        at = {place.partition: place.position for place in places}
        for part in answer:
            if part.error_code is ErrorCode.offset_out_of_range:
                found.append(await _from_the_begin(cluster, leader, part.partition, at[part.partition]))
            elif part.error_code is ErrorCode.none and len(part.records):
                found.append(await asyncio.to_thread(_values, part, at[part.partition]))
    return found


async def _fetch(cluster: Cluster, leader: int, places: list[_Place]) -> list[Fetched]:
    name = physical_name(SYSTEM_INSTANCE_ID, USAGE_TOPIC)
    request = fetch_request(name, places, _ANSWERS_BYTES_MAX, read_committed=False)
    return fetched(await cluster.ask(request, leader))


async def _from_the_begin(cluster: Cluster, leader: int, partition: int, position: int) -> Values:
    """What lay at the position is gone, or the topic is another one: it goes on where the log starts."""
    key = (USAGE_TOPIC, partition)
    start = (await topics.offsets(cluster, SYSTEM_INSTANCE_ID, {key: leader}, topics.EARLIEST)).get(key)
    if start is None:
        return Values(partition, position, [], None)
    return Values(partition, start, [], f"offset {position} is not there, it goes on at {start}")


def _values(answer: Fetched, position: int) -> Values:
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
    return Values(answer.partition, position, values, unreadable)
