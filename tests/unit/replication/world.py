"""A cluster in one process: real logs, replica managers, sessions and fetchers. Messages, clock and
controller are the test's."""

import random
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker.log.log_config import LogConfig
from broker.log.payload import records_of
from broker.log.results import AppendOrigin
from broker.replication.host import IsrChange
from broker.replication.partition import Partition
from broker.replication.replicas import Replicas
from broker.replication.sessions import ReplicaSessions
from broker.replication.throttle import FOLLOWER, LEADER, ReplicationThrottle
from broker.replicator.fetcher import Fetcher
from broker.replicator.manager import ReplicaManager
from broker.replicator.replica_fetch import ReplicaFetches
from broker.requests.login import PeerBroker
from broker.storage.manager import LogManager
from contracts.cluster import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LiveBroker,
)
from tests.unit.replication.steps import carried_out
from wire.batch import Record, build_batch, iterate_batches
from wire.codec import decode, framed_response, parse_request_header, request_class
from wire.hot.fetch import scan_fetch

TOPIC = "orders"
TOPIC_ID = UUID(int=7)
LAG_MAX_MS = 1_000
CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=100, min_insync_replicas=2)


class Call:
    """One request at a leader."""

    def __init__(self, node: "Node", follower: int, frame: bytes, answer: Callable[[bytes], None]) -> None:
        self.request = memoryview(bytearray(frame[4:]))
        self.api_version = int.from_bytes(self.request[2:4], "big")
        self.header = parse_request_header(self.request, self.api_version >= 12)
        self.received_at_ms = node.world.now_ms
        self.done = self.is_gone = False
        self.connection_id = follower
        self.channel: Any = None
        self._answer = answer

    def reply_parts(self, parts: list[Any]) -> None:
        assert not self.done
        self.done = True
        self._answer(b"".join(bytes(p) if not hasattr(p, "read") else p.read() for p in parts))

    def reply(self, entity: Any) -> None:
        self.reply_parts([framed_response(entity, self.header.correlation_id)])


@dataclass
class Pipe:
    """From a follower to a leader: requests and answers, each in order."""

    fetcher: Fetcher
    requests: deque[bytes] = field(default_factory=deque)
    answers: deque[bytes] = field(default_factory=deque)
    kinds: deque[bool] = field(default_factory=deque)
    waits: Callable[[], None] | None = None


def _raise_again(_channel: object, _api_key: int) -> NoReturn:
    raise


class Node:
    """One broker. Has what the handlers name."""

    def __init__(self, world: "World", node_id: int) -> None:
        self.world = world
        self.node_id = node_id
        self.is_up = False
        self.pipes: dict[int, Pipe] = {}
        self.timers: list[tuple[int, Callable[[], None]]] = []

    def start(self) -> None:
        self.is_up = True
        world = self.world
        self.logs = LogManager([world.directory / str(self.node_id)], cluster_id="test", node_id=0)
        self.logs.load(lambda _: CONFIG, 1)
        self.metadata = world.cluster
        self.replicas = Replicas(self.node_id, world.cluster, LAG_MAX_MS)
        self.replica_manager = ReplicaManager(
            self.replicas,
            self.logs,
            configs_of=world.cluster.configs,
            log_config=lambda _topic, _layer: CONFIG,
            now_ms=self.now_ms,
            epoch_ms=lambda: 1_700_000_000_000 + world.now_ms,
        )
        self.replica_manager.followers = self
        self.replica_sessions = ReplicaSessions(iter(range(1, 10**6)).__next__, self._left)
        sessions = self.replica_sessions
        self.fetches = ReplicaFetches(
            replicas=self.replicas,
            sessions=sessions,
            throttle=ReplicationThrottle(self.node_id, world.cluster, LEADER),
            broker_of=world.cluster.brokers.get,
            bytes_max=10**6,
            sendfile_bytes_min=1,
            now_ms=self.now_ms,
            call_soon=lambda call, *args: world.soon.append(lambda: call(*args)),
            call_later=self.call_later,
            answered=lambda _ns: None,
            storage_failed=self.storage_failed,
            handler_failed=_raise_again,
        )
        self.follower_throttle = ReplicationThrottle(self.node_id, world.cluster, FOLLOWER)
        self.replicas.on_appended(lambda partition: sessions.moved(partition.key))
        self.replicas.on_committed(lambda partition, _: sessions.noted(partition.key))
        self.replicas.on_leadership(lambda partition, _: sessions.moved(partition.key))
        self.replicas.on_isr_proposed(
            lambda partition, change: world.proposals.append((self, partition, change))
        )
        self.leader_of: dict[tuple[str, int], int] = {}

    def _left(self, link: Any, key: tuple[str, int], gives_up: bool) -> None:
        partition = self.replicas.hosted(*key)
        if partition is not None:
            partition.replica_left(link, gives_up=gives_up)

    def now_ms(self) -> int:
        return self.world.now_ms

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Any:
        timer = (self.world.now_ms + delay_ms, callback)
        self.timers.append(timer)

        def cancel() -> None:
            if timer in self.timers:
                self.timers.remove(timer)

        return SimpleNamespace(cancel=cancel)

    def storage_failed(self, what: str, error: Exception) -> None:
        raise AssertionError((what, error))

    @property
    def partition(self) -> Partition:
        found = self.replicas.hosted(TOPIC, 0)
        assert found is not None
        return found

    # -- Followers

    def follow(self, partition: Partition, leader: LiveBroker) -> None:
        before = self.leader_of.get(partition.key)
        if before is not None and before != leader.broker_id:
            self.unfollow(partition)
        self.leader_of[partition.key] = leader.broker_id
        if leader.broker_id not in self.pipes:
            fetcher = Fetcher(
                self.node_id,
                now_ms=self.now_ms,
                epoch_ms=self.now_ms,
                storage_failed=self.storage_failed,
                throttle=self.follower_throttle,
            )
            self.pipes[leader.broker_id] = Pipe(fetcher)
        self.pipes[leader.broker_id].fetcher.follow(partition)

    def follows(self, partition: Partition) -> bool:
        return partition.key in self.leader_of

    def unfollow(self, partition: Partition) -> None:
        leader_id = self.leader_of.pop(partition.key, None)
        if leader_id is not None:
            self.pipes[leader_id].fetcher.unfollow(partition.key)

    def close_idle(self) -> None:
        for leader_id, pipe in list(self.pipes.items()):
            if not pipe.fetcher:
                self.disconnect(leader_id)
                del self.pipes[leader_id]

    def disconnect(self, leader_id: int) -> None:
        """The connection to a leader breaks."""
        pipe = self.pipes.get(leader_id)
        if pipe is not None:
            self.pipes[leader_id] = Pipe(pipe.fetcher)
            pipe.fetcher.reconnected()
        leader = self.world.nodes[leader_id]
        if leader.is_up:
            leader.replica_sessions.connection_closed(self.node_id)

    # -- the end

    def kill(self) -> None:
        """kill -9: files stay as they are."""
        self.is_up = False
        for leader_id in list(self.pipes):
            self.disconnect(leader_id)
        self.pipes.clear()
        self.timers.clear()
        for other in self.world.nodes.values():
            if other.is_up:
                other.disconnect(self.node_id) if self.node_id in other.pipes else None
        self.logs.close(clean=False)

    def checkpoint(self) -> None:
        """Flush, and write the offset checkpoints."""
        flush_round = self.logs.begin_flush(2**60)
        if flush_round is not None:
            flush_round.run()
            assert self.logs.complete_flush(flush_round) == []
        job = self.logs.begin_checkpoint()
        if job is not None:
            job.run()
            self.logs.complete_checkpoint(job)

    def contents(self) -> list[tuple[int, int, bytes]]:
        """(offset, leader epoch, value) of every record."""
        log = self.partition.log
        found = []
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            piece = log.reading.read_bytes(offset, 10**6, up_to=log.log_end_offset, min_one_batch=True)
            view = memoryview(piece)
            for at, header in iterate_batches(view):
                batch = view[at : at + header.size_bytes]
                for record in records_of(batch, header):
                    if record.offset >= offset:
                        found.append((record.offset, header.partition_leader_epoch, record.value or b""))
                next_offset = header.next_offset
            offset = next_offset
        return found


@dataclass
class State:
    """The partition's state node."""

    leader: int = -1
    leader_epoch: int = -1
    isr: tuple[int, ...] = ()
    version: int = -1


class Cluster:
    """The metadata that every node sees."""

    def __init__(self, state: Callable[[], State]) -> None:
        self.brokers: dict[int, LiveBroker] = {}
        self.broker_configs: Mapping[str, Mapping[str, str]] = {}
        self.topic_configs: Mapping[str, str] = {}
        self._state = state

    def partition(self, name: str, index: int) -> Any:
        return SimpleNamespace(isr=self._state().isr) if (name, index) == (TOPIC, 0) else None

    def configs(self, name: str) -> Mapping[str, str]:
        return self.topic_configs

    def may_join_isr(self, broker_id: int, broker_epoch: int) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.broker_epoch == broker_epoch


class World:
    """Nodes 1..count, one partition on all of them."""

    def __init__(self, directory: Path, count: int = 3) -> None:
        self.directory = directory
        self.now_ms = 10_000
        self.cluster = Cluster(lambda: self.state)
        self.soon: deque[Callable[[], None]] = deque()
        self.proposals: deque[tuple[Node, Partition, IsrChange]] = deque()
        self.commands: dict[int, deque[LeaderAndIsrRequest]] = {}
        self.state = State()
        self.epochs = 100
        self.nodes = {node_id: Node(self, node_id) for node_id in range(1, count + 1)}
        for node in self.nodes.values():
            self.start(node.node_id)

    @property
    def replicas(self) -> tuple[int, ...]:
        return tuple(self.nodes)

    def start(self, node_id: int) -> None:
        """Start a node and register it."""
        self.epochs += 1
        self.cluster.brokers[node_id] = LiveBroker(
            broker_id=node_id, host="h", port=1, broker_epoch=self.epochs
        )
        self.commands[node_id] = deque()
        self.nodes[node_id].start()
        if self.state.leader == -1 and node_id in self.state.isr:
            self.decide(node_id, self.state.isr)
        elif self.state.version >= 0:
            self.command(node_id)

    def kill(self, node_id: int) -> None:
        """Kill a node; the controller sees it at once: another leads, and it leaves the ISR."""
        self.nodes[node_id].kill()
        self.proposals = deque(each for each in self.proposals if each[0].node_id != node_id)
        del self.cluster.brokers[node_id]
        self.commands[node_id].clear()
        isr = tuple(each for each in self.state.isr if each != node_id)
        if self.state.leader == node_id:
            live = [each for each in isr if self.nodes[each].is_up]
            self.decide(live[0] if live else -1, isr or self.state.isr)
        elif isr != self.state.isr and isr:
            self.decide(self.state.leader, isr)

    def decide(self, leader: int, isr: tuple[int, ...]) -> None:
        """The controller writes a new leader epoch and tells everyone."""
        state = self.state
        self.state = State(leader, state.leader_epoch + 1, isr, state.version + 1)
        for node_id in self.nodes:
            self.command(node_id)

    def command(self, node_id: int) -> None:
        state = self.state
        self.commands[node_id].append(
            LeaderAndIsrRequest(
                controller_id=0,
                controller_epoch=1,
                broker_epoch=0,
                partition_states=(
                    LeaderAndIsrPartitionState(
                        topic=TOPIC,
                        topic_id=TOPIC_ID,
                        partition=0,
                        controller_epoch=1,
                        leader=state.leader,
                        leader_epoch=state.leader_epoch,
                        isr=state.isr,
                        partition_epoch=state.version,
                        replicas=self.replicas,
                    ),
                ),
                live_brokers=tuple(self.cluster.brokers.values()),
            )
        )

    def elect(self, leader: int) -> None:
        """Make a leader and let everyone hear of it."""
        self.decide(leader, self.state.isr or self.replicas)
        self.settle()

    # -- one step at a time

    def deliver_command(self, node_id: int) -> bool:
        if not self.commands[node_id] or not self.nodes[node_id].is_up:
            return False
        response = carried_out(
            self.nodes[node_id].replica_manager.leader_and_isr(self.commands[node_id].popleft())
        )
        assert response.error_code == 0
        return True

    def ask(self, node_id: int, leader_id: int) -> bool:
        """A follower sends its next request."""
        pipe = self.nodes[node_id].pipes.get(leader_id)
        if pipe is None or pipe.kinds:
            return False
        asked = pipe.fetcher.next_request()
        if asked is None:
            return False
        pipe.requests.append(asked[0])
        pipe.kinds.append(asked[1])
        return True

    def serve(self, node_id: int, leader_id: int) -> bool:
        """The leader receives a request."""
        pipe, leader = self.nodes[node_id].pipes.get(leader_id), self.nodes[leader_id]
        if pipe is None or not pipe.requests or not leader.is_up:
            return False
        call = Call(leader, node_id, pipe.requests.popleft(), pipe.answers.append)
        if call.header.api_key == 1:
            scan = scan_fetch(call.request, call.header.body_at, call.api_version)
            peer = PeerBroker(node_id, self.cluster.brokers[node_id].broker_epoch)
            leader.fetches.begin(call, scan, peer)  # type: ignore[arg-type]
        else:
            from broker.handlers import offset_for_leader_epoch

            call.request = decode(
                request_class(23, call.api_version), bytes(call.request), call.header.body_at
            )
            offset_for_leader_epoch.handle(call, leader)  # type: ignore[arg-type]
        return True

    def take_answer(self, node_id: int, leader_id: int) -> bool:
        """The follower receives an answer."""
        pipe = self.nodes[node_id].pipes.get(leader_id)
        if pipe is None or not pipe.answers:
            return False
        frame = memoryview(bytearray(pipe.answers.popleft()))[4:]
        if pipe.kinds.popleft():
            pipe.fetcher.epochs_answered(frame)
        elif not pipe.fetcher.fetch_answered(frame):
            self.nodes[node_id].disconnect(leader_id)
        return True

    def write_isr(self) -> bool:
        """The tree decides about the oldest ISR change, and the leader hears of it."""
        if not self.proposals:
            return False
        _, partition, change = self.proposals.popleft()
        state = self.state
        if change.partition_epoch == state.version:
            self.state = State(state.leader, state.leader_epoch, change.isr, state.version + 1)
            partition.isr_written(change, state.version + 1)
        else:
            partition.isr_refused(change, (state.leader, state.leader_epoch, state.isr), state.version)
        return True

    def run_soon(self) -> bool:
        if not self.soon:
            return False
        self.soon.popleft()()
        return True

    def tick(self, passed_ms: int) -> None:
        """Time passes; timers that are due run."""
        self.now_ms += passed_ms
        for node in self.nodes.values():
            if node.is_up:
                for timer in [each for each in node.timers if each[0] <= self.now_ms]:
                    node.timers.remove(timer)
                    timer[1]()
                node.replica_manager.review_isrs()

    def steps(self) -> list[Callable[[], bool]]:
        """Everything that may happen next."""
        found: list[Callable[[], bool]] = [self.run_soon, self.write_isr]
        for node_id in self.nodes:
            found.append(lambda node_id=node_id: self.deliver_command(node_id))  # type: ignore[misc]
            for other in self.nodes:
                if other != node_id:
                    for step in (self.ask, self.serve, self.take_answer):
                        found.append(lambda s=step, n=node_id, o=other: s(n, o))  # type: ignore[misc]
        return found

    def settle(self, rounds: int = 40) -> None:
        """Let everything happen that happens by itself, and time pass."""
        for _ in range(rounds):
            while sum(step() for step in self.steps()):
                pass
            self.tick(25)

    def shuffle(self, chooser: random.Random, count: int) -> None:
        """Let `count` things happen in any order."""
        for _ in range(count):
            steps = self.steps()
            chooser.shuffle(steps)
            if not any(step() for step in steps):
                self.tick(25)

    # -- clients

    def append(self, value: str, acks: int = -1) -> "Produced":
        """Produce one record at whoever believes to lead, as a client would find it."""
        produced = Produced(value)
        node = self.nodes.get(self.state.leader)
        if node is None or not node.is_up or node.replicas.hosted(TOPIC, 0) is None:
            return produced
        produced.send(node, acks)
        return produced


class Produced:
    """A record on its way."""

    def __init__(self, value: str) -> None:
        self.value = value.encode()
        self.offset = -1
        self.error: ErrorCode | None = None

    def send(self, node: Node, acks: int) -> None:
        batch = build_batch([Record(0, 1_700_000_000_000, b"k", self.value)])
        from broker.log.errors import LogError

        try:
            result = node.partition.append(
                batch, now_ms=1_700_000_000_000, origin=AppendOrigin.CLIENT, acks=acks
            )
        except LogError as error:
            self.error = error.error_code
            return
        self.offset = result.base_offset
        if acks == -1:
            node.partition.when_committed(result.last_offset + 1, self._committed)
        else:
            self.error = ErrorCode.none

    def _committed(self, error_code: ErrorCode) -> None:
        assert self.error is None, "told once"
        self.error = error_code

    @property
    def is_acked(self) -> bool:
        return self.error is ErrorCode.none
