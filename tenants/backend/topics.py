"""Topics of an instance: list, describe, create, alter, delete, delete records."""

import asyncio
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kio.schema.create_partitions.v1.request import CreatePartitionsRequest, CreatePartitionsTopic
from kio.schema.create_topics.v4.request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kio.schema.delete_records.v1.request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kio.schema.delete_topics.v3.request import DeleteTopicsRequest
from kio.schema.describe_configs.v1.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_configs.v1.response import DescribeConfigsResult
from kio.schema.describe_log_dirs.v1.request import DescribableLogDirTopic, DescribeLogDirsRequest
from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v0.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.schema.incremental_alter_configs.v0.response import IncrementalAlterConfigsResponse
from kio.schema.list_offsets.v5.request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kio.schema.metadata.v8.response import MetadataResponsePartition, MetadataResponseTopic
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i16, i32, i64

from contracts.names import physical_name, tenant_name, topic_name_fault
from tenants.backend.cluster import Cluster, text_for_tenant
from tenants.rules.errors import Exists, Invalid, NotFound, Refused, Unavailable
from tenants.rules.lifecycle import unfit
from wire.codec import duration
from wire.request_bounds import CONFIGS_AT_ONCE, PARTITIONS_AT_ONCE, pieces

_TIMEOUT_MS: Final = 10_000
_ANSWER_S: Final = _TIMEOUT_MS / 1000 + 2
_TOPIC: Final = i8(2)
_SET: Final = i8(0)
_DELETE: Final = i8(1)
EARLIEST: Final = i64(-2)
LATEST: Final = i64(-1)
_CONSUMER: Final = BrokerId(-1)
_DEBUGGING: Final = BrokerId(-2)
_ALL_RECORDS: Final = i64(-1)
_TOPIC_CONFIG_SOURCE: Final = 1
_FIELD_OF: Final = {
    ErrorCode.invalid_topic_exception: "name",
    ErrorCode.invalid_partitions: "partitions",
    ErrorCode.policy_violation: "partitions",
    ErrorCode.invalid_config: "configs",
    ErrorCode.invalid_request: "configs",
}

TopicPartition = tuple[str, int]
"""A tenant's topic name and a partition."""


class PartitionFacts(NamedTuple):
    """One partition; None where unknown."""

    metadata: MetadataResponsePartition
    log_start_offset: int | None
    high_watermark: int | None
    size_bytes: int | None


class ConfigFacts(NamedTuple):
    """One config of a topic."""

    name: str
    value: str | None
    is_default: bool


def version_of(partitions: int, configs: Iterable[ConfigFacts]) -> str:
    """A hash of what can be set of a topic: another one after every change of it."""
    own = sorted((one.name, one.value) for one in configs if not one.is_default)
    return hashlib.sha256(repr((partitions, own)).encode()).hexdigest()[:16]


def no_topic(name: str) -> NotFound:
    """The answer for a topic that is not there."""
    return NotFound(f"there is no topic '{name[:250]}'")


def check_name(name: str) -> None:
    """Raises: NotFound for what no topic can be called."""
    if topic_name_fault(name) is not None:
        raise no_topic(name)


async def describe(
    cluster: Cluster, instance_id: str, name: str
) -> tuple[MetadataResponseTopic, list[PartitionFacts], list[ConfigFacts]]:
    """Everything about one topic. Raises: NotFound, Unavailable."""
    topic = await existing(cluster, instance_id, name)
    leaders = {(name, int(one.partition_index)): int(one.leader_id) for one in topic.partitions}
    starts, ends, sizes, configs = await asyncio.gather(
        offsets(cluster, instance_id, leaders, EARLIEST),
        offsets(cluster, instance_id, leaders, LATEST),
        log_sizes(cluster, instance_id, list(leaders)),
        _configs(cluster, instance_id, name),
    )
    facts = [
        PartitionFacts(one, starts.get(key), ends.get(key), sizes.get(key))
        for one in sorted(topic.partitions, key=lambda each: each.partition_index)
        for key in [(name, int(one.partition_index))]
    ]
    return topic, facts, configs


async def existing(cluster: Cluster, instance_id: str, name: str) -> MetadataResponseTopic:
    """Metadata of a topic that exists. Raises: NotFound, Unavailable."""
    topic = (await cluster.topics(instance_id, [name])).get(name)
    if topic is None or topic.error_code in (
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.invalid_topic_exception,
    ):
        raise no_topic(name)
    if topic.error_code not in (ErrorCode.none, ErrorCode.leader_not_available):
        raise _unexpected(topic.error_code)
    return topic


async def offsets(
    cluster: Cluster,
    instance_id: str,
    leaders: dict[TopicPartition, int],
    timestamp: i64 = LATEST,
    *,
    read_committed: bool = False,
    with_uncommitted: bool = False,
) -> dict[TopicPartition, int]:
    """Log start (earliest), high watermark (latest), or what is its place to who reads what is committed, of
    partitions whose leader answers. `with_uncommitted`: latest is the end of the leader's log, beyond what
    followers have."""
    replica_id = _DEBUGGING if with_uncommitted else _CONSUMER
    by_leader: dict[int, list[TopicPartition]] = {}
    for key, leader in leaders.items():
        if leader in cluster.addresses:
            by_leader.setdefault(leader, []).append(key)

    async def ask(leader: int, keys: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        try:
            request = _list_offsets(instance_id, keys, timestamp, read_committed, replica_id)
            answer = await cluster.ask(request, leader)
        except Unavailable:
            return {}
        return {
            (tenant_name(instance_id, topic.name) or "", int(one.partition_index)): int(one.offset)
            for topic in answer.topics
            for one in topic.partitions
            if one.error_code is ErrorCode.none
        }

    asked = [
        (leader, some) for leader, keys in by_leader.items() for some in pieces(keys, PARTITIONS_AT_ONCE)
    ]
    answers = await asyncio.gather(*(ask(leader, some) for leader, some in asked))
    return {key: offset for answer in answers for key, offset in answer.items()}


def _list_offsets(
    instance_id: str,
    keys: Sequence[TopicPartition],
    timestamp: i64,
    read_committed: bool,
    replica_id: BrokerId,
) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=i8(read_committed),
        topics=tuple(
            ListOffsetsTopic(
                name=TopicName(physical_name(instance_id, name)),
                partitions=tuple(
                    ListOffsetsPartition(partition_index=i32(each), timestamp=timestamp) for each in numbers
                ),
            )
            for name, numbers in _by_topic(keys).items()
        ),
    )


def _by_topic(keys: Iterable[TopicPartition]) -> dict[str, list[int]]:
    partitions: dict[str, list[int]] = {}
    for name, partition in keys:
        partitions.setdefault(name, []).append(partition)
    return partitions


async def log_sizes(
    cluster: Cluster, instance_id: str, keys: list[TopicPartition]
) -> dict[TopicPartition, int]:
    """Bytes on disk of the largest replica of partitions, from the brokers that answer."""
    requests = [_describe_log_dirs(instance_id, some) for some in pieces(keys, PARTITIONS_AT_ONCE)]

    async def ask(node_id: int, request: DescribeLogDirsRequest) -> Any:
        try:
            return await cluster.ask(request, node_id)
        except Unavailable:
            return None

    sizes: dict[TopicPartition, int] = {}
    asked = [ask(node_id, request) for node_id in cluster.addresses for request in requests]
    for answer in await asyncio.gather(*asked):
        for directory in answer.results if answer is not None else ():
            for topic in directory.topics:
                for one in topic.partitions:
                    key = (tenant_name(instance_id, topic.name) or "", int(one.partition_index))
                    sizes[key] = max(sizes.get(key, 0), int(one.partition_size))
    return sizes


def _describe_log_dirs(instance_id: str, keys: Sequence[TopicPartition]) -> DescribeLogDirsRequest:
    return DescribeLogDirsRequest(
        topics=tuple(
            DescribableLogDirTopic(
                topic=TopicName(physical_name(instance_id, name)),
                partitions=tuple(i32(each) for each in numbers),
            )
            for name, numbers in _by_topic(keys).items()
        )
    )


async def configs(cluster: Cluster, instance_id: str, names: Sequence[str]) -> dict[str, list[ConfigFacts]]:
    """Configs of topics by their names, without those that are not there any more. Raises: Unavailable."""
    found: dict[str, list[ConfigFacts]] = {}
    for some in pieces(names, CONFIGS_AT_ONCE):
        answer = await cluster.ask(_describe_configs(instance_id, some))
        found |= {
            tenant_name(instance_id, result.resource_name) or "": _config_facts(result)
            for result in answer.results
            if result.error_code is ErrorCode.none
        }
    return found


async def _configs(cluster: Cluster, instance_id: str, name: str) -> list[ConfigFacts]:
    answer = await cluster.ask(_describe_configs(instance_id, [name]))
    result = answer.results[0]
    _raise_for(instance_id, name, result.error_code, result.error_message)
    return _config_facts(result)


def _describe_configs(instance_id: str, names: Sequence[str]) -> DescribeConfigsRequest:
    resources = tuple(
        DescribeConfigsResource(
            resource_type=_TOPIC, resource_name=physical_name(instance_id, name), configuration_keys=None
        )
        for name in names
    )
    return DescribeConfigsRequest(resources=resources, include_synonyms=False)


def _config_facts(result: DescribeConfigsResult) -> list[ConfigFacts]:
    return [
        ConfigFacts(one.name, one.value, int(one.config_source) != _TOPIC_CONFIG_SOURCE)
        for one in sorted(result.configs or (), key=lambda each: each.name)
    ]


async def create(
    cluster: Cluster, instance_id: str, name: str, partitions: int, configs: dict[str, str]
) -> None:
    """Raises: Exists, Invalid, Unavailable."""
    topic = CreatableTopic(
        name=TopicName(physical_name(instance_id, name)),
        num_partitions=i32(partitions),
        replication_factor=i16(-1),
        assignments=(),
        configs=tuple(CreatableTopicConfig(name=key, value=value) for key, value in configs.items()),
    )
    request = CreateTopicsRequest(topics=(topic,), timeout=duration(_TIMEOUT_MS), validate_only=False)
    answer = await cluster.ask_controller(
        request, lambda answer: answer.topics[0].error_code, timeout_s=_ANSWER_S
    )
    _raise_for(instance_id, name, answer.topics[0].error_code, answer.topics[0].error_message)
    await cluster.until_spread(instance_id, name, partitions)


async def alter_configs(
    cluster: Cluster, instance_id: str, name: str, configs: dict[str, str | None]
) -> None:
    """Set configs, None: back to the default. Raises: NotFound, Invalid, Unavailable."""
    answer = await _alter_configs(cluster, instance_id, {name: configs})
    _raise_for(instance_id, name, answer.responses[0].error_code, answer.responses[0].error_message)


async def alter_configs_of(
    cluster: Cluster, instance_id: str, configs: Mapping[str, Mapping[str, str | None]]
) -> None:
    """The same of several topics; one that is not there any more is left out. Raises: Refused."""
    answer = await _alter_configs(cluster, instance_id, configs)
    for each in answer.responses:
        if each.error_code is not ErrorCode.unknown_topic_or_partition:
            name = tenant_name(instance_id, each.resource_name) or ""
            _raise_for(instance_id, name, each.error_code, each.error_message)


async def _alter_configs(
    cluster: Cluster, instance_id: str, configs: Mapping[str, Mapping[str, str | None]]
) -> IncrementalAlterConfigsResponse:
    resources = tuple(
        AlterConfigsResource(
            resource_type=_TOPIC,
            resource_name=physical_name(instance_id, name),
            configs=tuple(
                AlterableConfig(name=key, config_operation=_DELETE if value is None else _SET, value=value)
                for key, value in wanted.items()
            ),
        )
        for name, wanted in configs.items()
    )
    request = IncrementalAlterConfigsRequest(resources=resources, validate_only=False)
    answer: IncrementalAlterConfigsResponse = await cluster.ask_controller(
        request, lambda answer: answer.responses[0].error_code, timeout_s=_ANSWER_S
    )
    return answer


async def add_partitions(cluster: Cluster, instance_id: str, name: str, count: int) -> None:
    """Grow a topic to `count` partitions. Raises: NotFound, Invalid, Unavailable."""
    topic = CreatePartitionsTopic(
        name=TopicName(physical_name(instance_id, name)), count=i32(count), assignments=None
    )
    request = CreatePartitionsRequest(topics=(topic,), timeout=duration(_TIMEOUT_MS), validate_only=False)
    answer = await cluster.ask_controller(
        request, lambda answer: answer.results[0].error_code, timeout_s=_ANSWER_S
    )
    _raise_for(instance_id, name, answer.results[0].error_code, answer.results[0].error_message)
    await cluster.until_spread(instance_id, name, count)


async def delete(cluster: Cluster, instance_id: str, name: str) -> None:
    """Raises: NotFound, Unavailable."""
    names = (TopicName(physical_name(instance_id, name)),)
    request = DeleteTopicsRequest(topic_names=names, timeout=duration(_TIMEOUT_MS))
    answer = await cluster.ask_controller(
        request, lambda answer: answer.responses[0].error_code, timeout_s=_ANSWER_S
    )
    _raise_for(instance_id, name, answer.responses[0].error_code, None)
    await cluster.until_spread(instance_id, name, 0)


async def delete_records(
    cluster: Cluster, instance_id: str, name: str, before: dict[int, int | None]
) -> dict[int, int | ErrorCode]:
    """Delete records before an offset per partition, None: all. Log starts, or what refused.

    Raises: NotFound, Invalid, Unavailable.
    """
    topic = await existing(cluster, instance_id, name)
    leaders = {int(one.partition_index): int(one.leader_id) for one in topic.partitions}
    unknown = sorted(before.keys() - leaders.keys())
    if unknown:
        raise Invalid([unfit("partitions", f"the topic has no partition {unknown[0]}")])
    by_leader: dict[int, list[int]] = {}
    for partition in before or leaders:
        by_leader.setdefault(leaders[partition], []).append(partition)
    outcome: dict[int, int | ErrorCode] = {}
    for leader, partitions in by_leader.items():
        if leader not in cluster.addresses:
            outcome |= dict.fromkeys(partitions, ErrorCode.leader_not_available)
            continue
        request = _delete_records(instance_id, name, {one: before.get(one) for one in partitions})
        answer = await cluster.ask(request, leader, read_only=False, timeout_s=_ANSWER_S)
        for one in answer.topics[0].partitions:
            refused = one.error_code is not ErrorCode.none
            outcome[int(one.partition_index)] = one.error_code if refused else int(one.low_watermark)
    return dict(sorted(outcome.items()))


def _delete_records(instance_id: str, name: str, before: dict[int, int | None]) -> DeleteRecordsRequest:
    partitions = tuple(
        DeleteRecordsPartition(
            partition_index=i32(partition), offset=_ALL_RECORDS if offset is None else i64(offset)
        )
        for partition, offset in before.items()
    )
    topic = DeleteRecordsTopic(name=TopicName(physical_name(instance_id, name)), partitions=partitions)
    return DeleteRecordsRequest(topics=(topic,), timeout=duration(_TIMEOUT_MS))


def _raise_for(instance_id: str, name: str, error_code: ErrorCode, message: str | None) -> None:
    if error_code is ErrorCode.none:
        return
    if error_code is ErrorCode.unknown_topic_or_partition:
        raise no_topic(name)
    text = text_for_tenant(instance_id, message)
    if error_code is ErrorCode.topic_already_exists:
        raise Exists(f"topic '{name}' exists already")
    if error_code in _FIELD_OF:
        raise Invalid([unfit(_FIELD_OF[error_code], text or error_code.name.replace("_", " "))])
    raise _unexpected(error_code)


def _unexpected(error_code: ErrorCode) -> Refused:
    return Unavailable(f"the cluster answered {error_code.name.upper()}. Try again in a few seconds")
