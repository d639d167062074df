"""AlterPartitionReassignments (45), v0 (KIP-455).

Behaviour: the controller begins to move partitions to other replicas, or cancels what is under way (null);
other brokers answer NOT_CONTROLLER. The answer leaves when reassignments have begun, and
ListPartitionReassignments tells when they are done.
"""

from typing import Protocol

from broker.controller.api import OK, ControllerApi, Verdict
from broker.net.later import Later
from broker.requests.call import Call
from wire.api_table import ApiKey
from wire.build import response_shape
from wire.codec import duration, milliseconds


class _Deps(Protocol):
    controller: ControllerApi
    later: Later


def handle(call: Call, deps: _Deps) -> None:
    deps.later.answer(call, _answer(deps, call))


async def _answer(deps: _Deps, call: Call) -> None:
    request = call.request
    targets = {
        (topic.name, each.partition_index): None if each.replicas is None else tuple(each.replicas)
        for topic in request.topics
        for each in topic.partitions
    }
    outcome = await deps.controller.alter_reassignments(targets, timeout_ms=milliseconds(request.timeout))
    refusal = outcome if isinstance(outcome, Verdict) else OK
    verdicts = {} if isinstance(outcome, Verdict) else outcome
    shape = response_shape(ApiKey.ALTER_PARTITION_REASSIGNMENTS, call.api_version)
    responses = tuple(
        shape.nested(
            "ReassignableTopicResponse",
            name=topic.name,
            partitions=tuple(
                shape.nested(
                    "ReassignablePartitionResponse",
                    partition_index=each.partition_index,
                    error_code=verdicts[topic.name, each.partition_index].error_code,
                    error_message=verdicts[topic.name, each.partition_index].message,
                )
                for each in topic.partitions
            ),
        )
        for topic in request.topics
        if verdicts
    )
    call.reply(
        shape.make(
            throttle_time=duration(0),
            error_code=refusal.error_code,
            error_message=refusal.message,
            responses=responses,
        )
    )
