"""DescribeConfigs (32), v1-4.

Behaviour: topics show every config with its source and synonyms; this broker shows what it was started with
(read-only) and what can be altered; the broker named "" shows the dynamic configs of all brokers that are
set. A null or empty list of keys asks for all, keys that do not exist are left out.
Deliberately not done: broker loggers, client metrics, groups as resources (INVALID_REQUEST).
Versions: v1 synonyms; v3 type and documentation (KIP-569); v4 flexible.
"""

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from broker.config_view import (
    ConfigValue,
    broker_config_values,
    default_broker_config_values,
    describe,
    topic_config_values,
)
from broker.entities import response_shape
from broker.resources import BROKER, TOPIC, broker_fault
from wire.api_table import ApiKey
from wire.codec import duration

if TYPE_CHECKING:
    from broker.app import Broker
    from broker.call import Call


def handle(broker: "Broker", call: "Call") -> None:
    """Describe each resource."""
    shape = response_shape(ApiKey.DESCRIBE_CONFIGS, call.api_version)
    request = call.request
    results = []
    for resource in request.resources:
        error_code, message, values = _values(broker, resource)
        keys = resource.configuration_keys
        configs = tuple(
            describe(
                shape,
                value,
                with_synonyms=request.include_synonyms,
                with_documentation=getattr(request, "include_documentation", False),
            )
            for value in values
            if not keys or value.name in keys
        )
        results.append(
            shape.nested(
                "DescribeConfigsResult",
                error_code=error_code,
                error_message=message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=configs,
            )
        )
    call.reply(shape.make(throttle_time=duration(0), results=tuple(results)))


def _values(broker: "Broker", resource: Any) -> tuple[ErrorCode, str | None, list[ConfigValue]]:
    name = resource.resource_name
    if resource.resource_type == TOPIC:
        topic = broker.metadata.topic(name)
        if topic is None:
            return ErrorCode.unknown_topic_or_partition, None, []
        return ErrorCode.none, None, topic_config_values(broker.layers, topic.configs, topic.replicas)
    if resource.resource_type == BROKER:
        if name == "":
            return ErrorCode.none, None, default_broker_config_values(broker.layers.dynamic_default)
        fault = broker_fault(name, broker.config.node_id, empty_allowed=True)
        if fault is not None:
            return ErrorCode.invalid_request, fault, []
        return ErrorCode.none, None, broker_config_values(broker.config, broker.layers)
    return ErrorCode.invalid_request, f"Unsupported resource type: {resource.resource_type}", []
