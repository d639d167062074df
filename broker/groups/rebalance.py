"""The phases of a rebalance: preparing (members join), completing (the leader assigns), stable.

prepare -> gather members until all joined or the rebalance timeout -> complete_join -> leader's SyncGroup
-> assignment durable -> distribute
"""

from kio.schema.errors import ErrorCode

from broker.groups.group import Group, Member, State
from broker.groups.messages import AfterHousekeeping, JoinResult, SyncResult, Turn
from broker.groups.records import GroupRecord
from broker.groups.registry import Registry
from broker.groups.timer_key import TimerKey


class Rebalance:
    """Moves groups through their phases. Every parked answer it lets go leaves through the turn."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def answer_join(self, turn: Turn, member: Member, result: JoinResult) -> None:
        """Let the member's parked JoinGroup go, if there is one."""
        if member.awaiting_join is not None:
            turn.reply(member.awaiting_join, result)
            member.awaiting_join = None

    def answer_sync(self, turn: Turn, member: Member, result: SyncResult) -> bool:
        """Let the member's parked SyncGroup go; whether there was one."""
        if member.awaiting_sync is None:
            return False
        turn.reply(member.awaiting_sync, result)
        member.awaiting_sync = None
        return True

    def remove(self, turn: Turn, group: Group, member_id: str) -> None:
        """Take a member or pending member out. Its parked answers tell it to join as a new member.

        Kafka forgets the parked SyncGroup of a removed member; here it is answered too.
        """
        member = group.remove(member_id)
        self._registry.end_session(group, member_id)
        if member is not None:
            unknown = ErrorCode.unknown_member_id
            self.answer_join(turn, member, JoinResult(unknown, ""))
            self.answer_sync(turn, member, SyncResult(unknown))

    def abandon(self, turn: Turn, group: Group) -> None:
        """The group's instance is deleted: everyone is out, nothing rebalances, the group is dead."""
        for member_id in (*group.pending_join, *group.members):
            self.remove(turn, group, member_id)
        self._registry.bury(group, turn.now)

    def begin_or_go_on(self, turn: Turn, group: Group) -> None:
        """Something changed: start a rebalance, or see whether the one under way can complete its joins."""
        if group.can_rebalance:
            self.prepare(turn, group)
        else:
            self.complete_join_if_ready(turn, group)

    def prepare(self, turn: Turn, group: Group) -> None:
        """Start gathering members. Those waiting for an assignment are told to join again."""
        if group.state is State.COMPLETING_REBALANCE:
            for member in group.members.values():
                member.assignment = b""
            self.distribute(turn, group, ErrorCode.rebalance_in_progress)
        group.pending_sync.clear()
        self._registry.timers.cancel(TimerKey("sync", group.group_id))
        initial = group.state is State.EMPTY
        group.move_to(State.PREPARING_REBALANCE, turn.now.epoch_ms)
        if initial:
            delay_ms = self._registry.config.initial_rebalance_delay_ms
            group.new_member_added = False
            group.initial_remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            self._join_deadline(turn, group, delay_ms)
        elif group.all_joined:
            self.complete_join(turn, group)
        else:
            self._join_deadline(turn, group, group.rebalance_timeout_ms)

    def _join_deadline(self, turn: Turn, group: Group, delay_ms: int) -> None:
        key = TimerKey("join", group.group_id)
        self._registry.timers.set(key, turn.now.monotonic_ms + max(delay_ms, 0))

    def complete_join_if_ready(self, turn: Turn, group: Group) -> None:
        """Complete the join phase the moment nobody is missing, except during the initial delay."""
        preparing = group.state is State.PREPARING_REBALANCE
        if preparing and group.initial_remaining_ms is None and group.all_joined:
            self.complete_join(turn, group)

    def join_deadline_met(self, turn: Turn, group: Group) -> None:
        """The initial delay or the rebalance timeout is over."""
        remaining_ms = group.initial_remaining_ms
        if remaining_ms and group.new_member_added:
            delay_ms = min(self._registry.config.initial_rebalance_delay_ms, remaining_ms)
            group.new_member_added = False
            group.initial_remaining_ms = remaining_ms - delay_ms
            self._join_deadline(turn, group, delay_ms)
        else:
            self.complete_join(turn, group)

    def complete_join(self, turn: Turn, group: Group) -> None:
        """Start the next generation with those who joined; static members stay although they are silent."""
        assert group.state is State.PREPARING_REBALANCE
        self._registry.timers.cancel(TimerKey("join", group.group_id))
        group.initial_remaining_ms = None
        late = [m for m in group.members.values() if m.awaiting_join is None and not m.is_static]
        for member in late:
            self.remove(turn, group, member.member_id)
        if group.members and not group.elect_joined_leader():
            # Only silent static members: their sessions will end, until then somebody may still come.
            self._join_deadline(turn, group, max(group.rebalance_timeout_ms, 1))
            return
        group.next_generation(turn.now.epoch_ms)
        if not group.members:
            record = GroupRecord(group.group_id, group.to_stored({}))
            turn.append(group.group_id, (record,), AfterHousekeeping())
        else:
            self._answer_all_joins(turn, group)

    def _answer_all_joins(self, turn: Turn, group: Group) -> None:
        for member in group.members.values():
            self.answer_join(turn, member, self.joined(group, member.member_id))
            self._registry.extend_session(group, member.member_id, turn.now)
            member.is_new = False
            group.pending_sync.add(member.member_id)
        sync_deadline_ms = turn.now.monotonic_ms + max(group.rebalance_timeout_ms, 0)
        self._registry.timers.set(TimerKey("sync", group.group_id), sync_deadline_ms)
        group.check()

    def joined(self, group: Group, member_id: str) -> JoinResult:
        """What a member of the current generation is told."""
        assert group.leader is not None
        return JoinResult(
            ErrorCode.none,
            member_id,
            group.generation_id,
            group.protocol_type,
            group.protocol_name,
            group.leader,
            group.joined_members() if group.is_leader(member_id) else (),
        )

    def synced(self, group: Group, member_id: str) -> None:
        """A member sent its SyncGroup; when all have, nobody is waited for."""
        group.pending_sync.discard(member_id)
        if not group.pending_sync:
            self._registry.timers.cancel(TimerKey("sync", group.group_id))

    def sync_deadline_met(self, turn: Turn, group: Group) -> None:
        """Members that joined but did not send SyncGroup within the rebalance timeout are out."""
        if group.state not in (State.COMPLETING_REBALANCE, State.STABLE) or not group.pending_sync:
            return
        for member_id in sorted(group.pending_sync):
            self.remove(turn, group, member_id)
        self.prepare(turn, group)

    def distribute(self, turn: Turn, group: Group, error: ErrorCode) -> None:
        """Answer every parked SyncGroup: with the assignment, or with the error that ends this generation."""
        assert group.state is State.COMPLETING_REBALANCE
        fine = error is ErrorCode.none
        for member in group.members.values():
            result = SyncResult(
                error,
                group.protocol_type if fine else None,
                group.protocol_name if fine else None,
                member.assignment,
            )
            if self.answer_sync(turn, member, result):
                # A session that ended while the answer was parked was ignored: start a new one.
                self._registry.extend_session(group, member.member_id, turn.now)

    def after_removal(self, turn: Turn, group: Group) -> None:
        """Members went: rebalance the rest."""
        if group.state in (State.STABLE, State.COMPLETING_REBALANCE):
            self.prepare(turn, group)
        else:
            self.complete_join_if_ready(turn, group)
