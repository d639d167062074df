"""CreateTopics (19), v2-7.

Behaviour: a topic exists, with its id and configs on the disk, when the answer leaves. Faults are answered
per topic with Kafka's messages; validate_only checks and creates nothing.
Deliberately not done: replication (a factor other than 1 or -1 is refused); assignments to other brokers.
Versions: v4 defaults by -1 (KIP-464); v5 flexible, answers partitions and configs (KIP-525); v6 quota errors,
which we do not send; v7 topic id.
"""

from collections import Counter
from collections.abc import Generator
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from kio.schema.errors import ErrorCode

from broker.config_view import topic_config_values
from broker.entities import ResponseShape, response_shape
from broker.log.errors import StorageFailed
from broker.topic_configs import ConfigFault, check_configs
from broker.topic_names import INTERNAL_TOPICS, name_fault
from broker.topic_store import StoredTopic
from broker.topics import Steps
from wire.api_table import ApiKey
from wire.codec import duration

if TYPE_CHECKING:
    from broker.app import Broker
    from broker.call import Call


class _Refused(Exception):  # noqa: N818 - a verdict
    def __init__(self, error_code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code
        self.message = message


def handle(broker: "Broker", call: "Call") -> None:
    """Create each topic."""
    broker.in_turns(call, _steps(broker, call))


def _steps(broker: "Broker", call: "Call") -> Steps:
    shape = response_shape(ApiKey.CREATE_TOPICS, call.api_version)
    times = Counter(asked.name for asked in call.request.topics)
    results = []
    for asked in {each.name: each for each in call.request.topics}.values():
        try:
            if times[asked.name] > 1:
                raise _Refused(ErrorCode.invalid_request, "Duplicate topic name.")
            result = yield from _create(broker, shape, asked, call.request.validate_only)
        except _Refused as refusal:
            result = _refusal(shape, asked.name, refusal)
        results.append(result)
    if not call.is_gone:
        call.reply(shape.make(throttle_time=duration(0), topics=tuple(results)))


def _refusal(shape: ResponseShape, name: str, refusal: _Refused) -> Any:
    return shape.nested(
        "CreatableTopicResult",
        name=name,
        topic_id=None,
        error_code=refusal.error_code,
        error_message=refusal.message,
        topic_config_error_code=0,
        num_partitions=-1,
        replication_factor=-1,
        configs=None,
    )


def _create(
    broker: "Broker", shape: ResponseShape, asked: Any, validate_only: bool
) -> Generator[None, None, Any]:
    """Raises: _Refused."""
    _check_name(broker, asked.name)
    partitions = _partitions(broker, asked)
    try:
        configs = check_configs({each.name: each.value for each in asked.configs})
    except ConfigFault as fault:
        raise _Refused(ErrorCode.invalid_config, str(fault)) from fault
    room = broker.config.partitions_max - broker.topics.partition_count
    if partitions > room:
        raise _Refused(
            ErrorCode.policy_violation,
            f"This broker has room for {room} more partitions, not {partitions}.",
        )
    topic_id = None
    if not validate_only:
        topic_id = uuid4()
        stored = StoredTopic(name=asked.name, topic_id=topic_id, partitions=partitions, configs=configs)
        yield from _store(broker, stored)
    return shape.nested(
        "CreatableTopicResult",
        name=asked.name,
        topic_id=topic_id,
        error_code=ErrorCode.none,
        error_message=None,
        topic_config_error_code=0,
        num_partitions=partitions,
        replication_factor=1,
        configs=_configs(shape, configs),
    )


def _store(broker: "Broker", stored: StoredTopic) -> Steps:
    try:
        yield from broker.topics.create(stored, broker.epoch_ms())
    except (OSError, StorageFailed) as error:
        broker.storage_failed("a topic cannot be created", error)
        raise _Refused(ErrorCode.kafka_storage_error, "The disk refuses a new topic.") from error
    topic = broker.topics.get(stored.name)
    assert topic is not None
    broker.measure([topic])


def _configs(shape: ResponseShape, layer: dict[str, str]) -> Any:
    """From v5 on the answer shows what the topic has got."""
    if not shape.has("CreatableTopicConfigs"):
        return None
    return tuple(
        shape.nested(
            "CreatableTopicConfigs",
            name=value.name,
            value=value.value,
            read_only=value.read_only,
            config_source=int(value.source),
            is_sensitive=False,
        )
        for value in topic_config_values(layer)
    )


def _check_name(broker: "Broker", name: str) -> None:
    fault = name_fault(name)
    if fault is not None:
        raise _Refused(ErrorCode.invalid_topic_exception, fault)
    if name in INTERNAL_TOPICS:
        raise _Refused(ErrorCode.invalid_request, f"Topic '{name}' is internal.")
    if broker.topics.is_taken(name):
        raise _Refused(ErrorCode.topic_already_exists, f"Topic '{name}' already exists.")


def _partitions(broker: "Broker", asked: Any) -> int:
    """How many partitions the topic gets."""
    if asked.assignments:
        return _assigned_partitions(broker, asked)
    partitions, factor = asked.num_partitions, asked.replication_factor
    if partitions == -1:
        partitions = broker.config.default_partitions
    if partitions <= 0:
        raise _Refused(
            ErrorCode.invalid_partitions, "Number of partitions was set to an invalid non-positive value."
        )
    if factor != -1 and factor <= 0:
        raise _Refused(
            ErrorCode.invalid_replication_factor,
            "Replication factor was set to an invalid non-positive value.",
        )
    if factor > 1:
        raise _Refused(
            ErrorCode.invalid_replication_factor,
            f"Unable to replicate the partition {factor} time(s): The target replication factor of {factor} "
            "cannot be reached because only 1 broker(s) are registered.",
        )
    return int(partitions)


def _assigned_partitions(broker: "Broker", asked: Any) -> int:
    if asked.num_partitions != -1 or asked.replication_factor != -1:
        what = "numPartitions" if asked.num_partitions != -1 else "replication factor"
        raise _Refused(
            ErrorCode.invalid_request,
            f"A manual partition assignment was specified, but {what} was not set to -1.",
        )
    indexes = sorted(each.partition_index for each in asked.assignments)
    if indexes != list(range(len(indexes))):
        raise _Refused(
            ErrorCode.invalid_replica_assignment,
            "Partitions should be a consecutive 0-based integer sequence.",
        )
    node_id = broker.config.node_id
    if any(tuple(each.broker_ids) != (node_id,) for each in asked.assignments):
        raise _Refused(
            ErrorCode.invalid_replica_assignment, f"Each partition must be assigned to broker {node_id}."
        )
    return len(indexes)
