"""The group coordinator of one partition of the offsets topic: requests and the time in, effects out.

Both protocols: the classic one, and consumer groups (KIP-848, `consumer_groups`). The contract with the shard
around it is `broker.coordination.effects`.
"""

from collections.abc import Callable, Iterable, Iterator

from kio.schema.errors import ErrorCode

from broker.coordination.effects import Batch, Moment, Reply, Token
from broker.groups.batches import encode_batch
from broker.groups.consumer_group import ConsumerGroup
from broker.groups.consumer_groups import ConsumerGroups
from broker.groups.consumer_messages import ConsumerHeartbeat, DescribedConsumerGroup, Topics
from broker.groups.failures import MEMBERSHIP_ERRORS, failure_replies
from broker.groups.group import Group, State
from broker.groups.group_config import GroupConfig
from broker.groups.group_totals import GroupTotals
from broker.groups.membership import Membership
from broker.groups.messages import (
    AfterCommit,
    AfterConsumerStep,
    AfterGroupDeletion,
    AfterHousekeeping,
    AfterMarker,
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
    JoinResult,
    LeavingMember,
    ListedGroup,
    Marker,
    OffsetsDeletion,
    OffsetsDeletionResult,
    SyncRequest,
    TransactionalCommit,
    Turn,
)
from broker.groups.offsets import Offsets
from broker.groups.pending import OffsetKey
from broker.groups.rebalance import Rebalance
from broker.groups.record_fields import UnreadableRecord
from broker.groups.records import OffsetAndMetadata, decode
from broker.groups.registry import Registry
from broker.groups.subscription import CONSUMER_PROTOCOL_TYPE
from broker.groups.timer_key import TimerKey
from contracts.names import owner_of
from wire import batch
from wire.batch import BatchHeader
from wire.control import EndMarker


def none_held(_group_id: str) -> bool:
    """Where no instance is ever withheld."""
    return False


class GroupCoordinator:
    """All groups of one partition."""

    def __init__(
        self,
        config: GroupConfig,
        new_member_suffix: Callable[[], str],
        topics: Topics,
        usage: GroupTotals | None = None,
        *,
        is_held: Callable[[str], bool] = none_held,
    ) -> None:
        """`new_member_suffix` returns a new unguessable text each time (the shell's uuid4). `is_held` says of
        a group that its instance is served to nobody now: what it committed does not expire meanwhile."""
        self._is_held = is_held
        self._registry = Registry(config, new_member_suffix, usage or GroupTotals())
        rebalance = Rebalance(self._registry)
        self._rebalance = rebalance
        self._membership = Membership(self._registry, rebalance)
        self._consumers = ConsumerGroups(self._registry, topics)
        self._offsets = Offsets(self._registry)

    # -- recovery

    def replay(self, header: BatchHeader, records: Iterator[batch.Record]) -> None:
        """Apply a batch of the log; before `activate` only, afterwards `committed` does it.

        Raises: UnreadableRecord.
        """
        durable = self._registry.durable
        for stored in records:
            try:
                record = decode(stored.key or b"", stored.value)
            except UnreadableRecord as error:
                # Leaving it out could reset a group, so nothing is served until someone looks.
                raise UnreadableRecord(f"offset {stored.offset}: {error}") from error
            if record is not None and header.is_transactional:
                durable.replay_transactional(record, stored.offset, header.producer_id)
            elif record is not None:
                durable.replay(record, stored.offset)

    def replay_marker(self, producer_id: int, marker: EndMarker) -> None:
        """A transaction of the producer ended."""
        self._registry.durable.replay_marker(producer_id, committed=marker.is_commit)

    def activate(self, now: Moment) -> Effects:
        """The log was read to its end: groups are live, and their members' sessions start."""
        for group_id in self._registry.durable.group_ids():
            consumers = self._consumers.get(group_id)
            if consumers is not None:
                self._registry.settle(group_id, now)
                self._consumers.activate(consumers, now)
                continue
            group = self._registry.create(group_id)
            for member_id in group.members:
                self._registry.extend_session(group, member_id, now)
            group.check()
        return Turn(now).effects

    def encode(self, append: Append, now: Moment) -> Batch:
        """One batch of the offsets topic."""
        version = 0 if append.marker is None else append.marker.end.transaction_version
        return Batch(encode_batch(append, now.epoch_ms), append.verification, append.group_id, version)

    # -- requests

    def join(self, request: JoinRequest, token: Token, now: Moment) -> Effects:
        """JoinGroup; answered with a JoinResult."""
        turn = Turn(now)
        error = self._join_fault(turn, request.group_id)
        if error is None:
            self._membership.join(turn, request, token)
        else:
            turn.reply(token, JoinResult(error, request.member_id))
        return self._finish(turn, request.group_id)

    def _join_fault(self, turn: Turn, group_id: str) -> ErrorCode | None:
        """Where a consumer group is, no classic member may be; one without members makes room."""
        consumers = self._consumers.get(group_id)
        if consumers is not None and not consumers.is_empty:
            return ErrorCode.inconsistent_group_protocol
        if consumers is not None:
            self._consumers.retire(turn, group_id)
        # In a moment the group is of one kind or the other: the client asks again.
        changing = self._consumers.is_changing(group_id)
        return ErrorCode.coordinator_load_in_progress if changing else None

    def consumer_heartbeat(self, request: ConsumerHeartbeat, token: Token, now: Moment) -> Effects:
        """ConsumerGroupHeartbeat; answered with a HeartbeatResult."""
        turn = Turn(now)
        if request.member_id == "":
            request = request._replace(member_id=self._registry.new_member_id(request.client_id, None))
        self._consumers.heartbeat(turn, request, token)
        return self._finish(turn)

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

    def commit_in_transaction(self, request: TransactionalCommit, token: Token, now: Moment) -> Effects:
        """TxnOffsetCommit; answered with a CommitResult."""
        turn = Turn(now)
        self._offsets.commit_in_transaction(turn, request, token)
        return self._finish(turn)

    def end_transaction(self, marker: Marker, token: Token, now: Moment) -> Effects:
        """WriteTxnMarkers; answered with an ErrorCode."""
        turn = Turn(now)
        turn.append_marker(marker, token)
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

    def committed_offsets(self) -> Iterator[tuple[str, str, int, int]]:
        """(group, topic, partition, offset) of what is committed; commits and deletions may come between."""
        for group_id in self._registry.durable.group_ids():
            for topic, partitions in tuple(self._registry.durable.offsets(group_id).items()):
                for partition, committed in tuple(partitions.items()):
                    yield group_id, topic, partition, committed.offset

    def is_unstable(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether a transaction that is not over has committed an offset of the partition (KIP-447)."""
        return self._registry.is_unstable(OffsetKey(group_id, topic, partition))

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

    def describe_consumers(self, group_id: str) -> DescribedConsumerGroup | None:
        """ConsumerGroupDescribe; None: there is no consumer group of this name."""
        return self._consumers.describe(group_id)

    def member_fault(self, group_id: str, member_id: str | None, member_epoch: int) -> ErrorCode | None:
        """Why a member may not read its consumer group's offsets (OffsetFetch 9+)."""
        consumers = self._consumers.get(group_id)
        if consumers is None or (member_id is None and member_epoch < 0):
            return None
        return consumers.commit_fault(member_id or "", member_epoch)

    def list_groups(self, states: frozenset[str] = frozenset()) -> list[ListedGroup]:
        """ListGroups; `states` filters by name, in any case, empty is all."""
        wanted = {state.lower() for state in states}
        listed = [
            ListedGroup(group.group_id, group.protocol_type or "", group.state)
            for group in self._registry.groups.values()
        ]
        listed += [
            ListedGroup(group.group_id, CONSUMER_PROTOCOL_TYPE, group.state, "consumer")
            for group in self._registry.durable.consumer_groups.values()
        ]
        return [each for each in listed if not wanted or each.state.lower() in wanted]

    def group(self, group_id: str) -> Group | None:
        """A live group, for tests and metrics. Not to be changed by the caller."""
        return self._registry.get(group_id)

    def consumer_group(self, group_id: str) -> ConsumerGroup | None:
        """The same of the new protocol."""
        return self._consumers.get(group_id)

    # -- what happens without a request

    def forget_topics(self, topics: Iterable[str], now: Moment) -> Effects:
        """Topics were deleted: their offsets go."""
        turn = Turn(now)
        self._offsets.forget_topics(turn, topics)
        return self._finish(turn)

    def purge_instance(self, instance_id: str, now: Moment) -> Effects:
        """An instance was deleted: its groups go, with members and offsets."""
        turn = Turn(now)
        group_ids = self._registry.groups.keys() | self._registry.durable.consumer_groups.keys()
        group_ids |= set(self._consumers.gathering())
        purged = sorted(key for key in group_ids if owner_of(key) == instance_id)
        for group_id in purged:
            self._consumers.abandon(turn, group_id)
            if group_id in self._registry.groups:
                self._rebalance.abandon(turn, self._registry.groups[group_id])
            records = self._registry.durable.tombstones(group_id)
            if records:
                turn.append(group_id, records, AfterHousekeeping())
        emptied = self._registry.emptied.intersection(purged)
        self._registry.emptied -= emptied
        return self._finish(turn, *emptied)

    def sweep(self, now: Moment) -> Effects:
        """Every few minutes: offsets past their retention go, and groups left with nothing."""
        turn = Turn(now)
        self._offsets.expire(turn, self._is_held)
        emptied, self._registry.emptied = self._registry.emptied, set()
        return self._finish(turn, *emptied)

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
        if key.kind in ("consumer", "revocation", "gathering"):
            self._consumers.deadline_met(turn, key)
            return
        group = self._registry.get(key.group_id)
        assert group is not None, "deadlines go with their group"
        if key.kind == "session":
            self._membership.session_ended(turn, group, key.member_id)
        elif key.kind == "join":
            self._rebalance.join_deadline_met(turn, group)
        else:
            self._rebalance.sync_deadline_met(turn, group)

    # -- appends

    def committed(self, append: Append, base_offset: int, now: Moment) -> Effects:
        """The append's records are below the high watermark: they take effect, and what waited goes on."""
        touched = self._apply(append, base_offset)
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
        elif isinstance(then, AfterGroupDeletion | AfterMarker):
            turn.reply(then.token, ErrorCode.none)
        elif isinstance(then, AfterConsumerStep):
            self._consumers.committed(turn, append, then)
        members_changed = isinstance(then, AfterSync | AfterStaticJoin)
        return self._finish(turn, *touched, members_changed=members_changed)

    def _apply(self, append: Append, base_offset: int) -> set[str]:
        """Replay what has been committed; the groups it concerns."""
        durable = self._registry.durable
        if append.marker is not None:
            marker = append.marker
            return durable.replay_marker(marker.producer.producer_id, committed=marker.end.is_commit)
        for log_offset, record in enumerate(append.records, base_offset):
            if append.producer is None:
                durable.replay(record, log_offset)
            else:
                durable.replay_transactional(record, log_offset, append.producer.producer_id)
        return {append.group_id}

    def refused(self, append: Append, error: ErrorCode, now: Moment) -> Effects:
        """The append's records could not be written: nothing changed, and those who wait learn why."""
        turn = self._landed(append, now)
        self._tell(turn, append, error)
        if isinstance(append.then, AfterConsumerStep):
            self._consumers.refused(turn, append.group_id)
        return self._finish(turn, append.group_id)

    def overdue(self, append: Append, error: ErrorCode, now: Moment) -> tuple[Append, Effects]:
        """Who waits learns why; should the records be committed later, nobody waits any more."""
        turn = Turn(now)
        self._tell(turn, append, error)
        then = append.then
        told = then._replace(answers=()) if isinstance(then, AfterConsumerStep) else AfterHousekeeping()
        return append._replace(then=told), self._finish(turn, append.group_id)

    def _tell(self, turn: Turn, append: Append, error: ErrorCode) -> None:
        assert error is not ErrorCode.none
        then = append.then
        if isinstance(then, AfterSync):
            membership_error = MEMBERSHIP_ERRORS.get(error, error)
            self._membership.assignment_stored(turn, append.group_id, then, membership_error)
        elif isinstance(then, AfterStaticJoin):
            membership_error = MEMBERSHIP_ERRORS.get(error, error)
            self._membership.static_join_stored(turn, append.group_id, then, membership_error)
        else:
            turn.effects.replies += failure_replies(append, error)

    def resigned(self, pending: Iterable[Append]) -> list[Reply]:
        """Everyone who waits is told to look for the coordinator again."""
        replies = [
            reply for each in pending for reply in failure_replies(each, ErrorCode.not_leader_or_follower)
        ]
        for group in self._registry.groups.values():
            replies += group.parked_replies(ErrorCode.not_coordinator)
        replies += self._consumers.waiting_replies(ErrorCode.not_coordinator)
        self._registry.release()
        return replies

    def _landed(self, append: Append, now: Moment) -> Turn:
        self._registry.landed(append)
        return Turn(now)

    def _finish(self, turn: Turn, *group_ids: str, members_changed: bool = True) -> Effects:
        """Count what is in flight and in memory now, then let groups that are no longer needed go."""
        for append in turn.effects.appends:
            self._registry.left(append)
        for group_id in group_ids:
            group = self._registry.get(group_id)
            if group is not None and members_changed:
                self._registry.recount(group)
            self._registry.settle(group_id, turn.now)
        return turn.effects
