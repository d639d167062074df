"""A cluster of pure parts: one tree, a controller core per broker, brokers that do what they are told.

The real core, the real tree model, and what fences and obeys in a real broker; only the brokers' logs are
missing. Nothing happens by itself: the test says who acts next, so every order of events can be tried.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import msgspec

from broker.controller.command_queue import CommandQueue
from broker.controller.controller_config import ControllerConfig
from broker.controller.core import ControllerCore
from broker.controller.effects import (
    Answer,
    Commit,
    Connect,
    Effect,
    ListChildren,
    Note,
    Read,
    Resign,
    Send,
    Unwatch,
    Watch,
)
from broker.controller.events import Answered, Changed, Elected, Event, Resigned
from broker.metadata.znode_paths import (
    CONFIG_CHANGE_PREFIX,
    CONTROLLER,
    CONTROLLER_EPOCH,
    ISR_CHANGE_PREFIX,
    PERSISTENT_PATHS,
    broker_path,
    state_path,
    topic_config_path,
    topic_path,
)
from broker.metadata.znodes import (
    PartitionState,
    Registration,
    TopicNode,
    decode_state,
    decode_topic,
    encode_config,
    encode_config_change,
    encode_controller,
    encode_partitions,
    encode_registration,
    encode_state,
)
from contracts.tree import Create, Delete, Op, SetData, TreeConflict
from contracts.tree import Node as TreeNode
from runtime.tree.pure import Change, PureTree
from tests.unit.controller.brokers import Key, PureBroker, Role


@dataclass
class Node:
    """A broker's controller: its core, the events that wait for it, what it has to deliver."""

    core: ControllerCore
    events: deque[Event] = field(default_factory=deque)
    watches: dict[str, None] = field(default_factory=dict)
    """In the order they were set."""
    queues: dict[int, CommandQueue] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)
    steps: Any = None
    """The handler under way."""
    result: Any = None
    answers: dict[int, Any] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    has_resigned: bool = False


class World:
    """Tests drive it by `run`, or by the finer steps."""

    def __init__(self, *broker_ids: int, racks: dict[int, str] | None = None, **config: Any) -> None:
        self.tree = PureTree()
        self.config = ControllerConfig(**config)
        self.now_ms = 0
        self.brokers = {broker_id: PureBroker(broker_id) for broker_id in broker_ids}
        self.nodes: dict[int, Node] = {}
        self.controller_id: int | None = None
        self.racks = racks or {}
        self.trace: list[tuple[int, Effect]] = []
        self.drawn = 0
        self.draw: Callable[[int], int] = lambda _below: 0
        self._sessions = 0
        self.leaders_seen: dict[tuple[UUID, int, int], int] = {}
        """(topic id, partition, leader epoch) -> leader: SingleLeaderPerEpoch over all time."""
        self.commit(0, [Create(path) for path in PERSISTENT_PATHS])
        self.commit(0, [Create(CONTROLLER_EPOCH, b"0")])

    # -- the tree ----------------------------------------------------------------------------------------

    def commit(self, session: int, ops: list[Op], *, by_controller: bool = False) -> Any:
        before = {op.path: self.tree.get(op.path) for op in ops if op.path.endswith("/state")}
        applied = self.tree.commit(session, ops)
        for path, node in before.items():
            self._check_transition(path, node, by_controller=by_controller)
        self._notify(applied.changes)
        return applied.results

    def _check_transition(self, path: str, before: TreeNode | None, *, by_controller: bool) -> None:
        """What may become of a partition's state: committed records are only in the ISR."""
        after = self.tree.get(path)
        if after is None:
            return
        new = decode_state(after.data)
        assert new.isr and len(set(new.isr)) == len(new.isr), f"{path}: {new}"
        assert new.leader < 0 or new.leader in new.isr, f"{path}: {new}"
        if before is None or not by_controller:
            return
        old = decode_state(before.data)
        assert new.leader_epoch == old.leader_epoch + 1, f"{path}: {old} -> {new}"
        if not new.leader_recovery_state:
            assert set(new.isr) <= set(old.isr), f"{path}: only a leader takes replicas in: {old} -> {new}"

    def _notify(self, changes: tuple[Change, ...]) -> None:
        for node in self.nodes.values():
            for change in changes:
                if f"{change.kind.value} {change.path}" in node.watches:
                    event = Changed(change.path)
                    if event not in node.events:
                        node.events.append(event)

    def write(self, path: str, data: bytes) -> None:
        """As a tool does."""
        exists = self.tree.get(path) is not None
        self.commit(0, [SetData(path, data) if exists else Create(path, data)])

    def configure(self, topic: str, **configs: str) -> None:
        """As a broker does that was asked to."""
        self.write(topic_config_path(topic), encode_config(configs))
        notice = encode_config_change(f"topics/{topic}")
        self.commit(0, [Create(CONFIG_CHANGE_PREFIX, notice, sequential=True)])

    def state(self, topic: str, partition: int) -> PartitionState:
        node = self.tree.get(state_path(topic, partition))
        assert node is not None, f"{topic}-{partition} has no state"
        return decode_state(node.data)

    def topic(self, name: str) -> TopicNode | None:
        node = self.tree.get(topic_path(name))
        return None if node is None else decode_topic(node.data)

    # -- brokers -----------------------------------------------------------------------------------------

    def start(self, broker_id: int, *, unclean: bool = False) -> None:
        """Start a broker and register it."""
        broker = self.brokers[broker_id]
        assert not broker.is_alive
        self._sessions += 1
        broker.session = self._sessions
        registration = Registration(
            host=f"host{broker_id}", port=9092, rack=self.racks.get(broker_id), is_unclean=unclean
        )
        self.nodes[broker_id] = Node(ControllerCore(broker_id, self.config, self._draw, self._draw_id))
        path = broker_path(broker_id)
        self.commit(broker.session, [Create(path, encode_registration(registration), ephemeral=True)])
        registered = self.tree.get(path)
        assert registered is not None
        broker.registered(registered.stat.czxid)

    def _draw(self, below: int) -> int:
        return self.draw(below) % below

    def _draw_id(self) -> UUID:
        self.drawn += 1
        return UUID(int=self.drawn)

    def crash(self, broker_id: int) -> None:
        """The process dies and its session expires."""
        broker = self.brokers[broker_id]
        session = broker.session
        broker.crash()
        del self.nodes[broker_id]
        if self.controller_id == broker_id:
            self.controller_id = None
        self._notify(self.tree.expire(session).changes)

    def shrink(self, topic: str, partition: int, *isr: int) -> None:
        """The leader writes another ISR."""
        self._write_isr(topic, partition, isr)

    def _write_isr(self, topic: str, partition: int, isr: tuple[int, ...]) -> None:
        path = state_path(topic, partition)
        node = self.tree.get(path)
        assert node is not None
        state = msgspec.structs.replace(decode_state(node.data), isr=isr)
        self.commit(0, [SetData(path, encode_state(state), node.stat.version)])
        self.commit(0, [Create(ISR_CHANGE_PREFIX, encode_partitions([(topic, partition)]), sequential=True)])

    def catch_up(self) -> bool:
        """Every leader that is one takes every live follower that was told of it into its ISR."""
        changed = False
        for broker in self.brokers.values():
            for key, role in list(broker.roles.items()):
                node = self.tree.get(state_path(*key))
                if role.leader != broker.broker_id or node is None or not broker.is_alive:
                    continue
                state = decode_state(node.data)
                if state.leader != broker.broker_id or state.leader_epoch != role.leader_epoch:
                    continue
                caught_up = [
                    each
                    for each in role.replicas
                    if self._may_join(broker, each) and self._follows(each, key, role)
                ]
                isr = tuple(dict.fromkeys((*state.isr, *caught_up)))
                if isr != state.isr:
                    self._write_isr(*key, isr)
                    changed = True
        return changed

    def _may_join(self, leader: PureBroker, follower_id: int) -> bool:
        return follower_id == leader.broker_id or leader.may_join_isr(self.brokers[follower_id])

    def _follows(self, broker_id: int, key: Key, role: Role) -> bool:
        broker = self.brokers[broker_id]
        known = broker.role(key)
        return broker.is_alive and known is not None and known.leader_epoch == role.leader_epoch

    # -- controllers -------------------------------------------------------------------------------------

    def elect(self, broker_id: int) -> None:
        """Give the office to a broker."""
        assert self.controller_id is None, "there is a controller"
        epoch_node = self.tree.get(CONTROLLER_EPOCH)
        assert epoch_node is not None
        epoch = int(epoch_node.data) + 1
        self.commit(
            self.brokers[broker_id].session,
            [
                Create(CONTROLLER, encode_controller(broker_id, 0), ephemeral=True),
                SetData(CONTROLLER_EPOCH, str(epoch).encode(), epoch_node.stat.version),
            ],
        )
        self.controller_id = broker_id
        self.post(Elected(epoch, epoch_node.stat.version + 1), broker_id)

    @property
    def controller(self) -> Node:
        assert self.controller_id is not None, "there is no controller"
        return self.nodes[self.controller_id]

    def post(self, event: Event, broker_id: int | None = None) -> None:
        """An event for a controller."""
        node = self.controller if broker_id is None else self.nodes[broker_id]
        node.events.append(event)

    def step(self, broker_id: int) -> bool:
        """One effect of a broker's controller; False: it has nothing to do."""
        node = self.nodes[broker_id]
        if node.steps is None:
            if not node.events:
                return False
            node.steps = node.core.handle(node.events.popleft(), self.now_ms)
            node.result = None
        try:
            effect = node.steps.send(node.result)
        except StopIteration:
            node.steps = None
            return True
        self.trace.append((broker_id, effect))
        node.result = self._carry_out(broker_id, node, effect)
        return True

    def _carry_out(self, broker_id: int, node: Node, effect: Effect) -> Any:
        match effect:
            case Read(paths):
                return [self.tree.get(path) for path in paths]
            case ListChildren(paths):
                return [self.tree.children(path) for path in paths]
            case Commit(batches):
                return [self._try(self.brokers[broker_id].session, list(batch)) for batch in batches]
            case Send(to, request):
                if node.epochs.get(to) == request.broker_epoch:
                    node.queues[to].push(request)
            case Connect(brokers):
                epochs = {each.broker_id: each.broker_epoch for each in brokers}
                node.queues = {
                    each: node.queues[each] if node.epochs.get(each) == epoch else CommandQueue()
                    for each, epoch in epochs.items()
                }
                node.epochs = epochs
            case Watch(kind, path):
                node.watches[f"{kind.value} {path}"] = None
            case Unwatch(path):
                node.watches.pop(f"data {path}", None)
            case Answer(call_id, result):
                node.answers[call_id] = result
            case Resign():
                node.has_resigned = True
                node.events.clear()
            case Note():
                node.notes.append(effect)
        return None

    def _try(self, session: int, batch: list[Op]) -> Any:
        try:
            return self.commit(session, batch, by_controller=True)
        except TreeConflict as conflict:
            return conflict

    def deliver(self, controller_id: int, to: int) -> bool:
        """Deliver one command; False: none waits, or the broker is not there."""
        node = self.nodes.get(controller_id)
        if node is None or to not in node.queues or not node.queues[to] or not self.brokers[to].is_alive:
            return False
        command = node.queues[to].pop()
        response = self.brokers[to].carry_out(command)
        self.check(f"broker {to} carried out {type(command).__name__}")
        node.events.append(Answered(to, command, response))
        return True

    def oust(self) -> None:
        """An operator deletes /controller: the old controller goes on until it hears, or is refused."""
        self.commit(0, [Delete(CONTROLLER)])
        self.controller_id = None

    def deposed(self, broker_id: int) -> None:
        """The broker hears that it is no controller any more."""
        node = self.nodes[broker_id]
        if node.steps is not None:
            node.steps.close()
            node.steps = None
        node.events.clear()
        node.watches.clear()
        node.queues.clear()
        node.epochs.clear()
        for _ in node.core.handle(Resigned(), self.now_ms):
            raise AssertionError("resigning has no effects")

    # -- all of it ---------------------------------------------------------------------------------------

    def actions(self) -> Iterator[Callable[[], bool]]:
        """Everything that could happen next by itself."""
        for broker_id, node in list(self.nodes.items()):
            if node.steps is not None or node.events:
                yield lambda broker_id=broker_id: self.step(broker_id)  # type: ignore[misc]
            for to, queue in list(node.queues.items()):
                if queue and self.brokers[to].is_alive:
                    yield lambda broker_id=broker_id, to=to: self.deliver(broker_id, to)  # type: ignore[misc]

    def run(self, *, catching_up: bool = False) -> None:
        """Until nothing is left to do."""
        for _ in range(100_000):
            action = next(self.actions(), None)
            if action is not None:
                action()
            elif not (catching_up and self.catch_up()):
                return
        raise AssertionError("the cluster does not come to rest")

    def call(self, event: Any) -> Any:
        """Post a call of the API, run, and return its answer."""
        self.post(event)
        self.run()
        return self.controller.answers.pop(event.call_id)

    def check(self, where: str) -> None:
        """SingleLeaderPerEpoch: of each leader epoch there was never but one leader."""
        for broker in self.brokers.values():
            for key, role in broker.roles.items():
                if role.leader < 0:
                    continue
                epoch = (role.topic_id, role.partition, role.leader_epoch)
                first = self.leaders_seen.setdefault(epoch, role.leader)
                assert first == role.leader, (
                    f"{where}: {key} epoch {role.leader_epoch}: {first}, {role.leader}"
                )
