"""DeleteTopics (20), v1-6.

Behaviour: the controller deletes; other brokers answer NOT_CONTROLLER. A topic is gone when the answer
leaves, its name is free when all its brokers live; files are removed in the background. With
delete.topic.enable=false nothing is deleted: TOPIC_DELETION_DISABLED.
Deliberately not done: deletion of internal topics (INVALID_REQUEST).
Versions: v4 flexible; v5 error message (KIP-599); v6 by topic id (KIP-516).
"""

from typing import Protocol

from kio.schema.errors import ErrorCode

from broker.controller.api import ControllerApi, DeletedTopicName, DeletionOutcome, Verdict
from broker.metadata.topic_names import INTERNAL_TOPICS
from broker.net.later import Later
from broker.requests.call import Call
from wire.api_table import ApiKey
from wire.build import response_shape
from wire.codec import duration, milliseconds
from wire.messages import DeleteTopicsRequest


class _Deps(Protocol):
    controller: ControllerApi
    later: Later


def handle(call: Call, deps: _Deps) -> None:
    deps.later.answer(call, _answer(deps, call))


async def _answer(deps: _Deps, call: Call) -> None:
    request = call.request
    asked = list(dict.fromkeys(_asked(request)))
    deletable = [each for each in asked if each.name not in INTERNAL_TOPICS]
    deleted = iter(await deps.controller.delete_topics(deletable, timeout_ms=milliseconds(request.timeout)))
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


def _asked(request: DeleteTopicsRequest) -> list[DeletedTopicName]:
    if hasattr(request, "topics"):
        return [DeletedTopicName(each.name, each.topic_id) for each in request.topics]
    return [DeletedTopicName(name) for name in request.topic_names]


def _internal(asked: DeletedTopicName) -> DeletionOutcome:
    verdict = Verdict(ErrorCode.invalid_request, f"Topic '{asked.name}' is internal.")
    return DeletionOutcome(verdict, asked.name, asked.topic_id)
