"""DeleteTopics (20), v1-5.

Behaviour: a topic is gone when the answer leaves; its files are removed in the background.
Deliberately not done: deletion by topic id (v6); deletion of internal topics (INVALID_REQUEST).
Versions: v4 flexible; v5 error message (KIP-599).
"""

from collections.abc import Generator
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from broker.entities import response_shape
from broker.log.errors import StorageFailed
from broker.topics import Steps
from wire.api_table import ApiKey
from wire.codec import duration

if TYPE_CHECKING:
    from broker.app import Broker
    from broker.call import Call


def handle(broker: "Broker", call: "Call") -> None:
    """Delete each topic once."""
    broker.in_turns(call, _steps(broker, call))


def _steps(broker: "Broker", call: "Call") -> Steps:
    shape = response_shape(ApiKey.DELETE_TOPICS, call.api_version)
    responses = []
    for name in dict.fromkeys(call.request.topic_names):
        error_code, message = yield from _delete(broker, name)
        responses.append(
            shape.nested("DeletableTopicResult", name=name, error_code=error_code, error_message=message)
        )
    if not call.is_gone:
        call.reply(shape.make(throttle_time=duration(0), responses=tuple(responses)))


def _delete(broker: "Broker", name: str) -> Generator[None, None, tuple[ErrorCode, str | None]]:
    topic = broker.topics.get(name)
    if topic is None:
        return (
            ErrorCode.unknown_topic_or_partition,
            "This server does not host this topic-partition.",
        )
    if topic.is_internal:
        return ErrorCode.invalid_request, f"Topic '{name}' is internal."
    if broker.topics.is_busy(name):
        return ErrorCode.reassignment_in_progress, f"Topic '{name}' is being changed."
    try:
        yield from broker.topics.delete(topic)
    except (OSError, StorageFailed) as error:
        broker.storage_failed("a topic cannot be deleted", error)
        return ErrorCode.kafka_storage_error, "The disk refuses the deletion."
    return ErrorCode.none, None
