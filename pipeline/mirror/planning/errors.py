"""What can go wrong with a partition, and whether it heals by itself, needs somebody, or is the end. Pure."""

from typing import Final

from kio.schema.errors import ErrorCode


class Unreachable(Exception):  # noqa: N818 - a state of the peer
    """A broker is away for the moment: try again."""


class KafkaError(Exception):
    """A broker's refusal."""

    def __init__(self, error_code: ErrorCode, sentence: str) -> None:
        super().__init__(sentence)
        self.error_code = error_code
        self.sentence = sentence


class Paused(Exception):  # noqa: N818 - what becomes of the partition
    """This partition waits until somebody did something."""


class TooLarge(Paused):
    """The target takes no batch that could hold this record; nothing of it was written."""


class Fenced(Exception):  # noqa: N818 - what became of the writer
    """Another mirror took this partition over."""


class Stopped(Exception):  # noqa: N818 - what becomes of the mirror
    """The source is not what was mirrored any more."""


_PASSING: Final = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.leader_not_available,
        ErrorCode.replica_not_available,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.request_timed_out,
        ErrorCode.network_exception,
        ErrorCode.broker_not_available,
        ErrorCode.kafka_storage_error,
        ErrorCode.offset_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.concurrent_transactions,
        ErrorCode.throttling_quota_exceeded,
        ErrorCode.unknown_server_error,
        # after a failure in the middle of a transaction: the next fence begins it anew
        ErrorCode.out_of_order_sequence_number,
        ErrorCode.unknown_producer_id,
        ErrorCode.invalid_producer_id_mapping,
        ErrorCode.invalid_txn_state,
        ErrorCode.transaction_coordinator_fenced,
    }
)
_FENCING: Final = frozenset({ErrorCode.invalid_producer_epoch, ErrorCode.producer_fenced})
_HINTS: Final = {
    ErrorCode.message_too_large: "it is larger than the target takes: raise max.message.bytes there",
    ErrorCode.record_list_too_large: "it is larger than the target takes: raise segment.bytes there",
    ErrorCode.topic_authorization_failed: "this client may not use the topic: ask the instance's owner",
    ErrorCode.cluster_authorization_failed: "this client may not do that: ask the instance's owner",
    ErrorCode.transactional_id_authorization_failed: (
        "this client may not use transactions: allow it, or use --no-transactions"
    ),
    ErrorCode.unknown_topic_or_partition: "the topic or partition is not there",
    ErrorCode.unknown_topic_id: "the topic is not there",
    ErrorCode.policy_violation: "the instance is full or its policy forbids it",
    ErrorCode.invalid_record: "the target refuses the records: a compacted topic takes none without a key",
    ErrorCode.invalid_timestamp: (
        "the target refuses the records' timestamps: widen message.timestamp.before.max.ms and .after.max.ms"
    ),
}


def failure_of(error_code: ErrorCode, doing: str, message: str | None = None) -> Exception:
    """What an error code means for the partition."""
    if error_code in _PASSING:
        return Unreachable(f"{doing}: {error_code.name}")
    if error_code in _FENCING:
        return Fenced(f"{doing}: another mirror has taken over")
    hint = _HINTS.get(error_code) or "see Kafka's documentation of this error"
    said = f" ({message})" if message else ""
    return Paused(f"{doing}: {error_code.name.upper()}{said}, {hint}")


def expect_success(error_code: ErrorCode, doing: str, message: str | None = None) -> None:
    """Raises: what the error code means, unless it is none."""
    if error_code != ErrorCode.none:
        raise failure_of(error_code, doing, message)
