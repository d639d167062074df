"""AlterConfigs (33), v0-2.

Behaviour: replaces all configs that a topic, this broker or all brokers ("") have of their own; a config that
is not named goes back to its default, as in Kafka. A null value is refused.
Deliberately not done: configs of brokers that need a restart.
Versions: v2 flexible.
"""

from collections.abc import Mapping

from broker.cluster.config_changes import ChangeDeps, answer_changes
from broker.configs.topic_configs import Definitions, check_config
from broker.requests.call import Call
from wire.api_table import ApiKey
from wire.messages import AlterConfigsRequestAlterConfigsResource as Resource


def handle(call: Call, deps: ChangeDeps) -> None:
    answer_changes(call, deps, ApiKey.ALTER_CONFIGS, _layer)


def _layer(_layer: Mapping[str, str], resource: Resource, definitions: Definitions) -> dict[str, str]:
    return {each.name: check_config(each.name, each.value, definitions) for each in resource.configs}
