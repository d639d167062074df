"""DeleteTopics (20), v1-5.

Behaviour: a topic is gone when the answer leaves; its files are removed in the background.
Deliberately not done: deletion by topic id (v6); deletion of internal topics (INVALID_REQUEST).
Versions: v4 flexible; v5 error message (KIP-599).
"""

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from broker.entities import ResponseShape, response_shape
from broker.log.errors import StorageFailed
from wire.api_table import ApiKey
from wire.codec import duration

if TYPE_CHECKING:
    from broker.app import Broker
    from broker.call import Call


def handle(broker: "Broker", call: "Call") -> None:
    """Delete each topic once."""
    shape = response_shape(ApiKey.DELETE_TOPICS, call.api_version)
    names = dict.fromkeys(call.request.topic_names)
    responses = tuple(_delete(broker, shape, name) for name in names)
    broker.measure_logs()
    call.reply(shape.make(throttle_time=duration(0), responses=responses))


def _delete(broker: "Broker", shape: ResponseShape, name: str) -> Any:
    topic = broker.topics.get(name)
    message = None
    if topic is None:
        error_code = ErrorCode.unknown_topic_or_partition
        message = "This server does not host this topic-partition."
    elif topic.is_internal:
        error_code, message = ErrorCode.invalid_request, f"Topic '{name}' is internal."
    else:
        try:
            broker.topics.delete(topic)
            error_code = ErrorCode.none
        except (OSError, StorageFailed) as error:
            broker.storage_failed("a topic cannot be deleted", error)
            error_code, message = ErrorCode.kafka_storage_error, "The disk refuses the deletion."
    return shape.nested("DeletableTopicResult", name=name, error_code=error_code, error_message=message)
