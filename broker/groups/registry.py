"""What all parts of the coordinator share: its settings, durable state, live groups and timers."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from broker.coordination.effects import Moment
from broker.coordination.timers import Timers
from broker.groups.durable import DurableState
from broker.groups.group import Group, State
from broker.groups.group_config import GroupConfig
from broker.groups.group_totals import GroupTotals
from broker.groups.messages import Append
from broker.groups.pending import OffsetKey
from broker.groups.records import OffsetRecord
from broker.groups.timer_key import TimerKey
from contracts.names import owner_of


class Registry:
    """The live groups by id, next to the durable state.

    Invariant: every group the durable state knows is live, and a live group it does not know has members,
    somebody about to join, records in flight, or is `emptied`. `settle` restores it for one group. Consumer
    groups of the new protocol are all durable: they are counted here, and have no live group beside them.
    """

    def __init__(self, config: GroupConfig, new_member_suffix: Callable[[], str], usage: GroupTotals) -> None:
        faults = config.faults()
        assert not faults, "; ".join(faults)
        self.config: Final = config
        self.durable: Final = DurableState()
        self.timers: Timers[TimerKey] = Timers()
        self.groups: dict[str, Group] = {}
        self.by_instance: Counter[str | None] = Counter()
        """How many groups each instance has, live or about to be; None is for names without one."""
        self.member_bytes: Counter[str | None] = Counter()
        """What the members of each instance's groups take in memory."""
        self.movers: Counter[str | None] = Counter()
        """How many members of each instance's consumer groups would give or take when one comes or goes."""
        self.in_flight: dict[str, int] = {}
        """Appends of a group that are neither committed nor refused yet: what they bring may be needed."""
        self.emptied: set[str] = set()
        """Groups whose offsets were deleted by request: they are there, as in Kafka, until the next sweep."""
        self._counted_consumers: dict[str, tuple[int, int]] = {}
        """Consumer groups that are counted: what they took and how many would move when they were."""
        self.unstable: Counter[OffsetKey] = Counter()
        """Offsets of open transactions that are neither committed nor refused yet."""
        self._usage = usage
        usage.add(self)
        self._new_member_suffix = new_member_suffix

    def get(self, group_id: str) -> Group | None:
        """A live group."""
        return self.groups.get(group_id)

    def is_live(self, group_id: str) -> bool:
        """Whether there is a group of the name, of either protocol."""
        return group_id in self.groups or group_id in self.durable.consumer_groups

    def may_create(self, group_id: str) -> bool:
        """Whether the group's instance may have one more group."""
        owner = owner_of(group_id)
        return owner is None or self._usage.groups(owner) < self.config.groups_per_instance_max

    def may_grow(self, group_id: str, growth_bytes: int) -> bool:
        """Whether the group's instance may take so much more memory."""
        owner = owner_of(group_id)
        if owner is None or growth_bytes <= 0:
            return True
        return self._usage.size_bytes(owner) + growth_bytes <= self.config.instance_bytes_max

    def movers_of_instance(self, group_id: str) -> int:
        """Members of groups of the group's instance that would give or take when one comes or goes."""
        return self._usage.movers(owner_of(group_id))

    def queued_ms(self, group_id: str, work_ms: int, now: Moment) -> int:
        """How long an assignment takes that takes so long alone: those of an instance follow each other."""
        owner = owner_of(group_id)
        return work_ms if owner is None else self._usage.queued_ms(owner, work_ms, now.monotonic_ms)

    def size_bytes(self, owner: str) -> int:
        """What one instance takes in memory here."""
        durable = self.durable
        offset_bytes = durable.offset_bytes.get(owner, 0) + durable.pending.size_bytes[owner]
        return self.member_bytes[owner] + offset_bytes

    def release(self) -> None:
        """These groups are coordinated elsewhere from now on."""
        self._usage.remove(self)

    def recount(self, group: Group) -> None:
        """Members or assignments of the group have changed."""
        size_bytes = group.size_bytes
        self._count(group.group_id, 0, size_bytes - group.counted_bytes)
        group.counted_bytes = size_bytes

    def _count(self, group_id: str, groups: int, size_bytes: int) -> None:
        owner = owner_of(group_id)
        self.by_instance[owner] += groups
        self.member_bytes[owner] += size_bytes
        if self.by_instance[owner] == 0:
            assert self.member_bytes[owner] == 0, "no group, no members"
            del self.by_instance[owner], self.member_bytes[owner]

    def create(self, group_id: str) -> Group:
        """A new live group, empty, or as the durable state describes it."""
        assert group_id not in self.groups
        stored = self.durable.group(group_id)
        group = Group(group_id) if stored is None else Group.from_stored(group_id, stored)
        self.groups[group_id] = group
        self._count(group_id, 1, 0)
        self.recount(group)
        return group

    def settle(self, group_id: str, now: Moment) -> None:
        """After records were replayed or members went: make the group live, or dead when nothing is left."""
        group = self.groups.get(group_id)
        self._count_consumers(group_id)
        if group_id in self.durable.consumer_groups:
            if group is not None:
                self.bury(group, now)
            return
        known = self.durable.knows(group_id)
        if group is None:
            if known:
                self.create(group_id)
            return
        is_awaited = group_id in self.in_flight or group_id in self.emptied
        if group.is_unused and not known and not is_awaited:
            self.bury(group, now)

    def _count_consumers(self, group_id: str) -> None:
        group = self.durable.consumer_groups.get(group_id)
        counted = self._counted_consumers.pop(group_id, None)
        before_bytes, moved = counted or (0, 0)
        size_bytes, move = (0, 0) if group is None else (group.size_bytes, len(group.movers))
        if group is not None:
            self._counted_consumers[group_id] = size_bytes, move
        if group is not None or counted is not None:
            owner = owner_of(group_id)
            self.movers[owner] += move - moved
            if self.movers[owner] == 0:
                del self.movers[owner]
            self._count(group_id, (group is not None) - (counted is not None), size_bytes - before_bytes)

    def count_founded(self, group_id: str, groups: int) -> None:
        """A consumer group is about to be there, or is there now or never: it counts among its instance's."""
        self._count(group_id, groups, 0)

    def bury(self, group: Group, now: Moment) -> None:
        """Make a group without members dead and forget it, with its deadlines."""
        assert not group.members and not group.pending_join
        group.move_to(State.DEAD, now.epoch_ms)
        self.timers.cancel(TimerKey("join", group.group_id))
        self.timers.cancel(TimerKey("sync", group.group_id))
        self.emptied.discard(group.group_id)
        del self.groups[group.group_id]
        self._count(group.group_id, -1, -group.counted_bytes)

    def left(self, append: Append) -> None:
        """An append is on its way to the log."""
        self.in_flight[append.group_id] = self.in_flight.get(append.group_id, 0) + 1
        self.unstable.update(_offsets_in_transaction(append))

    def landed(self, append: Append) -> None:
        """It was committed or refused."""
        assert self.in_flight.get(append.group_id, 0) > 0, "an append is reported once"
        self.in_flight[append.group_id] -= 1
        if self.in_flight[append.group_id] == 0:
            del self.in_flight[append.group_id]
        for key in _offsets_in_transaction(append):
            self.unstable[key] -= 1
            if self.unstable[key] == 0:
                del self.unstable[key]

    def is_unstable(self, key: OffsetKey) -> bool:
        """Whether a transaction that is not over has committed an offset for the key."""
        return key in self.unstable or self.durable.pending.has(key)

    def new_member_id(self, client_id: str, group_instance_id: str | None) -> str:
        """Kafka's form, `<instance or client id>-<uuid>`, cut so that it always fits a protocol string."""
        prefix = client_id if group_instance_id is None else group_instance_id
        return f"{prefix[:1000]}-{self._new_member_suffix()}"

    def start_session(self, group: Group, member_id: str, timeout_ms: int, now: Moment) -> None:
        """The member must be heard of within the timeout."""
        key = TimerKey("session", group.group_id, member_id)
        self.timers.set(key, now.monotonic_ms + max(timeout_ms, 0))

    def extend_session(self, group: Group, member_id: str, now: Moment) -> None:
        """The member was heard of."""
        self.start_session(group, member_id, group.members[member_id].session_timeout_ms, now)

    def end_session(self, group: Group, member_id: str) -> None:
        """The member is gone."""
        self.timers.cancel(TimerKey("session", group.group_id, member_id))


def _offsets_in_transaction(append: Append) -> Iterator[OffsetKey]:
    if append.producer is not None:
        for record in append.records:
            assert isinstance(record, OffsetRecord), "transactions hold offsets only"
            yield OffsetKey(record.group_id, record.topic, record.partition)
