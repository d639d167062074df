"""CreateTopics 2-7: names by Kafka's rules before mapping, configs by the policy table, the partition limit.

Refused topics are answered here, the others are asked for in the tenant's place, with segment.bytes and
tighter defaults put in.
Replication factor is the cluster's (-1, or the same number); explicit assignments are refused: placement is
the operator's.
"""

from dataclasses import replace
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from contracts.names import topic_name_fault
from contracts.topic_policy import check_all, creation_defaults
from gateway.answers import with_entries
from gateway.call import Answer, Call, Later
from gateway.partition_changes import ask_controller, partitions_counted
from gateway.topic_access import REFUSED_TEXT
from gateway.topic_rules import partitions_fault, replication_factor


class _Refusal(NamedTuple):
    name: str
    error_code: ErrorCode
    error_message: str


def on_request(call: Call, request: Any) -> Answer | Later:
    """Check every topic; when any is left, count partitions first."""
    refusals: list[_Refusal] = []
    accepted: list[Any] = []
    for topic in request.topics:
        refusal = _refusal(call, topic)
        if refusal is None:
            accepted.append(_with_defaults(call, topic))
        else:
            refusals.append(refusal)
    if not accepted:
        return Answer(_merged(call.response(), refusals))
    return _created(call, request, accepted, refusals)


def _refusal(call: Call, topic: Any) -> _Refusal | None:
    fault = topic_name_fault(topic.name)
    if fault is not None:
        return _Refusal(topic.name, ErrorCode.invalid_topic_exception, fault)
    if call.refuses_topic(topic.name):
        return _Refusal(topic.name, ErrorCode.topic_authorization_failed, REFUSED_TEXT)
    if topic.assignments:
        message = "replica assignments are the cluster's: leave them out"
        return _Refusal(topic.name, ErrorCode.invalid_replica_assignment, message)
    factor = replication_factor(len(call.backend.spec.brokers))
    if topic.replication_factor not in (-1, factor):
        message = f"the replication factor is the cluster's: give -1 or {factor}"
        return _Refusal(topic.name, ErrorCode.invalid_replication_factor, message)
    fault = check_all({config.name: config.value for config in topic.configs}, call.spec.limits)
    if fault is not None:
        return _Refusal(topic.name, ErrorCode.invalid_config, fault)
    return None


def _with_defaults(call: Call, topic: Any) -> Any:
    named = {config.name for config in topic.configs}
    defaults = creation_defaults(call.spec.capacity_bytes, call.spec.limits)
    added = [{"name": name, "value": value} for name, value in defaults.items() if name not in named]
    return with_entries(topic, "configs", added)


async def _created(call: Call, request: Any, topics: list[Any], refusals: list[_Refusal]) -> Answer:
    """Refuse what goes beyond the partition limit, have the rest created."""
    async with partitions_counted(call) as counts:
        present = sum(counts.values())
        accepted = []
        for topic in topics:
            wanted = max(1, topic.num_partitions) if topic.name not in counts else 0
            fault = partitions_fault(present, wanted, call.spec.limits.partitions_max)
            if fault is None:
                present += wanted
                accepted.append(topic)
            else:
                refusals.append(_Refusal(topic.name, ErrorCode.policy_violation, fault))
        if not accepted:
            return Answer(_merged(call.response(), refusals))
        response = await ask_controller(call, replace(request, topics=tuple(accepted)))
        return Answer(_merged(response, refusals))


def _merged(response: Any, refusals: list[_Refusal]) -> Any:
    unknown = {"num_partitions": -1, "replication_factor": -1, "configs": ()}
    return with_entries(response, "topics", [{**refusal._asdict(), **unknown} for refusal in refusals])
