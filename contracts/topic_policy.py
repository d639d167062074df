"""What a tenant may set on a topic, with bounds (design: Names). Gateway and console share this table.

`check` decides about one key and value, `check_all` about a whole set; both answer with a sentence that names
the key and says what is allowed, fit for an `INVALID_CONFIG` message or a form field. `stored_value` is what
reaches the cluster, brought into bounds; `NOT_KEPT_KEYS` do not reach it. `applied` says what a stored value
means on an instance: brokers act by it and tenants are shown it, so topics follow when the limits of the
instance change (ADR-0021).
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from contracts.shapes import matching
from contracts.specs import Engine, Limits
from contracts.units import counted

MIB: Final = 1024 * 1024
GIB: Final = 1024 * MIB
SEGMENT_BYTES_MIN: Final = MIB
"""The least that a topic's `segment.bytes` comes to: a segment's files cost the same whatever its size."""
SEGMENT_BYTES_MAX: Final = GIB
RETENTION_MS: Final = "retention.ms"
MAX_MESSAGE_BYTES: Final = "max.message.bytes"
RETENTION_MS_DEFAULT: Final = 7 * 24 * 3600 * 1000
"""Kafka's own."""
SEGMENT_BYTES_DEFAULT_MIN: Final = 16 * MIB
SEGMENT_MS_MIN: Final = 10 * 60 * 1000
"""The least that a topic's `segment.ms` comes to."""
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


def _message_bytes(value: str, limits: Limits) -> str | None:
    return _integer(value, 0, limits.message_bytes_max)


_RATIO_SHAPE: Final = r"^\s*\+?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?\s*$"
_RATIO: Final = matching(_RATIO_SHAPE)


def _ratio(value: str, _limits: Limits) -> str | None:
    if _RATIO.match(value) is None:
        return f"must be a number, not '{_shown(value)}'"
    return None if float(value) <= 1 else f"must be between 0 and 1, not {_shown(value)}"


ALLOWED: Final[dict[str, AllowedConfig]] = {
    "cleanup.policy": AllowedConfig("what happens to old segments: delete, compact or both", _cleanup_policy),
    RETENTION_MS: AllowedConfig(
        "how long records are kept, in milliseconds; -1 and longer than the instance allows: what it allows",
        _between(-1, _I64_MAX),
    ),
    "retention.bytes": AllowedConfig(
        "bytes kept per partition, -1 for no bound of its own", _between(-1, _I64_MAX)
    ),
    MAX_MESSAGE_BYTES: AllowedConfig("the largest record batch, in bytes", _message_bytes),
    "segment.bytes": AllowedConfig(
        "size at which a segment file is rolled, in bytes (1 MiB to 1 GiB)", _between(1, _I32_MAX)
    ),
    "segment.ms": AllowedConfig(
        "age at which a segment file is rolled, in milliseconds (10 minutes or more)", _between(1, _I64_MAX)
    ),
    "min.insync.replicas": AllowedConfig(
        "replicas that must have a write for acks=all", _between(1, _I32_MAX)
    ),
    "compression.type": AllowedConfig(
        "codec of stored batches",
        _one_of("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
    ),
    "message.timestamp.before.max.ms": AllowedConfig(
        "how far a record's timestamp may be behind the broker's clock, in milliseconds",
        _between(0, _I64_MAX),
    ),
    "message.timestamp.after.max.ms": AllowedConfig(
        "how far a record's timestamp may be ahead of the broker's clock, in milliseconds",
        _between(0, _I64_MAX),
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
        "how long a record may stay uncompacted, in milliseconds (10 minutes or more)", _between(1, _I64_MAX)
    ),
    "min.cleanable.dirty.ratio": AllowedConfig(
        "share of uncompacted bytes that starts a compaction, 0 to 1", _ratio
    ),
}
ALLOWED_KEYS: Final = frozenset(ALLOWED)
LIST_KEYS: Final = frozenset({"cleanup.policy"})
"""Keys whose value is a list: IncrementalAlterConfigs may append to and subtract from them."""


def _boolean(value: str, _limits: Limits) -> str | None:
    return (
        None
        if value.strip().lower() in ("true", "false")
        else f"must be true or false, not '{_shown(value)}'"
    )


def _is_false(value: str, _limits: Limits) -> str | None:
    return None if value.strip().lower() == "false" else "can only be false here"


_BOOLEAN_SHAPE: Final = r"^\s*([Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee])\s*$"
_FALSE_SHAPE: Final = r"^\s*[Ff][Aa][Ll][Ss][Ee]\s*$"
_IGNORED: Final[dict[str, _Rule]] = {
    "compression.gzip.level": _between(-1, 9),
    "compression.lz4.level": _between(1, 17),
    "compression.zstd.level": _between(-131_072, 22),
    "file.delete.delay.ms": _between(0, _I64_MAX),
    "flush.messages": _between(1, _I64_MAX),
    "flush.ms": _between(0, _I64_MAX),
    "index.interval.bytes": _between(0, _I32_MAX),
    "local.retention.bytes": _between(-2, _I64_MAX),
    "local.retention.ms": _between(-2, _I64_MAX),
    "message.downconversion.enable": _boolean,
    "message.format.version": lambda value, _limits: None if value.strip() else "must be a version",
    "message.timestamp.difference.max.ms": _between(0, _I64_MAX),
    "preallocate": _boolean,
    "segment.index.bytes": _between(4, _I32_MAX),
    "segment.jitter.ms": _between(0, _I64_MAX),
}
"""Keys that Kafka has and tools set, and that change nothing a tenant could notice here: taken, not kept."""
_ONLY_FALSE: Final[dict[str, _Rule]] = dict.fromkeys(
    (
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
        "unclean.leader.election.enable",
    ),
    _is_false,
)
"""Taken when they ask for what is so anyway. Another value would promise what is not given: refused."""
_NOT_KEPT: Final = _IGNORED | _ONLY_FALSE
NOT_KEPT_KEYS: Final = frozenset(_NOT_KEPT)
_NUMBER_SHAPE: Final = r"^\s*-?[0-9]{1,19}\s*$"
CONFIG_SHAPES: Final[dict[str, str]] = dict.fromkeys((*ALLOWED, *_NOT_KEPT), _NUMBER_SHAPE) | {
    "cleanup.policy": r"^\s*(delete|compact|delete\s*,\s*compact|compact\s*,\s*delete)\s*$",
    "compression.type": "^(producer|uncompressed|gzip|snappy|lz4|zstd)$",
    "message.timestamp.type": "^(CreateTime|LogAppendTime)$",
    "min.cleanable.dirty.ratio": _RATIO_SHAPE,
    "message.format.version": r"^[\s\S]*\S[\s\S]*$",
    **dict.fromkeys(("message.downconversion.enable", "preallocate"), _BOOLEAN_SHAPE),
    **dict.fromkeys(_ONLY_FALSE, _FALSE_SHAPE),
}
"""What a value of each key that may be named looks like. Whether a number is within bounds, which limits of
the instance may be, is for `check` to say."""
_SHAPES: Final = {name: matching(shape) for name, shape in CONFIG_SHAPES.items()}
_CLAMPED: Final = {
    "segment.bytes": (SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX),
    "segment.ms": (SEGMENT_MS_MIN, _I64_MAX),
    "max.compaction.lag.ms": (SEGMENT_MS_MIN, _I64_MAX),
}
"""Keys whose value is brought into bounds instead of being refused: nobody relies on the exact number."""


def check(name: str, value: str | None, limits: Limits) -> str | None:
    """Why a tenant may not set this key to this value, in one sentence that names the key, or None."""
    rule = ALLOWED[name].rule if name in ALLOWED else _NOT_KEPT.get(name)
    if rule is None:
        return f"{_shown(name)} cannot be set here; what can be set: {', '.join(sorted(ALLOWED))}"
    if value is None:
        return f"{name} has no value"
    fault = rule(value, limits)
    return None if fault is None else f"{name} {fault}"


def check_all(configs: Mapping[str, str | None], limits: Limits) -> str | None:
    """The first fault of a set of configs, or None."""
    for name, value in configs.items():
        fault = check(name, value, limits)
        if fault is not None:
            return fault
    return None


def is_shaped(name: str, value: str | None) -> bool:
    """Whether a key may be named, and its value looks like one of it."""
    shape = _SHAPES.get(name)
    return shape is not None and (value is None or shape.match(value) is not None)


def is_settable(name: str) -> bool:
    """Whether a tenant's request may name the key at all, to set it or to go back to the default."""
    return name in ALLOWED or name in NOT_KEPT_KEYS


def written_limits(limits: Limits, engine: Engine) -> Limits | None:
    """The limits that a topic's configs have to hold: those of an engine that knows no instances."""
    return limits if engine is Engine.APACHE else None


def stored_value(name: str, value: str, written: Limits | None = None) -> str:
    """A checked value as the cluster gets it."""
    if written is not None:
        value = applied(name, value, written, is_own=True) or value
    bounds = _CLAMPED.get(name)
    return value if bounds is None else str(min(max(int(value), bounds[0]), bounds[1]))


def applied_retention_ms(asked_ms: int, limits: Limits) -> int:
    """How long a topic's records are kept; asking for ever (-1) is asking for what the instance allows."""
    return limits.retention_ms_max if asked_ms < 0 else min(asked_ms, limits.retention_ms_max)


def applied_message_bytes(asked: int | None, limits: Limits) -> int:
    """The largest batch of a topic; None when it does not say, which means the instance's."""
    return limits.message_bytes_max if asked is None else min(asked, limits.message_bytes_max)


def applied(name: str, value: str | None, limits: Limits, *, is_own: bool) -> str | None:
    """What a config of a topic means on its instance; `is_own`: set on the topic, not a default."""
    if value is None:
        return None
    if name == RETENTION_MS:
        return str(applied_retention_ms(int(value), limits))
    if name == MAX_MESSAGE_BYTES:
        return str(applied_message_bytes(int(value) if is_own else None, limits))
    return value


def default_min_insync_replicas(replicas: int) -> int:
    """`min.insync.replicas` where nobody says: with three replicas one may be lost without losing writes."""
    return 2 if replicas >= 3 else 1


def default_segment_bytes(capacity_bytes: int) -> int:
    """`segment.bytes` when the creator names none: DeleteRecords and retention free whole segments."""
    assert capacity_bytes >= 0, capacity_bytes
    return min(max(capacity_bytes // 100, SEGMENT_BYTES_DEFAULT_MIN), SEGMENT_BYTES_MAX)


def creation_defaults(capacity_bytes: int, written: Limits | None = None) -> dict[str, str]:
    """Configs of a new topic whose creator does not name them: where Kafka's own do not fit the instance.

    Our brokers apply limits themselves, also when they change (`applied`); others have them `written`.
    """
    defaults = {"segment.bytes": str(default_segment_bytes(capacity_bytes))}
    if written is not None:
        defaults[RETENTION_MS] = str(applied_retention_ms(RETENTION_MS_DEFAULT, written))
        defaults[MAX_MESSAGE_BYTES] = str(written.message_bytes_max)
    return defaults


def mutation_rate_fault(limits: Limits, wait_ms: int) -> str:
    """Why no partitions may be created or deleted now, and when they may."""
    rate = counted(limits.controller_mutation_rate_max, "partition")
    return (
        f"the instance creates and deletes {rate} a second at most (controller_mutation_rate_max), "
        f"and is ahead of that: try again in {counted(-(-wait_ms // 1000), 'second')}"
    )


def partitions_fault(present: int, wanted: int, limits: Limits) -> str | None:
    """Why so many more partitions do not fit the instance, with the numbers, or None."""
    assert present >= 0 and wanted >= 0
    if present + wanted <= limits.partitions_max:
        return None
    return (
        f"the instance has {present} of at most {limits.partitions_max} partitions; {wanted} more do not fit"
    )
