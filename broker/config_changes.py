"""Apply new layers of configs to topics and answer: what AlterConfigs and IncrementalAlterConfigs share."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from broker.entities import response_shape
from broker.resources import BROKER, TOPIC
from broker.topic_configs import ConfigFault, check_configs
from wire.api_table import ApiKey
from wire.codec import duration

if TYPE_CHECKING:
    from broker.app import Broker
    from broker.call import Call
    from broker.topics import Topic

Verdict = tuple[ErrorCode, str | None]
LayerOf = Callable[["Topic", Any], dict[str, str]]
"""The new layer of a topic from a resource of the request. Raises: ConfigFault."""


def answer_changes(broker: "Broker", call: "Call", api_key: ApiKey, layer_of: LayerOf) -> None:
    """Change what the request names, each resource on its own, and reply with a verdict for each."""
    shape = response_shape(api_key, call.api_version)
    verdicts = _change_resources(
        broker, call.request.resources, layer_of, validate_only=call.request.validate_only
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


def _change_resources(
    broker: "Broker", resources: Iterable[Any], layer_of: LayerOf, *, validate_only: bool
) -> list[tuple[Any, Verdict]]:
    """A resource named twice is refused both times."""
    resources = list(resources)
    times = Counter((each.resource_type, each.resource_name) for each in resources)
    verdicts = []
    for resource in resources:
        if times[(resource.resource_type, resource.resource_name)] > 1:
            verdict: Verdict = (ErrorCode.invalid_request, "Each resource must appear at most once.")
        else:
            verdict = _change(broker, resource, layer_of, validate_only)
        verdicts.append((resource, verdict))
    return verdicts


def _change(broker: "Broker", resource: Any, layer_of: LayerOf, validate_only: bool) -> Verdict:
    if resource.resource_type == BROKER:
        return ErrorCode.invalid_request, "The configs of this broker cannot be changed while it runs."
    if resource.resource_type != TOPIC:
        return ErrorCode.invalid_request, f"Unsupported resource type: {resource.resource_type}"
    topic = broker.topics.get(resource.resource_name)
    if topic is None:
        return ErrorCode.unknown_topic_or_partition, None
    if topic.is_internal:
        return ErrorCode.invalid_request, f"Topic '{topic.name}' is internal."
    repeated = [name for name, times in Counter(each.name for each in resource.configs).items() if times > 1]
    if repeated:
        return ErrorCode.invalid_request, f"Error due to duplicate config keys: {', '.join(repeated)[:200]}"
    try:
        layer = check_configs(layer_of(topic, resource))
    except ConfigFault as fault:
        return ErrorCode.invalid_config, str(fault)
    if validate_only:
        return ErrorCode.none, None
    try:
        broker.topics.reconfigure(topic, layer)
    except OSError as error:
        broker.storage_failed("configs cannot be kept", error)
        return ErrorCode.kafka_storage_error, "The disk refuses the change."
    return ErrorCode.none, None
