"""Where instances' partitions are led and copied, how large they are, and how fast they grow."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from kio.schema.describe_log_dirs.v2.request import DescribableLogDirTopic, DescribeLogDirsRequest
from kio.schema.types import TopicName
from kio.static.primitive import i32

from contracts.names import owner_of
from ctl.cluster_client import Cluster
from ctl.tools.partitions import PartitionRow, by_leader, rows_of
from pipeline.advice.judging.moves import Led, Placement

_TIMEOUT_S: Final = 30.0
_Sizes = dict[tuple[str, int], int]


async def placements(cluster: Cluster, instance_ids: Iterable[str], sample_s: float) -> dict[str, Placement]:
    """Placements of those instances that have partitions here. Raises: CommandError, KafkaUnavailable."""
    wanted = set(instance_ids)
    rows = [row for row in rows_of(await cluster.metadata()) if owner_of(row.topic) in wanted]
    before = await _sizes(cluster, rows)
    await asyncio.sleep(sample_s)
    after = await _sizes(cluster, rows)
    led: dict[str, list[Led]] = {}
    for row in rows:
        key = (row.topic, row.partition)
        size = after.get(key, 0)
        one = Led(
            row.topic,
            row.partition,
            row.leader,
            row.replicas,
            row.isr,
            size_bytes=size,
            grew_bytes=max(0, size - before.get(key, size)),  # retention may take away more than came
        )
        led.setdefault(str(owner_of(row.topic)), []).append(one)
    brokers = sorted(cluster.addresses)
    return {instance_id: Placement(partitions, brokers) for instance_id, partitions in led.items()}


async def _sizes(cluster: Cluster, rows: Sequence[PartitionRow]) -> _Sizes:
    """What leaders say of their logs' sizes."""
    answers = await asyncio.gather(
        *(_sizes_at(cluster, leader, topics) for leader, topics in by_leader(rows))
    )
    return {key: size for answer in answers for key, size in answer.items()}


async def _sizes_at(cluster: Cluster, leader: int, topics: dict[str, list[int]]) -> _Sizes:
    asked = tuple(
        DescribableLogDirTopic(topic=TopicName(topic), partitions=tuple(map(i32, partitions)))
        for topic, partitions in topics.items()
    )
    answer = await cluster.ask(leader, DescribeLogDirsRequest(topics=asked), timeout_s=_TIMEOUT_S)
    return {
        (str(topic.name), int(one.partition_index)): int(one.partition_size)
        for directory in answer.results
        for topic in directory.topics
        for one in topic.partitions
    }
