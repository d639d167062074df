"""IncrementalAlterConfigs (44), v0-1 (KIP-339).

Behaviour: SET, DELETE, and for list configs APPEND and SUBTRACT; configs that are not named stay.
Deliberately not done: broker configs (INVALID_REQUEST).
Versions: v1 flexible.
"""

from typing import TYPE_CHECKING, Any

from broker.config_changes import change_resources
from broker.entities import response_shape
from broker.topic_configs import altered
from broker.topics import Topic
from wire.api_table import ApiKey
from wire.codec import duration

if TYPE_CHECKING:
    from broker.app import Broker
    from broker.call import Call


def handle(broker: "Broker", call: "Call") -> None:
    """Change each topic's configs."""
    shape = response_shape(ApiKey.INCREMENTAL_ALTER_CONFIGS, call.api_version)
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


def _layer(topic: Topic, resource: Any) -> dict[str, str]:
    layer = dict(topic.configs)
    for each in resource.configs:
        layer = altered(layer, each.name, each.config_operation, each.value)
    return layer
