"""A consumer group of the new protocol (KIP-848): all of it is durable, so records alone change it.

The words and rules are Kafka's (ConsumerGroup, 4.x).
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker.groups.assignors import ASSIGNORS, DEFAULT_ASSIGNOR, movers
from broker.groups.consumer_records import (
    NO_PARTITIONS,
    ConsumerGroupRecord,
    ConsumerRecord,
    CurrentAssignment,
    CurrentRecord,
    GroupEpoch,
    MemberMetadata,
    MemberRecord,
    MemberState,
    MemberTargetRecord,
    Partitions,
    TargetRecord,
)

JOINING_EPOCH: Final = 0
LEAVING_EPOCH: Final = -1
STATIC_LEAVING_EPOCH: Final = -2
"""A static member is away, and will be back within its session."""
NOT_JOINED: Final = CurrentAssignment(
    JOINING_EPOCH, JOINING_EPOCH, MemberState.STABLE, NO_PARTITIONS, NO_PARTITIONS
)
_MEMBER_BYTES: Final = 2048
_NAME_BYTES: Final = 100
_PARTITION_BYTES: Final = 100
"""About what a member, a topic name and a partition take, in target, assignment and owners."""


class ConsumerGroup:
    """Invariant: the result of replaying the group's records in order. A partition has one owner."""

    def __init__(self, group_id: str) -> None:
        self.group_id: Final = group_id
        self.epoch = 0
        self.metadata_hash = 0
        self.assignment_epoch = 0
        self.members: dict[str, MemberMetadata] = {}
        self.targets: dict[str, Partitions] = {}
        self.current: dict[str, CurrentAssignment] = {}
        self.static_members: dict[str, str] = {}
        """Group instance id -> member id."""
        self.owners: dict[UUID, dict[int, str]] = {}
        """Who has a partition, or has not confirmed yet that it let go of it."""
        self.names = 0
        """Topic names of all members together, a name as often as members name it."""
        self._regexes: Counter[str] = Counter()
        """Patterns of members, and how many have each."""
        self.metadata_version = -1
        """Of the topics, when they were last looked at; not durable."""
        self._behind: set[str] | None = None
        """Members that have not been given yet what they shall have."""
        self._movers: frozenset[str] | None = None
        self._size_bytes: int | None = 0
        """These follow from the records; None: not known since the last one."""

    def copy(self) -> "ConsumerGroup":
        """One that changes by itself; what it consists of never changes in place."""
        other = ConsumerGroup(self.group_id)
        other.epoch, other.metadata_hash = self.epoch, self.metadata_hash
        other.assignment_epoch = self.assignment_epoch
        other.members = self.members.copy()
        other.targets = self.targets.copy()
        other.current = self.current.copy()
        other.static_members = self.static_members.copy()
        other.owners = {topic_id: owners.copy() for topic_id, owners in self.owners.items()}
        other.names, other._regexes = self.names, self._regexes.copy()
        other.metadata_version = self.metadata_version
        other._size_bytes = self._size_bytes
        return other

    # -- replay

    def replay(self, record: ConsumerRecord) -> None:
        """Apply one record. A tombstone of the group itself is for who holds the group."""
        if isinstance(record, ConsumerGroupRecord):
            self.epoch, self.metadata_hash = record.value or GroupEpoch(0, 0)
        elif isinstance(record, MemberRecord):
            self._size_bytes = None
            self._replay_member(record.member_id, record.value)
            self._moved(record.member_id)
        elif isinstance(record, TargetRecord):
            self.assignment_epoch = record.value or 0
            self._behind = None
        elif isinstance(record, MemberTargetRecord):
            self._movers = self._size_bytes = None
            if record.value is None:
                self.targets.pop(record.member_id, None)
            else:
                self.targets[record.member_id] = record.value
        else:
            self._replay_current(record)
            self._moved(record.member_id)

    def _replay_member(self, member_id: str, value: MemberMetadata | None) -> None:
        former = self.members.pop(member_id, None) if value is None else self.members.get(member_id)
        for metadata, change in ((former, -1), (value, 1)):
            if metadata is not None:
                self.names += change * len(metadata.topic_names)
                if metadata.topic_regex:
                    self._regexes[metadata.topic_regex] += change
        if former is not None and self.static_members.get(former.instance_id or "") == member_id:
            del self.static_members[former.instance_id or ""]
        if value is not None:
            self.members[member_id] = value
            if value.instance_id is not None:
                self.static_members[value.instance_id] = member_id

    def _replay_current(self, record: CurrentRecord) -> None:
        member_id, value = record.member_id, record.value
        former = self.current.pop(member_id, None) if value is None else self.current.get(member_id)
        if former is not None:
            for topic_id, index in held(former):
                owners = self.owners.get(topic_id, {})
                if owners.get(index) == member_id:
                    del owners[index]
                    if not owners:
                        del self.owners[topic_id]
        if value is not None:
            self.current[member_id] = value
            for topic_id, index in held(value):
                self.owners.setdefault(topic_id, {})[index] = member_id

    # -- reading

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not self.members

    @property
    def is_settled(self) -> bool:
        """Whether every member has been given what it shall have."""
        if self._behind is None:
            self._behind = {member_id for member_id in self.members if not self._is_reconciled(member_id)}
        return self.epoch == self.assignment_epoch and not self._behind

    def _moved(self, member_id: str) -> None:
        if self._behind is None:
            return
        if member_id in self.members and not self._is_reconciled(member_id):
            self._behind.add(member_id)
        else:
            self._behind.discard(member_id)

    @property
    def movers(self) -> frozenset[str]:
        """Members that the next one to join would wait for, and those that would be given what one had that
        leaves."""
        if self._movers is None:
            self._movers = movers(ASSIGNORS[self.assignor or DEFAULT_ASSIGNOR], self.targets)
        return self._movers

    def _is_reconciled(self, member_id: str) -> bool:
        current = self.assignment(member_id)
        return current.state is MemberState.STABLE and current.member_epoch in (
            self.assignment_epoch,
            STATIC_LEAVING_EPOCH,
        )

    @property
    def state(self) -> str:
        """As ListGroups and ConsumerGroupDescribe show it."""
        if self.is_empty:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        return "Stable" if self.is_settled else "Reconciling"

    def assignment(self, member_id: str) -> CurrentAssignment:
        """What the member has been given."""
        return self.current.get(member_id, NOT_JOINED)

    def target(self, member_id: str) -> Partitions:
        """What the member shall have."""
        return self.targets.get(member_id, NO_PARTITIONS)

    def owner(self, topic_id: UUID, index: int) -> str | None:
        """Who has a partition, or may still read it."""
        return self.owners.get(topic_id, {}).get(index)

    def subscribed_names(self) -> frozenset[str]:
        """Topics that members name."""
        return frozenset().union(*(member.topic_names for member in self.members.values()))

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether offsets of a topic are in use: members name it, or may read it by a pattern."""
        return any(topic in member.topic_names or member.topic_regex for member in self.members.values())

    def regexes(self) -> frozenset[str]:
        """Patterns that members subscribe with."""
        return frozenset(pattern for pattern, members in self._regexes.items() if members)

    @property
    def assignor(self) -> str | None:
        """The one that most members prefer; ties go to the one met first."""
        votes: dict[str, int] = {}
        for member in self.members.values():
            if member.server_assignor is not None:
                votes[member.server_assignor] = votes.get(member.server_assignor, 0) + 1
        return max(votes, key=lambda name: votes[name], default=None)

    @property
    def size_bytes(self) -> int:
        """About what it takes in memory."""
        if self._size_bytes is None:
            self._size_bytes = sum(map(self._member_bytes, self.members))
        return self._size_bytes

    def _member_bytes(self, member_id: str) -> int:
        names = len(self.members[member_id].topic_names)
        partitions = sum(map(len, self.target(member_id).values()))
        return _MEMBER_BYTES + names * _NAME_BYTES + partitions * _PARTITION_BYTES

    def commit_fault(self, member_id: str, member_epoch: int) -> ErrorCode | None:
        """Why an offset may not be committed, or read for a member, in its name."""
        if member_epoch < 0 and self.is_empty:
            return None
        current = self.current.get(member_id)
        if current is None or member_id not in self.members:
            return ErrorCode.unknown_member_id
        return None if member_epoch == current.member_epoch else ErrorCode.stale_member_epoch

    def removal(self, member_id: str) -> Iterator[ConsumerRecord]:
        """Tombstones of a member."""
        yield CurrentRecord(self.group_id, member_id, None)
        yield MemberTargetRecord(self.group_id, member_id, None)
        yield MemberRecord(self.group_id, member_id, None)

    def tombstones(self) -> Iterable[ConsumerRecord]:
        """Records that remove everything of it."""
        for member_id in self.members:
            yield from self.removal(member_id)
        yield TargetRecord(self.group_id, None)
        yield ConsumerGroupRecord(self.group_id, None)


def held(current: CurrentAssignment) -> Iterator[tuple[UUID, int]]:
    """Partitions that a member has, or has not confirmed yet that it let go of."""
    for partitions in (current.assigned, current.pending_revocation):
        for topic_id, indexes in partitions.items():
            for index in indexes:
                yield topic_id, index
