"""IncrementalAlterConfigs (44), v0-1 (KIP-339).

Behaviour: SET, DELETE, and for list configs APPEND and SUBTRACT; configs that are not named stay.
Deliberately not done: broker configs (INVALID_REQUEST).
Versions: v1 flexible.
"""

from typing import TYPE_CHECKING, Any

from broker.config_changes import answer_changes
from broker.topic_configs import altered
from broker.topics import Topic
from wire.api_table import ApiKey

if TYPE_CHECKING:
    from broker.app import Broker
    from broker.call import Call


def handle(broker: "Broker", call: "Call") -> None:
    """Change each topic's configs."""
    answer_changes(broker, call, ApiKey.INCREMENTAL_ALTER_CONFIGS, _layer)


def _layer(topic: Topic, resource: Any) -> dict[str, str]:
    layer = dict(topic.configs)
    for each in resource.configs:
        layer = altered(layer, each.name, each.config_operation, each.value)
    return layer
