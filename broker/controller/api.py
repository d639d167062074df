"""What the handlers of admin requests ask of the controller on this broker, and what it answers.

Every call answers, per item, with a Kafka error code and a sentence; `NOT_CONTROLLER` when another broker is
the controller. An answer with `ErrorCode.none` leaves when the tree holds the change and the brokers
concerned have been told (this broker always, others as long as `timeout_ms` allows); then clients find
leaders. When told takes longer the answer is REQUEST_TIMED_OUT and the change goes on.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker.metadata.znodes import Assignment
from contracts.cluster import ControlledShutdownRequest, ControlledShutdownResponse

PartitionName = tuple[str, int]
"""(topic, index)."""


class Verdict(NamedTuple):
    """How one item ended."""

    error_code: ErrorCode
    message: str | None = None


OK = Verdict(ErrorCode.none)


class NewTopic(NamedTuple):
    """A topic to create. The caller has checked the name and the configs by themselves."""

    name: str
    topic_id: UUID
    """Drawn by the caller."""
    partitions: int = -1
    """-1: the default; must be so when there is an assignment."""
    replication_factor: int = -1
    assignment: Mapping[int, tuple[int, ...]] | None = None
    configs: Mapping[str, str] = {}
    leader_epoch: int = 0
    """Of its first leaders: more than 0 where it had others, on another cluster."""


class CreatedTopic(NamedTuple):
    """How a creation ended. `topic_id` is None unless the topic exists now; the rest is what it got, or what
    it would have got with `validate_only`."""

    verdict: Verdict
    topic_id: UUID | None = None
    partitions: int = -1
    replication_factor: int = -1


class DeletedTopicName(NamedTuple):
    """A topic to delete, by name or by id."""

    name: str | None
    topic_id: UUID | None = None


class DeletionOutcome(NamedTuple):
    """How a deletion ended. With `none` clients see the topic no more and, when all its brokers live, its
    logs are gone and the name is free."""

    verdict: Verdict
    name: str | None
    topic_id: UUID | None


class NewPartitions(NamedTuple):
    """A topic to grow to `total` partitions; `assignments` are the new ones' replicas."""

    topic: str
    total: int
    assignments: Sequence[tuple[int, ...]] | None = None


class ConfigEntity(NamedTuple):
    """Whose layer of configs: ("topics", name) or ("brokers", broker id or "" for all)."""

    kind: str
    name: str


class ElectionKind(IntEnum):
    """ElectLeaders' election_type."""

    PREFERRED = 0
    UNCLEAN = 1


class ControllerApi(Protocol):
    """The controller as handlers see it."""

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller and has taken over."""
        ...

    @property
    def controller_id(self) -> int:
        """The broker that is controller as far as this one knows, or -1."""
        ...

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False, timeout_ms: int = 30_000
    ) -> list[CreatedTopic]:
        """Create topics; answers in their order."""
        ...

    async def delete_topics(
        self, topics: Sequence[DeletedTopicName], *, timeout_ms: int = 30_000
    ) -> list[DeletionOutcome]:
        """Delete topics; answers in their order. With delete.topic.enable=false the wish is recorded in
        /admin/delete_topics, carried out when a controller allows it, and answered with
        TOPIC_DELETION_DISABLED."""
        ...

    async def create_partitions(
        self, topics: Sequence[NewPartitions], *, validate_only: bool = False, timeout_ms: int = 30_000
    ) -> list[Verdict]:
        """Grow topics; answers in their order."""
        ...

    async def elect_leaders(
        self, kind: ElectionKind, partitions: Sequence[PartitionName] | None, *, timeout_ms: int = 30_000
    ) -> dict[PartitionName, Verdict] | Verdict:
        """Elect; None: every partition that needs it (others are not in the answer). ELECTION_NOT_NEEDED,
        PREFERRED_LEADER_NOT_AVAILABLE and ELIGIBLE_LEADERS_NOT_AVAILABLE are usual. One Verdict is about the
        whole call."""
        ...

    async def alter_reassignments(
        self, targets: Mapping[PartitionName, tuple[int, ...] | None], *, timeout_ms: int = 30_000
    ) -> dict[PartitionName, Verdict] | Verdict:
        """Start reassignments, or cancel (None). Answers when they have begun, not when they are done."""
        ...

    async def list_reassignments(
        self, partitions: Sequence[PartitionName] | None, *, timeout_ms: int = 30_000
    ) -> dict[PartitionName, Assignment] | Verdict:
        """Reassignments in progress, of these partitions or all."""
        ...

    async def controlled_shutdown(
        self, request: ControlledShutdownRequest, *, timeout_ms: int = 10_000
    ) -> ControlledShutdownResponse:
        """A broker wants to stop: lead its partitions elsewhere."""
        ...
