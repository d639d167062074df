"""A coordinator with a clock and a log in memory, driven call by call; answers land in slots."""

import struct
from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

from kio.schema.errors import ErrorCode

from broker.coordination.effects import Moment
from broker.groups.consumer_messages import TopicOfGroup
from broker.groups.coordinator import GroupCoordinator
from broker.groups.group_config import GroupConfig
from broker.groups.messages import (
    Append,
    CommitRequest,
    CommitResult,
    Effects,
    HeartbeatRequest,
    JoinRequest,
    JoinResult,
    LeaveResult,
    LeavingMember,
    OffsetsDeletion,
    OffsetsDeletionResult,
    OffsetToCommit,
    SyncRequest,
    SyncResult,
)
from broker.groups.records import Record
from contracts.names import owner_of
from tests.unit.groups.memory_log import MemoryLog

EPOCH_MS = 1_700_000_000_000
CONFIG = GroupConfig(initial_rebalance_delay_ms=0, gather_ms_max=0)
"""Without these delays a member need not be waited for."""


class Slot:
    """Where one answer lands. `result` is None while it is parked."""

    def __init__(self) -> None:
        self.result: Any = None

    def __call__(self, result: Any) -> None:
        assert self.result is None, "answered twice"
        self.result = result

    @property
    def is_parked(self) -> bool:
        return self.result is None

    @property
    def error(self) -> ErrorCode:
        assert self.result is not None, "still parked"
        return self.result if isinstance(self.result, ErrorCode) else self.result.error


def subscription(*topics: str) -> bytes:
    body = struct.pack(">hi", 0, len(topics))
    for topic in topics:
        body += struct.pack(">h", len(topic)) + topic.encode()
    return body + struct.pack(">i", 0)


class FakeTopics:
    """Topics of nobody, by their names; ids follow from names."""

    def __init__(self, **partitions: int) -> None:
        self.partitions = dict(partitions)
        self.ids: dict[str, UUID] = {}
        self.changes = 0

    def set(self, name: str, partitions: int) -> None:
        """A topic comes or grows; of 0 partitions it goes, and would come back as another one."""
        self.changes += 1
        self.partitions[name] = partitions
        if partitions == 0:
            del self.partitions[name]
            self.ids.pop(name, None)

    def id_of(self, name: str) -> UUID:
        return self.ids.setdefault(name, uuid5(NAMESPACE_URL, f"{name}/{self.changes}"))

    def version(self, owner: str | None) -> int:
        return self.changes

    def topic(self, name: str) -> TopicOfGroup | None:
        partitions = self.partitions.get(name)
        return None if partitions is None else TopicOfGroup(self.id_of(name), partitions)

    def names(self, owner: str | None) -> Iterable[str]:
        return [name for name in self.partitions if owner_of(name) == owner]


class World:
    """Appends are committed at once unless `hold` is set; then they wait for `release` or `refuse`."""

    def __init__(self, config: GroupConfig = CONFIG, **changes: Any) -> None:
        self.withheld: set[str] = set()
        """Groups of instances that are deleted or absent."""
        self.config = replace(config, **changes)
        self.now_ms = 0
        self.topics = FakeTopics(t=12)
        self.ids = 0
        self._log = MemoryLog()
        self.hold = False
        self.held: list[Append] = []
        self.coordinator = self._new()
        self.coordinator.activate(self.now)

    def _new(self) -> GroupCoordinator:
        return GroupCoordinator(
            self.config, self._suffix, self.topics, is_held=lambda group_id: group_id in self.withheld
        )

    def _suffix(self) -> str:
        self.ids += 1
        return str(self.ids)

    @property
    def now(self) -> Moment:
        return Moment(self.now_ms, EPOCH_MS + self.now_ms)

    @property
    def log(self) -> list[Record]:
        return self._log.records

    def run(self, effects: Effects) -> None:
        for reply in effects.replies:
            reply.token(reply.result)
        for append in effects.appends:
            self.held.append(append)
        while self.held and not self.hold:
            self.release()

    def release(self) -> None:
        append = self.held.pop(0)
        base_offset = self._log.write(self.coordinator, append, self.now)
        self.run(self.coordinator.committed(append, base_offset, self.now))

    def refuse(self, error: ErrorCode) -> None:
        self.run(self.coordinator.refused(self.held.pop(0), error, self.now))

    def restart(self) -> None:
        """A new process: only the log survives."""
        self.held.clear()
        self.coordinator = self._new()
        self._log.replay(self.coordinator)
        self.coordinator.activate(self.now)

    def pass_ms(self, duration_ms: int) -> None:
        """Let time go by, waking the coordinator at each of its deadlines."""
        end_ms = self.now_ms + duration_ms
        while True:
            due_ms = self.coordinator.next_deadline_ms()
            if due_ms is None or due_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, due_ms)
            self.run(self.coordinator.tick(self.now))
        self.now_ms = end_ms

    # -- requests

    def join(
        self,
        member_id: str = "",
        *,
        group: str = "g",
        instance: str | None = None,
        protocols: Any = None,
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        requires_id: bool = False,
        may_skip: bool = False,
        client: str = "c",
        protocol_type: str = "consumer",
    ) -> Slot:
        slot = Slot()
        offered = {"range": subscription("t")} if protocols is None else protocols
        request = JoinRequest(
            group,
            member_id,
            instance,
            client,
            "/127.0.0.1",
            session_ms,
            rebalance_ms,
            protocol_type,
            tuple(offered.items()),
            requires_id,
            may_skip,
        )
        self.run(self.coordinator.join(request, slot, self.now))
        return slot

    def sync(
        self,
        joined: JoinResult,
        assignments: dict[str, bytes] | None = None,
        *,
        group: str = "g",
        instance: str | None = None,
        generation: int | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
    ) -> Slot:
        slot = Slot()
        request = SyncRequest(
            group,
            joined.generation_id if generation is None else generation,
            joined.member_id,
            instance,
            protocol_type,
            protocol_name,
            tuple((assignments or {}).items()),
        )
        self.run(self.coordinator.sync(request, slot, self.now))
        return slot

    def heartbeat(
        self, member_id: str, generation: int, *, group: str = "g", instance: str | None = None
    ) -> ErrorCode:
        slot = Slot()
        beat = HeartbeatRequest(group, generation, member_id, instance)
        self.run(self.coordinator.heartbeat(beat, slot, self.now))
        return slot.error

    def leave(self, *leaving: str | LeavingMember, group: str = "g") -> LeaveResult:
        slot = Slot()
        members = tuple(LeavingMember(one, None) if isinstance(one, str) else one for one in leaving)
        self.run(self.coordinator.leave(group, members, slot, self.now))
        assert isinstance(slot.result, LeaveResult)
        return slot.result

    def commit_parked(
        self,
        offset: int,
        *,
        topic: str = "t",
        partition: int = 0,
        group: str = "g",
        member_id: str = "",
        generation: int = -1,
        instance: str | None = None,
        metadata: str = "",
        retention_ms: int | None = None,
        leader_epoch: int = -1,
    ) -> Slot:
        slot = Slot()
        one = OffsetToCommit(topic, partition, offset, leader_epoch, metadata)
        request = CommitRequest(group, generation, member_id, instance, retention_ms, (one,))
        self.run(self.coordinator.commit_offsets(request, slot, self.now))
        return slot

    def commit(self, offset: int, **options: Any) -> ErrorCode:
        slot = self.commit_parked(offset, **options)
        assert isinstance(slot.result, CommitResult)
        (error,) = slot.result.errors.values()
        return error

    def offset(self, topic: str = "t", partition: int = 0, *, group: str = "g") -> int | None:
        found = self.coordinator.fetch_offset(group, topic, partition)
        return None if found is None else found.offset

    def delete_offset(self, topic: str, partition: int = 0, *, group: str = "g") -> OffsetsDeletionResult:
        slot = Slot()
        deletion = OffsetsDeletion(group, ((topic, partition),))
        self.run(self.coordinator.delete_offsets(deletion, slot, self.now))
        assert isinstance(slot.result, OffsetsDeletionResult)
        return slot.result

    def delete_group(self, group: str = "g") -> ErrorCode:
        slot = Slot()
        self.run(self.coordinator.delete_group(group, slot, self.now))
        return slot.error

    def state(self, group: str = "g") -> str:
        return self.coordinator.describe(group).state

    # -- stories

    def stable(self, count: int = 1, *, group: str = "g", **options: Any) -> list[JoinResult]:
        """A stable group of `count` new members, leader first, each assigned its own member id."""
        slots = [self.join(group=group, **options)]
        self.pass_ms(self.config.initial_rebalance_delay_ms)
        for _ in range(count - 1):
            slots.append(self.join(group=group, **options))
            slots = [self.join(s.result.member_id, group=group, **options) for s in slots[:-1]] + slots[-1:]
        results = [slot.result for slot in slots]
        assert all(result.error is ErrorCode.none for result in results)
        synced = [self.sync(result, group=group) for result in results[1:]]
        assignments = {result.member_id: result.member_id.encode() for result in results}
        synced.insert(0, self.sync(results[0], assignments, group=group))
        for result, slot in zip(results, synced, strict=True):
            assert isinstance(slot.result, SyncResult)
            assert slot.result.assignment == result.member_id.encode()
        assert self.state(group) == "Stable"
        return results
