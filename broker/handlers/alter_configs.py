"""AlterConfigs (33), v0-2.

Behaviour: replaces all configs that a topic has of its own; a config that is not named goes back to its
default, as in Kafka. A null value is refused.
Deliberately not done: broker configs (INVALID_REQUEST).
Versions: v2 flexible.
"""

from typing import TYPE_CHECKING, Any

from broker.config_changes import change_resources
from broker.entities import response_shape
from broker.topic_configs import check_config
from broker.topics import Topic
from wire.api_table import ApiKey
from wire.codec import duration

if TYPE_CHECKING:
    from broker.app import Broker
    from broker.call import Call


def handle(broker: "Broker", call: "Call") -> None:
    """Replace each topic's configs."""
    shape = response_shape(ApiKey.ALTER_CONFIGS, call.api_version)
    verdicts = change_resources(
        broker, call.request.resources, _layer, validate_only=call.request.validate_only
    )
    responses = tuple(
        shape.nested(
            "AlterConfigsResourceResponse",
            error_code=error_code,
            error_message=message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource, (error_code, message) in verdicts
    )
    call.reply(shape.make(throttle_time=duration(0), responses=responses))


def _layer(_topic: Topic, resource: Any) -> dict[str, str]:
    return {each.name: check_config(each.name, each.value) for each in resource.configs}
