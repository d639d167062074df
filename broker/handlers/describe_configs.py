"""DescribeConfigs (32), v1-4.

Behaviour: topics show every config with its source and synonyms; this broker shows what it was started with
(read-only) and what can be altered; the broker named "" shows the dynamic configs of all brokers that are
set. A null or empty list of keys asks for all, keys that do not exist are left out.
Deliberately not done: broker loggers, client metrics, groups as resources (INVALID_REQUEST).
Versions: v1 synonyms; v3 type and documentation (KIP-569); v4 flexible.
"""

from typing import Protocol

from kio.schema.errors import ErrorCode

from broker.config import BrokerConfig
from broker.configs.config_layers import ConfigLayers
from broker.configs.config_view import (
    ConfigEntries,
    Entries,
    Shown,
    broker_config_values,
    default_broker_config_values,
)
from broker.configs.resources import BROKER, TOPIC, broker_fault
from broker.metadata.metadata_cache import MetadataCache
from broker.requests.call import Call
from wire.api_table import ApiKey
from wire.build import response_shape
from wire.codec import duration
from wire.messages import DescribeConfigsResource


class _Deps(Protocol):
    config: BrokerConfig
    config_entries: ConfigEntries
    layers: ConfigLayers
    metadata: MetadataCache


def handle(call: Call, deps: _Deps) -> None:
    shape = response_shape(ApiKey.DESCRIBE_CONFIGS, call.api_version)
    request = call.request
    shown = Shown(shape, request.include_synonyms, getattr(request, "include_documentation", False))
    results = []
    for resource in request.resources:
        error_code, message, entries = _entries(deps, shown, resource)
        keys = frozenset(resource.configuration_keys or ())
        configs = tuple(entry for entry in entries if entry.name in keys) if keys else entries
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


def _entries(
    deps: _Deps, shown: Shown, resource: DescribeConfigsResource
) -> tuple[ErrorCode, str | None, Entries]:
    name = resource.resource_name
    if resource.resource_type == TOPIC:
        topic = deps.metadata.topic(name)
        if topic is None:
            return ErrorCode.unknown_topic_or_partition, None, ()
        entries = deps.config_entries.of_topic(deps.layers, shown, topic.configs, topic.replicas)
        return ErrorCode.none, None, entries
    if resource.resource_type == BROKER:
        if name == "":
            values = default_broker_config_values(deps.layers.dynamic_default)
            return ErrorCode.none, None, shown.entries(values)
        fault = broker_fault(name, deps.config.node_id, empty_allowed=True)
        if fault is not None:
            return ErrorCode.invalid_request, fault, ()
        return ErrorCode.none, None, shown.entries(broker_config_values(deps.config, deps.layers))
    return ErrorCode.invalid_request, f"Unsupported resource type: {resource.resource_type}", ()
