"""IncrementalAlterConfigs (44), v0-1 (KIP-339).

Behaviour: SET, DELETE, and for list configs APPEND and SUBTRACT; configs that are not named stay.
The resource is a topic, this broker, or all brokers ("").
Deliberately not done: configs of brokers that need a restart; broker loggers.
Versions: v1 flexible.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from broker.configs.config_changes import answer_changes
from broker.configs.topic_configs import Definitions, altered
from wire.api_table import ApiKey

if TYPE_CHECKING:
    from broker.app import Broker
    from broker.requests.call import Call


def handle(broker: "Broker", call: "Call") -> None:
    """Change each resource's configs."""
    answer_changes(broker, call, ApiKey.INCREMENTAL_ALTER_CONFIGS, _layer)


def _layer(layer: Mapping[str, str], resource: Any, definitions: Definitions) -> dict[str, str]:
    changed = dict(layer)
    for each in resource.configs:
        changed = altered(changed, each.name, each.config_operation, each.value, definitions)
    return changed
