"""CreateTopics (19), v2-7.

Behaviour: the controller creates; other brokers answer NOT_CONTROLLER. When the answer leaves, the partitions
have leaders and this broker shows them, or the timeout has passed (REQUEST_TIMED_OUT: creation goes on).
Faults are answered per topic with Kafka's messages; validate_only checks and creates nothing.
Versions: v4 defaults by -1 (KIP-464); v5 flexible, answers partitions and configs (KIP-525); v6 quota errors,
which we do not send; v7 topic id.
"""

from collections import Counter
from typing import Protocol
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.static.protocol import Entity

from broker.configs.config_layers import ConfigLayers
from broker.configs.config_view import ConfigEntries, ShownWhenCreated
from broker.configs.topic_configs import ConfigFault, check_configs
from broker.controller.api import ControllerApi, CreatedTopic, NewTopic, Verdict
from broker.metadata.topic_names import INTERNAL_TOPICS, name_fault
from broker.net.later import Later
from broker.requests.call import Call
from runtime.machine import Machine
from wire.api_table import ApiKey
from wire.build import ResponseShape, response_shape
from wire.codec import duration, milliseconds
from wire.messages import CreatableTopic


class _Refused(Exception):  # noqa: N818 - a verdict
    def __init__(self, error_code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.verdict = Verdict(error_code, message)


class _Deps(Protocol):
    config_entries: ConfigEntries
    controller: ControllerApi
    later: Later
    layers: ConfigLayers
    machine: Machine


def handle(call: Call, deps: _Deps) -> None:
    deps.later.answer(call, _answer(deps, call))


async def _answer(deps: _Deps, call: Call) -> None:
    request = call.request
    times = Counter(asked.name for asked in request.topics)
    wanted: dict[str, NewTopic | Verdict] = {}
    for asked in {each.name: each for each in request.topics}.values():
        try:
            if times[asked.name] > 1:
                raise _Refused(ErrorCode.invalid_request, "Duplicate topic name.")
            wanted[asked.name] = _new_topic(asked, deps.machine.uuid4())
        except _Refused as refusal:
            wanted[asked.name] = refusal.verdict
    created = iter(
        await deps.controller.create_topics(
            [each for each in wanted.values() if isinstance(each, NewTopic)],
            validate_only=request.validate_only,
            timeout_ms=milliseconds(request.timeout),
        )
    )
    shape = response_shape(ApiKey.CREATE_TOPICS, call.api_version)
    results = []
    for name, topic in wanted.items():
        if isinstance(topic, Verdict):
            results.append(_refusal(shape, name, topic))
            continue
        outcome = next(created)
        if outcome.verdict.error_code is ErrorCode.none:
            results.append(_success(deps, shape, topic, outcome))
        else:
            results.append(_refusal(shape, name, outcome.verdict))
    call.reply(shape.make(throttle_time=duration(0), topics=tuple(results)))


def _new_topic(asked: CreatableTopic, topic_id: UUID) -> NewTopic:
    """What the request says by itself. Raises: _Refused."""
    fault = name_fault(asked.name)
    if fault is not None:
        raise _Refused(ErrorCode.invalid_topic_exception, fault)
    if asked.name in INTERNAL_TOPICS:
        raise _Refused(ErrorCode.invalid_request, f"Topic '{asked.name}' is internal.")
    try:
        configs = check_configs({each.name: each.value for each in asked.configs})
    except ConfigFault as fault:
        raise _Refused(ErrorCode.invalid_config, str(fault)) from fault
    return NewTopic(
        asked.name,
        topic_id,
        asked.num_partitions,
        asked.replication_factor,
        _assignment(asked) if asked.assignments else None,
        configs,
    )


def _assignment(asked: CreatableTopic) -> dict[int, tuple[int, ...]]:
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
    return {each.partition_index: tuple(each.broker_ids) for each in asked.assignments}


def _refusal(shape: ResponseShape, name: str, verdict: Verdict) -> Entity:
    return shape.nested(
        "CreatableTopicResult",
        name=name,
        topic_id=None,
        error_code=verdict.error_code,
        error_message=verdict.message,
        topic_config_error_code=0,
        num_partitions=-1,
        replication_factor=-1,
        configs=None,
    )


def _success(deps: _Deps, shape: ResponseShape, topic: NewTopic, created: CreatedTopic) -> Entity:
    return shape.nested(
        "CreatableTopicResult",
        name=topic.name,
        topic_id=created.topic_id,
        error_code=ErrorCode.none,
        error_message=None,
        topic_config_error_code=0,
        num_partitions=created.partitions,
        replication_factor=created.replication_factor,
        configs=_configs(deps, shape, topic, created.replication_factor),
    )


def _configs(deps: _Deps, shape: ResponseShape, topic: NewTopic, replicas: int) -> tuple[Entity, ...] | None:
    """From v5 on the answer shows what the topic has got."""
    if not shape.has("CreatableTopicConfigs"):
        return None
    return deps.config_entries.of_topic(deps.layers, ShownWhenCreated(shape), topic.configs, replicas)
