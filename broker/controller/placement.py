"""Where the replicas of new partitions go, and what is refused. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from kio.schema.errors import ErrorCode

from broker.assignment import assign_added, assign_replicas
from broker.controller.api import NewPartitions, NewTopic, Verdict
from broker.controller.context import ControllerContext, TopicRecord

_DEFAULT_FACTOR: Final = 3

Replicas = list[tuple[int, ...]]
"""Of each new partition, in order."""


class Refused(Exception):  # noqa: N818 - a verdict
    """The request cannot be."""

    def __init__(self, error_code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.verdict = Verdict(error_code, message)


def place_topic(context: ControllerContext, asked: NewTopic, planned: int) -> Replicas:
    """The replicas of a new topic; `planned` replicas are promised to others already. Raises: Refused."""
    if asked.name in context.topics:
        raise Refused(ErrorCode.topic_already_exists, f"Topic '{asked.name}' already exists.")
    if asked.name in context.deletions:
        raise Refused(ErrorCode.topic_already_exists, f"Topic '{asked.name}' is marked for deletion.")
    if asked.assignment is not None:
        replicas = _given(context, asked.assignment, asked)
        check_room(context, sum(map(len, replicas)), len(replicas), planned)
        return replicas
    partitions = context.config.default_partitions if asked.partitions == -1 else asked.partitions
    if partitions <= 0:
        raise Refused(
            ErrorCode.invalid_partitions, "Number of partitions was set to an invalid non-positive value."
        )
    if asked.replication_factor == -1:
        return place_by_default(context, partitions, default_factor(context), planned)
    factor = asked.replication_factor
    if factor <= 0:
        raise Refused(
            ErrorCode.invalid_replication_factor,
            "Replication factor was set to an invalid non-positive value.",
        )
    racks = _racks(context)
    if factor > len(racks):
        raise Refused(
            ErrorCode.invalid_replication_factor,
            f"Unable to replicate the partition {factor} time(s): The target replication factor of {factor} "
            f"cannot be reached because only {len(racks)} broker(s) are registered.",
        )
    check_room(context, partitions * factor, partitions, planned)
    return _assigned(context, racks, partitions, factor)


def default_factor(context: ControllerContext) -> int:
    """For topics that name none: the setting, else three or as many brokers as are known."""
    configured = context.config.default_replication_factor
    return configured if configured is not None else min(_DEFAULT_FACTOR, len(_known_brokers(context)))


def place_by_default(context: ControllerContext, partitions: int, factor: int, planned: int) -> Replicas:
    """Replicas on live brokers; when these are too few, brokers known from other partitions get some too.

    So a topic made while a broker is down has the cluster's factor once that broker is back. Raises: Refused.
    """
    racks = _racks(context)
    if not racks:
        raise Refused(ErrorCode.invalid_replication_factor, "No broker is registered.")
    for broker_id in _known_brokers(context):
        if len(racks) < factor:
            racks.setdefault(broker_id, None)
    factor = min(factor, len(racks))
    check_room(context, partitions * factor, partitions, planned)
    return _assigned(context, racks, partitions, factor)


def place_added(context: ControllerContext, asked: NewPartitions, planned: int) -> Replicas:
    """The replicas of partitions added to a topic. Raises: Refused."""
    topic = context.topics.get(asked.topic)
    if topic is None:
        raise Refused(ErrorCode.unknown_topic_or_partition, f"The topic '{asked.topic}' does not exist.")
    present = len(topic.partitions)
    if any((topic.name, index) in context.reassigning for index in topic.partitions):
        raise Refused(
            ErrorCode.reassignment_in_progress,
            f"A partition reassignment is in progress for the topic '{asked.topic}'.",
        )
    if asked.total == present:
        raise Refused(ErrorCode.invalid_partitions, f"Topic already has {present} partition(s).")
    if asked.total < present:
        raise Refused(
            ErrorCode.invalid_partitions,
            f"The topic {asked.topic} currently has {present} partition(s); {asked.total} would not be an "
            "increase.",
        )
    added = asked.total - present
    factor = len(topic.partitions[0].assignment.replicas)
    if asked.assignments is not None:
        if len(asked.assignments) != added:
            raise Refused(
                ErrorCode.invalid_replica_assignment,
                f"Increasing the number of partitions by {added} but {len(asked.assignments)} assignments "
                "provided.",
            )
        replicas = [tuple(each) for each in asked.assignments]
        _check_replicas(context, dict(enumerate(replicas, present)), factor)
        check_room(context, added * factor, added, planned)
        return replicas
    check_room(context, added * factor, added, planned)
    return _added(context, topic, added, factor)


def _added(context: ControllerContext, topic: TopicRecord, added: int, factor: int) -> Replicas:
    racks = _racks(context)
    for broker_id in topic.partitions[0].assignment.replicas:
        if len(racks) < factor:
            racks.setdefault(broker_id, None)
    existing = [topic.partitions[index].assignment.replicas for index in sorted(topic.partitions)]
    return assign_added(racks, existing, added, start=context.draw(len(racks)))


def _assigned(
    context: ControllerContext, racks: Mapping[int, str | None], partitions: int, factor: int
) -> Replicas:
    start, shift = context.draw(len(racks)), context.draw(len(racks))
    return assign_replicas(racks, partitions, factor, start=start, shift=shift)


def _racks(context: ControllerContext) -> dict[int, str | None]:
    """Brokers that take new replicas: live ones that are not about to stop, else all live ones."""
    staying = {b: each.live.rack for b, each in context.brokers.items() if b not in context.shutting_down}
    return staying or {b: each.live.rack for b, each in context.brokers.items()}


def _known_brokers(context: ControllerContext) -> list[int]:
    """Live brokers, then those that only partitions name."""
    named = {broker_id for _, record in context.every_partition() for broker_id in record.assignment.replicas}
    return [*sorted(context.brokers), *sorted(named - context.brokers.keys())]


def check_room(context: ControllerContext, replicas: int, partitions: int, planned: int) -> None:
    """Raises: Refused when the brokers would hold too many replicas."""
    held = sum(len(record.assignment.replicas) for _, record in context.every_partition()) + planned
    room = context.config.partitions_per_broker_max * len(context.brokers) - held
    if replicas > room:
        factor = max(1, replicas // max(partitions, 1))
        raise Refused(
            ErrorCode.policy_violation,
            f"The cluster has room for {max(0, room) // factor} more partitions, not {partitions}.",
        )


def _given(
    context: ControllerContext, assignment: Mapping[int, tuple[int, ...]], asked: NewTopic
) -> Replicas:
    if asked.partitions != -1 or asked.replication_factor != -1:
        what = "numPartitions" if asked.partitions != -1 else "replication factor"
        raise Refused(
            ErrorCode.invalid_request,
            f"A manual partition assignment was specified, but {what} was not set to -1.",
        )
    if not assignment or sorted(assignment) != list(range(len(assignment))):
        raise Refused(
            ErrorCode.invalid_replica_assignment,
            "Partitions should be a consecutive 0-based integer sequence.",
        )
    _check_replicas(context, assignment, len(assignment[0]))
    return [tuple(assignment[index]) for index in range(len(assignment))]


def _check_replicas(context: ControllerContext, assignment: Mapping[int, Sequence[int]], factor: int) -> None:
    for index, replicas in sorted(assignment.items()):
        repeated = sorted(broker for broker, times in Counter(replicas).items() if times > 1)
        unknown = sorted(set(replicas) - context.brokers.keys())
        if not replicas:
            fault = f"Partition {index} has no replicas."
        elif repeated:
            fault = f"Duplicate replica assignment found: partition {index} names broker {repeated[0]} twice."
        elif unknown:
            fault = (
                f"The manual partition assignment includes broker {unknown[0]}, but no such broker is "
                "registered."
            )
        elif len(replicas) != factor:
            fault = "All partitions should have the same number of replicas."
        else:
            continue
        raise Refused(ErrorCode.invalid_replica_assignment, fault)
