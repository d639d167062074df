"""What can go wrong with a partition, and whether it heals by itself, needs somebody, or is the end. Pure."""

from typing import Any, Final

from confluent_kafka import KafkaError


class Unreachable(Exception):  # noqa: N818 - a state of the peer
    """A broker is away for the moment: try again."""


class Paused(Exception):  # noqa: N818 - what becomes of the partition
    """This partition waits until somebody did something."""


class TooLarge(Paused):
    """The target takes no batch that could hold this record."""


class Fenced(Exception):  # noqa: N818 - what became of the writer
    """Another mirror took this partition over."""


class Stopped(Exception):  # noqa: N818 - what becomes of the mirror
    """The source is not what was mirrored any more."""


_FENCING: Final = frozenset(
    {KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED}
)
_TOO_LARGE: Final = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE})
_FORBIDDEN: Final = "this client may not do that: ask the instance's owner"
_LASTING: Final = {
    KafkaError.MSG_SIZE_TOO_LARGE: "it is larger than the target takes: raise max.message.bytes there",
    KafkaError.RECORD_LIST_TOO_LARGE: "it is larger than the target takes: raise segment.bytes there",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "this client may not use the topic: ask the instance's owner",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: _FORBIDDEN,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: _FORBIDDEN,
    KafkaError.UNKNOWN_TOPIC_OR_PART: "the topic or partition is not there",
    KafkaError.UNKNOWN_TOPIC_ID: "the topic is not there",
    KafkaError.POLICY_VIOLATION: "the instance is full or its policy forbids it",
    KafkaError.TOPIC_EXCEPTION: "the target does not take a topic of that name",
    KafkaError.INVALID_PARTITIONS: "the target does not take so many partitions",
    KafkaError.INVALID_REPLICATION_FACTOR: "the target has too few brokers",
    KafkaError.GROUP_AUTHORIZATION_FAILED: _FORBIDDEN,
    KafkaError.INVALID_RECORD: "the target refuses the records: a compacted topic takes none without a key",
    KafkaError.INVALID_TIMESTAMP: (
        "the target refuses the records' timestamps: widen message.timestamp.before.max.ms and .after.max.ms"
    ),
    KafkaError._AUTHENTICATION: "look at the login of --source-config or --target-config",
    KafkaError._SSL: "look at the certificates of --source-config or --target-config",
    KafkaError._UNSUPPORTED_FEATURE: "a mirror needs a Kafka with transactions",
    KafkaError.UNSUPPORTED_VERSION: "a mirror needs a Kafka with transactions",
    KafkaError.INVALID_CONFIG: "the target does not take the source's configs: create the topic there",
    KafkaError._INVALID_ARG: "look at --source-config and --target-config",
    KafkaError._BAD_MSG: "what the source has stored is damaged",
    KafkaError._BAD_COMPRESSION: "what the source has stored is damaged",
}
"""What somebody has to do something about, and what; all other errors are tried again."""


def is_lasting(code: int) -> bool:
    """Whether somebody has to do something about it."""
    return code in _LASTING


def failure_of(error: Any, doing: str) -> Exception:
    """What a KafkaError means for the partition."""
    code = error.code()
    if code in _FENCING:
        return Fenced(f"{doing}: another mirror has taken over")
    hint = _LASTING.get(code)
    if hint is None:
        return Unreachable(f"{doing}: {error.str()}")
    kind = TooLarge if code in _TOO_LARGE else Paused
    return kind(f"{doing}: {error.name()} ({error.str()}), {hint}")
