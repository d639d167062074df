"""The group coordinator: takes requests and the time, returns effects. Classic protocol, Kafka 2.8-3.x.

The contract with the shell around it (`broker.coordination`):

* Every request method returns `Effects`. Its replies may leave at once. Its appends are written in order;
  each is reported once, in order, with `committed` when its records are below the high watermark or with
  `refused` when they could not be written. Both return further effects.
* `tick` is called when `next_deadline_ms` is reached. Late is allowed, never is not.
* Recovery: `replay` every record of the log in order, then `activate`. Live operation changes durable state
  by the same `replay`.
* Every reply token is named in exactly one reply, sooner or later.
"""

from collections.abc import Callable, Iterable

from kio.schema.errors import ErrorCode

from broker.groups.config import GroupConfig
from broker.groups.group import Group, State
from broker.groups.membership import Membership
from broker.groups.messages import (
    AfterCommit,
    AfterGroupDeletion,
    AfterHousekeeping,
    AfterOffsetsDeletion,
    AfterStaticJoin,
    AfterSync,
    Append,
    CommitRequest,
    CommitResult,
    DescribedGroup,
    DescribedMember,
    Effects,
    FetchedOffsets,
    HeartbeatRequest,
    JoinRequest,
    LeavingMember,
    ListedGroup,
    Moment,
    OffsetsDeletion,
    OffsetsDeletionResult,
    SyncRequest,
    Token,
    Turn,
)
from broker.groups.offsets import Offsets
from broker.groups.rebalance import Rebalance
from broker.groups.records import OffsetAndMetadata, Record
from broker.groups.registry import Registry
from broker.groups.timers import TimerKey
from contracts.names import owner_of

_MEMBERSHIP_ERRORS = {
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.message_too_large: ErrorCode.unknown_server_error,
    ErrorCode.record_list_too_large: ErrorCode.unknown_server_error,
}
"""What a failed append of group metadata looks like to members, as in Kafka."""

_COMMIT_ERRORS = _MEMBERSHIP_ERRORS | {
    ErrorCode.message_too_large: ErrorCode.invalid_commit_offset_size,
    ErrorCode.record_list_too_large: ErrorCode.invalid_commit_offset_size,
}
"""The same for offsets."""


class GroupCoordinator:
    """All groups of one broker. See the module's contract."""

    def __init__(self, config: GroupConfig, new_member_suffix: Callable[[], str]) -> None:
        """`new_member_suffix` returns a new unguessable text each time (the shell's uuid4)."""
        self._registry = Registry(config, new_member_suffix)
        rebalance = Rebalance(self._registry)
        self._rebalance = rebalance
        self._membership = Membership(self._registry, rebalance)
        self._offsets = Offsets(self._registry)

    # -- recovery

    def replay(self, record: Record) -> None:
        """Apply a record of the log; before `activate` only, afterwards `committed` does it."""
        self._registry.durable.replay(record)

    def activate(self, now: Moment) -> None:
        """The log was read to its end: groups are live, and their members' sessions start."""
        for group_id in self._registry.durable.group_ids():
            group = self._registry.create(group_id)
            for member_id in group.members:
                self._registry.extend_session(group, member_id, now)
            group.check()

    def live_records(self) -> Iterable[Record]:
        """Records whose replay gives the durable state: what the offsets log is rewritten to."""
        return self._registry.durable.live_records()

    # -- requests

    def join(self, request: JoinRequest, token: Token, now: Moment) -> Effects:
        """JoinGroup; answered with a JoinResult."""
        turn = Turn(now)
        self._membership.join(turn, request, token)
        return self._finish(turn, request.group_id)

    def sync(self, request: SyncRequest, token: Token, now: Moment) -> Effects:
        """SyncGroup; answered with a SyncResult."""
        turn = Turn(now)
        self._membership.sync(turn, request, token)
        return self._finish(turn, request.group_id)

    def heartbeat(self, request: HeartbeatRequest, token: Token, now: Moment) -> Effects:
        """Heartbeat; answered with an ErrorCode."""
        turn = Turn(now)
        turn.reply(token, self._membership.heartbeat(turn, request))
        return turn.effects

    def leave(self, group_id: str, leaving: tuple[LeavingMember, ...], token: Token, now: Moment) -> Effects:
        """LeaveGroup; answered with a LeaveResult."""
        turn = Turn(now)
        turn.reply(token, self._membership.leave(turn, group_id, leaving))
        return self._finish(turn, group_id)

    def commit_offsets(self, request: CommitRequest, token: Token, now: Moment) -> Effects:
        """OffsetCommit; answered with a CommitResult."""
        turn = Turn(now)
        self._offsets.commit(turn, request, token)
        return self._finish(turn)

    def delete_offsets(self, request: OffsetsDeletion, token: Token, now: Moment) -> Effects:
        """OffsetDelete; answered with an OffsetsDeletionResult."""
        turn = Turn(now)
        self._offsets.delete(turn, request, token)
        return self._finish(turn, request.group_id)

    def delete_group(self, group_id: str, token: Token, now: Moment) -> Effects:
        """One group of DeleteGroups; answered with an ErrorCode."""
        turn = Turn(now)
        self._offsets.delete_group(turn, group_id, token)
        return self._finish(turn, group_id)

    # -- reads

    def fetch_offset(self, group_id: str, topic: str, partition: int) -> OffsetAndMetadata | None:
        """The committed offset of one partition, None when there is none."""
        return self._registry.durable.offset(group_id, topic, partition)

    def fetch_all_offsets(self, group_id: str) -> FetchedOffsets:
        """Every committed offset of a group. Not to be changed by the caller."""
        return self._registry.durable.offsets(group_id)

    def describe(self, group_id: str) -> DescribedGroup:
        """DescribeGroups: members show metadata and assignment only while the group is stable."""
        group = self._registry.get(group_id)
        if group is None:
            return DescribedGroup(group_id, State.DEAD, "", "", ())
        stable = group.state is State.STABLE
        members = tuple(
            DescribedMember(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                member.metadata(group.protocol_name) if stable else b"",
                member.assignment if stable else b"",
            )
            for member in group.members.values()
        )
        protocol_name = (group.protocol_name or "") if stable else ""
        return DescribedGroup(group_id, group.state, group.protocol_type or "", protocol_name, members)

    def list_groups(self, states: frozenset[str] = frozenset()) -> list[ListedGroup]:
        """ListGroups; `states` filters by name, in any case, empty is all."""
        wanted = {state.lower() for state in states}
        return [
            ListedGroup(group.group_id, group.protocol_type or "", group.state)
            for group in self._registry.groups.values()
            if not wanted or group.state.lower() in wanted
        ]

    def group(self, group_id: str) -> Group | None:
        """A live group, for tests and metrics. Not to be changed by the caller."""
        return self._registry.get(group_id)

    # -- what happens without a request

    def forget_topics(self, topics: Iterable[str], now: Moment) -> Effects:
        """Topics were deleted: their offsets go."""
        turn = Turn(now)
        self._offsets.forget_topics(turn, topics)
        return self._finish(turn)

    def purge_instance(self, instance_id: str, now: Moment) -> Effects:
        """An instance was deleted: its groups go, with members and offsets."""
        turn = Turn(now)
        for group_id in [key for key in self._registry.groups if owner_of(key) == instance_id]:
            self._rebalance.abandon(turn, self._registry.groups[group_id])
            records = self._registry.durable.tombstones(group_id)
            if records:
                turn.append(group_id, records, AfterHousekeeping())
        return self._finish(turn)

    def expire_offsets(self, now: Moment) -> Effects:
        """Every `expiry_interval_ms`: offsets past their retention go, and groups left with nothing."""
        turn = Turn(now)
        self._offsets.expire(turn)
        return self._finish(turn)

    def next_deadline_ms(self) -> int | None:
        """When `tick` is due, on the monotonic clock; None while nothing is awaited."""
        return self._registry.timers.next_ms()

    def tick(self, now: Moment) -> Effects:
        """Handle every deadline that is reached."""
        turn = Turn(now)
        touched = set()
        while (key := self._registry.timers.pop_due(now.monotonic_ms)) is not None:
            self._deadline_met(turn, key)
            touched.add(key.group_id)
        return self._finish(turn, *touched)

    def _deadline_met(self, turn: Turn, key: TimerKey) -> None:
        group = self._registry.get(key.group_id)
        assert group is not None, "deadlines go with their group"
        if key.kind == "session":
            self._membership.session_ended(turn, group, key.member_id)
        elif key.kind == "join":
            self._rebalance.join_deadline_met(turn, group)
        else:
            self._rebalance.sync_deadline_met(turn, group)

    # -- appends

    def committed(self, append: Append, now: Moment) -> Effects:
        """The append's records are below the high watermark: they take effect, and what waited goes on."""
        for record in append.records:
            self._registry.durable.replay(record)
        turn = self._landed(append, now)
        then = append.then
        if isinstance(then, AfterSync):
            self._membership.assignment_stored(turn, append.group_id, then, ErrorCode.none)
        elif isinstance(then, AfterStaticJoin):
            self._membership.static_join_stored(turn, append.group_id, then, ErrorCode.none)
        elif isinstance(then, AfterCommit):
            turn.reply(then.token, CommitResult(then.errors))
        elif isinstance(then, AfterOffsetsDeletion):
            turn.reply(then.token, OffsetsDeletionResult(ErrorCode.none, then.errors))
        elif isinstance(then, AfterGroupDeletion):
            turn.reply(then.token, ErrorCode.none)
        members_changed = isinstance(then, AfterSync | AfterStaticJoin)
        return self._finish(turn, append.group_id, members_changed=members_changed)

    def refused(self, append: Append, error: ErrorCode, now: Moment) -> Effects:
        """The append's records could not be written: nothing changed, and those who wait learn why."""
        assert error is not ErrorCode.none
        turn = self._landed(append, now)
        then = append.then
        membership_error = _MEMBERSHIP_ERRORS.get(error, error)
        if isinstance(then, AfterSync):
            self._membership.assignment_stored(turn, append.group_id, then, membership_error)
        elif isinstance(then, AfterStaticJoin):
            self._membership.static_join_stored(turn, append.group_id, then, membership_error)
        elif isinstance(then, AfterCommit):
            commit_error = _COMMIT_ERRORS.get(error, error)
            fine = ErrorCode.none
            errors = {key: commit_error if one is fine else one for key, one in then.errors.items()}
            turn.reply(then.token, CommitResult(errors))
        elif isinstance(then, AfterOffsetsDeletion):
            turn.reply(then.token, OffsetsDeletionResult(membership_error, {}))
        elif isinstance(then, AfterGroupDeletion):
            turn.reply(then.token, membership_error)
        return self._finish(turn, append.group_id)

    def _landed(self, append: Append, now: Moment) -> Turn:
        in_flight = self._registry.in_flight
        assert in_flight.get(append.group_id, 0) > 0, "an append is reported once"
        in_flight[append.group_id] -= 1
        if in_flight[append.group_id] == 0:
            del in_flight[append.group_id]
        return Turn(now)

    def _finish(self, turn: Turn, *group_ids: str, members_changed: bool = True) -> Effects:
        """Count what is in flight and in memory now, then let groups that are no longer needed go."""
        in_flight = self._registry.in_flight
        for append in turn.effects.appends:
            in_flight[append.group_id] = in_flight.get(append.group_id, 0) + 1
        for group_id in group_ids:
            group = self._registry.get(group_id)
            if group is not None and members_changed:
                self._registry.recount(group)
            self._registry.settle(group_id, turn.now)
        return turn.effects
