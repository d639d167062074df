"""ISR changes in the metadata tree: compare-and-set, conflicts, unknown outcomes."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from broker.log.partition_log import PartitionLog
from broker.metadata.znode_paths import ISR_CHANGES, broker_path, state_path
from broker.metadata.znodes import PartitionState, decode_partitions, decode_state, encode_state
from broker.replication.partition import Partition
from broker.replicator.isr_writer import IsrWriter
from contracts.cluster import LiveBroker
from contracts.tree import CommitResult, Create, Delete, Op, SetData, TreeConflict, TreeUnavailable
from tests.memory_tree import MemoryEnsemble, MemoryTree
from tests.unit.replication.world import TOPIC, World

PATH = state_path(TOPIC, 0)


class Forgetful(MemoryTree):
    """A client whose connection breaks right after a commit, when told so: the outcome is unknown to it."""

    breaks = 0

    async def commit_many(self, batches: Sequence[Sequence[Op]]) -> list[list[CommitResult] | TreeConflict]:
        results = await super().commit_many(batches)
        if self.breaks:
            self.breaks -= 1
            raise TreeUnavailable("the connection broke")
        return results


class Setting:
    """A leader of three replicas, its state node, and a writer."""

    def __init__(self, directory: Path) -> None:
        self.world = World(directory)
        self.world.elect(1)
        self.partition: Partition = self.world.nodes[1].partition
        ensemble = MemoryEnsemble()
        self.tree = Forgetful(ensemble)
        ensemble.add(self.tree)
        self.lost: list[Partition] = []
        self.synced: list[PartitionLog] = []
        self.sync_fails = False
        self.writer = IsrWriter(1, self._sync, self.lost.append)

    async def _sync(self, logs: Sequence[PartitionLog]) -> set[PartitionLog]:
        self.synced += logs
        return set(logs) if self.sync_fails else set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The tree as the world's state has it, and the writer at work."""
        await self.tree.start()
        paths = ["/brokers", "/brokers/ids", "/brokers/topics", f"/brokers/topics/{TOPIC}"]
        paths += [f"/brokers/topics/{TOPIC}/partitions", f"/brokers/topics/{TOPIC}/partitions/0", ISR_CHANGES]
        await self.tree.commit([Create(path) for path in paths])
        for broker_id in self.world.nodes:
            (created,) = await self.tree.commit([Create(broker_path(broker_id))])
            assert created.stat is not None
            self.register(broker_id, created.stat.czxid)
        await self.tree.commit([Create(PATH, self.state())])
        assert self.world.state.version == 0
        task = asyncio.create_task(self.writer.run(self.tree))
        yield
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    def register(self, broker_id: int, epoch: int) -> None:
        self.world.cluster.brokers[broker_id] = LiveBroker(
            broker_id=broker_id, host="h", port=1, broker_epoch=epoch
        )
        for pipe in self.world.nodes[broker_id].pipes:
            self.world.nodes[broker_id].disconnect(pipe)

    def state(self) -> bytes:
        state = self.world.state
        return encode_state(PartitionState(state.leader, state.leader_epoch, state.isr, 1))

    async def silence(self, *followers: int) -> None:
        """Followers hang until the leader drops them: the change is proposed to the writer."""
        for follower in followers:
            self.world.nodes[follower].pipes.pop(1)
        self.world.append("a", acks=1)
        self.world.settle(60)
        self.propose()
        await asyncio.sleep(0.01)

    def propose(self) -> None:
        while self.world.proposals:
            self.writer.propose(*self.world.proposals.popleft()[1:])

    async def node(self) -> tuple[PartitionState, int]:
        node = await self.tree.get(PATH)
        assert node is not None
        return decode_state(node.data), node.stat.version


def _shrinks(setting: Setting) -> Setting:
    """The world writes nothing itself."""
    setting.world.write_isr = lambda: False  # type: ignore[method-assign]
    return setting


async def test_a_change_is_written_and_told(tmp_path: Path) -> None:
    setting = _shrinks(Setting(tmp_path))
    async with setting.running():
        await setting.silence(3)
        assert await setting.node() == (PartitionState(1, 0, (1, 2), 1), 1)
        assert (setting.partition.isr, setting.partition.partition_epoch) == ((1, 2), 1)
        (name,) = await setting.tree.children(ISR_CHANGES) or []
        told = await setting.tree.get(f"{ISR_CHANGES}/{name}")
        assert told is not None
        assert decode_partitions(told.data) == {(TOPIC, 0)}
        assert setting.synced == [], "two are left"


async def test_what_the_controller_wrote_meanwhile_is_adopted(tmp_path: Path) -> None:
    setting = _shrinks(Setting(tmp_path))
    async with setting.running():
        await setting.tree.commit([SetData(PATH, encode_state(PartitionState(1, 0, (1, 3, 2), 1)))])
        await setting.silence(3)
        assert (setting.partition.isr, setting.partition.partition_epoch) == ((1, 3, 2), 1)
        setting.world.tick(10)
        setting.propose()
        await asyncio.sleep(0.01)
        assert (await setting.node())[0].isr == (1, 2)


async def test_another_leader_in_the_node_ends_leading(tmp_path: Path) -> None:
    setting = _shrinks(Setting(tmp_path))
    async with setting.running():
        await setting.tree.commit([SetData(PATH, encode_state(PartitionState(2, 1, (2, 3), 1)))])
        await setting.silence(3)
        assert setting.lost == [setting.partition]
        assert not setting.partition.is_leader


async def test_a_lost_connection_delays_the_change(tmp_path: Path) -> None:
    setting = _shrinks(Setting(tmp_path))
    async with setting.running():
        setting.tree.suspend()
        await setting.silence(3)
        assert setting.partition.pending_isr is not None
        assert setting.partition.maximal_isr == {1, 2, 3}
        setting.tree.resume()
        await asyncio.sleep(0.2)
        assert setting.partition.isr == (1, 2)
        assert (await setting.node())[1] == 1


async def test_an_unknown_outcome_is_looked_up(tmp_path: Path) -> None:
    setting = _shrinks(Setting(tmp_path))
    async with setting.running():
        setting.tree.breaks = 1
        await setting.silence(3)
        assert setting.partition.pending_isr is not None
        await asyncio.sleep(0.2)
        assert setting.partition.isr == (1, 2)
        assert setting.partition.partition_epoch == 1, "written once"
        assert await setting.tree.children(ISR_CHANGES), "the controller hears of it"


async def test_the_last_member_syncs_its_log_first(tmp_path: Path) -> None:
    setting = _shrinks(Setting(tmp_path))
    async with setting.running():
        setting.sync_fails = True
        await setting.silence(2, 3)
        assert setting.synced == [setting.partition.log]
        assert len(setting.partition.isr) == 3
        setting.sync_fails = False
        setting.world.tick(10)
        setting.propose()
        await asyncio.sleep(0.01)
        assert list(setting.partition.isr) == [1]


async def test_a_broker_that_was_started_again_does_not_join_by_what_it_had(tmp_path: Path) -> None:
    setting = _shrinks(Setting(tmp_path))
    async with setting.running():
        pipe = setting.world.nodes[3].pipes[1]
        await setting.silence(3)
        setting.world.nodes[3].pipes[1] = pipe
        setting.world.nodes[3].disconnect(1)
        setting.world.settle(20)
        assert setting.world.proposals, "it has caught up"
        setting.tree.expire()
        await setting.tree.commit([Create(f"{broker_path(3)}-gone")])  # another transaction, another czxid
        await setting.tree.commit([Delete(broker_path(3)), Create(broker_path(3))])
        setting.propose()
        await asyncio.sleep(0.01)
        assert setting.partition.isr == (1, 2)
        assert setting.partition.pending_isr is None
