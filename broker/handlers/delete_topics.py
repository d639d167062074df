"""DeleteTopics (20), v1-6.

Behaviour: the controller deletes; other brokers answer NOT_CONTROLLER. A topic is gone when the answer
leaves, its name is free when all its brokers live; files are removed in the background. With
delete.topic.enable=false nothing is deleted: TOPIC_DELETION_DISABLED.
Deliberately not done: deletion of internal topics (INVALID_REQUEST).
Versions: v4 flexible; v5 error message (KIP-599); v6 by topic id (KIP-516).
"""

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from broker.controller.api import DeletedTopicName, DeletionOutcome, Verdict
from broker.metadata.topic_names import INTERNAL_TOPICS
from wire.api_table import ApiKey
from wire.build import response_shape
from wire.codec import duration, milliseconds

if TYPE_CHECKING:
    from broker.app import Broker
    from broker.requests.call import Call


def handle(broker: "Broker", call: "Call") -> None:
    """Delete each topic once."""
    broker.later(call, _answer(broker, call))


async def _answer(broker: "Broker", call: "Call") -> None:
    request = call.request
    asked = list(dict.fromkeys(_asked(request)))
    deletable = [each for each in asked if each.name not in INTERNAL_TOPICS]
    deleted = iter(await broker.controller.delete_topics(deletable, timeout_ms=milliseconds(request.timeout)))
    shape = response_shape(ApiKey.DELETE_TOPICS, call.api_version)
    responses = []
    for each in asked:
        outcome = _internal(each) if each.name in INTERNAL_TOPICS else next(deleted)
        responses.append(
            shape.nested(
                "DeletableTopicResult",
                name=outcome.name,
                topic_id=outcome.topic_id,
                error_code=outcome.verdict.error_code,
                error_message=outcome.verdict.message,
            )
        )
    call.reply(shape.make(throttle_time=duration(0), responses=tuple(responses)))


def _asked(request: Any) -> list[DeletedTopicName]:
    if hasattr(request, "topics"):
        return [DeletedTopicName(each.name, each.topic_id) for each in request.topics]
    return [DeletedTopicName(name) for name in request.topic_names]


def _internal(asked: DeletedTopicName) -> DeletionOutcome:
    verdict = Verdict(ErrorCode.invalid_request, f"Topic '{asked.name}' is internal.")
    return DeletionOutcome(verdict, asked.name, asked.topic_id)
