"""What DescribeConfigs and CreateTopics show of configs: value, source, synonyms. Pure."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from broker.config import BrokerConfig
from broker.entities import ResponseShape
from broker.topic_configs import DEFINITIONS, ConfigSource, ConfigType

_BROKER_SYNONYMS: Final = {
    "cleanup.policy": "log.cleanup.policy",
    "compression.type": "compression.type",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.type": "log.message.timestamp.type",
    "min.insync.replicas": "min.insync.replicas",
    "retention.bytes": "log.retention.bytes",
    "retention.ms": "log.retention.ms",
    "segment.bytes": "log.segment.bytes",
    "segment.ms": "log.roll.ms",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
}
"""Topic config -> the broker config whose default it takes."""


class ConfigValue(NamedTuple):
    """One config as it is shown."""

    name: str
    value: str
    source: ConfigSource
    read_only: bool
    kind: ConfigType
    documentation: str
    synonyms: tuple[tuple[str, str, ConfigSource], ...]


def topic_config_values(layer: Mapping[str, str]) -> list[ConfigValue]:
    """All configs of a topic, by name."""
    found = []
    for name, definition in sorted(DEFINITIONS.items()):
        synonyms = [(_BROKER_SYNONYMS.get(name, name), definition.default, ConfigSource.DEFAULT)]
        if name in layer:
            synonyms.insert(0, (name, layer[name], ConfigSource.TOPIC))
        found.append(
            ConfigValue(
                name,
                synonyms[0][1],
                synonyms[0][2],
                False,
                definition.kind,
                definition.documentation,
                tuple(synonyms),
            )
        )
    return found


def broker_config_values(config: BrokerConfig) -> list[ConfigValue]:
    """The short read-only list of a broker's configs."""
    static = _static_configs(config)
    found = [
        ConfigValue(
            name, value, ConfigSource.STATIC_BROKER, True, kind, text,
            ((name, value, ConfigSource.STATIC_BROKER),),
        )
        for name, (value, kind, text) in static.items()
    ]  # fmt: skip
    for topic_name, broker_name in _BROKER_SYNONYMS.items():
        definition = DEFINITIONS[topic_name]
        found.append(
            ConfigValue(
                broker_name,
                definition.default,
                ConfigSource.DEFAULT,
                True,
                definition.kind,
                definition.documentation,
                ((broker_name, definition.default, ConfigSource.DEFAULT),),
            )
        )
    return sorted(found)


def _static_configs(config: BrokerConfig) -> dict[str, tuple[str, ConfigType, str]]:
    """Name -> value, type, documentation."""
    return {
        "auto.create.topics.enable": ("false", ConfigType.BOOLEAN, "Topics are created by request."),
        "broker.id": (str(config.node_id), ConfigType.INT, "The id of this broker."),
        "default.replication.factor": ("1", ConfigType.INT, "Replicas of a new topic."),
        "delete.topic.enable": ("true", ConfigType.BOOLEAN, "Topics can be deleted."),
        "log.flush.interval.ms": (
            str(config.flush_interval_ms),
            ConfigType.LONG,
            "How long a write may stay unsynced.",
        ),
        "log.retention.check.interval.ms": (
            str(config.retention_check_interval_ms),
            ConfigType.LONG,
            "How often retention is applied.",
        ),
        "node.id": (str(config.node_id), ConfigType.INT, "The id of this broker."),
        "num.partitions": (str(config.default_partitions), ConfigType.INT, "Partitions of a new topic."),
        "offsets.topic.replication.factor": ("1", ConfigType.INT, "Replicas of the offsets topic."),
        "socket.request.max.bytes": (
            str(config.request_bytes_max),
            ConfigType.INT,
            "The largest request.",
        ),
    }


def describe(
    shape: ResponseShape, value: ConfigValue, *, with_synonyms: bool, with_documentation: bool
) -> Any:
    """One entry of a DescribeConfigs answer."""
    synonyms: tuple[Any, ...] = ()
    if with_synonyms:
        synonyms = tuple(
            shape.nested("DescribeConfigsSynonym", name=name, value=text, source=int(source))
            for name, text, source in value.synonyms
        )
    return shape.nested(
        "DescribeConfigsResourceResult",
        name=value.name,
        value=value.value,
        read_only=value.read_only,
        config_source=int(value.source),
        is_sensitive=False,
        synonyms=synonyms,
        config_type=int(value.kind),
        documentation=value.documentation if with_documentation else None,
    )
