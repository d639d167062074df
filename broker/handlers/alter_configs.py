"""AlterConfigs (33), v0-2.

Behaviour: replaces all configs that a topic has of its own; a config that is not named goes back to its
default, as in Kafka. A null value is refused.
Deliberately not done: broker configs (INVALID_REQUEST).
Versions: v2 flexible.
"""

from typing import TYPE_CHECKING, Any

from broker.config_changes import answer_changes
from broker.topic_configs import check_config
from broker.topics import Topic
from wire.api_table import ApiKey

if TYPE_CHECKING:
    from broker.app import Broker
    from broker.call import Call


def handle(broker: "Broker", call: "Call") -> None:
    """Replace each topic's configs."""
    answer_changes(broker, call, ApiKey.ALTER_CONFIGS, _layer)


def _layer(_topic: Topic, resource: Any) -> dict[str, str]:
    return {each.name: check_config(each.name, each.value) for each in resource.configs}
