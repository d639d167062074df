"""CreatePartitions (37), v0-3.

Behaviour: the controller grows topics; other brokers answer NOT_CONTROLLER. Counts are totals, assignments
those of the new partitions. Topics named twice get INVALID_REQUEST.
Versions: v2 flexible; v3 quota errors (KIP-599), which we do not send.
"""

from collections import Counter
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from broker.controller.api import NewPartitions, Verdict
from broker.metadata.topic_names import INTERNAL_TOPICS
from wire.api_table import ApiKey
from wire.build import response_shape
from wire.codec import duration, milliseconds

if TYPE_CHECKING:
    from broker.app import Broker
    from broker.requests.call import Call


def handle(broker: "Broker", call: "Call") -> None:
    """Grow each topic."""
    broker.later(call, _answer(broker, call))


async def _answer(broker: "Broker", call: "Call") -> None:
    request = call.request
    times = Counter(asked.name for asked in request.topics)
    wanted = {
        asked.name: _wanted(asked, times[asked.name])
        for asked in {each.name: each for each in request.topics}.values()
    }
    grown = iter(
        await broker.controller.create_partitions(
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


def _wanted(asked: Any, times: int) -> NewPartitions | Verdict:
    if times > 1:
        return Verdict(ErrorCode.invalid_request, "Duplicate topic name.")
    if asked.name in INTERNAL_TOPICS:
        return Verdict(ErrorCode.invalid_request, f"Topic '{asked.name}' is internal.")
    assignments = None
    if asked.assignments is not None:
        assignments = [tuple(each.broker_ids) for each in asked.assignments]
    return NewPartitions(asked.name, asked.count, assignments)
