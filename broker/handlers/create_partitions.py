"""CreatePartitions (37), v0-3.

Behaviour: grows topics; counts are totals. Topics named twice get INVALID_REQUEST.
Deliberately not done: assignments to other brokers than this one (INVALID_REPLICA_ASSIGNMENT).
Versions: v2 flexible; v3 quota errors (KIP-599), which we do not send.
"""

from collections import Counter
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from broker.entities import response_shape
from broker.log.errors import StorageFailed
from broker.topics import Steps
from wire.api_table import ApiKey
from wire.codec import duration

if TYPE_CHECKING:
    from broker.app import Broker
    from broker.call import Call

_Verdict = tuple[ErrorCode, str | None]


def handle(broker: "Broker", call: "Call") -> None:
    """Grow each topic."""
    broker.in_turns(call, _steps(broker, call))


def _steps(broker: "Broker", call: "Call") -> Steps:
    shape = response_shape(ApiKey.CREATE_PARTITIONS, call.api_version)
    times = Counter(asked.name for asked in call.request.topics)
    results = []
    for asked in {each.name: each for each in call.request.topics}.values():
        if times[asked.name] > 1:
            verdict: _Verdict = (ErrorCode.invalid_request, "Duplicate topic name.")
        else:
            verdict = yield from _grow(broker, asked, call.request.validate_only)
        results.append(
            shape.nested(
                "CreatePartitionsTopicResult",
                name=asked.name,
                error_code=verdict[0],
                error_message=verdict[1],
            )
        )
    if not call.is_gone:
        call.reply(shape.make(throttle_time=duration(0), results=tuple(results)))


def _grow(broker: "Broker", asked: Any, validate_only: bool) -> Generator[None, None, _Verdict]:
    topic = broker.topics.get(asked.name)
    if topic is None:
        return ErrorCode.unknown_topic_or_partition, None
    if topic.is_internal:
        return ErrorCode.invalid_request, f"Topic '{asked.name}' is internal."
    if broker.topics.is_busy(asked.name):
        return ErrorCode.reassignment_in_progress, f"Topic '{asked.name}' is being changed."
    error_code, message = _check(broker, asked, len(topic.partitions))
    if error_code is not ErrorCode.none or validate_only:
        return error_code, message
    try:
        yield from broker.topics.add_partitions(topic, asked.count, broker.epoch_ms())
    except (OSError, StorageFailed) as error:
        broker.storage_failed("partitions cannot be created", error)
        return ErrorCode.kafka_storage_error, "The disk refuses new partitions."
    finally:
        broker.measure([topic])
    return ErrorCode.none, None


def _check(broker: "Broker", asked: Any, present: int) -> _Verdict:
    if asked.count == present:
        return ErrorCode.invalid_partitions, f"Topic already has {present} partition(s)."
    if asked.count < present:
        return (
            ErrorCode.invalid_partitions,
            f"The topic {asked.name} currently has {present} partition(s); {asked.count} would not be an "
            "increase.",
        )
    new = asked.count - present
    room = broker.config.partitions_max - broker.topics.partition_count
    if new > room:
        return ErrorCode.policy_violation, f"This broker has room for {room} more partitions, not {new}."
    if asked.assignments is not None:
        if len(asked.assignments) != new:
            return (
                ErrorCode.invalid_replica_assignment,
                f"Increasing the number of partitions by {new} but {len(asked.assignments)} assignments "
                "provided.",
            )
        if any(tuple(each.broker_ids) != (broker.config.node_id,) for each in asked.assignments):
            return (
                ErrorCode.invalid_replica_assignment,
                f"Each assignment must be the one broker, {broker.config.node_id}.",
            )
    return ErrorCode.none, None
