"""One group and its members while they are live. Changes here are volatile; the log holds what must last.

The words and rules are Kafka's (ClassicGroup, GroupMetadata.scala 2.8-3.x).
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from broker.coordination.effects import Reply, Token
from broker.groups.messages import JoinedMember, JoinResult, SyncResult
from broker.groups.records import GroupMetadata, StoredMember
from broker.groups.subscription import CONSUMER_PROTOCOL_TYPE, names_in, subscribed_topics


class State(StrEnum):
    """A group's state; the values are what ListGroups and DescribeGroups show."""

    EMPTY = "Empty"
    """No members. May still have committed offsets."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Members are asked to join again; JoinGroup answers are parked."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """Everyone has joined; the leader's assignment is awaited; SyncGroup answers are parked."""
    STABLE = "Stable"
    """Every member may have its assignment of the current generation."""
    DEAD = "Dead"
    """Removed. A group object in this state is no longer in the table."""


TRANSITIONS: Final[dict[State, frozenset[State]]] = {
    State.EMPTY: frozenset({State.PREPARING_REBALANCE, State.DEAD}),
    State.PREPARING_REBALANCE: frozenset({State.COMPLETING_REBALANCE, State.EMPTY, State.DEAD}),
    State.COMPLETING_REBALANCE: frozenset({State.STABLE, State.PREPARING_REBALANCE, State.DEAD}),
    State.STABLE: frozenset({State.PREPARING_REBALANCE, State.DEAD}),
    State.DEAD: frozenset(),
}
"""From each state, where it may go."""
_MEMBER_BYTES: Final = 1024
"""About what a member takes besides metadata and assignment."""


def protocols_bytes(protocols: Iterable[tuple[str, bytes]]) -> int:
    """What the protocols of a JoinGroup take."""
    return sum(len(name) + len(metadata) for name, metadata in protocols)


class LeadersPart(NamedTuple):
    """What a member adds to what its group's leader is told, whichever protocol is chosen."""

    metadata_bytes: int
    names: int
    """Topic names in the metadata of consumers."""


def leaders_part(protocol_type: str | None, protocols: Iterable[tuple[str, bytes]]) -> LeadersPart:
    """The part of a JoinGroup's protocols that its leader is told."""
    metadata = [each for _, each in protocols]
    names = map(names_in, metadata) if protocol_type == CONSUMER_PROTOCOL_TYPE else ()
    return LeadersPart(max(map(len, metadata), default=0), max(names, default=0))


class Member:
    """A member. `awaiting_join` and `awaiting_sync` are the parked answers, at most one of each."""

    __slots__ = (
        "assignment",
        "awaiting_join",
        "awaiting_sync",
        "client_host",
        "client_id",
        "group_instance_id",
        "is_new",
        "leaders_part",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
    )

    def __init__(
        self,
        member_id: str,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        protocols: dict[str, bytes],
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.protocols = protocols
        """Name -> metadata, most preferred first."""
        self.assignment = assignment
        self.leaders_part = LeadersPart(0, 0)
        """The part of its protocols that the leader is told."""
        self.awaiting_join: Token | None = None
        self.awaiting_sync: Token | None = None
        self.is_new = False
        """Its client has no member id yet, so it cannot heartbeat and its session is another one."""

    @property
    def is_static(self) -> bool:
        """Whether it has a group instance id (KIP-345)."""
        return self.group_instance_id is not None

    @property
    def satisfies_heartbeat(self) -> bool:
        """Whether it may be silent: a known member whose answer is parked cannot send anything."""
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)

    @property
    def size_bytes(self) -> int:
        """About what it takes in memory."""
        return _MEMBER_BYTES + protocols_bytes(self.protocols.items()) + len(self.assignment)

    def matches(self, protocols: dict[str, bytes]) -> bool:
        """Whether it would join with what it already has, order included."""
        return list(self.protocols.items()) == list(protocols.items())

    def metadata(self, protocol_name: str | None) -> bytes:
        """Its metadata for one protocol."""
        return self.protocols.get(protocol_name or "", b"")


class Group:
    """A live group. Invariants: the leader is a member; static ids map to members; see `check`."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.state = State.EMPTY
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        """Group instance id -> member id."""
        self.pending_join: set[str] = set()
        """Member ids given out with MEMBER_ID_REQUIRED that have not come back yet."""
        self.pending_sync: set[str] = set()
        """Members of this generation that have not sent SyncGroup yet."""
        self.state_timestamp_ms: int | None = None
        """Wall clock of the last transition."""
        self.subscribed: frozenset[str] | None = None
        """Topics of all members together; None when unknown (not consumers, or unreadable)."""
        self.new_member_added = False
        """Somebody joined during the initial delay, so it may be extended."""
        self.counted_bytes = 0
        """`size_bytes` when the registry last counted."""
        self.initial_remaining_ms: int | None = None
        """What is left of the initial rebalance; None outside of it."""

    @classmethod
    def from_stored(cls, group_id: str, stored: GroupMetadata) -> "Group":
        """The group that a replayed log describes: stable when it has members."""
        group = cls(group_id)
        group.generation_id = stored.generation_id
        group.protocol_type = stored.protocol_type or None
        group.protocol_name = stored.protocol_name
        group.leader = stored.leader
        group.state_timestamp_ms = stored.state_timestamp_ms
        group.state = State.STABLE if stored.members else State.EMPTY
        for kept in stored.members:
            member = Member(
                kept.member_id,
                kept.group_instance_id,
                kept.client_id,
                kept.client_host,
                kept.session_timeout_ms,
                kept.rebalance_timeout_ms,
                {stored.protocol_name or "": kept.subscription},
                kept.assignment,
            )
            member.leaders_part = leaders_part(stored.protocol_type, member.protocols.items())
            group.members[kept.member_id] = member
            if kept.group_instance_id is not None:
                group.static_members[kept.group_instance_id] = kept.member_id
        if group.leader not in group.members:
            group.leader = next(iter(group.members), None)
        group.refresh_subscribed()
        return group

    def to_stored(self, assignments: dict[str, bytes]) -> GroupMetadata:
        """What the log keeps, with the assignments that are about to hold."""
        members = tuple(
            StoredMember(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.session_timeout_ms,
                member.metadata(self.protocol_name),
                assignments.get(member.member_id, b""),
            )
            for member in self.members.values()
        )
        protocol_type = self.protocol_type or ""
        timestamp_ms = self.state_timestamp_ms
        return GroupMetadata(
            protocol_type, self.generation_id, self.protocol_name, self.leader, timestamp_ms, members
        )

    def move_to(self, state: State, epoch_ms: int) -> None:
        """Change state by the table."""
        assert state in TRANSITIONS[self.state], f"{self.state} may not become {state}"
        self.state = state
        self.state_timestamp_ms = epoch_ms

    def add(self, member: Member, protocol_type: str) -> None:
        """Take a member in; the first one leads and fixes the protocol type."""
        assert member.member_id not in self.members
        if not self.members:
            self.protocol_type = protocol_type
        assert self.protocol_type == protocol_type, "one protocol type per group"
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_members
            self.static_members[member.group_instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self.pending_join.discard(member.member_id)

    def remove(self, member_id: str) -> Member | None:
        """Take a member or a pending member out; the longest-standing one takes the lead."""
        self.pending_join.discard(member_id)
        self.pending_sync.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is not None and member.group_instance_id is not None:
            del self.static_members[member.group_instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def replace_static(self, old_member_id: str, new_member_id: str) -> Member:
        """Give a static member a new member id, keeping its place, lead and assignment."""
        old = self.members[old_member_id]
        assert old.group_instance_id is not None
        new = Member(
            new_member_id,
            old.group_instance_id,
            old.client_id,
            old.client_host,
            old.session_timeout_ms,
            old.rebalance_timeout_ms,
            old.protocols,
            old.assignment,
        )
        self.members = {
            (new_member_id if key == old_member_id else key): (new if key == old_member_id else member)
            for key, member in self.members.items()
        }
        self.static_members[old.group_instance_id] = new_member_id
        self.pending_sync.discard(old_member_id)
        if self.leader == old_member_id:
            self.leader = new_member_id
        return new

    def parked_replies(self, error: ErrorCode) -> list[Reply]:
        """Every parked answer, with the error that ends it. The group is not used afterwards."""
        replies = []
        for member in self.members.values():
            if member.awaiting_join is not None:
                replies.append(Reply(member.awaiting_join, JoinResult(error, member.member_id)))
            if member.awaiting_sync is not None:
                replies.append(Reply(member.awaiting_sync, SyncResult(error)))
        return replies

    def is_leader(self, member_id: str) -> bool:
        """Whether this member leads."""
        return self.leader == member_id

    @property
    def is_unused(self) -> bool:
        """Empty, and nobody is about to join."""
        return self.state is State.EMPTY and not self.pending_join

    @property
    def size_bytes(self) -> int:
        """About what the members take in memory."""
        return sum(member.size_bytes for member in self.members.values())

    def leaders_answer(self, member_id: str, part: LeadersPart) -> LeadersPart:
        """What the leader would be told of all members, when this one, new or known, brings `part`."""
        others = [member.leaders_part for key, member in self.members.items() if key != member_id]
        return LeadersPart(
            part.metadata_bytes + sum(each.metadata_bytes for each in others),
            part.names + sum(each.names for each in others),
        )

    @property
    def awaiting_join_count(self) -> int:
        """Members whose JoinGroup is parked."""
        return sum(1 for member in self.members.values() if member.awaiting_join is not None)

    @property
    def all_joined(self) -> bool:
        """Whether the join phase can complete without waiting for anyone."""
        return not self.pending_join and self.awaiting_join_count == len(self.members)

    @property
    def rebalance_timeout_ms(self) -> int:
        """The slowest member's."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def can_rebalance(self) -> bool:
        """Whether a rebalance may begin, that is, none is gathering members already."""
        return State.PREPARING_REBALANCE in TRANSITIONS[self.state]

    def elect_joined_leader(self) -> bool:
        """Make sure the leader is a member that has joined. False when nobody has."""
        if self.leader is None:
            return False
        if self.members[self.leader].awaiting_join is None:
            joined = (key for key, member in self.members.items() if member.awaiting_join is not None)
            elected = next(joined, None)
            if elected is None:
                return False
            self.leader = elected
        return True

    def supports(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """Whether a member with these protocols may join: one of them is everybody's."""
        names = tuple(protocols)
        if self.state is State.EMPTY:
            return protocol_type != "" and len(names) > 0
        if self.protocol_type != protocol_type:
            return False
        return any(all(name in member.protocols for member in self.members.values()) for name in names)

    def select_protocol(self) -> str:
        """The protocol all support that most members prefer; ties go to the one met first."""
        assert self.members, "an empty group has no protocol"
        votes: dict[str, int] = {}
        members = list(self.members.values())
        common = set(members[0].protocols).intersection(*(member.protocols for member in members))
        for member in members:
            vote = next(name for name in member.protocols if name in common)
            votes[vote] = votes.get(vote, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def next_generation(self, epoch_ms: int) -> None:
        """Everyone who will has joined. Invariant: the only place where the generation changes."""
        self.generation_id += 1
        self.pending_sync.clear()
        self.protocol_name = self.select_protocol() if self.members else None
        self.refresh_subscribed()
        self.move_to(State.COMPLETING_REBALANCE if self.members else State.EMPTY, epoch_ms)

    def refresh_subscribed(self) -> None:
        """Read what the members subscribed to, for expiry and OffsetDelete."""
        self.subscribed = None
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return
        topics: frozenset[str] = frozenset()
        for member in self.members.values():
            found = subscribed_topics(member.metadata(self.protocol_name))
            if found is None:
                return
            topics |= found
        self.subscribed = topics

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether offsets of a topic are in use; unreadable subscriptions count as everything."""
        if self.subscribed is None:
            return self.protocol_type == CONSUMER_PROTOCOL_TYPE
        return topic in self.subscribed

    def joined_members(self) -> tuple[JoinedMember, ...]:
        """What the leader is told."""
        return tuple(
            JoinedMember(member.member_id, member.group_instance_id, member.metadata(self.protocol_name))
            for member in self.members.values()
        )

    def member_fault(self, member_id: str, group_instance_id: str | None) -> ErrorCode | None:
        """Why a request does not come from a current member, or None."""
        if group_instance_id is not None:
            known = self.static_members.get(group_instance_id)
            if known is None:
                return ErrorCode.unknown_member_id
            if known != member_id:
                return ErrorCode.fenced_instance_id
        return None if member_id in self.members else ErrorCode.unknown_member_id

    def check(self) -> None:
        """Assert the invariants."""
        assert (self.leader is None) == (not self.members), "a leader exactly while there are members"
        assert self.leader is None or self.leader in self.members, "the leader is a member"
        assert all(self.members[key].group_instance_id == name for name, key in self.static_members.items())
        assert self.pending_sync <= self.members.keys(), "only members are awaited"
        assert not self.pending_join & self.members.keys(), "a member is not pending"
        if self.state is State.EMPTY:
            assert not self.members, "an empty group has no members"
        if self.state in (State.STABLE, State.COMPLETING_REBALANCE):
            assert self.members, "a group without members is Empty"
