"""What a failed append looks like to those who wait for it, as in Kafka."""

from typing import Final

from kio.schema.errors import ErrorCode

from broker.coordination.effects import Reply
from broker.groups.consumer_messages import HeartbeatResult
from broker.groups.messages import (
    AfterCommit,
    AfterConsumerStep,
    AfterGroupDeletion,
    AfterMarker,
    AfterOffsetsDeletion,
    Append,
    CommitResult,
    OffsetsDeletionResult,
)

MEMBERSHIP_ERRORS: Final = {
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas_after_append: ErrorCode.coordinator_not_available,
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.message_too_large: ErrorCode.unknown_server_error,
    ErrorCode.record_list_too_large: ErrorCode.unknown_server_error,
}
"""What a failed append of group metadata looks like to members, as in Kafka."""

_COMMIT_ERRORS: Final = MEMBERSHIP_ERRORS | {
    ErrorCode.message_too_large: ErrorCode.invalid_commit_offset_size,
    ErrorCode.record_list_too_large: ErrorCode.invalid_commit_offset_size,
}
"""What a failed append of committed offsets looks like to clients."""


def failure_replies(append: Append, error: ErrorCode) -> list[Reply]:
    """The answers of an append whose waiting is not that of members in a rebalance."""
    then = append.then
    if isinstance(then, AfterCommit):
        commit_error = _COMMIT_ERRORS.get(error, error)
        errors = {key: commit_error if one is ErrorCode.none else one for key, one in then.errors.items()}
        return [Reply(then.token, CommitResult(errors))]
    if isinstance(then, AfterOffsetsDeletion):
        result = OffsetsDeletionResult(MEMBERSHIP_ERRORS.get(error, error), {})
        return [Reply(then.token, result)]
    if isinstance(then, AfterGroupDeletion):
        return [Reply(then.token, MEMBERSHIP_ERRORS.get(error, error))]
    if isinstance(then, AfterConsumerStep):
        told = MEMBERSHIP_ERRORS.get(error, error)
        return [Reply(answered.token, HeartbeatResult(told)) for answered in then.answers]
    if isinstance(then, AfterMarker):
        return [Reply(then.token, error)]
    return []
