"""Layers of configs: defaults, flags, dynamic ones of all brokers, those of one, the topic's own. Pure.

A layer is merged over those below it and never replaces them (KAFKA-9254).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from broker.configs.topic_configs import (
    DEFINITIONS,
    MIN_INSYNC_REPLICAS,
    ConfigDefinition,
    ConfigSource,
    rate,
)
from broker.log.log_config import LogConfig
from contracts.specs import Limits
from contracts.topic_policy import (
    MAX_MESSAGE_BYTES,
    applied_message_bytes,
    applied_retention_ms,
    default_min_insync_replicas,
)

_SYNONYMS: Final = {
    "cleanup.policy": "log.cleanup.policy",
    "compression.type": "compression.type",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "flush.messages": "log.flush.interval.messages",
    "flush.ms": "log.flush.interval.ms",
    "index.interval.bytes": "log.index.interval.bytes",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "max.message.bytes": "message.max.bytes",
    "message.downconversion.enable": "log.message.downconversion.enable",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.type": "log.message.timestamp.type",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "min.insync.replicas": "min.insync.replicas",
    "preallocate": "log.preallocate",
    "retention.bytes": "log.retention.bytes",
    "retention.ms": "log.retention.ms",
    "segment.bytes": "log.segment.bytes",
    "segment.index.bytes": "log.index.size.max.bytes",
    "segment.jitter.ms": "log.roll.jitter.ms",
    "segment.ms": "log.roll.ms",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
}
"""Topic config -> the broker config that is its default (Kafka's ServerTopicConfigSynonyms)."""

BROKER_DEFINITIONS: Final[dict[str, ConfigDefinition]] = {
    **{
        broker_name: DEFINITIONS[topic_name]._replace(name=broker_name)
        for topic_name, broker_name in _SYNONYMS.items()
    },
    **{
        name: rate(name, text)
        for name, text in (
            ("leader.replication.throttled.rate", "Bytes per second sent to throttled followers."),
            ("follower.replication.throttled.rate", "Bytes per second fetched by throttled followers."),
            ("replica.alter.log.dirs.io.max.bytes.per.second", "Accepted; replicas stay in their directory."),
        )
    },
}
"""What AlterConfigs may change of a broker while it runs."""


class Synonym(NamedTuple):
    """A place a value may come from, strongest first."""

    name: str
    value: str
    source: ConfigSource


class ConfigLayers(NamedTuple):
    """What lies below a topic's own configs, by broker names."""

    dynamic: Mapping[str, str]
    """What was set for this broker."""
    dynamic_default: Mapping[str, str]
    """What was set for all brokers."""
    static: Mapping[str, str]
    """From the command line."""

    def broker_synonyms(self, name: str) -> list[Synonym]:
        """Where a broker config that can be altered comes from; the first one counts."""
        found = [
            Synonym(name, layer[name], source)
            for layer, source in (
                (self.dynamic, ConfigSource.DYNAMIC_BROKER),
                (self.dynamic_default, ConfigSource.DYNAMIC_DEFAULT_BROKER),
                (self.static, ConfigSource.STATIC_BROKER),
            )
            if name in layer
        ]
        return [*found, Synonym(name, BROKER_DEFINITIONS[name].default, ConfigSource.DEFAULT)]

    def topic_synonyms(self, name: str, layer: Mapping[str, str], replicas: int) -> list[Synonym]:
        """Where a topic's config comes from; the first one counts."""
        found = [Synonym(name, layer[name], ConfigSource.TOPIC)] if name in layer else []
        broker_name = _SYNONYMS.get(name)
        if broker_name is None:
            return [*found, Synonym(name, DEFINITIONS[name].default, ConfigSource.DEFAULT)]
        found += self.broker_synonyms(broker_name)
        if name == MIN_INSYNC_REPLICAS:
            found[-1] = found[-1]._replace(value=str(default_min_insync_replicas(replicas)))
        return found

    def log_config(self, layer: Mapping[str, str], limits: Limits | None = None) -> LogConfig:
        """What the log of a topic with this layer does, within the limits of its instance."""
        configs: dict[str, str | None] = {}
        for topic_name, broker_name in _SYNONYMS.items():
            for below in (self.static, self.dynamic_default, self.dynamic):
                if broker_name in below:
                    configs[topic_name] = below[broker_name]
        config = _LOG.overridden(configs | dict(layer))
        if limits is None:
            return config
        own_bytes = config.max_message_bytes if MAX_MESSAGE_BYTES in layer else None
        return replace(
            config,
            retention_ms=applied_retention_ms(config.retention_ms, limits),
            max_message_bytes=applied_message_bytes(own_bytes, limits),
        )


_LOG: Final = LogConfig()
