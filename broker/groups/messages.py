"""What goes into the coordinator and what comes out: requests, results and effects, all plain values.

A request comes with a *reply token*: the coordinator never looks into it, parks it as long as Kafka parks the
answer, and names it exactly once in a `Reply`.
"""

from typing import Literal, NamedTuple, TypeAlias

from kio.schema.errors import ErrorCode

from broker.coordination import effects
from broker.coordination.effects import Token
from broker.groups.consumer_messages import Answered
from broker.groups.records import OffsetAndMetadata, Record
from wire.control import EndMarker

UNKNOWN_MEMBER = ""
"""The member id of a client that has none yet."""


class JoinRequest(NamedTuple):
    """JoinGroup. `requires_member_id` from v4 on (KIP-394), `may_skip_assignment` from v9 on (KIP-814)."""

    group_id: str
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    requires_member_id: bool
    may_skip_assignment: bool = False


class JoinedMember(NamedTuple):
    """One member as the leader sees it."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinResult(NamedTuple):
    """The answer to JoinGroup; only the leader gets `members`. With `skip_assignment` it assigns nothing now:
    it is back in the generation that it has assigned."""

    error: ErrorCode
    member_id: str
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


class SyncRequest(NamedTuple):
    """SyncGroup; only the leader sends assignments, as (member id, assignment)."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    assignments: tuple[tuple[str, bytes], ...]


class SyncResult(NamedTuple):
    """The answer to SyncGroup."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class HeartbeatRequest(NamedTuple):
    """Heartbeat; its answer is a bare error code."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None


class LeavingMember(NamedTuple):
    """A member to remove: by member id, or by instance id alone (administrators, KIP-345)."""

    member_id: str
    group_instance_id: str | None


class LeaveResult(NamedTuple):
    """The answer to LeaveGroup: one error for the request and one per member, in order."""

    error: ErrorCode
    members: tuple[tuple[LeavingMember, ErrorCode], ...] = ()


class OffsetToCommit(NamedTuple):
    """One partition of an OffsetCommit."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str


class CommitRequest(NamedTuple):
    """OffsetCommit. `retention_ms` None means the coordinator's own retention (v5+, or -1 before)."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    retention_ms: int | None
    offsets: tuple[OffsetToCommit, ...]


class Producer(NamedTuple):
    """Who writes inside a transaction."""

    producer_id: int
    producer_epoch: int


class TransactionalCommit(NamedTuple):
    """TxnOffsetCommit. Clients before v3 give no member: generation -1 and an empty member id."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    producer: Producer
    verification: int | None
    """The log's guard, once the transaction's coordinator has confirmed it; None where none was needed."""
    offsets: tuple[OffsetToCommit, ...]


class Marker(NamedTuple):
    """The end of a producer's transaction on this partition (WriteTxnMarkers)."""

    producer: Producer
    end: EndMarker


class CommitResult(NamedTuple):
    """The answer to OffsetCommit: (topic, partition) -> error."""

    errors: dict[tuple[str, int], ErrorCode]


class OffsetsDeletion(NamedTuple):
    """OffsetDelete."""

    group_id: str
    partitions: tuple[tuple[str, int], ...]


class OffsetsDeletionResult(NamedTuple):
    """The answer to OffsetDelete: one error for the request, or one per (topic, partition)."""

    error: ErrorCode
    errors: dict[tuple[str, int], ErrorCode]


GroupType: TypeAlias = Literal["classic", "consumer"]
"""As ListGroups shows it."""


class DescribedMember(NamedTuple):
    """One member as DescribeGroups shows it."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class DescribedGroup(NamedTuple):
    """One group as DescribeGroups shows it. A group that does not exist is Dead, without error (v0-5)."""

    group_id: str
    state: str
    protocol_type: str
    protocol_name: str
    members: tuple[DescribedMember, ...]


class ListedGroup(NamedTuple):
    """One group as ListGroups shows it."""

    group_id: str
    protocol_type: str
    state: str
    group_type: GroupType = "classic"


FetchedOffsets: TypeAlias = dict[str, dict[int, OffsetAndMetadata]]
"""topic -> partition -> committed offset."""


class AfterSync(NamedTuple):
    """Once the assignment is durable, the group becomes stable and its members get it."""

    generation_id: int
    assignments: dict[str, bytes]


class AfterStaticJoin(NamedTuple):
    """Once the new member id of a static member is durable, it learns it. `former_leader` is the id it is
    shown as the leader's where it cannot be told to skip the assignment."""

    generation_id: int
    member_id: str
    former_leader: str
    may_skip_assignment: bool


class AfterCommit(NamedTuple):
    """Once the offsets are durable, the commit is answered; partitions without error are in the records."""

    token: Token
    errors: dict[tuple[str, int], ErrorCode]


class AfterOffsetsDeletion(NamedTuple):
    """Once the tombstones are durable, OffsetDelete is answered."""

    token: Token
    errors: dict[tuple[str, int], ErrorCode]


class AfterGroupDeletion(NamedTuple):
    """Once the tombstones are durable, one group of DeleteGroups is answered."""

    token: Token


class AfterMarker(NamedTuple):
    """Once the marker is durable, the transaction's offsets take effect or go. Answer: an error code."""

    token: Token


class AfterConsumerStep(NamedTuple):
    """Once the records of a consumer group are durable, its members are answered, and what waited goes on."""

    answers: tuple[Answered, ...]
    metadata_version: int


class AfterHousekeeping(NamedTuple):
    """Nobody waits: an emptied group, expired offsets, a deleted topic."""


Continuation: TypeAlias = (
    AfterSync
    | AfterStaticJoin
    | AfterCommit
    | AfterOffsetsDeletion
    | AfterGroupDeletion
    | AfterMarker
    | AfterConsumerStep
    | AfterHousekeeping
)


class Append(NamedTuple):
    """One batch of the offsets topic: records of one group, or a marker, which is of no group."""

    group_id: str
    records: tuple[Record, ...]
    then: Continuation
    producer: Producer | None = None
    """In whose transaction the records are."""
    marker: Marker | None = None
    verification: int | None = None
    """The log's guard, when the records may be the transaction's first."""


Effects: TypeAlias = effects.Effects[Append]


class Turn(effects.Turn[Append]):
    """One step of the coordinator."""

    __slots__ = ()

    def append(
        self,
        group_id: str,
        records: tuple[Record, ...],
        then: Continuation,
    ) -> None:
        """Write records, then go on."""
        assert records, "an append without records"
        self.effects.appends.append(Append(group_id, records, then))

    def append_transactional(
        self,
        request: TransactionalCommit,
        records: tuple[Record, ...],
        then: Continuation,
    ) -> None:
        """Write records inside the producer's transaction, then go on."""
        self.effects.appends.append(
            Append(request.group_id, records, then, request.producer, verification=request.verification)
        )

    def append_marker(self, marker: Marker, token: Token) -> None:
        """Write the end of a transaction, then answer."""
        self.effects.appends.append(Append("", (), AfterMarker(token), marker=marker))
