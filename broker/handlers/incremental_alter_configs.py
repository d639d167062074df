"""IncrementalAlterConfigs (44), v0-1 (KIP-339).

Behaviour: SET, DELETE, and for list configs APPEND and SUBTRACT; configs that are not named stay.
The resource is a topic, this broker, or all brokers ("").
Deliberately not done: configs of brokers that need a restart; broker loggers.
Versions: v1 flexible.
"""

from collections.abc import Mapping

from broker.cluster.config_changes import ChangeDeps, answer_changes
from broker.configs.topic_configs import Definitions, altered
from broker.requests.call import Call
from wire.api_table import ApiKey
from wire.messages import IncrementalAlterConfigsRequestAlterConfigsResource as Resource


def handle(call: Call, deps: ChangeDeps) -> None:
    answer_changes(call, deps, ApiKey.INCREMENTAL_ALTER_CONFIGS, _layer)


def _layer(layer: Mapping[str, str], resource: Resource, definitions: Definitions) -> dict[str, str]:
    changed = dict(layer)
    for each in resource.configs:
        changed = altered(changed, each.name, each.config_operation, each.value, definitions)
    return changed
