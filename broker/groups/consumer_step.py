"""One step of a consumer group: what happened meanwhile in, records and answers out. Pure.

All that waited while the group's last records were in flight is decided together: members come and go, the
group's epoch grows by one at most, targets are made once, then each heartbeat brings its member one step on.
So a thousand members that start at once do not cost a thousand assignments.
"""

import zlib
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker.coordination.effects import Token
from broker.groups.assignors import ASSIGNORS, DEFAULT_ASSIGNOR, Subscription
from broker.groups.consumer_group import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    NOT_JOINED,
    STATIC_LEAVING_EPOCH,
    ConsumerGroup,
)
from broker.groups.consumer_messages import (
    Answered,
    ConsumerHeartbeat,
    Ending,
    HeartbeatResult,
    TopicOfGroup,
    Topics,
    Waiting,
)
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
from broker.groups.group_config import GroupConfig
from broker.groups.reconciling import next_assignment
from broker.groups.topic_patterns import is_pattern, matching
from contracts.names import owner_of

REGEXES_MAX: Final = 8
"""Different regular expressions in one consumer group: each is held against every topic of the instance."""


class Refused(Exception):  # noqa: N818 - an answer
    """A heartbeat that changes nothing."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


class Decision(NamedTuple):
    """What a step leads to."""

    records: tuple[ConsumerRecord, ...]
    answers: tuple[Answered, ...]
    """May leave once the records are durable."""
    metadata_version: int
    grown_bytes: int


class _Beat(NamedTuple):
    """A heartbeat that was let in."""

    token: Token
    request: ConsumerHeartbeat
    known: bool
    """Whether the member is to hear its assignment even if nothing has changed."""


def decide(
    group: ConsumerGroup,
    happened: Sequence[Waiting | Ending],
    topics: Topics,
    config: GroupConfig,
) -> Decision:
    """Decide what happened, in order. `group` stays as it is."""
    step = _Step(group.copy(), topics, config)
    step.run(happened)
    grown_bytes = step.group.size_bytes - group.size_bytes if step.records else 0
    return Decision(tuple(step.records), tuple(step.answers), step.group.metadata_version, grown_bytes)


class _Step:
    """A copy of the group that changes as the records will change the group."""

    def __init__(self, group: ConsumerGroup, topics: Topics, config: GroupConfig) -> None:
        self.group = group
        self.records: list[ConsumerRecord] = []
        self.answers: list[Answered] = []
        self._topics = topics
        self._config = config
        self._owner: Final = owner_of(group.group_id)
        self._changed = False
        self._patterns: dict[str, frozenset[str]] = {}

    def run(self, happened: Sequence[Waiting | Ending]) -> None:
        """Members first, then the assignment, then one member after the other."""
        beats = []
        for each in happened:
            if isinstance(each, Ending):
                self._end(each)
                continue
            try:
                beat = self._admit(each)
            except Refused as refused:
                self._answer(each.token, HeartbeatResult(refused.error, refused.message))
                continue
            if beat is not None:
                beats.append(beat)
        self._renew()
        for beat in beats:
            self._advance(beat)

    def _put(self, record: ConsumerRecord) -> None:
        self.records.append(record)
        self.group.replay(record)

    def _answer(self, token: Token, result: HeartbeatResult) -> None:
        self.answers.append(Answered(token, result))

    # -- members

    def _end(self, ending: Ending) -> None:
        current = self.group.current.get(ending.member_id)
        if current is None or (
            not ending.is_session and current.state is not MemberState.UNREVOKED_PARTITIONS
        ):
            return
        self._remove(ending.member_id)

    def _remove(self, member_id: str) -> None:
        for record in list(self.group.removal(member_id)):
            self._put(record)
        self._changed = True

    def _admit(self, waiting: Waiting) -> _Beat | None:
        """Let one heartbeat in; None: it is answered. Raises: Refused."""
        request = waiting.request
        if request.member_epoch in (LEAVING_EPOCH, STATIC_LEAVING_EPOCH):
            self._leave(request)
            result = HeartbeatResult(ErrorCode.none, None, request.member_id, request.member_epoch)
            self._answer(waiting.token, result)
            return None
        self._check_wanted(request)
        if request.member_epoch == JOINING_EPOCH:
            self._join(request)
        else:
            self._check_epoch(request)
        self._update(request)
        return _Beat(waiting.token, request, known=request.is_full or request.member_epoch == JOINING_EPOCH)

    def _leave(self, request: ConsumerHeartbeat) -> None:
        group = self.group
        if request.instance_id is None:
            self._check_member(request.member_id)
        else:
            self._check_instance(request)
        if request.member_epoch == LEAVING_EPOCH:
            self._remove(request.member_id)
            return
        left = group.assignment(request.member_id)._replace(
            member_epoch=STATIC_LEAVING_EPOCH,
            previous_member_epoch=group.assignment(request.member_id).member_epoch,
            state=MemberState.STABLE,
            pending_revocation=NO_PARTITIONS,
        )
        self._put(CurrentRecord(group.group_id, request.member_id, left))

    def _check_member(self, member_id: str) -> None:
        if member_id not in self.group.members:
            raise Refused(ErrorCode.unknown_member_id, f"Member {member_id} is not a member of the group.")

    def _check_instance(self, request: ConsumerHeartbeat) -> None:
        known = self.group.static_members.get(request.instance_id or "")
        if known is None:
            raise Refused(ErrorCode.unknown_member_id, f"Instance {request.instance_id} is unknown.")
        if known != request.member_id:
            message = f"Instance {request.instance_id} is used by another member."
            raise Refused(ErrorCode.fenced_instance_id, message)

    def _check_epoch(self, request: ConsumerHeartbeat) -> None:
        """A member may be one epoch behind when its last answer was lost."""
        if request.instance_id is None:
            self._check_member(request.member_id)
        else:
            self._check_instance(request)
        current = self.group.assignment(request.member_id)
        if request.member_epoch == current.member_epoch:
            return
        is_behind = 0 < request.member_epoch == current.previous_member_epoch < current.member_epoch
        if not is_behind or not _is_part(request.owned, current.assigned):
            message = f"The epoch {request.member_epoch} is not the member's epoch {current.member_epoch}."
            raise Refused(ErrorCode.fenced_member_epoch, message)

    def _join(self, request: ConsumerHeartbeat) -> None:
        group, config = self.group, self._config
        known_id = group.static_members.get(request.instance_id) if request.instance_id else None
        if known_id is None and request.member_id not in group.members:
            if len(group.members) >= config.group_size_max:
                message = f"The group has reached its maximum of {config.group_size_max} members."
                raise Refused(ErrorCode.group_max_size_reached, message)
            return
        if known_id is not None and known_id != request.member_id:
            if group.assignment(known_id).member_epoch != STATIC_LEAVING_EPOCH:
                message = f"Instance {request.instance_id} is still used by another member."
                raise Refused(ErrorCode.unreleased_instance_id, message)
            self._replace_static(known_id, request.member_id)
            return
        # It begins anew, so it holds nothing: what it had is its own again or somebody else's.
        current = group.current.get(request.member_id)
        if current is not None and current.member_epoch != JOINING_EPOCH:
            self._put(CurrentRecord(group.group_id, request.member_id, _joining(current.assigned)))

    def _replace_static(self, former_id: str, member_id: str) -> None:
        """The instance is back under a new member id, with what it had."""
        group = self.group
        metadata, target = group.members[former_id], group.target(former_id)
        assigned = group.assignment(former_id).assigned
        for record in list(group.removal(former_id)):
            self._put(record)
        self._put(MemberRecord(group.group_id, member_id, metadata))
        self._put(MemberTargetRecord(group.group_id, member_id, target))
        self._put(CurrentRecord(group.group_id, member_id, _joining(assigned)))

    def _update(self, request: ConsumerHeartbeat) -> None:
        former = self.group.members.get(request.member_id)
        metadata = _updated(former, request)
        if metadata == former:
            return
        if former is None or changes_subscription(former, request):
            self._changed = True
        self._put(MemberRecord(self.group.group_id, request.member_id, metadata))

    def _check_wanted(self, request: ConsumerHeartbeat) -> None:
        if request.topic_regex:
            self._check_regex(request.topic_regex)
        if request.topic_names:
            former = self.group.members.get(request.member_id)
            grown = len(request.topic_names) - (0 if former is None else len(former.topic_names))
            if self.group.names + grown > self._config.group_names_max:
                raise Refused(ErrorCode.invalid_request, "The group's members name too many topics.")

    def _check_regex(self, pattern: str) -> None:
        if not is_pattern(pattern):
            message = "SubscribedTopicRegex is not a valid regular expression of RE2, or too large a one."
            raise Refused(ErrorCode.invalid_regular_expression, message)
        known = self.group.regexes()
        if pattern not in known and len(known) >= REGEXES_MAX:
            message = f"The group's members have {REGEXES_MAX} different regular expressions already."
            raise Refused(ErrorCode.invalid_regular_expression, message)

    # -- the assignment

    def _renew(self) -> None:
        """A new epoch and new targets, where members or topics have changed."""
        group = self.group
        version = self._topics.version(self._owner)
        if not self._changed and (group.is_empty or version == group.metadata_version):
            return
        group.metadata_version = version
        there = self._there()
        metadata_hash = _hash(there)
        if not self._changed and metadata_hash == group.metadata_hash:
            return
        epoch = GroupEpoch(group.epoch + 1, metadata_hash)
        self._put(ConsumerGroupRecord(group.group_id, epoch))
        self._assign(there)

    def _names(self, member: MemberMetadata) -> frozenset[str]:
        if not member.topic_regex:
            return member.topic_names
        return member.topic_names | self._matching(member.topic_regex)

    def _matching(self, pattern: str) -> frozenset[str]:
        found = self._patterns.get(pattern)
        if found is None:
            found = self._patterns[pattern] = matching(pattern, self._topics.names(self._owner))
        return found

    def _there(self) -> dict[str, TopicOfGroup]:
        """The topics that the group reads, as far as they exist."""
        names = self.group.subscribed_names().union(*map(self._matching, self.group.regexes()))
        topics = ((name, self._topics.topic(name)) for name in names)
        return {name: topic for name, topic in topics if topic is not None}

    def _assign(self, there: Mapping[str, TopicOfGroup]) -> None:
        group = self.group
        ids: dict[tuple[frozenset[str], str | None], frozenset[UUID]] = {}
        members = {}
        for member_id, member in group.members.items():
            wanted = (member.topic_names, member.topic_regex)
            if wanted not in ids:
                names = self._names(member)
                ids[wanted] = frozenset(there[name].topic_id for name in names if name in there)
            members[member_id] = Subscription(member.instance_id, ids[wanted])
        sizes = {topic.topic_id: topic.partitions for topic in there.values()}
        assign = ASSIGNORS[group.assignor or DEFAULT_ASSIGNOR]
        for member_id, target in assign(members, sizes, group.targets).items():
            if target != group.targets.get(member_id):
                self._put(MemberTargetRecord(group.group_id, member_id, target))
        self._put(TargetRecord(group.group_id, group.epoch))

    # -- one member after the other

    def _advance(self, beat: _Beat) -> None:
        group, request = self.group, beat.request
        member_id = request.member_id
        if member_id not in group.members:
            gone = HeartbeatResult(ErrorCode.unknown_member_id, "The member has left meanwhile.")
            self._answer(beat.token, gone)
            return
        former = group.assignment(member_id)
        owned = NO_PARTITIONS if request.member_epoch == JOINING_EPOCH else request.owned
        current = next_assignment(former, group.assignment_epoch, group.target(member_id), owned, group.owner)
        if current != former:
            self._put(CurrentRecord(group.group_id, member_id, current))
        is_told = beat.known or current.assigned != former.assigned
        result = HeartbeatResult(
            ErrorCode.none,
            None,
            member_id,
            current.member_epoch,
            0,
            current.assigned if is_told else None,
        )
        self._answer(beat.token, result)


def changes_subscription(member: MemberMetadata, request: ConsumerHeartbeat) -> bool:
    """Whether the member would have other topics, or another assignor."""
    updated = _updated(member, request)
    former = (member.topic_names, member.topic_regex, member.server_assignor)
    return former != (updated.topic_names, updated.topic_regex, updated.server_assignor)


def _joining(assigned: Partitions) -> CurrentAssignment:
    return NOT_JOINED._replace(assigned=assigned)


def _is_part(owned: Partitions | None, assigned: Partitions) -> bool:
    """Whether all that the member says it owns has been given to it."""
    if owned is None:
        return False
    return all(indexes <= assigned.get(topic_id, frozenset()) for topic_id, indexes in owned.items())


def _updated(former: MemberMetadata | None, request: ConsumerHeartbeat) -> MemberMetadata:
    """What is known of the member with what it says now."""
    known = former or MemberMetadata(None, None, "", "", frozenset(), None, -1, None)
    joins = request.member_epoch == JOINING_EPOCH
    names, regex = request.topic_names, request.topic_regex
    return MemberMetadata(
        instance_id=request.instance_id or known.instance_id,
        rack_id=request.rack_id or known.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        topic_names=(frozenset() if joins else known.topic_names) if names is None else names,
        topic_regex=(None if joins else known.topic_regex) if regex is None else regex or None,
        rebalance_timeout_ms=request.rebalance_timeout_ms or known.rebalance_timeout_ms,
        server_assignor=request.server_assignor or known.server_assignor,
    )


def _hash(topics: Mapping[str, TopicOfGroup]) -> int:
    """Differs when topics came, went or grew."""
    told = sorted((name, topic.topic_id.hex, topic.partitions) for name, topic in topics.items())
    return zlib.crc32(repr(told).encode())
