"""Topic configs: every name the broker knows, with type, default, bounds and meaning. Pure.

A topic's configs are a layer over these defaults; altering merges into the layer and never replaces the
configs that were not named (KAFKA-9254).
"""

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from broker.log.log_config import LogConfig

_LONG_MAX: Final = 2**63 - 1
_INT_MAX: Final = 2**31 - 1
_LOG: Final = LogConfig()
MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"


class ConfigType(IntEnum):
    """DescribeConfigs' config_type."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class ConfigSource(IntEnum):
    """DescribeConfigs' config_source."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


class ConfigFault(Exception):  # noqa: N818 - INVALID_CONFIG, in one sentence
    """A config that cannot be."""


class ConfigDefinition(NamedTuple):
    """One config. `check` raises ConfigFault."""

    name: str
    kind: ConfigType
    default: str
    documentation: str
    check: Callable[[str, str], None]


def _number(kind: ConfigType, lowest: float, highest: float) -> Callable[[str, str], None]:
    parse: Callable[[str], float] = float if kind is ConfigType.DOUBLE else int

    def check(name: str, text: str) -> None:
        try:
            if not text.isascii() or "_" in text or len(text) > 40:
                raise ValueError(text)
            value = parse(text)
        except ValueError as error:
            raise ConfigFault(
                f"Invalid value {text[:40]} for configuration {name}: Not a number of type {kind.name}"
            ) from error
        if not value >= lowest:
            raise ConfigFault(
                f"Invalid value {text} for configuration {name}: Value must be at least {lowest}"
            )
        if value > highest:
            raise ConfigFault(
                f"Invalid value {text} for configuration {name}: Value must be no more than {highest}"
            )

    return check


def _one_of(*words: str) -> Callable[[str, str], None]:
    def check(name: str, text: str) -> None:
        if text not in words:
            raise ConfigFault(
                f"Invalid value {text[:40]} for configuration {name}: "
                f"String must be one of: {', '.join(words)}"
            )

    return check


def _cleanup_policy(name: str, text: str) -> None:
    for word in split_list(text):
        if word not in ("compact", "delete"):
            raise ConfigFault(
                f"Invalid value {word[:40]} for configuration {name}: String must be one of: compact, delete"
            )


def _throttled_replicas(name: str, text: str) -> None:
    if text == "*":
        return
    for entry in split_list(text):
        partition, separator, replica = entry.partition(":")
        if not (separator and partition.isdecimal() and replica.isdecimal()):
            raise ConfigFault(
                f"Invalid value {entry[:40]} for configuration {name}: "
                "must be * or a list of [partition]:[broker]"
            )


def split_list(text: str) -> list[str]:
    """The words of a list config."""
    return [word.strip() for word in text.split(",") if word.strip()]


def _integer(
    name: str, default: int, documentation: str, lowest: int, kind: ConfigType = ConfigType.LONG
) -> ConfigDefinition:
    highest = _LONG_MAX if kind is ConfigType.LONG else _INT_MAX
    return ConfigDefinition(name, kind, str(default), documentation, _number(kind, lowest, highest))


def _boolean(name: str, default: str, documentation: str) -> ConfigDefinition:
    return ConfigDefinition(name, ConfigType.BOOLEAN, default, documentation, _one_of("true", "false"))


def _words(
    name: str, default: str, documentation: str, check: Callable[[str, str], None], kind: ConfigType
) -> ConfigDefinition:
    return ConfigDefinition(name, kind, default, documentation, check)


def rate(name: str, documentation: str) -> ConfigDefinition:
    """A rate in bytes/s that is unlimited unless set."""
    return _integer(name, _LONG_MAX, documentation, 0)


_CODECS: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
_DEFINITIONS: Final = (
    _words("cleanup.policy", "delete", "What happens to old segments.", _cleanup_policy, ConfigType.LIST),
    _words(
        "compression.type",
        _LOG.compression_type,
        "Codec of stored batches; batches are stored as the producer sent them.",
        _one_of(*_CODECS),
        ConfigType.STRING,
    ),
    _integer("delete.retention.ms", 86_400_000, "How long tombstones of compacted topics are kept.", 0),
    _integer("file.delete.delay.ms", 60_000, "Accepted; space is freed at once.", 0),
    _integer("flush.messages", _LOG.flush_messages, "1: acks wait for fdatasync.", 1),
    _integer("flush.ms", _LOG.flush_ms, "How long a write may stay unsynced.", 0),
    _words(
        "follower.replication.throttled.replicas",
        "",
        "Replicas whose replication is throttled on the follower side.",
        _throttled_replicas,
        ConfigType.LIST,
    ),
    _integer(
        "index.interval.bytes",
        _LOG.index_interval_bytes,
        "Bytes between index entries.",
        0,
        ConfigType.INT,
    ),
    _words(
        "leader.replication.throttled.replicas",
        "",
        "Replicas whose replication is throttled on the leader side.",
        _throttled_replicas,
        ConfigType.LIST,
    ),
    _integer("max.compaction.lag.ms", _LONG_MAX, "How long a record may stay uncompacted.", 1),
    _integer("max.message.bytes", _LOG.max_message_bytes, "The largest record batch.", 0, ConfigType.INT),
    _boolean("message.downconversion.enable", "false", "Accepted; instances say who is served old formats."),
    _integer(
        "message.timestamp.after.max.ms",
        _LOG.message_timestamp_after_max_ms,
        "How far a record's timestamp may be ahead of the broker's clock.",
        0,
    ),
    _integer(
        "message.timestamp.before.max.ms",
        _LOG.message_timestamp_before_max_ms,
        "How far a record's timestamp may be behind the broker's clock.",
        0,
    ),
    _words(
        "message.timestamp.type",
        _LOG.message_timestamp_type,
        "Whose clock stamps records.",
        _one_of("CreateTime", "LogAppendTime"),
        ConfigType.STRING,
    ),
    ConfigDefinition(
        "min.cleanable.dirty.ratio",
        ConfigType.DOUBLE,
        "0.5",
        "Share of uncompacted bytes that starts a compaction.",
        _number(ConfigType.DOUBLE, 0, 1),
    ),
    _integer("min.compaction.lag.ms", 0, "How long a record stays uncompacted at least.", 0),
    _integer(MIN_INSYNC_REPLICAS, 1, "Replicas that must have a write for acks=all.", 1, ConfigType.INT),
    _boolean("preallocate", "false", "Accepted; segments grow as they are written."),
    _integer("retention.bytes", _LOG.retention_bytes, "Bytes kept per partition; -1: no limit.", -1),
    _integer("retention.ms", _LOG.retention_ms, "How long records are kept; -1: for ever.", -1),
    _integer("segment.bytes", _LOG.segment_bytes, "Size at which a segment is rolled.", 14, ConfigType.INT),
    _integer(
        "segment.index.bytes", _LOG.segment_index_bytes, "Size bound of an index file.", 4, ConfigType.INT
    ),
    _integer("segment.jitter.ms", 0, "Accepted; segments are rolled on time.", 0),
    _integer("segment.ms", _LOG.segment_ms, "Age at which a segment is rolled.", 1),
    _boolean("unclean.leader.election.enable", "false", "Whether a replica out of sync may become leader."),
)
DEFINITIONS: Final[dict[str, ConfigDefinition]] = {each.name: each for each in _DEFINITIONS}
TopicConfigs = Mapping[str, str]


Definitions = Mapping[str, ConfigDefinition]


def _definition(name: str, definitions: Definitions) -> ConfigDefinition:
    definition = definitions.get(name)
    if definition is None:
        kind = "topic" if definitions is DEFINITIONS else "dynamic broker"
        raise ConfigFault(f"Unknown {kind} config name: {name[:80]}")
    return definition


def check_config(name: str, value: str | None, definitions: Definitions = DEFINITIONS) -> str:
    """The value, normalised. Raises: ConfigFault."""
    definition = _definition(name, definitions)
    if value is None:
        raise ConfigFault(f"Null value not supported for topic configs: {name}")
    text = value.strip()
    definition.check(name, text)
    return text


def check_configs(configs: Mapping[str, str | None]) -> dict[str, str]:
    """A whole layer. Raises: ConfigFault for the first config that cannot be."""
    layer = {name: check_config(name, value) for name, value in configs.items()}
    lag_min = int(layer.get("min.compaction.lag.ms", "0"))
    lag_max = int(layer.get("max.compaction.lag.ms", str(_LONG_MAX)))
    if lag_min > lag_max:
        raise ConfigFault(
            f"conflict topic config setting min.compaction.lag.ms ({lag_min}) > "
            f"max.compaction.lag.ms ({lag_max})"
        )
    return layer


class Operation(IntEnum):
    """IncrementalAlterConfigs' config_operation."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def altered(
    layer: TopicConfigs, name: str, operation: int, value: str | None, definitions: Definitions = DEFINITIONS
) -> dict[str, str]:
    """The layer after one incremental change, not yet checked as a whole. Raises: ConfigFault."""
    definition = _definition(name, definitions)
    changed = dict(layer)
    if operation == Operation.DELETE:
        changed.pop(name, None)
        return changed
    if operation == Operation.SET:
        changed[name] = check_config(name, value, definitions)
        return changed
    if operation not in (Operation.APPEND, Operation.SUBTRACT):
        raise ConfigFault(f"Unknown operation type {operation} for config {name}")
    word = Operation(operation).name
    if definition.kind is not ConfigType.LIST:
        raise ConfigFault(f"Can't {word} to key {name} because its type is not LIST.")
    if value is None:
        raise ConfigFault(f"Null value not supported for topic configs: {name}")
    words = split_list(layer.get(name, definition.default))
    given = split_list(value)
    if operation == Operation.APPEND:
        words += [each for each in given if each not in words]
    else:
        words = [each for each in words if each not in given]
    changed[name] = check_config(name, ",".join(words), definitions)
    return changed
