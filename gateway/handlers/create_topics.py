"""CreateTopics 2-7: names by Kafka's rules before mapping, configs by the policy table, the partition limit,
the rate at which partitions are created (refused from version 6 on, KIP-599).

Refused topics are answered here, the others are asked for in the tenant's place, with segment.bytes put in
and without configs that change nothing here. From version 5 on the answer shows configs, as the limits of the
instance let them apply.
The number of partitions is the instance's (-1) or another, the replication factor the cluster's (-1) or
lower. An explicit assignment counts as its numbers of partitions and replicas: placement is the cluster's.
"""

from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from kio.schema.errors import ErrorCode
from kio.static.primitive import i16, i32
from kio.static.protocol import Payload

from contracts.acls import Operation, ResourceType
from contracts.names import topic_name_fault
from contracts.topic_policy import (
    NOT_KEPT_KEYS,
    applied,
    check_all,
    creation_defaults,
    partitions_fault,
    stored_value,
)
from gateway.mutation_quota import within_rate
from gateway.rules.topic_rules import placement_fault, replication_factor
from gateway.session.call import Answer, Call, Later
from gateway.session.deps import ChangesWithinRate
from gateway.topic_access import REFUSED_TEXT
from wire.build import with_entries
from wire.messages import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

_SHOWS_CONFIGS: Final = 5
_TOPIC_SOURCE: Final = 1
"""config_source of what is set on the topic itself."""
_Configs: TypeAlias = "tuple[CreatableTopicConfigs, ...] | None"


class _Refusal(NamedTuple):
    name: str
    error_code: ErrorCode
    error_message: str


def on_request(call: Call, request: CreateTopicsRequest) -> Answer | Later:
    """Check every topic; when any is left, count partitions first."""
    refusals: list[_Refusal] = []
    accepted: list[CreatableTopic] = []
    for topic in request.topics:
        refusal = _refusal(call, topic)
        if refusal is None:
            accepted.append(_with_defaults(call, _counted(topic)))
        else:
            refusals.append(refusal)
    if not accepted:
        return Answer(_merged(call.response(), refusals))
    return Later(partial(_created, call, request, accepted, refusals))


def _refusal(call: Call, topic: CreatableTopic) -> _Refusal | None:
    fault = topic_name_fault(topic.name)
    if fault is not None:
        return _Refusal(topic.name, ErrorCode.invalid_topic_exception, fault)
    if call.refuses_address(topic.name) or call.refuses_creation(topic.name):
        return _Refusal(topic.name, ErrorCode.topic_authorization_failed, REFUSED_TEXT)
    if topic.assignments and (topic.num_partitions, topic.replication_factor) != (-1, -1):
        message = "a replica assignment says how many partitions and replicas there are: give -1 for both"
        return _Refusal(topic.name, ErrorCode.invalid_request, message)
    fault = _placement_fault(call, topic)
    if fault is not None:
        return _Refusal(topic.name, ErrorCode.invalid_replica_assignment, fault)
    factor = replication_factor(len(call.cluster.spec.brokers))
    if _counted(topic).replication_factor not in (-1, *range(1, factor + 1)):
        message = f"the cluster gives up to {factor} replicas: give -1 or a number from 1 to {factor}"
        return _Refusal(topic.name, ErrorCode.invalid_replication_factor, message)
    fault = check_all({config.name: config.value for config in topic.configs}, call.spec.limits)
    if fault is not None:
        return _Refusal(topic.name, ErrorCode.invalid_config, fault)
    return None


def _placement_fault(call: Call, topic: CreatableTopic) -> str | None:
    if sorted(each.partition_index for each in topic.assignments) != list(range(len(topic.assignments))):
        return "partitions must be numbered from 0 on without gaps"
    brokers = {each.node_id for each in call.cluster.spec.brokers}
    return placement_fault([each.broker_ids for each in topic.assignments], brokers)


def _counted(topic: CreatableTopic) -> CreatableTopic:
    """The numbers of an assignment in its place."""
    if not topic.assignments:
        return topic
    replicas = len(topic.assignments[0].broker_ids)
    return replace(
        topic,
        num_partitions=i32(len(topic.assignments)),
        replication_factor=i16(replicas),
        assignments=(),
    )


def _with_defaults(call: Call, topic: CreatableTopic) -> CreatableTopic:
    if topic.num_partitions == -1:
        topic = replace(topic, num_partitions=i32(call.spec.limits.partitions_default))
    kept = tuple(
        replace(config, value=config.value and stored_value(config.name, config.value, call.written_limits))
        for config in topic.configs
        if config.name not in NOT_KEPT_KEYS
    )
    topic = replace(topic, configs=kept)
    named = {config.name for config in kept}
    defaults = creation_defaults(call.spec.capacity_bytes, call.written_limits)
    added = [{"name": name, "value": value} for name, value in defaults.items() if name not in named]
    return with_entries(topic, "configs", added)


async def _created(
    call: Call,
    request: CreateTopicsRequest,
    topics: list[CreatableTopic],
    refusals: list[_Refusal],
    deps: ChangesWithinRate,
) -> Answer:
    """Refuse what goes beyond the partition limit or the rate, have the rest created."""
    async with within_rate(call, deps, only_looks=request.validate_only) as quota:
        names = {topic.name for topic in topics}
        counts = await (deps.partitions_of(names) if quota.is_spent else deps.partition_counts())
        present = sum(counts.values())
        accepted = []
        for topic in topics:
            wanted = max(1, topic.num_partitions) if topic.name not in counts else 0
            fault = partitions_fault(present, wanted, call.spec.limits)
            if fault is not None:
                refusals.append(_Refusal(topic.name, ErrorCode.policy_violation, fault))
            elif quota.admits(topic.name, wanted):
                present += wanted
                accepted.append(topic)
            else:
                refusals.append(_Refusal(topic.name, ErrorCode.throttling_quota_exceeded, quota.refusal))
        response = call.response()
        if accepted:
            created = await deps.ask_controller(replace(request, topics=tuple(accepted)))
            quota.settle((topic.name, topic.error_code) for topic in created.topics)
            response = _as_applied(call, created)
        return Answer(quota.told(_merged(response, refusals)))


def _as_applied(call: Call, response: CreateTopicsResponse) -> CreateTopicsResponse:
    if call.api_version < _SHOWS_CONFIGS:
        return response
    topics = (_with_applied(call, topic) for topic in response.topics)
    return replace(response, topics=tuple(topics))


def _with_applied(call: Call, topic: CreatableTopicResult) -> CreatableTopicResult:
    if not call.refuses(ResourceType.TOPIC, topic.name, Operation.DESCRIBE_CONFIGS):
        return replace(topic, configs=_applied(call, topic.configs))
    hidden = ErrorCode.topic_authorization_failed
    return replace(
        topic,
        configs=None,
        num_partitions=i32(-1),
        replication_factor=i16(-1),
        topic_config_error_code=i16(hidden.value),
    )


def _applied(call: Call, configs: _Configs) -> _Configs:
    limits = call.spec.limits
    return configs and tuple(
        replace(one, value=applied(one.name, one.value, limits, is_own=one.config_source == _TOPIC_SOURCE))
        for one in configs
    )


def _merged(response: Payload, refusals: list[_Refusal]) -> Payload:
    unknown = {"num_partitions": -1, "replication_factor": -1, "configs": ()}
    return with_entries(response, "topics", [{**refusal._asdict(), **unknown} for refusal in refusals])
