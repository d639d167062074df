"""What a tenant may set on a topic, with bounds (design: Names). Gateway and console share this table.

`check` decides about one key and value, `check_all` about a whole set; both answer with a sentence that names
the key and says what is allowed, fit for an `INVALID_CONFIG` message or a form field.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from contracts.specs import Limits

MIB: Final = 1024 * 1024
GIB: Final = 1024 * MIB
SEGMENT_BYTES_MIN: Final = MIB
SEGMENT_BYTES_MAX: Final = GIB
KAFKA_MESSAGE_BYTES: Final = 1_048_588
"""Kafka's default of max.message.bytes."""
KAFKA_RETENTION_MS: Final = 7 * 24 * 3600 * 1000
"""Kafka's default of retention.ms."""
SEGMENT_BYTES_DEFAULT_MIN: Final = 16 * MIB
SEGMENT_MS_MIN: Final = 10 * 60 * 1000
_I64_MAX: Final = 2**63 - 1
_I32_MAX: Final = 2**31 - 1

_Rule = Callable[[str, Limits], str | None]
"""Why a value is refused ("must be ..."), or None. The key's name is put in front by `check`."""


class AllowedConfig(NamedTuple):
    """One key that tenants may set: its meaning in a sentence (console help), and the rule."""

    about: str
    rule: _Rule


def _integer(value: str, lowest: int, highest: int) -> str | None:
    text = value.strip()
    digits = text[1:] if text[:1] == "-" else text
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 19:
        return f"must be a whole number, not '{_shown(value)}'"
    if not lowest <= int(text) <= highest:
        return f"must be between {lowest} and {highest}, not {text}"
    return None


def _shown(value: str) -> str:
    """A refused value as it may stand in a message: bounded."""
    return value if len(value) <= 40 else value[:40] + "..."


def _between(lowest: int, highest: int) -> _Rule:
    return lambda value, _limits: _integer(value, lowest, highest)


def _one_of(*words: str) -> _Rule:
    return lambda value, _limits: (
        None if value in words else f"must be one of {', '.join(words)}, not '{_shown(value)}'"
    )


def _cleanup_policy(value: str, _limits: Limits) -> str | None:
    words = [word.strip() for word in value.split(",")]
    if set(words) <= {"delete", "compact"} and len(set(words)) == len(words):
        return None
    return f"must be delete, compact or both with a comma, not '{_shown(value)}'"


def _retention_ms(value: str, limits: Limits) -> str | None:
    return _integer(value, 0, limits.retention_ms_max)


def _message_bytes(value: str, limits: Limits) -> str | None:
    return _integer(value, 0, limits.message_bytes_max)


def _ratio(value: str, _limits: Limits) -> str | None:
    try:
        number = float(value)
    except ValueError:
        return f"must be a number, not '{_shown(value)}'"
    return None if 0 <= number <= 1 else f"must be between 0 and 1, not {_shown(value)}"


ALLOWED: Final[dict[str, AllowedConfig]] = {
    "cleanup.policy": AllowedConfig("what happens to old segments: delete, compact or both", _cleanup_policy),
    "retention.ms": AllowedConfig("how long records are kept, in milliseconds", _retention_ms),
    "retention.bytes": AllowedConfig(
        "bytes kept per partition, -1 for no bound of its own", _between(-1, _I64_MAX)
    ),
    "max.message.bytes": AllowedConfig("the largest record batch, in bytes", _message_bytes),
    "segment.bytes": AllowedConfig(
        "size at which a segment file is rolled, in bytes", _between(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX)
    ),
    "segment.ms": AllowedConfig(
        "age at which a segment file is rolled, in milliseconds", _between(SEGMENT_MS_MIN, _I64_MAX)
    ),
    "min.insync.replicas": AllowedConfig(
        "replicas that must have a write for acks=all", _between(1, _I32_MAX)
    ),
    "compression.type": AllowedConfig(
        "codec of stored batches",
        _one_of("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
    ),
    "message.timestamp.type": AllowedConfig(
        "whose clock stamps records", _one_of("CreateTime", "LogAppendTime")
    ),
    "delete.retention.ms": AllowedConfig(
        "how long tombstones of compacted topics are kept, in milliseconds", _between(0, _I64_MAX)
    ),
    "min.compaction.lag.ms": AllowedConfig(
        "how long a record stays uncompacted at least, in milliseconds", _between(0, _I64_MAX)
    ),
    "max.compaction.lag.ms": AllowedConfig(
        "how long a record may stay uncompacted, in milliseconds", _between(1, _I64_MAX)
    ),
    "min.cleanable.dirty.ratio": AllowedConfig(
        "share of uncompacted bytes that starts a compaction, 0 to 1", _ratio
    ),
}
ALLOWED_KEYS: Final = frozenset(ALLOWED)
LIST_KEYS: Final = frozenset({"cleanup.policy"})
"""Keys whose value is a list: IncrementalAlterConfigs may append to and subtract from them."""


def check(name: str, value: str | None, limits: Limits) -> str | None:
    """Why a tenant may not set this key to this value, in one sentence that names the key, or None."""
    allowed = ALLOWED.get(name)
    if allowed is None:
        return f"{_shown(name)} cannot be set here; what can be set: {', '.join(sorted(ALLOWED))}"
    if value is None:
        return f"{name} has no value"
    fault = allowed.rule(value, limits)
    return None if fault is None else f"{name} {fault}"


def check_all(configs: Mapping[str, str | None], limits: Limits) -> str | None:
    """The first fault of a set of configs, or None."""
    for name, value in configs.items():
        fault = check(name, value, limits)
        if fault is not None:
            return fault
    return None


def default_segment_bytes(capacity_bytes: int) -> int:
    """`segment.bytes` when the creator names none: DeleteRecords and retention free whole segments."""
    assert capacity_bytes >= 0, capacity_bytes
    return min(max(capacity_bytes // 100, SEGMENT_BYTES_DEFAULT_MIN), SEGMENT_BYTES_MAX)


def creation_defaults(capacity_bytes: int, limits: Limits) -> dict[str, str]:
    """Configs of a new topic whose creator does not name them: where Kafka's own do not fit the instance."""
    defaults = {"segment.bytes": str(default_segment_bytes(capacity_bytes))}
    if limits.message_bytes_max != KAFKA_MESSAGE_BYTES:
        defaults["max.message.bytes"] = str(limits.message_bytes_max)
    if limits.retention_ms_max < KAFKA_RETENTION_MS:
        defaults["retention.ms"] = str(limits.retention_ms_max)
    return defaults
