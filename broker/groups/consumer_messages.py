"""What goes into a consumer group of the new protocol and what comes out, as plain values."""

from collections.abc import Iterable
from typing import NamedTuple, Protocol
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker.coordination.effects import Token
from broker.groups.consumer_records import CurrentAssignment, MemberMetadata, Partitions


class TopicOfGroup(NamedTuple):
    """A topic that is there."""

    topic_id: UUID
    partitions: int


class Topics(Protocol):
    """The topics that groups may read: what is known of the cluster."""

    def version(self, owner: str | None) -> int:
        """Grows when topics of the instance come, go or grow."""

    def topic(self, name: str) -> TopicOfGroup | None:
        """A topic by its physical name; None: it is not there."""

    def names(self, owner: str | None) -> Iterable[str]:
        """Topics of an instance, and of nobody else; None: those without one."""


class ConsumerHeartbeat(NamedTuple):
    """ConsumerGroupHeartbeat. None: as before."""

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int | None
    topic_names: frozenset[str] | None
    topic_regex: str | None
    server_assignor: str | None
    owned: Partitions | None

    @property
    def is_full(self) -> bool:
        """Whether the member says everything, as it does when it may have missed an answer."""
        subscribes = self.topic_names is not None or self.topic_regex is not None
        return self.rebalance_timeout_ms is not None and subscribes and self.owned is not None


class HeartbeatResult(NamedTuple):
    """The answer; no assignment: as before."""

    error: ErrorCode
    message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    interval_ms: int = 0
    assigned: Partitions | None = None


class Ending(NamedTuple):
    """A member's time is over: of its session, or of its letting go."""

    group_id: str
    member_id: str
    is_session: bool


class Waiting(NamedTuple):
    """A heartbeat that waits for the group's records in flight."""

    request: ConsumerHeartbeat
    token: Token


class Answered(NamedTuple):
    """A heartbeat that is answered when the records are durable."""

    token: Token
    result: HeartbeatResult


class DescribedConsumer(NamedTuple):
    """One member as ConsumerGroupDescribe shows it."""

    member_id: str
    metadata: MemberMetadata
    current: CurrentAssignment
    target: Partitions


class DescribedConsumerGroup(NamedTuple):
    """One group as ConsumerGroupDescribe shows it."""

    group_id: str
    state: str
    epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[DescribedConsumer, ...]
