"""DescribeConfigs (32), v1-4.

Behaviour: topics show every config with its source and synonyms; this broker shows what it was started with
(read-only) and what can be altered; the broker named "" shows the dynamic configs of all brokers that are
set. Groups show what all of them go by. A null or empty list of keys asks for all, keys that do not exist
are left out.
Deliberately not done: broker loggers and client metrics as resources (INVALID_REQUEST).
Versions: v1 synonyms; v3 type and documentation (KIP-569); v4 flexible.
"""

from typing import Protocol

from kio.schema.errors import ErrorCode

from broker.config import BrokerConfig
from broker.configs.config_layers import ConfigLayers, Synonym
from broker.configs.config_view import (
    ConfigEntries,
    ConfigValue,
    Entries,
    Shown,
    broker_config_values,
    default_broker_config_values,
)
from broker.configs.resources import BROKER, GROUP, TOPIC, broker_fault
from broker.configs.topic_configs import ConfigSource, ConfigType
from broker.coordinators.groups import GroupCoordinators
from broker.groups.group_config import GroupConfig
from broker.metadata.metadata_cache import MetadataCache
from broker.requests.call import Call
from wire.api_table import ApiKey
from wire.build import response_shape
from wire.codec import duration
from wire.messages import DescribeConfigsResource


class _Deps(Protocol):
    config: BrokerConfig
    config_entries: ConfigEntries
    groups: GroupCoordinators
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
    if resource.resource_type == GROUP:
        if name == "":
            return ErrorCode.invalid_request, "Group name must not be empty", ()
        return ErrorCode.none, None, shown.entries(_group_config_values(deps.groups.config))
    return ErrorCode.invalid_request, f"Unsupported resource type: {resource.resource_type}", ()


def _group_config_values(config: GroupConfig) -> list[ConfigValue]:
    """The configs of any group: all of them go by the broker's."""
    facts = (
        ("consumer.heartbeat.interval.ms", config.consumer_heartbeat_interval_ms,
         "How often members of a consumer group of the new protocol send heartbeats."),
        ("consumer.session.timeout.ms", config.consumer_session_timeout_ms,
         "How long a silent member of such a group counts as one."),
    )  # fmt: skip
    return [
        ConfigValue(
            name, str(value), ConfigSource.DEFAULT, True, ConfigType.INT, text,
            (Synonym(f"group.{name}", str(value), ConfigSource.DEFAULT),),
        )
        for name, value, text in facts
    ]  # fmt: skip
