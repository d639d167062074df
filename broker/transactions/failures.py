"""What a failed append looks like to those who wait for it, as in Kafka's TransactionStateManager."""

from typing import Final

from kio.schema.errors import ErrorCode

from broker.coordination.effects import Reply
from broker.transactions.messages import AfterAdd, AfterDecision, AfterInit, Append, EndResult, InitResult

_ERRORS: Final = {
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas_after_append: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
    ErrorCode.message_too_large: ErrorCode.unknown_server_error,
    ErrorCode.record_list_too_large: ErrorCode.unknown_server_error,
}


def failure_of(error: ErrorCode) -> ErrorCode:
    """What clients are told of an error of the log."""
    return _ERRORS.get(error, error)


def failure_replies(append: Append, error: ErrorCode) -> list[Reply]:
    """Whoever waits for the append, with the error."""
    then = append.then
    if isinstance(then, AfterInit):
        return [Reply(then.token, InitResult(error))]
    if isinstance(then, AfterAdd):
        return [Reply(then.token, error)]
    if isinstance(then, AfterDecision) and then.reply is not None:
        result = then.reply.result
        if isinstance(result, InitResult | EndResult):
            return [then.reply._replace(result=type(result)(error))]
        return [then.reply._replace(result=error)]
    return []
