"""Topics of a whole cluster: create, delete, alter and describe them by their physical names."""

from collections.abc import Mapping, Sequence
from typing import Final

from kio.schema.create_partitions.v2.request import CreatePartitionsRequest, CreatePartitionsTopic
from kio.schema.create_topics.v5.request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kio.schema.delete_topics.v5.request import DeleteTopicsRequest
from kio.schema.describe_configs.v2.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i16, i32

from ctl.cluster_client import Cluster, refusal
from ctl.errors import usage
from wire.codec import duration
from wire.request_bounds import CONFIGS_AT_ONCE, pieces

TOPIC: Final = 2
BROKER: Final = 4
_SET: Final = i8(0)
_DELETE: Final = i8(1)
_TIMEOUT: Final = duration(30_000)
_MIN_ISR: Final = "min.insync.replicas"
_TOPIC_OVERRIDE: Final = 1
"""Config source DYNAMIC_TOPIC_CONFIG."""


def parse_assignment(text: str) -> list[list[int]]:
    """`1:2,2:3` as Kafka's topic tool has it: partitions by comma, their replicas by colon.

    Raises: CommandError.
    """
    try:
        assignment = [[int(broker) for broker in replicas.split(":")] for replicas in text.split(",")]
    except ValueError:
        raise usage(f"--replica-assignment '{text}' is not like 1:2,2:3") from None
    if any(len(set(replicas)) != len(replicas) for replicas in assignment):
        raise usage(f"--replica-assignment '{text}' names a broker twice for one partition")
    if len({len(replicas) for replicas in assignment}) > 1:
        raise usage(f"--replica-assignment '{text}' has partitions with different numbers of replicas")
    return assignment


async def create(
    cluster: Cluster,
    name: str,
    *,
    partitions: int,
    replication_factor: int,
    assignment: list[list[int]] | None,
    configs: Mapping[str, str],
) -> None:
    """-1 is the cluster's default. Raises: CommandError, KafkaUnavailable."""
    topic = CreatableTopic(
        name=TopicName(name),
        num_partitions=i32(-1 if assignment else partitions),
        replication_factor=i16(-1 if assignment else replication_factor),
        assignments=tuple(
            CreatableReplicaAssignment(partition_index=i32(index), broker_ids=tuple(map(BrokerId, replicas)))
            for index, replicas in enumerate(assignment or ())
        ),
        configs=tuple(CreatableTopicConfig(name=key, value=value) for key, value in configs.items()),
    )
    request = CreateTopicsRequest(topics=(topic,), timeout=_TIMEOUT)
    answer = await cluster.ask_controller(request, lambda each: each.topics[0].error_code)
    _check(f"topic {name}", answer.topics[0].error_code, answer.topics[0].error_message)


async def delete(cluster: Cluster, name: str) -> bool:
    """Whether it is gone; False: the deletion is only recorded, as delete.topic.enable is false.

    Raises: CommandError, KafkaUnavailable.
    """
    request = DeleteTopicsRequest(topic_names=(TopicName(name),), timeout=_TIMEOUT)
    answer = await cluster.ask_controller(request, lambda each: each.responses[0].error_code)
    result = answer.responses[0]
    if result.error_code is ErrorCode.topic_deletion_disabled:
        return False
    _check(f"topic {name}", result.error_code, result.error_message)
    return True


async def add_partitions(cluster: Cluster, name: str, count: int) -> None:
    """Up to `count` in all. Raises: CommandError, KafkaUnavailable."""
    topic = CreatePartitionsTopic(name=TopicName(name), count=i32(count), assignments=None)
    request = CreatePartitionsRequest(topics=(topic,), timeout=_TIMEOUT, validate_only=False)
    answer = await cluster.ask_controller(request, lambda each: each.results[0].error_code)
    _check(f"topic {name}", answer.results[0].error_code, answer.results[0].error_message)


async def alter_configs(
    cluster: Cluster, resource_type: int, name: str, changes: Mapping[str, str | None]
) -> None:
    """Set configs; None: back to the default. A broker's are set by itself.

    Raises: CommandError, KafkaUnavailable.
    """
    resource = AlterConfigsResource(
        resource_type=i8(resource_type),
        resource_name=name,
        configs=tuple(
            AlterableConfig(name=key, config_operation=_DELETE if value is None else _SET, value=value)
            for key, value in changes.items()
        ),
    )
    request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    if resource_type == BROKER:
        answer = await cluster.ask(int(name), request)
    else:
        answer = await cluster.ask_controller(request, lambda each: each.responses[0].error_code)
    result = answer.responses[0]
    subject = f"topic {name}" if resource_type == TOPIC else f"broker {name}"
    _check(subject, result.error_code, result.error_message)


async def configs_of(
    cluster: Cluster, topics: Sequence[str]
) -> dict[str, dict[str, tuple[str | None, bool]]]:
    """Every config of topics: name -> (value, whether the topic itself sets it).

    Raises: CommandError, KafkaUnavailable.
    """
    found: dict[str, dict[str, tuple[str | None, bool]]] = {}
    for some in pieces(topics, CONFIGS_AT_ONCE):
        resources = tuple(
            DescribeConfigsResource(resource_type=i8(TOPIC), resource_name=name, configuration_keys=None)
            for name in some
        )
        request = DescribeConfigsRequest(resources=resources, include_synonyms=False)
        answer = await cluster.ask_controller(request, lambda _: None)
        for result in answer.results:
            _check(f"topic {result.resource_name}", result.error_code, result.error_message)
            found[result.resource_name] = {
                one.name: (one.value, one.config_source == _TOPIC_OVERRIDE) for one in result.configs
            }
    return found


def min_isr(configs: Mapping[str, tuple[str | None, bool]], replicas: int) -> int:
    """What counts: no more than there are replicas."""
    value = configs.get(_MIN_ISR, ("1", False))[0]
    return min(int(value or 1), replicas)


def _check(subject: str, error_code: ErrorCode, message: str | None) -> None:
    if error_code is not ErrorCode.none:
        raise refusal(subject, error_code, message)
