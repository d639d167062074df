"""What DescribeConfigs and CreateTopics show of configs: value, source, synonyms. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from kio.static.protocol import Entity

from broker.config import BrokerConfig
from broker.configs.config_layers import BROKER_DEFINITIONS, ConfigLayers, Synonym
from broker.configs.topic_configs import DEFINITIONS, ConfigDefinition, ConfigSource, ConfigType
from wire.build import ResponseShape

_LAYERS_KEPT: Final = 256
_GONE: Final = frozenset({"message.downconversion.enable"})
"""Kafka 4 has these no longer: still taken from older tools, and shown where they were set."""


class ConfigValue(NamedTuple):
    """One config as it is shown."""

    name: str
    value: str
    source: ConfigSource
    read_only: bool
    kind: ConfigType
    documentation: str
    synonyms: tuple[Synonym, ...]


def topic_config_values(layers: ConfigLayers, layer: Mapping[str, str], replicas: int) -> list[ConfigValue]:
    """All configs of a topic, by name."""
    return [
        _value(definition, layers.topic_synonyms(name, layer, replicas))
        for name, definition in sorted(DEFINITIONS.items())
        if name not in _GONE or name in layer
    ]


def broker_config_values(config: BrokerConfig, layers: ConfigLayers) -> list[ConfigValue]:
    """The configs of this broker: what it was started with, and what can be altered."""
    fixed = [
        ConfigValue(
            name, value, ConfigSource.STATIC_BROKER, True, kind, text,
            (Synonym(name, value, ConfigSource.STATIC_BROKER),),
        )
        for name, (value, kind, text) in _fixed_configs(config).items()
    ]  # fmt: skip
    dynamic = [
        _value(definition, layers.broker_synonyms(name)) for name, definition in BROKER_DEFINITIONS.items()
    ]
    return sorted(fixed + dynamic)


def default_broker_config_values(dynamic_default: Mapping[str, str]) -> list[ConfigValue]:
    """The cluster-wide dynamic configs that are set, as Kafka shows for the broker named ""."""
    return sorted(
        _value(BROKER_DEFINITIONS[name], [Synonym(name, value, ConfigSource.DYNAMIC_DEFAULT_BROKER)])
        for name, value in dynamic_default.items()
        if name in BROKER_DEFINITIONS
    )


def _value(definition: ConfigDefinition, synonyms: list[Synonym]) -> ConfigValue:
    return ConfigValue(
        definition.name,
        synonyms[0].value,
        synonyms[0].source,
        False,
        definition.kind,
        definition.documentation,
        tuple(synonyms),
    )


def _fixed_configs(config: BrokerConfig) -> dict[str, tuple[str, ConfigType, str]]:
    """Name -> value, type, documentation."""
    factor = str(config.default_replication_factor or 3)
    facts: list[tuple[str, object, ConfigType, str]] = [
        ("auto.create.topics.enable", False, ConfigType.BOOLEAN, "Topics are created by request."),
        ("auto.leader.rebalance.enable", config.auto_leader_rebalance_enable, ConfigType.BOOLEAN,
         "Leadership goes back to preferred replicas by itself."),
        ("broker.id", config.node_id, ConfigType.INT, "The id of this broker."),
        ("broker.rack", config.rack or "", ConfigType.STRING, "Where this broker stands."),
        ("default.replication.factor", factor, ConfigType.INT,
         "Replicas of a new topic, as far as there are brokers."),
        ("delete.topic.enable", config.delete_topic_enable, ConfigType.BOOLEAN, "Topics can be deleted."),
        ("leader.imbalance.check.interval.seconds", config.leader_imbalance_check_interval_seconds,
         ConfigType.LONG, "How often the controller looks for misplaced leaders."),
        ("leader.imbalance.per.broker.percentage", config.leader_imbalance_per_broker_percentage,
         ConfigType.INT, "Share of misplaced leaders from which it moves them."),
        ("log.dirs", ",".join(map(str, config.log_directories)), ConfigType.STRING, "Where logs are kept."),
        ("log.retention.check.interval.ms", config.retention_check_interval_ms, ConfigType.LONG,
         "How often retention is applied."),
        ("node.id", config.node_id, ConfigType.INT, "The id of this broker."),
        ("num.partitions", config.default_partitions, ConfigType.INT, "Partitions of a new topic."),
        ("offsets.topic.replication.factor", config.internal_replication_factor, ConfigType.INT,
         "Replicas of the offsets topic."),
        ("replica.lag.time.max.ms", config.replica_lag_time_max_ms, ConfigType.LONG,
         "How long a follower may lag and stay in the ISR."),
        ("socket.request.max.bytes", config.request_bytes_max, ConfigType.INT, "The largest request."),
        ("zookeeper.connect", config.zookeeper or "", ConfigType.STRING, "Where the cluster's metadata is."),
        ("zookeeper.session.timeout.ms", config.session_timeout_ms, ConfigType.INT,
         "How long a silent broker counts as alive."),
    ]  # fmt: skip
    return {name: (_text(value), kind, text) for name, value, kind, text in facts}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


Entries: TypeAlias = tuple[Any, ...]
"""Of an answer to DescribeConfigs or CreateTopics: each has at least a name."""


class Shown(NamedTuple):
    """How one DescribeConfigs answer shows configs."""

    shape: ResponseShape
    with_synonyms: bool
    with_documentation: bool

    def entries(self, values: Iterable[ConfigValue]) -> Entries:
        """The entries of these configs."""
        return tuple(map(self._entry, values))

    def _entry(self, value: ConfigValue) -> Entity:
        synonyms: tuple[Entity, ...] = ()
        if self.with_synonyms:
            synonyms = tuple(
                self.shape.nested("DescribeConfigsSynonym", name=name, value=text, source=int(source))
                for name, text, source in value.synonyms
            )
        return self.shape.nested(
            "DescribeConfigsResourceResult",
            name=value.name,
            value=value.value,
            read_only=value.read_only,
            config_source=int(value.source),
            is_sensitive=False,
            synonyms=synonyms,
            config_type=int(value.kind),
            documentation=value.documentation if self.with_documentation else None,
        )


class ShownWhenCreated(NamedTuple):
    """How an answer to CreateTopics shows configs."""

    shape: ResponseShape

    def entries(self, values: Iterable[ConfigValue]) -> Entries:
        """The entries of these configs."""
        return tuple(map(self._entry, values))

    def _entry(self, value: ConfigValue) -> Entity:
        return self.shape.nested(
            "CreatableTopicConfigs",
            name=value.name,
            value=value.value,
            read_only=value.read_only,
            config_source=int(value.source),
            is_sensitive=False,
        )


AnyShown: TypeAlias = Shown | ShownWhenCreated


class ConfigEntries:
    """The entries of topics, kept: one request may ask for a thousand, and most have the same configs."""

    def __init__(self) -> None:
        self._kept: dict[tuple[AnyShown, int, tuple[tuple[str, str], ...]], Entries] = {}

    def forget(self) -> None:
        """What lies below topics' own configs has changed."""
        self._kept.clear()

    def of_topic(
        self, layers: ConfigLayers, shown: AnyShown, layer: Mapping[str, str], replicas: int
    ) -> Entries:
        """All configs of a topic with this layer of its own."""
        key = shown, replicas, tuple(sorted(layer.items()))
        entries = self._kept.get(key)
        if entries is None:
            if len(self._kept) >= _LAYERS_KEPT:
                self._kept.clear()
            entries = self._kept[key] = shown.entries(topic_config_values(layers, layer, replicas))
        return entries
