"""Whatever happens in whatever order, committed records stay and logs agree (LogMatching,
MonotonicHighWatermark, AckedIsReadable)."""

import random
from pathlib import Path

import pytest

from tests.unit.replication.world import Node, Produced, World

Committed = dict[int, tuple[int, bytes]]


class Run:
    """One seed: a world, what was acknowledged, what consumers have seen."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.seed = seed
        self.chooser = random.Random(seed)
        self.world = World(directory)
        self.world.elect(1)
        self.produced: list[Produced] = []
        self.committed: Committed = {}
        self.high_watermark: dict[int, int] = {}
        """By leader epoch."""

    def go(self, actions: int) -> None:
        print("seed", self.seed)
        weights = {
            self._shuffle: 10,
            self._append: 8,
            self._append_alone: 2,
            self._kill: 1,
            self._start: 2,
            self._elect: 1,
            self._disconnect: 1,
            self._checkpoint: 2,
            self._wait: 2,
            self._delete: 1,
        }
        for action in self.chooser.choices(list(weights), list(weights.values()), k=actions):
            action()
            self._check()
        for node in self.world.nodes.values():
            if not node.is_up:
                self.world.start(node.node_id)
        for _ in range(20):
            self.world.settle(8)
            if sorted(self.world.state.isr) == [1, 2, 3]:
                break
        self.world.settle(30)
        self._check_end()

    def _shuffle(self) -> None:
        self.world.shuffle(self.chooser, self.chooser.randint(1, 25))

    def _append(self) -> None:
        for _ in range(self.chooser.randint(1, 4)):
            self.produced.append(self.world.append(f"{len(self.produced)}".rjust(40)))

    def _append_alone(self) -> None:
        self.world.append(f"alone {self.chooser.random()}", acks=1)

    def _up(self) -> list[Node]:
        return [node for node in self.world.nodes.values() if node.is_up]

    def _kill(self) -> None:
        if len(self._up()) > 1 or self.chooser.random() < 0.2:
            for node in self._up()[:1] if self.chooser.random() < 0.5 else self._up()[-1:]:
                self.world.kill(node.node_id)

    def _start(self) -> None:
        down = [node for node in self.world.nodes.values() if not node.is_up]
        if down:
            self.world.start(self.chooser.choice(down).node_id)

    def _elect(self) -> None:
        state = self.world.state
        able = [each for each in state.isr if self.world.nodes[each].is_up]
        if able and state.leader != -1:
            self.world.decide(self.chooser.choice(able), state.isr)

    def _disconnect(self) -> None:
        for node in self._up():
            if node.pipes:
                node.disconnect(self.chooser.choice(list(node.pipes)))
                return

    def _checkpoint(self) -> None:
        for node in self._up():
            node.checkpoint()

    def _wait(self) -> None:
        self.world.tick(self.chooser.choice([1, 100, 600, 2_000]))

    def _delete(self) -> None:
        leader = self._leader()
        if leader is not None:
            log = leader.partition.log
            log.retention.delete_records_before(
                self.chooser.randint(log.log_start_offset, log.high_watermark)
            )
            leader.replica_sessions.noted(leader.partition.key)

    def _leader(self) -> Node | None:
        """The leader of the newest epoch, once it knows."""
        state = self.world.state
        node = self.world.nodes.get(state.leader)
        if node is None or not node.is_up:
            return None
        partition = node.replicas.hosted("orders", 0)
        if partition is None or not partition.is_leader or partition.leader_epoch != state.leader_epoch:
            return None
        return node

    def _check(self) -> None:
        leader = self._leader()
        if leader is None:
            return
        partition = leader.partition
        before = self.high_watermark.get(partition.leader_epoch, 0)
        assert partition.high_watermark >= before, "the high watermark goes back"
        self.high_watermark[partition.leader_epoch] = partition.high_watermark
        if partition.high_watermark == before and self.chooser.random() < 0.8:
            return
        log = {offset: (epoch, value) for offset, epoch, value in leader.contents()}
        for offset, record in self.committed.items():
            if offset >= partition.log.log_start_offset:
                assert log.get(offset) == record, f"offset {offset}"
        for offset, record in log.items():
            if offset < partition.high_watermark:
                assert self.committed.setdefault(offset, record) == record
        for each in self.produced:
            if each.is_acked and each.offset >= partition.log.log_start_offset:
                assert log[each.offset][1] == each.value, "acknowledged"

    def _check_end(self) -> None:
        assert sorted(self.world.state.isr) == [1, 2, 3]
        leader = self._leader()
        assert leader is not None
        contents = leader.contents()
        start = leader.partition.log.log_start_offset
        for node in self.world.nodes.values():
            log = node.partition.log
            assert log.log_end_offset == leader.partition.log.log_end_offset
            assert log.log_start_offset >= start, "a new leader may not know of the last deletion"
            assert node.contents() == [each for each in contents if each[0] >= log.log_start_offset]
            assert log.high_watermark == log.log_end_offset
        self.high_watermark.clear()
        self._check()


@pytest.mark.parametrize("ten", range(3))
def test_any_order(tmp_path: Path, ten: int) -> None:
    for seed in range(10 * ten, 10 * ten + 10):
        Run(tmp_path / str(seed), seed).go(60)


@pytest.mark.parametrize("seed", [522, 690])
def test_what_was_found_stays_mended(tmp_path: Path, seed: int) -> None:
    """522: a new epoch overtook an answer; 690: a command was older than what the old leader saw."""
    Run(tmp_path, seed).go(150)


@pytest.mark.long
@pytest.mark.parametrize("hundred", range(10))
def test_any_order_for_long(tmp_path: Path, hundred: int) -> None:
    for seed in range(100 * hundred, 100 * hundred + 100):
        Run(tmp_path / str(seed), seed).go(150)
