"""What a controller knows of the cluster: the tree as it last read or wrote it."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from broker.controller.api import DeletionOutcome, PartitionName
from broker.controller.controller_config import ControllerConfig
from broker.controller.effects import Answer
from broker.metadata.znode_paths import CONTROLLER_EPOCH
from broker.metadata.znodes import Assignment, PartitionState
from contracts.cluster import (
    LiveBroker,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
)
from contracts.specs import Limits
from contracts.tree import Check

Log = tuple[str, UUID, int]
"""(topic, topic id, partition)."""
UNCLEAN_KEY: Final = "unclean.leader.election.enable"


LimitsOf = Callable[[str], Limits | None]
"""What the instance that a topic belongs to was sold, as far as this broker knows."""


def no_limits(_topic: str) -> None:
    """Nobody was sold anything."""


class Deposed(Exception):  # noqa: N818 - says what is so
    """A write found another controller epoch: this controller is none any more."""


def target_of(assignment: Assignment) -> tuple[int, ...]:
    """The replicas a partition shall have: all but those being removed."""
    return tuple(each for each in assignment.replicas if each not in assignment.removing_replicas)


@dataclass(slots=True)
class BrokerRecord:
    """A registered broker."""

    live: LiveBroker
    is_unclean: bool
    """It may have lost what it had not synced, and this has not been dealt with."""
    version: int
    """Version of its registration."""


@dataclass(slots=True)
class PartitionRecord:
    """A partition. Invariant: a leader is in the ISR, the ISR among the replicas."""

    assignment: Assignment
    state: PartitionState | None = None
    """None: it never had a leader (Kafka's NewPartition)."""
    version: int = -1
    """Version of the state node: the partition epoch."""


@dataclass(slots=True)
class TopicRecord:
    """A topic that is not being deleted."""

    name: str
    topic_id: UUID
    version: int
    """Version of its node."""
    configs: dict[str, str]
    partitions: dict[int, PartitionRecord]


@dataclass(slots=True)
class DeletionRecord:
    """A topic being deleted: clients see it no more, its name is still taken."""

    topic: TopicRecord
    waiting: set[tuple[int, int]]
    """(partition, broker) that have not answered."""


@dataclass(slots=True)
class LeftoverRecord:
    """Logs that a broker has yet to delete: it was dead, or its directory had failed."""

    version: int
    """Version of the node."""
    logs: set[Log]


@dataclass(slots=True)
class DeletionCall:
    """A DeleteTopics call; answered when its topics are gone."""

    call_id: int
    outcomes: list[DeletionOutcome]
    topics: set[str]


@dataclass(slots=True)
class PendingCommands:
    """What brokers have to be told: collected while a handler works, sent in few requests."""

    leader_and_isr: dict[int, dict[PartitionName, bool]] = field(default_factory=dict)
    """Orders by broker; whether the replica is new."""
    full_leader_and_isr: set[int] = field(default_factory=set)
    stop_replica: dict[int, dict[PartitionName, StopReplicaPartitionState]] = field(default_factory=dict)
    metadata: dict[PartitionName, None] = field(default_factory=dict)
    """Partitions all brokers hear of."""
    metadata_topics: dict[str, None] = field(default_factory=dict)
    """Topics whose id and configs all brokers hear of."""
    deleted_topics: dict[UUID, str] = field(default_factory=dict)
    full_metadata: set[int] = field(default_factory=set)
    brokers_changed: bool = False
    broker_configs_changed: bool = False


class ControllerContext:
    """The state of one term of a controller."""

    def __init__(
        self,
        broker_id: int,
        config: ControllerConfig,
        draw: Callable[[int], int],
        draw_id: Callable[[], UUID],
        limits_of: LimitsOf = no_limits,
    ) -> None:
        self.broker_id = broker_id
        self.config = config
        self.draw = draw
        """A number from 0 to below the argument."""
        self.draw_id = draw_id
        self.limits_of = limits_of
        self.now_ms = 0
        self.controller_epoch = -1
        self.epoch_version = -1
        self.is_active = False
        """Whether failover is complete."""
        self.brokers: dict[int, BrokerRecord] = {}
        self.brokers_changed_ms = 0
        self.shutting_down: set[int] = set()
        self.topics: dict[str, TopicRecord] = {}
        self.deletions: dict[str, DeletionRecord] = {}
        self.deletion_calls: list[DeletionCall] = []
        self.leftovers: dict[int, LeftoverRecord] = {}
        """What brokers have yet to delete, by broker."""
        self.broker_configs: dict[str, dict[str, str]] = {}
        self.failed_replicas: dict[int, set[PartitionName]] = {}
        """Replicas in a directory that failed, by broker."""
        self.reassigning: set[PartitionName] = set()
        self.removals: dict[PartitionName, set[int]] = {}
        """Partitions being reassigned whose targets have taken over: brokers that are to delete their log."""
        self.next_balance_ms = 0
        self.pending = PendingCommands()
        self.stop_number = 1
        """Number of the next StopReplica requests."""
        self._stops_awaited: dict[tuple[int, Log], int] = {}
        """The number of the last StopReplica about a log: answers to earlier ones say nothing about it."""
        self.answers: list[Answer] = []
        """To be given when the brokers have been told."""

    @property
    def fence(self) -> Check:
        """What every batch of writes begins with."""
        return Check(CONTROLLER_EPOCH, self.epoch_version)

    def partition(self, name: PartitionName) -> PartitionRecord | None:
        """A partition of a topic that is not being deleted."""
        topic = self.topics.get(name[0])
        return None if topic is None else topic.partitions.get(name[1])

    def every_partition(self) -> Iterator[tuple[PartitionName, PartitionRecord]]:
        """All partitions of topics that are not being deleted."""
        for topic in self.topics.values():
            for index, record in topic.partitions.items():
                yield (topic.name, index), record

    def with_replica_on(self, brokers: Iterable[int]) -> list[PartitionName]:
        """Partitions that have a replica on one of these brokers."""
        asked = set(brokers)
        return [
            name
            for name, record in self.every_partition()
            if not asked.isdisjoint(record.assignment.replicas)
        ]

    def is_alive(self, broker_id: int, name: PartitionName) -> bool:
        """Whether the replica can serve: its broker is registered and its directory works."""
        return broker_id in self.brokers and name not in self.failed_replicas.get(broker_id, ())

    def is_eligible(self, broker_id: int, name: PartitionName) -> bool:
        """Whether the replica may become leader: alive, and not on its way out."""
        return self.is_alive(broker_id, name) and broker_id not in self.shutting_down

    def has_live_leader(self, name: PartitionName, record: PartitionRecord) -> bool:
        """Whether the partition is served (Kafka's OnlinePartition)."""
        return record.state is not None and self.is_alive(record.state.leader, name)

    def allows_unclean(self, topic: str) -> bool:
        """Whether a replica out of sync may lead: the topic's word, else the cluster's, else the setting."""
        record = self.topics.get(topic)
        for layer in (record.configs if record else {}, self.broker_configs.get("", {})):
            if UNCLEAN_KEY in layer:
                return layer[UNCLEAN_KEY] == "true"
        return self.config.unclean_leader_election_enable

    def live_brokers(self) -> tuple[LiveBroker, ...]:
        """Live brokers in the words in which brokers are told of them."""
        return tuple(
            LiveBroker(
                broker_id=each.broker_id,
                host=each.host,
                port=each.port,
                rack=each.rack,
                broker_epoch=each.broker_epoch,
                in_controlled_shutdown=each.broker_id in self.shutting_down,
            )
            for each in (self.brokers[broker_id].live for broker_id in sorted(self.brokers))
        )

    def active_replicas(self, name: PartitionName, record: PartitionRecord) -> tuple[int, ...]:
        """Replicas that play the partition: those about to be deleted do not."""
        if name not in self.removals:
            return record.assignment.replicas
        return target_of(record.assignment)

    def forget(self, topic: str) -> TopicRecord:
        """The topic is being deleted, or is gone."""
        record = self.topics.pop(topic)
        for index in record.partitions:
            self.reassigning.discard((topic, index))
            self.removals.pop((topic, index), None)
        return record

    def offline_replicas(self, name: PartitionName, record: PartitionRecord) -> tuple[int, ...]:
        """Replicas that cannot serve."""
        return tuple(each for each in record.assignment.replicas if not self.is_alive(each, name))

    # -- what has to be told -----------------------------------------------------------------------------

    def tell(self, name: PartitionName, *, to: Iterable[int], new: Iterable[int] = ()) -> None:
        """These brokers hear how they have to play the partition; a replica in `new` has no log yet."""
        fresh = set(new)
        for broker_id in to:
            if broker_id in self.brokers:
                told = self.pending.leader_and_isr.setdefault(broker_id, {})
                told[name] = told.get(name, False) or broker_id in fresh
        self.pending.metadata[name] = None

    def stop(
        self, topic: TopicRecord, partition: int, broker_id: int, *, leader_epoch: int, delete: bool
    ) -> None:
        """The broker stops playing its replica of the partition."""
        if broker_id in self.brokers:
            self.await_deletion(broker_id, (topic.name, topic.topic_id, partition))
            stops = self.pending.stop_replica.setdefault(broker_id, {})
            stops[topic.name, partition] = StopReplicaPartitionState(
                topic=topic.name,
                topic_id=topic.topic_id,
                partition=partition,
                leader_epoch=leader_epoch,
                delete_partition=delete,
            )

    def await_deletion(self, broker_id: int, log: Log) -> None:
        """The broker is told to delete the log, by a request with the next number."""
        self._stops_awaited[broker_id, log] = self.stop_number

    def stops_answered(
        self, broker_id: int, request: StopReplicaRequest, response: StopReplicaResponse
    ) -> tuple[set[Log], set[Log]]:
        """The logs that the broker has deleted, and those it could not, as far as this is its last word."""
        errors = {(each.topic, each.partition) for each in response.partition_errors}
        deleted: set[Log] = set()
        failed: set[Log] = set()
        for state in request.partition_states:
            log = (state.topic, state.topic_id, state.partition)
            awaited = self._stops_awaited.get((broker_id, log))
            if state.delete_partition and awaited is not None and request.number >= awaited:
                del self._stops_awaited[broker_id, log]
                (failed if (state.topic, state.partition) in errors else deleted).add(log)
        return deleted, failed
