"""What the console asks of an instance with 10,000 topics: in requests that a broker takes."""

import asyncio
from typing import Any

from kio.schema.describe_configs.v1.request import DescribeConfigsRequest
from kio.schema.describe_configs.v1.response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kio.schema.describe_log_dirs.v1.request import DescribeLogDirsRequest
from kio.schema.describe_log_dirs.v1.response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v5.request import ListOffsetsRequest
from kio.schema.list_offsets.v5.response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kio.static.primitive import i8, i64

from contracts.specs import BrokerAddress
from tenants.backend import topics
from tenants.backend.cluster import Cluster, ConnectionPool
from wire.codec import decode, duration, encode

TOPICS = 10_000
INSTANCE = "i" + "b" * 11
NAMES = [f"t-{number}" for number in range(TOPICS)]


class Brokers(Cluster):
    """Two, which read a request as brokers do: with more entries than they take it raises."""

    def __init__(self) -> None:
        addresses = tuple(BrokerAddress(node_id=each, host="127.0.0.1", port=each) for each in (1, 2))
        super().__init__(ConnectionPool(None), addresses)
        self.asked = 0

    async def ask(self, request: Any, node_id: int | None = None, **_more: Any) -> Any:
        self.asked += 1
        request = decode(type(request), encode(request))
        match request:
            case ListOffsetsRequest():
                return _offsets(request)
            case DescribeLogDirsRequest():
                assert node_id is not None
                return _sizes(request, node_id)
            case DescribeConfigsRequest():
                return _configs(request)
        raise AssertionError(request)


def _offsets(request: ListOffsetsRequest) -> ListOffsetsResponse:
    answers = tuple(
        ListOffsetsTopicResponse(
            name=topic.name,
            partitions=tuple(
                ListOffsetsPartitionResponse(
                    partition_index=one.partition_index,
                    error_code=ErrorCode.none,
                    offset=i64(7 + one.partition_index),
                )
                for one in topic.partitions
            ),
        )
        for topic in request.topics
    )
    return ListOffsetsResponse(throttle_time=duration(0), topics=answers)


def _sizes(request: DescribeLogDirsRequest, node_id: int) -> DescribeLogDirsResponse:
    found = tuple(
        DescribeLogDirsTopic(
            name=topic.topic,
            partitions=tuple(
                DescribeLogDirsPartition(
                    partition_index=each,
                    partition_size=i64(100 * node_id),
                    offset_lag=i64(0),
                    is_future_key=False,
                )
                for each in topic.partitions
            ),
        )
        for topic in request.topics or ()
    )
    one = DescribeLogDirsResult(error_code=ErrorCode.none, log_dir="/", topics=found)
    return DescribeLogDirsResponse(throttle_time=duration(0), results=(one,))


def _configs(request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    results = tuple(
        DescribeConfigsResult(
            error_code=ErrorCode.none,
            error_message=None,
            resource_type=each.resource_type,
            resource_name=each.resource_name,
            configs=(
                DescribeConfigsResourceResult(
                    name="retention.ms",
                    value="1",
                    read_only=False,
                    config_source=i8(1),
                    is_sensitive=False,
                    synonyms=(),
                ),
            ),
        )
        for each in request.resources
    )
    return DescribeConfigsResponse(throttle_time=duration(0), results=results)


def test_offsets_sizes_and_configs_of_all_topics() -> None:
    brokers = Brokers()
    keys = [(name, partition) for name in NAMES for partition in range(2)]
    leaders = {key: 1 + number % 2 for number, key in enumerate(keys)}
    ends = asyncio.run(topics.offsets(brokers, INSTANCE, leaders))
    assert ends == {key: 7 + key[1] for key in keys}
    assert asyncio.run(topics.log_sizes(brokers, INSTANCE, keys)) == dict.fromkeys(keys, 200)
    configs = asyncio.run(topics.configs(brokers, INSTANCE, NAMES))
    told = topics.ConfigFacts("retention.ms", "1", is_default=False)
    assert configs == {name: [told] for name in NAMES}
    assert brokers.asked < 60


def test_of_no_topics_nothing_is_asked() -> None:
    brokers = Brokers()
    for asked in (topics.offsets(brokers, INSTANCE, {}), topics.log_sizes(brokers, INSTANCE, [])):
        assert asyncio.run(asked) == {}
    assert asyncio.run(topics.configs(brokers, INSTANCE, [])) == {} and brokers.asked == 0
