"""Topics of one instance on brokers that know no instances: asked for by the beginning of their names.

DescribeTopicPartitions (KIP-966) goes through a cluster's topics in the order of their names, from a name on,
so that neighbours' topics are neither sent nor decoded, but for those on the last page. A page costs a broker
7 us for each partition on it, whoever's: the first is as long as the instance is thought to be.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, TypeAlias

from kio.schema.describe_topic_partitions.v0.request import Cursor, DescribeTopicPartitionsRequest
from kio.schema.describe_topic_partitions.v0.response import DescribeTopicPartitionsResponse
from kio.schema.types import TopicName
from kio.static.primitive import i32

from contracts.names import physical_name, tenant_name
from runtime.kafka_client import KafkaUnavailable

_Ask: TypeAlias = Callable[[DescribeTopicPartitionsRequest], Awaitable[DescribeTopicPartitionsResponse]]
PAGE_PARTITIONS: Final = 300
"""Partitions of one answer: a loop is not held by more."""
_FIRST_PAGE_MIN: Final = 16


async def partition_counts(ask: _Ask, instance_id: str, expected: int) -> dict[str, int]:
    """Partitions of every topic of an instance, by the tenant's names, which are expected to be so many.
    `ask` sends a request to one broker.

    Raises: what `ask` raises; KafkaUnavailable when the broker goes round in circles.
    """
    counts: dict[str, int] = {}
    first_page = min(PAGE_PARTITIONS, max(_FIRST_PAGE_MIN, expected + 1))
    async for page in pages(ask, physical_name(instance_id, ""), first_page):
        for topic in page.topics:
            name = tenant_name(instance_id, topic.name or "")
            if name is not None:
                counts[name] = counts.get(name, 0) + len(topic.partitions)
        following = page.next_cursor
        if following is not None and tenant_name(instance_id, following.topic_name) is None:
            break
    return counts


async def pages(
    ask: _Ask, first_name: str, first_page: int = PAGE_PARTITIONS
) -> AsyncIterator[DescribeTopicPartitionsResponse]:
    """Topics in the order of their names, from one on; `first_page` partitions of them, then as many as a
    page may have. `ask` sends a request to one broker.

    Raises: what `ask` raises; KafkaUnavailable when the broker goes round in circles.
    """
    at, page = (first_name, 0), first_page
    while True:
        cursor = Cursor(topic_name=TopicName(at[0]), partition_index=i32(at[1]))
        answer = await ask(
            DescribeTopicPartitionsRequest(topics=(), response_partition_limit=i32(page), cursor=cursor)
        )
        yield answer
        page = PAGE_PARTITIONS
        following = answer.next_cursor
        if following is None:
            return
        after = (str(following.topic_name), int(following.partition_index))
        if after <= at:
            raise KafkaUnavailable("the broker lists its topics without an end")
        at = after
