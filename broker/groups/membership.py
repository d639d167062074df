"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup and the end of sessions."""

from kio.schema.errors import ErrorCode

from broker.coordination.effects import Token
from broker.groups.group import Group, LeadersPart, Member, State, leaders_part, protocols_bytes
from broker.groups.messages import (
    UNKNOWN_MEMBER,
    AfterStaticJoin,
    AfterSync,
    HeartbeatRequest,
    JoinRequest,
    JoinResult,
    LeaveResult,
    LeavingMember,
    SyncRequest,
    SyncResult,
    Turn,
)
from broker.groups.rebalance import Rebalance
from broker.groups.records import GroupRecord, is_storable, is_storable_group_id
from broker.groups.registry import Registry


class Membership:
    """Who is in a group. Answers are given, or parked in the member, by Kafka's rules."""

    def __init__(self, registry: Registry, rebalance: Rebalance) -> None:
        self._registry = registry
        self._rebalance = rebalance

    # -- JoinGroup

    def join(self, turn: Turn, request: JoinRequest, token: Token) -> None:
        """Decide one JoinGroup."""
        error = self._join_fault(request)
        if error is not None:
            turn.reply(token, JoinResult(error, request.member_id))
            return
        group = self._registry.get(request.group_id)
        if group is None:
            if request.member_id != UNKNOWN_MEMBER:
                turn.reply(token, JoinResult(ErrorCode.unknown_member_id, request.member_id))
                return
            if not self._registry.may_create(request.group_id):
                turn.reply(token, JoinResult(ErrorCode.group_max_size_reached, UNKNOWN_MEMBER))
                return
            group = self._registry.create(request.group_id)
        part = leaders_part(request.protocol_type, request.protocols)
        if not self._accepts(group, request, part):
            self._rebalance.remove(turn, group, request.member_id)
            turn.reply(token, JoinResult(ErrorCode.group_max_size_reached, UNKNOWN_MEMBER))
            self._rebalance.complete_join_if_ready(turn, group)
        elif not group.supports(request.protocol_type, dict(request.protocols)):
            turn.reply(token, JoinResult(ErrorCode.inconsistent_group_protocol, request.member_id))
        elif request.member_id == UNKNOWN_MEMBER:
            self._join_unknown(turn, group, request, part, token)
        else:
            self._join_known(turn, group, request, part, token)

    def _join_fault(self, request: JoinRequest) -> ErrorCode | None:
        config = self._registry.config
        if not is_storable_group_id(request.group_id):
            return ErrorCode.invalid_group_id
        if not config.session_timeout_min_ms <= request.session_timeout_ms <= config.session_timeout_max_ms:
            return ErrorCode.invalid_session_timeout
        names = (request.group_instance_id or "", request.protocol_type, *dict(request.protocols))
        if not all(is_storable(name) for name in names):
            return ErrorCode.invalid_request
        if protocols_bytes(request.protocols) > config.member_metadata_bytes_max:
            return ErrorCode.invalid_request
        return None

    def _accepts(self, group: Group, request: JoinRequest, part: LeadersPart) -> bool:
        """Whether the group has room. Known members, also static ones that come back, always have theirs,
        unless they bring more than before."""
        known = group.members.get(request.member_id)
        growth_bytes = protocols_bytes(request.protocols) - (known.size_bytes if known else 0)
        if not self._registry.may_grow(group.group_id, growth_bytes):
            return False
        size_max = self._registry.config.group_size_max
        if not self._leader_may_be_told(group, request, part):
            return False
        if group.state is State.EMPTY:
            return len(group.pending_join) < size_max or request.member_id in group.pending_join
        if request.group_instance_id in group.static_members:
            return True
        if group.state is State.PREPARING_REBALANCE:
            awaiting = known is not None and known.awaiting_join is not None
            return awaiting or group.awaiting_join_count < size_max
        return known is not None or len(group.members) < size_max

    def _leader_may_be_told(self, group: Group, request: JoinRequest, part: LeadersPart) -> bool:
        """A leader's answer names all members with their metadata: so one group must not have much of it."""
        former_id = group.static_members.get(request.group_instance_id or "", request.member_id)
        former = group.members.get(former_id)
        answer = group.leaders_answer(former_id, part)
        config = self._registry.config
        grows = former is None or any(new > old for new, old in zip(part, former.leaders_part, strict=True))
        fits = answer.metadata_bytes <= config.group_metadata_bytes_max
        return not grows or (fits and answer.names <= config.group_names_max)

    def _join_unknown(
        self, turn: Turn, group: Group, request: JoinRequest, part: LeadersPart, token: Token
    ) -> None:
        instance_id = request.group_instance_id
        member_id = self._registry.new_member_id(request.client_id, instance_id)
        if instance_id is not None and instance_id in group.static_members:
            self._replace_static(turn, group, request, part, member_id, token)
        elif instance_id is None and request.requires_member_id:
            if len(group.pending_join) >= self._registry.config.group_size_max:
                turn.reply(token, JoinResult(ErrorCode.group_max_size_reached, UNKNOWN_MEMBER))
                return
            group.pending_join.add(member_id)
            self._registry.start_session(group, member_id, request.session_timeout_ms, turn.now)
            turn.reply(token, JoinResult(ErrorCode.member_id_required, member_id))
        else:
            self._add(turn, group, request, part, member_id, token)

    def _join_known(
        self, turn: Turn, group: Group, request: JoinRequest, part: LeadersPart, token: Token
    ) -> None:
        member_id = request.member_id
        if member_id in group.pending_join and request.group_instance_id is None:
            self._add(turn, group, request, part, member_id, token)
            return
        fault = group.member_fault(member_id, request.group_instance_id)
        if fault is not None:
            turn.reply(token, JoinResult(fault, member_id))
            return
        member = group.members[member_id]
        same = member.matches(dict(request.protocols))
        if group.state is State.COMPLETING_REBALANCE and same:
            # Its answer was lost: tell it again. A SyncGroup still parked is of the connection it lost.
            turn.reply(token, self._rebalance.joined(group, member_id))
        elif group.state is State.STABLE and same and not group.is_leader(member_id):
            turn.reply(token, self._rebalance.joined(group, member_id))
        else:
            # A leader that joins again wants a new assignment, for example because topics grew.
            self._update(turn, member, request, part, token)
            self._rebalance.begin_or_go_on(turn, group)

    def _add(
        self,
        turn: Turn,
        group: Group,
        request: JoinRequest,
        part: LeadersPart,
        member_id: str,
        token: Token,
    ) -> None:
        member = Member(
            member_id,
            request.group_instance_id,
            request.client_id,
            request.client_host,
            request.session_timeout_ms,
            request.rebalance_timeout_ms,
            dict(request.protocols),
        )
        member.leaders_part = part
        member.is_new = True
        member.awaiting_join = token
        group.new_member_added = group.initial_remaining_ms is not None
        group.add(member, request.protocol_type)
        # It cannot heartbeat yet, and a client that gave up comes back under a new id: without a bound each
        # try would leave a member behind.
        timeout_ms = self._registry.config.new_member_join_timeout_ms
        self._registry.start_session(group, member_id, timeout_ms, turn.now)
        self._rebalance.begin_or_go_on(turn, group)

    def _update(
        self, turn: Turn, member: Member, request: JoinRequest, part: LeadersPart, token: Token
    ) -> None:
        superseded = JoinResult(ErrorCode.rebalance_in_progress, member.member_id)
        self._rebalance.answer_join(turn, member, superseded)
        member.protocols = dict(request.protocols)
        member.leaders_part = part
        member.session_timeout_ms = request.session_timeout_ms
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.client_id = request.client_id
        member.client_host = request.client_host
        member.awaiting_join = token

    def _replace_static(
        self,
        turn: Turn,
        group: Group,
        request: JoinRequest,
        part: LeadersPart,
        member_id: str,
        token: Token,
    ) -> None:
        """A static member came back without its member id: it takes the place of its former self."""
        assert request.group_instance_id is not None and group.leader is not None
        former_id = group.static_members[request.group_instance_id]
        former = group.members[former_id]
        former_leader = group.leader
        fenced = ErrorCode.fenced_instance_id
        self._rebalance.answer_join(turn, former, JoinResult(fenced, former_id))
        self._rebalance.answer_sync(turn, former, SyncResult(fenced))
        member = group.replace_static(former_id, member_id)
        self._registry.end_session(group, former_id)
        self._update(turn, member, request, part, token)
        self._registry.extend_session(group, member_id, turn.now)
        if group.state is State.STABLE and group.select_protocol() == group.protocol_name:
            # Its assignment is still right.
            group.refresh_subscribed()
            assignments = {key: one.assignment for key, one in group.members.items()}
            record = GroupRecord(group.group_id, group.to_stored(assignments))
            then = AfterStaticJoin(group.generation_id, member_id, former_leader, request.may_skip_assignment)
            turn.append(group.group_id, (record,), then)
        else:
            # While the leader assigns, it does so to the former member id: only a rebalance mends that.
            self._rebalance.begin_or_go_on(turn, group)

    def static_join_stored(self, turn: Turn, group_id: str, then: AfterStaticJoin, error: ErrorCode) -> None:
        """The new id of a static member is in the log, or could not be put there."""
        group = self._registry.get(group_id)
        member = None if group is None else group.members.get(then.member_id)
        if group is None or member is None:
            return
        if error is not ErrorCode.none:
            self._rebalance.answer_join(turn, member, JoinResult(error, UNKNOWN_MEMBER))
        elif group.state is State.STABLE and group.generation_id == then.generation_id:
            told = self._rebalance.joined(group, then.member_id)
            if then.may_skip_assignment:
                # A leader has to know that it leads: nobody else would notice new partitions (KIP-814).
                result = told._replace(skip_assignment=group.is_leader(then.member_id))
            else:
                # The leader as it was before, so that a leader who came back does not compute an assignment
                # nobody would be given (KAFKA-7862).
                result = told._replace(leader=then.former_leader, members=())
            self._rebalance.answer_join(turn, member, result)
            self._registry.extend_session(group, then.member_id, turn.now)
        # Otherwise a rebalance began meanwhile: the parked answer is its.

    # -- SyncGroup

    def sync(self, turn: Turn, request: SyncRequest, token: Token) -> None:
        """Decide one SyncGroup."""
        group = self._registry.get(request.group_id)
        fault = self._sync_fault(group, request)
        if group is None or fault is not None:
            turn.reply(token, SyncResult(fault or ErrorCode.unknown_member_id))
            return
        member = group.members[request.member_id]
        self._rebalance.synced(group, request.member_id)
        if group.state is State.STABLE:
            turn.reply(
                token,
                SyncResult(ErrorCode.none, group.protocol_type, group.protocol_name, member.assignment),
            )
            return
        assert group.state is State.COMPLETING_REBALANCE
        self._rebalance.answer_sync(turn, member, SyncResult(ErrorCode.rebalance_in_progress))
        member.awaiting_sync = token
        if group.is_leader(request.member_id):
            given = dict(request.assignments)
            assignments = {member_id: given.get(member_id, b"") for member_id in group.members}
            record = GroupRecord(group.group_id, group.to_stored(assignments))
            turn.append(group.group_id, (record,), AfterSync(group.generation_id, assignments))

    def _sync_fault(self, group: Group | None, request: SyncRequest) -> ErrorCode | None:
        if request.group_id == "":
            return ErrorCode.invalid_group_id
        if group is None or group.state is State.EMPTY:
            return ErrorCode.unknown_member_id
        fault = group.member_fault(request.member_id, request.group_instance_id)
        if fault is not None:
            return fault
        if request.generation_id != group.generation_id:
            return ErrorCode.illegal_generation
        if request.protocol_type is not None and request.protocol_type != group.protocol_type:
            return ErrorCode.inconsistent_group_protocol
        if request.protocol_name is not None and request.protocol_name != group.protocol_name:
            return ErrorCode.inconsistent_group_protocol
        if group.state is State.PREPARING_REBALANCE:
            return ErrorCode.rebalance_in_progress
        # What Kafka answers when the assignments do not fit the offsets topic's batch.
        fits = self._registry.may_grow(group.group_id, sum(len(data) for _, data in request.assignments))
        return None if fits else ErrorCode.unknown_server_error

    def assignment_stored(self, turn: Turn, group_id: str, then: AfterSync, error: ErrorCode) -> None:
        """The leader's assignment is in the log, or could not be put there."""
        group = self._registry.get(group_id)
        if group is None or group.state is not State.COMPLETING_REBALANCE:
            return
        if group.generation_id != then.generation_id:
            return
        if error is not ErrorCode.none:
            self._rebalance.distribute(turn, group, error)
            self._rebalance.prepare(turn, group)
            return
        for member in group.members.values():
            member.assignment = then.assignments.get(member.member_id, b"")
        self._rebalance.distribute(turn, group, ErrorCode.none)
        group.move_to(State.STABLE, turn.now.epoch_ms)
        group.check()

    # -- Heartbeat, LeaveGroup, sessions

    def heartbeat(self, turn: Turn, request: HeartbeatRequest) -> ErrorCode:
        """Decide one Heartbeat; members that may go on, or that must join again, are alive."""
        if request.group_id == "":
            return ErrorCode.invalid_group_id
        group = self._registry.get(request.group_id)
        if group is None:
            return ErrorCode.unknown_member_id
        fault = group.member_fault(request.member_id, request.group_instance_id)
        if fault is not None:
            return fault
        if request.generation_id != group.generation_id:
            return ErrorCode.illegal_generation
        self._registry.extend_session(group, request.member_id, turn.now)
        preparing = group.state is State.PREPARING_REBALANCE
        return ErrorCode.rebalance_in_progress if preparing else ErrorCode.none

    def leave(self, turn: Turn, group_id: str, leaving: tuple[LeavingMember, ...]) -> LeaveResult:
        """Decide one LeaveGroup, in order; the rest rebalances once."""
        if group_id == "":
            return LeaveResult(ErrorCode.invalid_group_id)
        group = self._registry.get(group_id)
        if group is None:
            unknown = tuple((one, ErrorCode.unknown_member_id) for one in leaving)
            return LeaveResult(ErrorCode.none, unknown)
        answers = tuple((one, self._leave_one(turn, group, one)) for one in leaving)
        if any(error is ErrorCode.none for _, error in answers):
            self._rebalance.after_removal(turn, group)
        return LeaveResult(ErrorCode.none, answers)

    def _leave_one(self, turn: Turn, group: Group, leaving: LeavingMember) -> ErrorCode:
        member_id, instance_id = leaving
        if member_id == UNKNOWN_MEMBER:
            if instance_id is None or instance_id not in group.static_members:
                return ErrorCode.unknown_member_id
            member_id = group.static_members[instance_id]
        elif member_id not in group.pending_join:
            fault = group.member_fault(member_id, instance_id)
            if fault is not None:
                return fault
        self._rebalance.remove(turn, group, member_id)
        return ErrorCode.none

    def session_ended(self, turn: Turn, group: Group, member_id: str) -> None:
        """A member or pending member was not heard of in time."""
        member = group.members.get(member_id)
        if member is not None and member.satisfies_heartbeat:
            return
        if member is not None or member_id in group.pending_join:
            self._rebalance.remove(turn, group, member_id)
            if member is not None:
                self._rebalance.after_removal(turn, group)
            else:
                self._rebalance.complete_join_if_ready(turn, group)
