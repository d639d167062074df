"""Change layers of configs and answer: what AlterConfigs and IncrementalAlterConfigs share."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from kio.schema.errors import ErrorCode

from broker.cluster.config_writer import ConfigChange, ConfigWriter
from broker.config import BrokerConfig
from broker.configs.config_layers import BROKER_DEFINITIONS
from broker.configs.resources import BROKER, TOPIC, broker_fault
from broker.configs.topic_configs import DEFINITIONS, Definitions, check_configs
from broker.controller.api import ConfigEntity, Verdict
from broker.metadata.metadata_cache import MetadataCache
from broker.metadata.topic_names import INTERNAL_TOPICS
from broker.net.later import Later
from broker.requests.call import Call
from wire.api_table import ApiKey
from wire.build import response_shape
from wire.codec import duration
from wire.messages import (
    AlterConfigsRequestAlterConfigsResource,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)

_Resource: TypeAlias = (
    AlterConfigsRequestAlterConfigsResource | IncrementalAlterConfigsRequestAlterConfigsResource
)
R = TypeVar("R", bound=_Resource)
LayerOf: TypeAlias = Callable[[Mapping[str, str], R, Definitions], dict[str, str]]
"""The new layer from the one there is and a resource of the request. Raises: ConfigFault."""


class ChangeDeps(Protocol):
    """What a change of configs uses of the broker."""

    config: BrokerConfig
    config_writer: ConfigWriter
    later: Later
    metadata: MetadataCache


class _Asked(NamedTuple):
    """A resource and what becomes of it: a change to make, or why not."""

    resource: _Resource
    change: ConfigChange | None
    refusal: Verdict | None


def answer_changes(call: Call, deps: ChangeDeps, api_key: ApiKey, layer_of: LayerOf[R]) -> None:
    """Change what the request names, each resource on its own, and reply with a verdict for each."""
    deps.later.answer(call, _answer(deps, call, api_key, layer_of))


async def _answer(deps: ChangeDeps, call: Call, api_key: ApiKey, layer_of: LayerOf[R]) -> None:
    asked = _asked(deps, call.request.resources, layer_of)
    changes = [each.change for each in asked if each.change is not None]
    verdicts = iter(await deps.config_writer.alter(changes, validate_only=call.request.validate_only))
    shape = response_shape(api_key, call.api_version)
    responses = []
    for each in asked:
        verdict = each.refusal or next(verdicts)
        responses.append(
            shape.nested(
                "AlterConfigsResourceResponse",
                error_code=verdict.error_code,
                error_message=verdict.message,
                resource_type=each.resource.resource_type,
                resource_name=each.resource.resource_name,
            )
        )
    call.reply(shape.make(throttle_time=duration(0), responses=tuple(responses)))


def _asked(deps: ChangeDeps, resources: Iterable[R], layer_of: LayerOf[R]) -> list[_Asked]:
    """A resource named twice is refused both times."""
    resources = list(resources)
    times = Counter((each.resource_type, each.resource_name) for each in resources)
    asked = []
    for resource in resources:
        if times[(resource.resource_type, resource.resource_name)] > 1:
            refusal: Verdict | None = Verdict(
                ErrorCode.invalid_request, "Each resource must appear at most once."
            )
        else:
            refusal = _refusal(deps, resource)
        change = None if refusal is not None else _change(resource, layer_of)
        asked.append(_Asked(resource, change, refusal))
    return asked


def _refusal(deps: ChangeDeps, resource: _Resource) -> Verdict | None:
    """What can be said before the layer is looked at."""
    name = resource.resource_name
    repeated = [name for name, times in Counter(each.name for each in resource.configs).items() if times > 1]
    if resource.resource_type == BROKER:
        fault = broker_fault(name, deps.config.node_id, empty_allowed=True)
        if fault is not None:
            return Verdict(ErrorCode.invalid_request, fault)
    elif resource.resource_type != TOPIC:
        return Verdict(ErrorCode.invalid_request, f"Unsupported resource type: {resource.resource_type}")
    elif deps.metadata.topic(name) is None:
        return Verdict(ErrorCode.unknown_topic_or_partition)
    elif name in INTERNAL_TOPICS:
        return Verdict(ErrorCode.invalid_request, f"Topic '{name}' is internal.")
    if repeated:
        message = f"Error due to duplicate config keys: {', '.join(repeated)[:200]}"
        return Verdict(ErrorCode.invalid_request, message)
    return None


def _change(resource: R, layer_of: LayerOf[R]) -> ConfigChange:
    if resource.resource_type == TOPIC:
        return ConfigChange(
            ConfigEntity("topics", resource.resource_name),
            lambda layer: check_configs(layer_of(layer, resource, DEFINITIONS)),
        )
    return ConfigChange(
        ConfigEntity("brokers", resource.resource_name),
        lambda layer: layer_of(layer, resource, BROKER_DEFINITIONS),
    )
