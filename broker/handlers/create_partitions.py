"""CreatePartitions (37), v0-3.

Behaviour: the controller grows topics; other brokers answer NOT_CONTROLLER. Counts are totals, assignments
those of the new partitions. Topics named twice get INVALID_REQUEST.
Versions: v2 flexible; v3 quota errors (KIP-599), which we do not send.
"""

from collections import Counter
from typing import Protocol

from kio.schema.errors import ErrorCode

from broker.controller.api import ControllerApi, NewPartitions, Verdict
from broker.metadata.topic_names import INTERNAL_TOPICS
from broker.net.later import Later
from broker.requests.call import Call
from wire.api_table import ApiKey
from wire.build import response_shape
from wire.codec import duration, milliseconds
from wire.messages import CreatePartitionsTopic


class _Deps(Protocol):
    controller: ControllerApi
    later: Later


def handle(call: Call, deps: _Deps) -> None:
    deps.later.answer(call, _answer(deps, call))


async def _answer(deps: _Deps, call: Call) -> None:
    request = call.request
    times = Counter(asked.name for asked in request.topics)
    wanted = {
        asked.name: _wanted(asked, times[asked.name])
        for asked in {each.name: each for each in request.topics}.values()
    }
    grown = iter(
        await deps.controller.create_partitions(
            [each for each in wanted.values() if isinstance(each, NewPartitions)],
            validate_only=request.validate_only,
            timeout_ms=milliseconds(request.timeout),
        )
    )
    shape = response_shape(ApiKey.CREATE_PARTITIONS, call.api_version)
    results = []
    for name, topic in wanted.items():
        verdict = next(grown) if isinstance(topic, NewPartitions) else topic
        results.append(
            shape.nested(
                "CreatePartitionsTopicResult",
                name=name,
                error_code=verdict.error_code,
                error_message=verdict.message,
            )
        )
    call.reply(shape.make(throttle_time=duration(0), results=tuple(results)))


def _wanted(asked: CreatePartitionsTopic, times: int) -> NewPartitions | Verdict:
    if times > 1:
        return Verdict(ErrorCode.invalid_request, "Duplicate topic name.")
    if asked.name in INTERNAL_TOPICS:
        return Verdict(ErrorCode.invalid_request, f"Topic '{asked.name}' is internal.")
    assignments = None
    if asked.assignments is not None:
        assignments = [tuple(each.broker_ids) for each in asked.assignments]
    return NewPartitions(asked.name, asked.count, assignments)
