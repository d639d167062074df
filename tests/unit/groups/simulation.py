"""A deterministic simulation: consumers over a lossy network, a coordinator that restarts from its log.

Everything random comes from one seed. Events sit in a heap by time; nothing waits.
"""

import heapq
import itertools
import random
from collections.abc import Callable
from typing import Any

from kio.schema.errors import ErrorCode

from broker.coordination.effects import Moment
from broker.groups.coordinator import GroupCoordinator
from broker.groups.group import Group, State
from broker.groups.group_config import GroupConfig
from broker.groups.messages import (
    Append,
    CommitRequest,
    Effects,
    HeartbeatRequest,
    JoinRequest,
    LeavingMember,
    OffsetToCommit,
    SyncRequest,
)
from broker.groups.records import GroupRecord
from tests.unit.groups.memory_log import MemoryLog
from tests.unit.groups.world import EPOCH_MS, FakeTopics, subscription

GROUP = "g"
PARTITIONS = 6
SESSION_MS = 10_000
REBALANCE_MS = 20_000
REQUEST_TIMEOUT_MS = 40_000
CONFIG = GroupConfig(initial_rebalance_delay_ms=300)


class Broken(AssertionError):  # noqa: N818 - reads as what it says
    """An invariant does not hold."""


class Simulation:
    """The world: clock, network, one coordinator, its log."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now_ms = 0
        self.faults = True
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self.log = MemoryLog()
        self.held: list[Append] = []
        self.incarnation = 0
        self.parked: dict[int, tuple[int, str]] = {}
        """Token number -> (when it was handed in, what it is), of the running coordinator."""
        self._tokens = itertools.count()
        self.acknowledged: dict[int, int] = {}
        """Partition -> highest commit the coordinator acknowledged."""
        self.generation = 0
        self._group: Group | None = None
        self.rebalances = 0
        self.consumers: list[Consumer] = []
        self.start_coordinator()

    @property
    def now(self) -> Moment:
        return Moment(self.now_ms, EPOCH_MS + self.now_ms)

    def at(self, delay_ms: int, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now_ms + delay_ms, next(self._order), event))

    def run(self, duration_ms: int) -> None:
        end_ms = self.now_ms + duration_ms
        while True:
            due_ms = self.coordinator.next_deadline_ms()
            next_ms = self._events[0][0] if self._events else end_ms + 1
            if min(next_ms, end_ms + 1 if due_ms is None else due_ms) > end_ms:
                break
            if due_ms is not None and due_ms <= next_ms:
                self.now_ms = max(self.now_ms, due_ms)
                self.carry_out(self.coordinator.tick(self.now))
            else:
                self.now_ms, _, event = heapq.heappop(self._events)
                event()
            self.check()
        self.now_ms = end_ms

    # -- the coordinator

    def start_coordinator(self) -> None:
        self.incarnation += 1
        incarnation = self.incarnation
        suffixes = itertools.count()
        self.held.clear()
        self.parked.clear()
        self.coordinator = GroupCoordinator(CONFIG, lambda: f"{incarnation}-{next(suffixes)}", FakeTopics())
        self.log.replay(self.coordinator)
        self.coordinator.activate(self.now)
        self._group = self.coordinator.group(GROUP)
        self.generation = 0 if self._group is None else self._group.generation_id

    def crash(self) -> None:
        """Some of what was appended but not yet reported is in the log, from the front."""
        survivors = self.random.randint(0, len(self.held))
        for append in self.held[:survivors]:
            self.log.write(self.coordinator, append, self.now)
        self.start_coordinator()

    def carry_out(self, effects: Effects) -> None:
        for append in effects.appends:
            self.held.append(append)
            incarnation = self.incarnation
            delay_ms = self.random.choice((0, 0, 1, 20, 400)) if self.faults else 0
            self.at(delay_ms, lambda i=incarnation: self.land(i))  # type: ignore[misc]
        for reply in effects.replies:
            reply.token(reply.result)

    def land(self, incarnation: int) -> None:
        if incarnation != self.incarnation:
            return
        append = self.held.pop(0)
        if self.faults and self.random.random() < 0.02:
            self.carry_out(self.coordinator.refused(append, ErrorCode.kafka_storage_error, self.now))
        else:
            base_offset = self.log.write(self.coordinator, append, self.now)
            self.carry_out(self.coordinator.committed(append, base_offset, self.now))

    # -- the network

    def ask(self, what: str, request: Any, answered: Callable[[Any], None], lost: Callable[[], None]) -> None:
        """Send a request; exactly one of the callbacks comes, unless the caller lost interest."""
        delay_ms = self.random.randint(0, 30)
        settled = False

        def settle(callback: Callable[[], None]) -> None:
            nonlocal settled
            if not settled:
                settled = True
                callback()

        if self.faults and self.random.random() < 0.05:
            self.at(self.random.choice((50, 2_000)), lambda: settle(lost))
            return
        self.at(
            delay_ms, lambda: self._arrive(what, request, lambda result: settle(lambda: answered(result)))
        )
        self.at(REQUEST_TIMEOUT_MS, lambda: settle(lost))

    def _arrive(self, what: str, request: Any, answered: Callable[[Any], None]) -> None:
        number, incarnation = next(self._tokens), self.incarnation
        lossy = self.faults and self.random.random() < 0.05

        def token(result: Any) -> None:
            if incarnation != self.incarnation or number not in self.parked:
                raise Broken(f"{what} was answered twice")
            del self.parked[number]
            self._note(request, result)
            if not lossy:
                self.at(self.random.randint(0, 30), lambda: answered(result))

        self.parked[number] = (self.now_ms, what)
        coordinator, now = self.coordinator, self.now
        if what == "join":
            effects = coordinator.join(request, token, now)
        elif what == "sync":
            effects = coordinator.sync(request, token, now)
        elif what == "heartbeat":
            effects = coordinator.heartbeat(request, token, now)
        elif what == "commit":
            effects = coordinator.commit_offsets(request, token, now)
        else:
            effects = coordinator.leave(GROUP, request, token, now)
        self.carry_out(effects)

    def _note(self, request: Any, result: Any) -> None:
        if isinstance(request, CommitRequest):
            for one in request.offsets:
                if result.errors[one.topic, one.partition] is ErrorCode.none:
                    before = self.acknowledged.get(one.partition, -1)
                    self.acknowledged[one.partition] = max(before, one.offset)

    # -- invariants

    def check(self) -> None:
        group = self.coordinator.group(GROUP)
        for partition, offset in self.acknowledged.items():
            found = self.coordinator.fetch_offset(GROUP, "t", partition)
            if found is None or found.offset < offset:
                raise Broken(f"partition {partition}: {offset} was acknowledged, {found} is committed")
        for since_ms, what in self.parked.values():
            if self.now_ms - since_ms > 2 * (REBALANCE_MS + SESSION_MS) + 5_000:
                raise Broken(f"a {what} is parked since {since_ms}")
        if group is None:
            return
        group.check()
        if group is not self._group:
            # A group of which nothing could be stored ended with its last member; this is another one.
            self._group = group
            self.generation = group.generation_id
        if group.generation_id != self.generation:
            if group.generation_id != self.generation + 1:
                raise Broken(f"generation {self.generation} was followed by {group.generation_id}")
            self.generation = group.generation_id
            self.rebalances += 1
        if group.state is State.STABLE and not self.held:
            self._check_stable(group)

    def _check_stable(self, group: Group) -> None:
        """What the log says of a stable group is what its members were given."""
        stored = next(
            record.value
            for record in reversed(self.log.records)
            if isinstance(record, GroupRecord) and record.value is not None
        )
        if stored.generation_id != group.generation_id:
            raise Broken(f"stable in {group.generation_id}, stored {stored.generation_id}")
        # By instance id where there is one: a static member's new id may have failed to be stored.
        given = {one.group_instance_id or one.member_id: one.assignment for one in group.members.values()}
        kept = {one.group_instance_id or one.member_id: one.assignment for one in stored.members}
        if kept != given:
            raise Broken("members hold another assignment than the one stored")
        owners = [one for one in self.consumers if one.alive and one.generation == group.generation_id]
        owned = list(itertools.chain.from_iterable(one.owned for one in owners))
        if len(owned) != len(set(owned)):
            raise Broken(f"a partition has two owners in generation {group.generation_id}: {owned}")

    def check_settled(self) -> None:
        """After a quiet time: one generation, everyone has its assignment, all partitions are owned once."""
        live = [consumer for consumer in self.consumers if consumer.alive]
        group = self.coordinator.group(GROUP)
        if not live:
            return
        if group is None or group.state is not State.STABLE:
            raise Broken(f"the group is {group and group.state} with {len(live)} members alive")
        if {consumer.member_id for consumer in live} != set(group.members):
            raise Broken(f"members {sorted(group.members)}, alive {[one.member_id for one in live]}")
        if {consumer.generation for consumer in live} != {group.generation_id}:
            raise Broken("not everyone is of the current generation")
        owned = sorted(itertools.chain.from_iterable(consumer.owned for consumer in live))
        if owned != list(range(PARTITIONS)):
            raise Broken(f"partitions {owned} are owned")
        quick = [what for _, what in self.parked.values()]
        if quick:
            raise Broken(f"parked for ever: {quick}")


class Consumer:
    """A client that does what the Java consumer does, as far as the coordinator can tell."""

    def __init__(self, simulation: Simulation, name: str, static: bool) -> None:
        self._sim = simulation
        self.name = name
        self.instance_id = name if static else None
        self.may_skip_assignment = name.endswith(("0", "2", "4", "6", "8"))
        """Every other one has JoinGroup 9."""
        self.alive = True
        self.member_id = ""
        self.generation = -1
        self.owned: list[int] = []
        self._life = 0
        """Grows with every phase; answers to earlier phases are ignored."""
        simulation.consumers.append(self)
        self.join()

    def _phase(self) -> int:
        self._life += 1
        return self._life

    def _ask(
        self, what: str, request: Any, answered: Callable[[Any], None], lost: Callable[[], None]
    ) -> None:
        life = self._life

        def current(callback: Callable[[], None]) -> None:
            if self.alive and self._life == life:
                callback()

        self._sim.ask(what, request, lambda result: current(lambda: answered(result)), lambda: current(lost))

    def join(self) -> None:
        self._phase()
        self.owned = []
        request = JoinRequest(
            GROUP,
            self.member_id,
            self.instance_id,
            self.name,
            "/h",
            SESSION_MS,
            REBALANCE_MS,
            "consumer",
            (("range", subscription("t")),),
            requires_member_id=True,
            may_skip_assignment=self.may_skip_assignment,
        )
        self._ask("join", request, self._joined, self.join)

    def _joined(self, result: Any) -> None:
        if result.error in (ErrorCode.none, ErrorCode.member_id_required):
            self.member_id = result.member_id
        if result.error is not ErrorCode.none:
            self._recover(result.error)
            return
        self.generation = result.generation_id
        parts: tuple[tuple[str, bytes], ...] = ()
        assert not result.skip_assignment or result.leader == self.member_id
        if result.leader == self.member_id and not result.skip_assignment:
            ids = sorted(member.member_id for member in result.members)
            shares: dict[str, list[int]] = {member_id: [] for member_id in ids}
            for partition in range(PARTITIONS):
                shares[ids[partition % len(ids)]].append(partition)
            parts = tuple((key, bytes(share)) for key, share in shares.items())
        request = SyncRequest(
            GROUP, self.generation, self.member_id, self.instance_id, "consumer", "range", parts
        )
        self._phase()
        self._ask("sync", request, self._synced, self.join)

    def _synced(self, result: Any) -> None:
        if result.error is not ErrorCode.none:
            self._recover(result.error)
            return
        self._phase()
        self.owned = list(result.assignment)
        self._beat_later()

    def _beat_later(self) -> None:
        life = self._life
        self._sim.at(3_000, lambda: self._beat() if self.alive and self._life == life else None)

    def _beat(self) -> None:
        if self.owned and self._sim.random.random() < 0.7:
            self._commit()
        beat = HeartbeatRequest(GROUP, self.generation, self.member_id, self.instance_id)
        self._ask("heartbeat", beat, self._heard, self._beat_later)

    def _heard(self, error: ErrorCode) -> None:
        if error is ErrorCode.none:
            self._beat_later()
        else:
            self._recover(error)

    def _commit(self) -> None:
        offsets = tuple(OffsetToCommit("t", partition, self._sim.now_ms, -1, "") for partition in self.owned)
        request = CommitRequest(GROUP, self.generation, self.member_id, self.instance_id, None, offsets)
        self._ask("commit", request, lambda _result: None, lambda: None)

    def _recover(self, error: ErrorCode) -> None:
        if error is ErrorCode.fenced_instance_id:
            self.alive = False  # another one with our instance id runs
            return
        if error is ErrorCode.unknown_member_id:
            self.member_id = ""
        life = self._phase()
        self.owned = []
        delay_ms = 0 if error is ErrorCode.member_id_required else self._sim.random.randint(50, 150)
        self._sim.at(delay_ms, lambda: self.join() if self.alive and self._life == life else None)

    def die(self) -> None:
        """Without a word."""
        self.alive = False
        self.owned = []

    def leave(self) -> None:
        leaving = (LeavingMember(self.member_id, self.instance_id),)
        if self.member_id:
            self._sim.ask("leave", leaving, lambda _result: None, lambda: None)
        self.die()

    def restart(self) -> "Consumer":
        """A static member's process is replaced."""
        self.die()
        return Consumer(self._sim, self.name, static=True)


def story(seed: int, steps: int = 40) -> Simulation:
    """Run one seed: trouble, then quiet, then the settled state is checked."""
    simulation = Simulation(seed)
    names = itertools.count()
    for _ in range(steps):
        simulation.run(simulation.random.choice((0, 10, 300, 2_000, 8_000, 25_000)))
        live = [consumer for consumer in simulation.consumers if consumer.alive]
        action = simulation.random.random()
        if len(live) < 2 or action < 0.3:
            static = simulation.random.random() < 0.4
            Consumer(simulation, f"c{next(names)}", static)
        elif action < 0.45:
            simulation.random.choice(live).die()
        elif action < 0.6:
            simulation.random.choice(live).leave()
        elif action < 0.8:
            chosen = simulation.random.choice(live)
            if chosen.instance_id is not None:
                chosen.restart()
        elif action < 0.9:
            simulation.crash()
        simulation.check()
    simulation.faults = False
    simulation.run(4 * (REBALANCE_MS + SESSION_MS) + REQUEST_TIMEOUT_MS)
    simulation.check_settled()
    return simulation
