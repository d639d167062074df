"""One simulated history: three brokers, a gateway, clients, faults drawn from a seed; and what must hold.

Invariants, by name in what fails:
SingleLeaderPerEpoch: no two brokers ever lead a partition in the same leader epoch.
MonotonicHighWatermark: the latest offset that clients are told never moves back.
ConsistentRead: what a consumer has once read at an offset is what everybody reads there for ever.
AckedIsReadable: a record acknowledged with acks=all is at its offset at the end.
NoDuplicates: an idempotent producer's records are stored once, in order.
NoAbortedRead: a read_committed consumer never gets a record of an aborted transaction.
ConsumerNeverSeesUncommitted: nor one of a transaction whose commit was never asked for.
AllOrNothing: a committed transaction's records are in every partition, once, in order.
LogMatching: at the end all replicas hold the same records below their high watermarks.
Converges: once the faults end, every replica is in its ISR again.
OwnNamesOnly: a tenant behind the gateway is told of no topic but its own.
"""

import asyncio
import contextlib
import gc
import random
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import structlog

from broker.replication.partition import Partition
from runtime.kafka_client import KafkaUnavailable
from tests.memory_tree import MemoryEnsemble
from tests.simulation.client import Client, Producing, Refused, records_of, whole_batches
from tests.simulation.gateway_node import GATEWAY, PHYSICAL, SimulatedGateway, Tenant
from tests.simulation.network import Network
from tests.simulation.node import SimulatedNode
from tests.simulation.transacting import ReadingCommitted, Transacting
from tests.simulation.virtual import NODE, VirtualLoop
from wire.batch import check_crc, iterate_batches

NODES = 3
PARTITIONS = 2
TOPIC = "numbers"
Log = tuple[str, int]
LOGS: Final[list[Log]] = [*((TOPIC, index) for index in range(PARTITIONS)), (PHYSICAL, 0)]
ZOOKEEPER = -1
"""The node id of the ensemble, for cuts."""
FAULT_GAP_S = (0.5, 4.0)
FAULT_S = (0.2, 6.0)
SETTLE_S = 90.0
TRANSACTION_END_S = 30.0
READ_PAUSE_S = 0.3
ASK_PAUSE_S = 0.5
RESTART_S = 0.7
"""The supervisor's."""
_JOURNAL_LINES = 400
_BURIAL_ROUNDS = 5
_COLLECT_SELDOM = (100_000, 50, 100)
"""A history makes much and keeps most of it."""


class Broken(AssertionError):  # noqa: N818 - says what is so
    """An invariant does not hold."""


class World:
    """The cluster, its clients, and the history so far."""

    def __init__(self, seed: int, directory: Path, loop: VirtualLoop) -> None:
        self.seed = seed
        self.events: list[str] = []
        """All that happened: what nodes say, what is done to them, each piece of a stream (`~`)."""
        self._directory = str(directory)
        self.loop = loop
        self.chance = random.Random(seed)
        self.ensemble = MemoryEnsemble()
        self.network = Network(loop, random.Random(self.chance.random()), self.events.append)
        self.nodes = [
            SimulatedNode(
                node_id,
                directory / f"node-{node_id}",
                loop,
                self.ensemble,
                random.Random(self.chance.random()),
                lambda node_id: not self.network.is_cut(node_id, ZOOKEEPER),
                self._ended_by_itself,
                self.network,
                self._leads,
            )
            for node_id in range(1, NODES + 1)
        ]
        self.leaders: dict[tuple[str, int, int], int] = {}
        """(topic, partition, leader epoch) -> the broker that led."""
        self.seen: dict[tuple[Log, int], bytes] = {}
        """(log, offset) -> what a consumer read there."""
        self.latest: dict[int, int] = {}
        self.gateway = SimulatedGateway(
            directory / "gateway",
            loop,
            random.Random(self.chance.random()),
            self.network,
            {node.node_id: node.port for node in self.nodes},
        )
        self.tenant = Tenant(self._tenant_client, random.Random(self.chance.random()))
        self.faults = 0
        self.transactions = 0
        self._last_note = ""
        self._over = False
        self._broken: Broken | None = None

    def note(self, text: str) -> None:
        """A line of the history."""
        if text != self._last_note:
            self.events.append(f"{self.loop.time():9.3f} {text}")
        self._last_note = text

    def journal(self) -> list[str]:
        """The history for people: without the streams."""
        return [event for event in self.events if not event.startswith("~")]

    def log(self, _logger: object, method: str, event: dict[str, Any]) -> str:
        """A structlog processor: what brokers say becomes part of the history."""
        node = NODE.get()
        fields = " ".join(f"{key}={value}" for key, value in event.items() if key not in ("event", "module"))
        self.note(
            f"[{'-' if node is None else node.node_id}] {method}: {event.get('event')} {fields}".replace(
                self._directory, ""
            )
        )
        raise structlog.DropEvent

    def client(self) -> Client:
        ports = [node.port for node in self.nodes]
        return Client(ports, random.Random(self.chance.random()), self.network.of(None))

    def _tenant_client(self, ports: Sequence[int]) -> Client:
        return Client(list(ports), random.Random(self.chance.random()), self.network.of(None), secret=None)

    # -- the history -------------------------------------------------------------------------------------

    async def run(self, seconds: float) -> None:
        """Raises: Broken."""
        for node in self.nodes:
            node.start()
        self.gateway.start()
        await self._create_topic()
        if not await self._until_created():
            raise Broken("Converges: the tenant's topic could not be created")
        producers = [*self._producers(), self.tenant.producing]
        working = [asyncio.create_task(each.run(lambda: self._over)) for each in producers]
        working += [asyncio.create_task(self._read(partition)) for partition in range(PARTITIONS)]
        read = self.tenant.read(lambda: self._over, partial(self._saw, (PHYSICAL, 0)))
        working.append(asyncio.create_task(read))
        transacting, committed = self._transactions()
        working.append(asyncio.create_task(transacting.run(lambda: self._over)))
        saw = self._judge_seen(transacting)
        working += [asyncio.create_task(each.run(lambda: self._over, saw)) for each in committed]
        working += [asyncio.create_task(self._ask_latest(partition)) for partition in range(PARTITIONS)]
        await self._injure(seconds)
        await self._heal()
        self._over = True
        await asyncio.gather(*working)
        await self._settle()
        if self._broken is not None:
            raise self._broken
        await self._judge(producers)
        await self._judge_transactions(transacting, committed, saw)

    def _transactions(self) -> tuple[Transacting, list[ReadingCommitted]]:
        chance = random.Random(self.chance.random())
        readers = [ReadingCommitted(self.client(), TOPIC, partition) for partition in range(PARTITIONS)]
        return Transacting(self.client(), TOPIC, PARTITIONS, chance), readers

    def _judge_seen(self, transacting: Transacting) -> Callable[[int], None]:
        def saw(number: int) -> None:
            if number in transacting.aborted:
                raise Broken(f"NoAbortedRead: transaction {number}")
            if number not in transacting.asked_to_commit:
                raise Broken(f"ConsumerNeverSeesUncommitted: transaction {number}")

        return saw

    async def _judge_transactions(
        self, transacting: Transacting, readers: list[ReadingCommitted], saw: Callable[[int], None]
    ) -> None:
        """By now every transaction has ended, the last one at the latest by its time-out."""
        deadline_s = self.loop.time() + TRANSACTION_END_S
        for reader in readers:
            while not transacting.committed <= set(reader.seen) and self.loop.time() < deadline_s:
                with contextlib.suppress(KafkaUnavailable, Refused):
                    await reader.read(saw)
            if missing := transacting.committed - set(reader.seen):
                raise Broken(f"AllOrNothing: {sorted(missing)[:5]} are not in every partition")
            if reader.seen != sorted(set(reader.seen)):
                raise Broken("AllOrNothing: doubled or out of order")
        self.transactions = len(transacting.committed)

    def _producers(self) -> list[Producing]:
        return [
            Producing(
                self.client(),
                TOPIC,
                partition,
                f"{'once' if idempotent else 'plain'}{partition}",
                random.Random(self.chance.random()),
                idempotent=idempotent,
            )
            for partition in range(PARTITIONS)
            for idempotent in (True, False)
        ]

    async def _create_topic(self) -> None:
        import kio.schema.create_topics.v4.request as create_topics_v4

        from wire.codec import duration

        create: Any = create_topics_v4
        topic = create.CreatableTopic(
            name=TOPIC,
            num_partitions=PARTITIONS,
            replication_factor=3,
            assignments=(),
            configs=(create.CreatableTopicConfig(name="segment.bytes", value="8192"),),
        )
        request = create.CreateTopicsRequest(topics=(topic,), timeout=duration(10_000), validate_only=False)
        client = self.client()
        deadline_s = self.loop.time() + 60
        while self.loop.time() < deadline_s:
            for node in self.nodes:
                with contextlib.suppress(KafkaUnavailable):
                    answer = await client.ask(node.port, request)
                    if int(answer.topics[0].error_code) in (0, 36):
                        return
            await asyncio.sleep(0.2)
        raise Broken("Converges: the topic could not be created")

    async def _until_created(self) -> bool:
        deadline_s = self.loop.time() + 60
        while self.loop.time() < deadline_s:
            if await self.tenant.create_topic():
                return True
            await asyncio.sleep(0.2)
        return False

    # -- clients -----------------------------------------------------------------------------------------

    async def _read(self, partition: int) -> None:
        client, offset = self.client(), 0
        while not self._over:
            try:
                records = await client.fetch(TOPIC, partition, offset)
            except (KafkaUnavailable, Refused):
                client.forget(TOPIC)
                await asyncio.sleep(0.05)
                continue
            for at, value in records:
                self._saw((TOPIC, partition), at, value)
                offset = at + 1
            await asyncio.sleep(READ_PAUSE_S)

    def _saw(self, log: Log, offset: int, value: bytes) -> None:
        known = self.seen.setdefault((log, offset), value)
        if known != value:
            raise Broken(f"ConsistentRead: {log}@{offset} was {known!r} and is {value!r}")

    async def _ask_latest(self, partition: int) -> None:
        client = self.client()
        while not self._over:
            with contextlib.suppress(KafkaUnavailable, Refused):
                latest = await client.latest(TOPIC, partition)
                before = self.latest.get(partition, 0)
                if latest < before:
                    raise Broken(f"MonotonicHighWatermark: partition {partition} was {before}, is {latest}")
                self.latest[partition] = latest
            await asyncio.sleep(ASK_PAUSE_S)

    def _leads(self, node_id: int, partition: Partition, is_leader: bool) -> None:
        """A broker says so, as soon as it does."""
        if is_leader:
            key = (partition.topic, partition.index, partition.leader_epoch)
            leader = self.leaders.setdefault(key, node_id)
            if leader != node_id:
                self._broken = Broken(f"SingleLeaderPerEpoch: {key} by {leader} and {node_id}")

    # -- faults ------------------------------------------------------------------------------------------

    async def _injure(self, seconds: float) -> None:
        end_s = self.loop.time() + seconds
        injuries: list[Callable[[], Any]] = [
            self._kill,
            self._kill,
            self._pause,
            self._cut_pair,
            self._cut_zookeeper,
            self._cut_off,
            self._lose_power,
            self._stop,
            self._break_connections,
            self._jump_clock,
            self._kill_gateway,
            self._cut_gateway,
        ]
        running: set[asyncio.Task[None]] = set()
        while self.loop.time() < end_s:
            await asyncio.sleep(self.chance.uniform(*FAULT_GAP_S))
            running = {task for task in running if not task.done()}
            if len(running) < 2:
                injury = self.chance.choice(injuries)
                running.add(asyncio.create_task(injury()))
                self.faults += 1
        if running:
            await asyncio.wait(running)
        for task in running:
            task.result()

    def _some(self, condition: Callable[[SimulatedNode], bool]) -> SimulatedNode | None:
        found = [node for node in self.nodes if condition(node)]
        return self.chance.choice(found) if found else None

    def _length_s(self) -> float:
        return self.chance.uniform(*FAULT_S)

    async def _kill(self) -> None:
        node = self._some(lambda node: node.is_up and not node.state.is_paused)
        if node is not None:
            self.note(f"kill -9 of {node.node_id}")
            self._end(node, node.kill)
            await asyncio.sleep(self._length_s())
            self._begin(node)

    async def _lose_power(self) -> None:
        """Only when nothing else is wrong: that a record survives on one disk is promised for one failure."""
        node = self._some(lambda node: node.serves)
        if node is None or not self._is_whole():
            return
        lost: list[int] = []
        self._end(node, lambda: lost.append(node.lose_power()))
        self.note(f"power of {node.node_id} is cut, {lost[0]} bytes lost")
        await asyncio.sleep(self._length_s())
        self._begin(node)
        await self._until(self._is_whole, 60.0)

    async def _stop(self) -> None:
        node = self._some(lambda node: node.serves)
        if node is None:
            return
        self.note(f"SIGTERM of {node.node_id}")
        await node.stop()
        self.network.close_all_of(node.node_id)
        await asyncio.sleep(self._length_s())
        self._begin(node)

    def _end(self, node: SimulatedNode, how: Callable[[], object]) -> None:
        how()
        self.network.close_all_of(node.node_id)

    def _begin(self, node: SimulatedNode) -> None:
        if not node.is_up:
            self.note(f"start of {node.node_id}")
            node.start()

    def _ended_by_itself(self, node: SimulatedNode) -> None:
        self.note(f"{node.node_id} ended: {node.faults[-1]}")
        self.network.close_all_of(node.node_id)
        self.loop.call_later(RESTART_S, self._begin, node)

    async def _pause(self) -> None:
        node = self._some(lambda node: node.serves)
        if node is not None:
            self.note(f"pause of {node.node_id}")
            node.pause()
            await asyncio.sleep(self._length_s())
            self.note(f"{node.node_id} goes on")
            node.resume()

    async def _cut_pair(self) -> None:
        one, other = self.chance.sample(self.nodes, 2)
        self.note(f"cut {one.node_id} | {other.node_id}")
        self.network.cut(one.node_id, other.node_id)
        await asyncio.sleep(self._length_s())
        self._mend()

    async def _kill_gateway(self) -> None:
        if self.gateway.is_up:
            self.note("kill -9 of the gateway")
            self.gateway.kill()
            await asyncio.sleep(self._length_s() / 2)
            self.note("start of the gateway")
            self.gateway.start()

    async def _cut_gateway(self) -> None:
        node = self.chance.choice(self.nodes)
        self.note(f"cut the gateway | {node.node_id}")
        self.network.cut(GATEWAY, node.node_id)
        await asyncio.sleep(self._length_s())
        self._mend()

    async def _cut_zookeeper(self) -> None:
        node = self.chance.choice(self.nodes)
        self.note(f"cut {node.node_id} | ZooKeeper")
        self.network.cut(node.node_id, ZOOKEEPER)
        await asyncio.sleep(self._length_s())
        self._mend()

    async def _cut_off(self) -> None:
        node = self.chance.choice(self.nodes)
        self.note(f"cut {node.node_id} off from brokers and ZooKeeper, not from clients")
        for other in [each.node_id for each in self.nodes if each is not node] + [ZOOKEEPER]:
            self.network.cut(node.node_id, other)
        await asyncio.sleep(self._length_s())
        self._mend()

    def _mend(self) -> None:
        self.note("all cuts are mended")
        self.network.heal()

    async def _break_connections(self) -> None:
        for _ in range(self.chance.randint(1, 8)):
            self.network.break_one()
            await asyncio.sleep(0.05)

    async def _jump_clock(self) -> None:
        node = self.chance.choice(self.nodes)
        node.clock_skew_ms = self.chance.randint(-120_000, 120_000)
        node.state.clock_skew_ms = node.clock_skew_ms
        self.note(f"clock of {node.node_id} jumps by {node.clock_skew_ms} ms")

    # -- the end -----------------------------------------------------------------------------------------

    async def _heal(self) -> None:
        self._mend()
        for node in self.nodes:
            if node.state.is_paused:
                node.resume()
            if not node.is_up:
                self._begin(node)
        self.note("no more faults")

    def _is_whole(self) -> bool:
        if not all(node.serves for node in self.nodes):
            return False
        partitions = [each for node in self.nodes if node.broker for each in node.broker.replicas]
        led = {each.key: each for each in partitions if each.is_leader}
        wanted = set(LOGS)
        return (
            self.gateway.is_up
            and wanted <= led.keys()
            and all(
                len(each.isr) == NODES and each.pending_isr is None
                for key, each in led.items()
                if key in wanted
            )
        )

    async def _until(self, condition: Callable[[], bool], within_s: float) -> bool:
        deadline_s = self.loop.time() + within_s
        while not condition():
            if self.loop.time() > deadline_s:
                return False
            await asyncio.sleep(0.1)
        return True

    async def _settle(self) -> None:
        if not await self._until(self._is_whole, SETTLE_S):
            states = [(node.node_id, node.serves, node.faults) for node in self.nodes]
            raise Broken(f"Converges: not after {SETTLE_S} s: {states}")
        await asyncio.sleep(1.5)

    async def _judge(self, producers: list[Producing]) -> None:
        if names := await self.tenant.strange_names():
            raise Broken(f"OwnNamesOnly: the tenant is told of {names}")
        stored = {log: self._replicated(*log) for log in LOGS}
        for producer in producers:
            held = stored[PHYSICAL if producer is self.tenant.producing else TOPIC, producer.partition]
            for offset, value in producer.acknowledged:
                if held.get(offset) != value:
                    raise Broken(f"AckedIsReadable: {value!r} at {offset} is {held.get(offset)!r}")
        for (log, offset), value in self.seen.items():
            if stored[log].get(offset) != value:
                raise Broken(f"ConsistentRead: {log}@{offset} was {value!r}")
        for log, held in stored.items():
            numbers = [
                int(value.partition(b":")[2])
                for _, value in sorted(held.items())
                if value.startswith(b"once")
            ]
            if numbers != sorted(set(numbers)):
                raise Broken(f"NoDuplicates: {log}")

    def _replicated(self, topic: str, partition: int) -> dict[int, bytes]:
        """What all replicas hold below the lowest high watermark. Raises: Broken."""
        copies: dict[int, tuple[int, dict[int, bytes]]] = {}
        for node in self.nodes:
            assert node.broker is not None
            each = node.broker.replicas.hosted(topic, partition)
            assert each is not None
            copies[node.node_id] = (each.high_watermark, _content(each))
        longest = max(copies.values(), key=lambda copy: copy[0])
        for node_id, (high_watermark, content) in copies.items():
            below = {offset: value for offset, value in longest[1].items() if offset < high_watermark}
            own = {offset: value for offset, value in content.items() if offset < high_watermark}
            if own != below:
                differing = sorted(set(own.items()) ^ set(below.items()))[:6]
                raise Broken(f"LogMatching: {topic}-{partition} on node {node_id}: {differing}")
        return longest[1]


def _content(partition: Any) -> dict[int, bytes]:
    log = partition.log
    found: dict[int, bytes] = {}
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        piece = log.reading.read_bytes(offset, 1 << 20, up_to=log.log_end_offset, min_one_batch=True)
        for at, header in iterate_batches(whole_batches(memoryview(piece))):
            check_crc(piece, at, header)
            offset = header.next_offset
        found.update(records_of(piece))
    return found


def memory_directory() -> Path:
    """In memory where there is room: thousands of small files."""
    return Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))


def simulate(seed: int, directory: Path, seconds: float = 30.0) -> World:
    """Live through the history of a seed. Raises: Broken, with the end of the journal."""
    loop = VirtualLoop()
    world = World(seed, directory, loop)
    loop.set_exception_handler(lambda _loop, _context: None)
    structlog.reset_defaults()
    structlog.configure(processors=[world.log], cache_logger_on_first_use=False)
    thresholds = gc.get_threshold()
    gc.set_threshold(*_COLLECT_SELDOM)
    try:
        loop.run_until_complete(world.run(seconds))
    except Exception as error:
        tail = "\n".join(world.journal()[-_JOURNAL_LINES:])
        raise Broken(f"seed {seed}: {type(error).__name__}: {error}\n{tail}") from error
    finally:
        _bury(world, loop)
        structlog.reset_defaults()
        gc.set_threshold(*thresholds)
    return world


def _bury(world: World, loop: VirtualLoop) -> None:
    """Let every coroutine end, also those of the dead: left to the garbage collector they make noise."""
    for node in (*world.nodes, world.gateway):
        node.bury()
    for _ in range(_BURIAL_ROUNDS):
        tasks = asyncio.all_tasks(loop)
        if not tasks:
            break
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.wait(tasks, timeout=1.0))
    loop.close()
