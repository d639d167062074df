"""Consumer groups of the new protocol (KIP-848) among those of one partition: their heartbeats and deadlines.

A group changes when its records are committed (ADR 11). One append of a group is in flight at a time; what
needs another waits and is decided together with all that came meanwhile.
"""

from collections.abc import Iterable

from kio.schema.errors import ErrorCode

from broker.coordination.effects import Moment, Reply, Token
from broker.groups.assignors import ASSIGNORS, DEFAULT_ASSIGNOR
from broker.groups.consumer_group import JOINING_EPOCH, LEAVING_EPOCH, STATIC_LEAVING_EPOCH, ConsumerGroup
from broker.groups.consumer_messages import (
    Answered,
    ConsumerHeartbeat,
    DescribedConsumer,
    DescribedConsumerGroup,
    Ending,
    HeartbeatResult,
    Topics,
    Waiting,
)
from broker.groups.consumer_records import CurrentRecord, MemberState
from broker.groups.consumer_step import changes_subscription, decide
from broker.groups.group import State
from broker.groups.messages import AfterConsumerStep, Append, Turn
from broker.groups.records import GroupRecord, Record, is_storable, is_storable_group_id
from broker.groups.registry import Registry
from broker.groups.timer_key import TimerKey
from contracts.names import owner_of


class ConsumerGroups:
    """Decides heartbeats and deadlines. Groups change only when the records come back by replay."""

    def __init__(self, registry: Registry, topics: Topics) -> None:
        self._registry = registry
        self._topics = topics
        self._happened: dict[str, list[Waiting | Ending]] = {}
        """What waits for a group's records in flight, or for more members that come or go. A group that has
        some in flight has an entry."""
        self._gathered_by_ms: dict[str, int] = {}
        """Until when members that come or go wait for others at most, by group."""
        self._founded: set[str] = set()
        """Of those that wait: groups that were not there."""

    def get(self, group_id: str) -> ConsumerGroup | None:
        """A consumer group that is there."""
        return self._registry.durable.consumer_groups.get(group_id)

    def is_changing(self, group_id: str) -> bool:
        """Whether records of the group are in flight, or about to be: it may become one, or none any more."""
        return group_id in self._happened

    # -- heartbeats

    def heartbeat(self, turn: Turn, request: ConsumerHeartbeat, token: Token) -> None:
        """Decide one ConsumerGroupHeartbeat, now or when the group's records have landed."""
        result = self._fault(request)
        group = self.get(request.group_id)
        if result is None and group is not None:
            result = self._unchanged(group, request)
        if result is None and group is None:
            result = self._creation_fault(request)
        if result is not None:
            if result.error is ErrorCode.none and group is not None:
                self._heard_of(group, request.member_id, turn.now)
            turn.reply(token, result)
            return
        self._happen(turn, request.group_id, Waiting(request, token))

    def _fault(self, request: ConsumerHeartbeat) -> HeartbeatResult | None:
        invalid = ErrorCode.invalid_request
        if not is_storable_group_id(request.group_id):
            return HeartbeatResult(invalid, "GroupId can't be empty.")
        names = (request.member_id, request.instance_id or "", request.rack_id or "")
        if not all(map(is_storable, names)) or request.instance_id == "" or request.rack_id == "":
            return HeartbeatResult(invalid, "InstanceId and RackId can't be empty, nor too long.")
        if request.member_id == "":
            return HeartbeatResult(invalid, "MemberId can't be empty.")
        if request.member_epoch == STATIC_LEAVING_EPOCH and request.instance_id is None:
            return HeartbeatResult(invalid, "InstanceId can't be null.")
        if request.member_epoch < STATIC_LEAVING_EPOCH:
            return HeartbeatResult(invalid, "MemberEpoch is invalid.")
        if request.server_assignor is not None and request.server_assignor not in ASSIGNORS:
            known = ", ".join(ASSIGNORS)
            message = f"ServerAssignor is not supported. Supported assignors: {known}."
            return HeartbeatResult(ErrorCode.unsupported_assignor, message)
        return _joining_fault(request) if request.member_epoch == JOINING_EPOCH else None

    def _creation_fault(self, request: ConsumerHeartbeat) -> HeartbeatResult | None:
        """Whether a group may come to be by this heartbeat: a new one, or in the place of a classic one that
        has no members."""
        group_id = request.group_id
        if self.is_changing(group_id):
            return None
        classic = self._registry.get(group_id)
        is_classic = classic is not None and (classic.state is not State.EMPTY or bool(classic.pending_join))
        if request.member_epoch != JOINING_EPOCH or is_classic:
            return HeartbeatResult(ErrorCode.group_id_not_found, "There is no consumer group of this name.")
        if classic is None and not self._registry.may_create(group_id):
            return HeartbeatResult(ErrorCode.group_max_size_reached, "The instance has too many groups.")
        return None

    def _unchanged(self, group: ConsumerGroup, request: ConsumerHeartbeat) -> HeartbeatResult | None:
        """The answer to a member that has all of its target and says nothing new: most heartbeats are so."""
        current = group.current.get(request.member_id)
        if (
            current is None
            or request.member_epoch <= JOINING_EPOCH
            or request.member_epoch != current.member_epoch
            or current.member_epoch != group.assignment_epoch
            or group.epoch != group.assignment_epoch
            or current.state is not MemberState.STABLE
            or request.topic_names is not None
            or request.topic_regex is not None
            or request.rebalance_timeout_ms is not None
            or request.server_assignor is not None
            or group.static_members.get(request.instance_id or "", request.member_id) != request.member_id
            or group.metadata_version != self._topics.version(owner_of(group.group_id))
        ):
            return None
        interval_ms = self._interval_ms(group, request.member_id)
        return HeartbeatResult(ErrorCode.none, None, request.member_id, current.member_epoch, interval_ms)

    def _interval_ms(self, group: ConsumerGroup, member_id: str) -> int:
        config = self._registry.config
        if not group.is_settled:
            by_members_ms = config.unsettled_member_interval_ms * len(group.members)
            interval_ms = max(config.unsettled_heartbeat_interval_ms, by_members_ms)
        elif member_id in group.movers:
            by_movers_ms = config.mover_interval_ms * self._registry.movers_of_instance(group.group_id)
            interval_ms = max(config.mover_heartbeat_interval_ms, by_movers_ms)
        else:
            return config.consumer_heartbeat_interval_ms
        return min(interval_ms, config.consumer_heartbeat_interval_ms)

    def _happen(self, turn: Turn, group_id: str, *happened: Waiting | Ending) -> None:
        changes = any(self._changes_members(group_id, each) for each in happened)
        if group_id in self._happened:
            self._happened[group_id] += happened
            if changes and group_id in self._gathered_by_ms:
                self._gather(turn.now, group_id, self._registry.config.gather_ms_min)
        elif changes and self._registry.config.gather_ms_max:
            self._wait(group_id, *happened)
            gather_ms = self._gather_ms(group_id, turn.now)
            longest_ms = max(gather_ms, self._registry.config.gather_ms_max)
            self._gathered_by_ms[group_id] = turn.now.monotonic_ms + longest_ms
            self._gather(turn.now, group_id, gather_ms)
        else:
            self._decide(turn, group_id, happened)

    def _changes_members(self, group_id: str, happened: Waiting | Ending) -> bool:
        """Whether it makes an assignment: who joins, leaves or subscribes to something else."""
        if isinstance(happened, Ending) or happened.request.member_epoch in (JOINING_EPOCH, LEAVING_EPOCH):
            return True
        group = self.get(group_id)
        member = None if group is None else group.members.get(happened.request.member_id)
        return member is not None and changes_subscription(member, happened.request)

    def _gather(self, now: Moment, group_id: str, gather_ms: int) -> None:
        """They wait so long for more from now on, and not less than they did before."""
        key = TimerKey("gathering", group_id)
        so_far_ms = self._registry.timers.deadline_ms(key) or 0
        until_ms = min(now.monotonic_ms + gather_ms, self._gathered_by_ms[group_id])
        self._registry.timers.set(key, max(so_far_ms, until_ms))

    def _gather_ms(self, group_id: str, now: Moment) -> int:
        """How long those that come or go wait for others that do: an assignment is work by members and
        partitions, and each that comes alone costs one. Those of an instance's groups wait for each other."""
        group, config = self.get(group_id), self._registry.config
        size = 0 if group is None else len(group.members) + sum(map(len, group.owners.values()))
        work_ms = min(size // config.gathered_per_ms, config.gather_ms_max)
        return config.gather_ms_min + self._registry.queued_ms(group_id, work_ms, now)

    def gathering(self) -> list[str]:
        """Groups in which those that come or go wait for others; some are not there yet."""
        return list(self._gathered_by_ms)

    def _gathered(self, group_id: str) -> list[Waiting | Ending]:
        """Who came or went, and what was said meanwhile: they wait no longer for others."""
        del self._gathered_by_ms[group_id]
        return self._no_longer_wait(group_id)

    def _wait(self, group_id: str, *happened: Waiting | Ending) -> None:
        """A group that comes to be counts from now on."""
        self._happened[group_id] = list(happened)
        if not self._registry.is_live(group_id):
            self._founded.add(group_id)
            self._registry.count_founded(group_id, 1)

    def _no_longer_wait(self, group_id: str) -> list[Waiting | Ending]:
        if group_id in self._founded:
            self._founded.remove(group_id)
            self._registry.count_founded(group_id, -1)
        return self._happened.pop(group_id, [])

    def _decide(self, turn: Turn, group_id: str, happened: Iterable[Waiting | Ending]) -> None:
        group = self.get(group_id) or ConsumerGroup(group_id)
        due = [each for each in happened if isinstance(each, Waiting) or self._is_due(each)]
        decision = decide(group, due, self._topics, self._registry.config)
        records: tuple[Record, ...] = decision.records
        if not records:
            group.metadata_version = decision.metadata_version
            self._answer(turn, group, decision.answers)
            return
        if not self._registry.may_grow(group_id, decision.grown_bytes):
            _refuse(turn, happened, "The instance's groups hold too much.")
            return
        if self._registry.get(group_id) is not None:
            records = (GroupRecord(group_id, None), *records)
        self._wait(group_id)
        then = AfterConsumerStep(decision.answers, decision.metadata_version)
        turn.append(group_id, records, then)

    def _is_due(self, ending: Ending) -> bool:
        """Whether nothing was heard of the member while its end waited."""
        return not self._registry.timers.has(_timer(ending))

    def _answer(self, turn: Turn, group: ConsumerGroup, answers: Iterable[Answered]) -> None:
        for token, result in answers:
            told = result
            if result.error is ErrorCode.none and result.member_epoch > JOINING_EPOCH:
                self._heard_of(group, result.member_id or "", turn.now)
                told = result._replace(interval_ms=self._interval_ms(group, result.member_id or ""))
            turn.reply(token, told)

    def _heard_of(self, group: ConsumerGroup, member_id: str, now: Moment) -> None:
        timeout_ms = self._registry.config.consumer_session_timeout_ms
        key = TimerKey("consumer", group.group_id, member_id)
        self._registry.timers.set(key, now.monotonic_ms + timeout_ms)

    # -- records

    def committed(self, turn: Turn, append: Append, then: AfterConsumerStep) -> None:
        """Its records are in force: members are told, and what waited is decided."""
        group_id = append.group_id
        group = self.get(group_id)
        if group is not None:
            group.metadata_version = then.metadata_version
            # One that left and is back in the same step has a session: it is answered last.
            self._set_timers(group, append, turn.now)
            self._answer(turn, group, then.answers)
        self._go_on(turn, group_id)

    def refused(self, turn: Turn, group_id: str) -> None:
        """Its records could not be written: nothing has changed, and whose time was over has it anew."""
        group = self.get(group_id)
        for member_id, current in () if group is None else group.current.items():
            assert group is not None
            if not self._registry.timers.has(TimerKey("consumer", group_id, member_id)):
                self._heard_of(group, member_id, turn.now)
            is_revoking = current.state is MemberState.UNREVOKED_PARTITIONS
            if is_revoking and not self._registry.timers.has(TimerKey("revocation", group_id, member_id)):
                self._set_revocation(group, member_id, turn.now)
        self._go_on(turn, group_id)

    def _go_on(self, turn: Turn, group_id: str) -> None:
        """No records of the group are in flight any more: decide what waited for that."""
        happened = self._no_longer_wait(group_id)
        if happened:
            self._happen(turn, group_id, *happened)

    def _set_timers(self, group: ConsumerGroup, append: Append, now: Moment) -> None:
        timers = self._registry.timers
        for record in append.records:
            if not isinstance(record, CurrentRecord):
                continue
            revocation = TimerKey("revocation", group.group_id, record.member_id)
            if record.value is None:
                timers.cancel(revocation)
                timers.cancel(TimerKey("consumer", group.group_id, record.member_id))
            elif record.value.state is MemberState.UNREVOKED_PARTITIONS:
                self._set_revocation(group, record.member_id, now)
            else:
                timers.cancel(revocation)

    def _set_revocation(self, group: ConsumerGroup, member_id: str, now: Moment) -> None:
        timeout_ms = max(group.members[member_id].rebalance_timeout_ms, 0)
        key = TimerKey("revocation", group.group_id, member_id)
        self._registry.timers.set(key, now.monotonic_ms + timeout_ms)

    # -- without a request

    def activate(self, group: ConsumerGroup, now: Moment) -> None:
        """The log was read: members have a session from now on."""
        for member_id, current in group.current.items():
            self._heard_of(group, member_id, now)
            if current.state is MemberState.UNREVOKED_PARTITIONS and member_id in group.members:
                self._set_revocation(group, member_id, now)

    def deadline_met(self, turn: Turn, key: TimerKey) -> None:
        """A member was silent, or did not let go, for too long; or who came or went has waited."""
        if key.kind == "gathering":
            self._decide(turn, key.group_id, self._gathered(key.group_id))
            return
        self._happen(turn, key.group_id, Ending(key.group_id, key.member_id, key.kind == "consumer"))

    def retire(self, turn: Turn, group_id: str) -> None:
        """A classic member wants in where no member is: the group becomes a classic one."""
        group = self.get(group_id)
        assert group is not None and group.is_empty
        if not self.is_changing(group_id):
            self._wait(group_id)
            turn.append(group_id, tuple(group.tombstones()), AfterConsumerStep((), -1))

    def abandon(self, turn: Turn, group_id: str) -> None:
        """The group's instance is deleted: nobody is a member any more, nor becomes one."""
        if group_id in self._gathered_by_ms:
            self._registry.timers.cancel(TimerKey("gathering", group_id))
            for each in self._gathered(group_id):
                if isinstance(each, Waiting):
                    turn.reply(each.token, HeartbeatResult(ErrorCode.group_id_not_found))
        group = self.get(group_id)
        if group is not None:
            for member_id in group.current:
                self._cancel(group_id, member_id)

    def _cancel(self, group_id: str, member_id: str) -> None:
        self._registry.timers.cancel(TimerKey("consumer", group_id, member_id))
        self._registry.timers.cancel(TimerKey("revocation", group_id, member_id))

    def waiting_replies(self, error: ErrorCode) -> list[Reply]:
        """Heartbeats that wait for their turn, with the error that ends it."""
        return [
            Reply(each.token, HeartbeatResult(error))
            for happened in self._happened.values()
            for each in happened
            if isinstance(each, Waiting)
        ]

    # -- reads

    def describe(self, group_id: str) -> DescribedConsumerGroup | None:
        """ConsumerGroupDescribe; None: there is no such consumer group."""
        group = self.get(group_id)
        if group is None:
            return None
        members = tuple(
            DescribedConsumer(member_id, metadata, group.assignment(member_id), group.target(member_id))
            for member_id, metadata in group.members.items()
        )
        assignor = group.assignor or DEFAULT_ASSIGNOR
        return DescribedConsumerGroup(
            group_id, group.state, group.epoch, group.assignment_epoch, assignor, members
        )


def _refuse(turn: Turn, happened: Iterable[Waiting | Ending], message: str) -> None:
    full = HeartbeatResult(ErrorCode.group_max_size_reached, message)
    for each in happened:
        if isinstance(each, Waiting):
            turn.reply(each.token, full)


def _joining_fault(request: ConsumerHeartbeat) -> HeartbeatResult | None:
    invalid = ErrorCode.invalid_request
    if request.rebalance_timeout_ms is None:
        return HeartbeatResult(invalid, "RebalanceTimeoutMs must be provided in first request.")
    if request.owned is None or request.owned:
        return HeartbeatResult(invalid, "TopicPartitions must be empty when (re-)joining.")
    if request.topic_names is None and request.topic_regex is None:
        return HeartbeatResult(invalid, "A member that joins must subscribe to topics.")
    return None


def _timer(ending: Ending) -> TimerKey:
    return TimerKey("consumer" if ending.is_session else "revocation", ending.group_id, ending.member_id)
