"""Where the replicas of new partitions go, and what is refused. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final

from kio.schema.errors import ErrorCode

from broker.controller.api import NewPartitions, NewTopic, Verdict
from broker.controller.assignment import assign_added, assign_replicas
from broker.controller.context import ControllerContext, TopicRecord
from contracts.names import owner_of
from contracts.topic_policy import partitions_fault

PARTITIONS_PER_TOPIC_MAX: Final = 10_000
"""A topic's node holds its whole assignment, three times over while it is reassigned, in less than 1 MiB."""
_DEFAULT_FACTOR: Final = 3

Replicas = list[tuple[int, ...]]
"""Replicas of each new partition, in order."""


def _metric_name(topic: str) -> str:
    return topic.replace(".", "_")


class Refused(Exception):  # noqa: N818 - a verdict
    """The request cannot be."""

    def __init__(self, error_code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.verdict = Verdict(error_code, message)


class Placement:
    """Places the partitions of one call; what it gives out counts for the next. All raise Refused."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._given_out = 0
        self._partitions_of: dict[str, int] = {}
        """Partitions of instances that have a limit, with those given out; counted when first asked for."""

    def topic(self, asked: NewTopic) -> Replicas:
        """The replicas of a new topic."""
        context = self._context
        if asked.name in context.topics:
            raise Refused(ErrorCode.topic_already_exists, f"Topic '{asked.name}' already exists.")
        if asked.name in context.deletions:
            raise Refused(ErrorCode.topic_already_exists, f"Topic '{asked.name}' is marked for deletion.")
        self._check_collision(asked.name)
        if asked.assignment is not None:
            replicas = self._as_asked(asked, asked.assignment)
            self._take(asked.name, len(replicas), len(replicas[0]))
            return replicas
        partitions = context.config.default_partitions if asked.partitions == -1 else asked.partitions
        if partitions <= 0:
            raise Refused(
                ErrorCode.invalid_partitions,
                "Number of partitions was set to an invalid non-positive value.",
            )
        if asked.replication_factor == -1:
            return self.by_default(asked.name, partitions)
        if asked.replication_factor <= 0:
            raise Refused(
                ErrorCode.invalid_replication_factor,
                "Replication factor was set to an invalid non-positive value.",
            )
        return self._spread(asked.name, self._racks(), partitions, asked.replication_factor)

    def _check_collision(self, name: str) -> None:
        """`a.b` beside `a_b`: metrics cannot tell them apart, so Kafka refuses the second."""
        other = self._by_metric_name.get(_metric_name(name))
        if other is not None:
            raise Refused(
                ErrorCode.invalid_topic_exception, f"Topic '{name}' collides with existing topic: {other}"
            )

    @cached_property
    def _by_metric_name(self) -> dict[str, str]:
        return {_metric_name(name): name for name in self._context.topics}

    def by_default(self, topic: str, partitions: int, factor: int | None = None) -> Replicas:
        """Replicas with the default factor, on live brokers; when these are too few, brokers known from other
        partitions get some too, so that a topic made while a broker is down has its factor once it is back.
        """
        racks = self._racks()
        if factor is None:
            configured = self._context.config.default_replication_factor
            factor = configured or max(1, min(_DEFAULT_FACTOR, len(self._known_brokers)))
        for broker_id in self._known_brokers:
            if len(racks) < factor:
                racks.setdefault(broker_id, None)
        return self._spread(topic, racks, partitions, factor)

    def added(self, asked: NewPartitions) -> Replicas:
        """The replicas of partitions added to a topic."""
        context = self._context
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
                f"The topic {asked.topic} currently has {present} partition(s); {asked.total} would not be "
                "an increase.",
            )
        factor = len(topic.partitions[0].assignment.replicas)
        self._take(asked.topic, asked.total - present, factor, present)
        if asked.assignments is not None:
            return self._added_as_asked(asked.assignments, present, asked.total - present, factor)
        return self._added(topic, asked.total - present, factor)

    def _added_as_asked(
        self, assignments: Sequence[tuple[int, ...]], present: int, added: int, factor: int
    ) -> Replicas:
        if len(assignments) != added:
            raise Refused(
                ErrorCode.invalid_replica_assignment,
                f"Increasing the number of partitions by {added} but {len(assignments)} assignments "
                "provided.",
            )
        replicas = [tuple(each) for each in assignments]
        self._check_replicas(dict(enumerate(replicas, present)), factor)
        return replicas

    def _added(self, topic: TopicRecord, added: int, factor: int) -> Replicas:
        racks = self._racks()
        for broker_id in topic.partitions[0].assignment.replicas:
            if len(racks) < factor:
                racks.setdefault(broker_id, None)
        existing = [topic.partitions[index].assignment.replicas for index in sorted(topic.partitions)]
        return assign_added(racks, existing, added, start=self._context.draw(len(racks)))

    def _spread(self, topic: str, racks: Mapping[int, str | None], partitions: int, factor: int) -> Replicas:
        if factor > len(racks):
            raise Refused(
                ErrorCode.invalid_replication_factor,
                f"Unable to replicate the partition {factor} time(s): The target replication factor of "
                f"{factor} cannot be reached because only {len(racks)} broker(s) are registered.",
            )
        self._take(topic, partitions, factor)
        start, shift = self._context.draw(len(racks)), self._context.draw(len(racks))
        return assign_replicas(racks, partitions, factor, start=start, shift=shift)

    def _racks(self) -> dict[int, str | None]:
        """Brokers that take new replicas: live ones that are not about to stop, else all live ones."""
        context = self._context
        live = {broker_id: each.live.rack for broker_id, each in context.brokers.items()}
        staying = {
            broker_id: rack for broker_id, rack in live.items() if broker_id not in context.shutting_down
        }
        return staying or live

    @cached_property
    def _known_brokers(self) -> list[int]:
        """Live brokers, then those that only partitions name."""
        context = self._context
        named = {each for _, record in context.every_partition() for each in record.assignment.replicas}
        return [*sorted(context.brokers), *sorted(named - context.brokers.keys())]

    @cached_property
    def _room(self) -> int:
        """Replicas that the live brokers may still get, before this call."""
        context = self._context
        held = sum(len(record.assignment.replicas) for _, record in context.every_partition())
        return max(0, context.config.partitions_per_broker_max * len(context.brokers) - held)

    def _take(self, topic: str, partitions: int, factor: int, present: int = 0) -> None:
        """See that so many more partitions of a topic fit, and count them as given out."""
        left = self._room - self._given_out
        if partitions * factor > left:
            raise Refused(
                ErrorCode.policy_violation,
                f"The cluster has room for {left // factor} more partitions, not {partitions}.",
            )
        if present + partitions > PARTITIONS_PER_TOPIC_MAX:
            raise Refused(
                ErrorCode.policy_violation, f"A topic has at most {PARTITIONS_PER_TOPIC_MAX} partitions."
            )
        self._take_of_instance(topic, partitions)
        self._given_out += partitions * factor

    def _take_of_instance(self, topic: str, partitions: int) -> None:
        """The limit the instance was sold: nobody but the one controller can tell what all its creators, on
        however many gateways and consoles, come to together."""
        context = self._context
        instance_id, limits = owner_of(topic), context.limits_of(topic)
        if instance_id is None or limits is None:
            return
        in_use = self._partitions_of.get(instance_id)
        if in_use is None:
            in_use = sum(
                len(each.partitions) for name, each in context.topics.items() if owner_of(name) == instance_id
            )
        fault = partitions_fault(in_use, partitions, limits)
        if fault is not None:
            raise Refused(ErrorCode.policy_violation, fault)
        self._partitions_of[instance_id] = in_use + partitions

    def _as_asked(self, asked: NewTopic, assignment: Mapping[int, tuple[int, ...]]) -> Replicas:
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
        self._check_replicas(assignment, len(assignment[0]))
        return [tuple(assignment[index]) for index in range(len(assignment))]

    def _check_replicas(self, assignment: Mapping[int, Sequence[int]], factor: int) -> None:
        for index, replicas in sorted(assignment.items()):
            repeated = sorted(broker for broker, times in Counter(replicas).items() if times > 1)
            unknown = sorted(set(replicas) - self._context.brokers.keys())
            if not replicas:
                fault = f"Partition {index} has no replicas."
            elif repeated:
                fault = (
                    f"Duplicate replica assignment found: partition {index} names broker {repeated[0]} twice."
                )
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
