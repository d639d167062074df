"""A damaged replica is whole again from the others, and is never in the ISR with less than it had."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from broker.log.damage import Damage, DamageKind
from broker.log.errors import RecordsDamaged
from broker.metadata.znodes import PartitionState, encode_state
from broker.replicator.healing import Healing
from contracts.tree import TreeUnavailable
from tests.unit.replication.world import LAG_MAX_MS, TOPIC, World


class _Tree:
    """The one node that is asked for."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.is_away = False

    async def get(self, path: str) -> Any:
        assert path == f"/brokers/topics/{TOPIC}/partitions/0/state"
        if self.is_away:
            raise TreeUnavailable("cut off")
        state = self._world.state
        return SimpleNamespace(
            data=encode_state(PartitionState(state.leader, state.leader_epoch, state.isr, 1))
        )


class _Healer:
    def __init__(self, world: World, node_id: int) -> None:
        self.tree = _Tree(world)
        node = world.nodes[node_id]
        self.healing = Healing(
            node.replicas,
            node,
            self.tree,  # type: ignore[arg-type]
            leader=world.cluster.brokers.get,
            now_ms=node.now_ms,
        )

    def tick(self) -> None:
        asyncio.run(self.healing.tick())


def _filled(tmp_path: Path) -> tuple[World, list[str]]:
    world = World(tmp_path)
    world.elect(1)
    produced = [world.append(str(number).rjust(60)) for number in range(30)]
    world.settle()
    assert all(each.is_acked for each in produced)
    return world, [each.value.decode() for each in produced]


def _values(world: World, node_id: int) -> list[str]:
    return [value.decode() for _, _, value in world.nodes[node_id].contents()]


def test_a_follower_leaves_the_isr_before_it_cuts_anything(tmp_path: Path) -> None:
    world, values = _filled(tmp_path)
    log = world.nodes[3].partition.log
    log.reading.note_damage([Damage(7, 9, DamageKind.CONTENT)])
    healer = _Healer(world, 3)
    while log.damage:
        healer.tick()
        assert 3 not in world.state.isr or log.log_end_offset == 30, "who may be elected has everything"
        world.settle(2)
    assert log.log_end_offset >= 7
    world.settle(200)
    assert sorted(world.state.isr) == [1, 2, 3]
    assert _values(world, 3) == values
    assert log.high_watermark == 30
    healer.tick()
    assert world.nodes[3].follows(world.nodes[3].partition)


def test_nothing_is_cut_while_nobody_knows_who_is_in_the_isr(tmp_path: Path) -> None:
    world, _ = _filled(tmp_path)
    log = world.nodes[3].partition.log
    log.reading.note_damage([Damage(7, 9, DamageKind.SHORT)])
    healer = _Healer(world, 3)
    healer.tree.is_away = True
    for _ in range(20):
        healer.tick()
        world.settle(10)
    assert (log.log_end_offset, world.state.isr) == (30, (1, 2))
    healer.tree.is_away = False
    healer.tick()
    assert log.damage == ()


def test_a_new_leader_epoch_begins_the_rest_anew(tmp_path: Path) -> None:
    world, values = _filled(tmp_path)
    log = world.nodes[3].partition.log
    log.reading.note_damage([Damage(7, 9, DamageKind.SHORT)])
    healer = _Healer(world, 3)
    healer.tick()
    world.settle(2 * LAG_MAX_MS // 25)
    world.elect(2)
    healer.tick()
    assert log.log_end_offset == 30, "it may have come back into the ISR meanwhile"
    for _ in range(20):
        world.settle(10)
        healer.tick()
    world.settle(100)
    assert (log.damage, _values(world, 3)) == ((), values)
    assert sorted(world.state.isr) == [1, 2, 3]


def test_a_leader_serves_what_is_whole_and_followers_hear_of_the_rest(tmp_path: Path) -> None:
    world, values = _filled(tmp_path)
    world.kill(3)
    world.settle()
    log = world.nodes[1].partition.log
    log.reading.note_damage([Damage(7, 9, DamageKind.CONTENT)])
    healer = _Healer(world, 1)
    for _ in range(10):
        healer.tick()
        world.settle(10)
    assert world.nodes[1].partition.is_leader and log.log_end_offset == 30
    with pytest.raises(RecordsDamaged) as damaged:
        log.reading.read_bytes(8, 1_000, up_to=30, min_one_batch=True)
    assert damaged.value.error_code is ErrorCode.corrupt_message
    world.decide(2, world.state.isr)
    for _ in range(40):
        world.settle(10)
        healer.tick()
    assert (log.damage, _values(world, 1)) == ((), values), "as a follower it fetches them"


def test_an_end_that_was_fetched_again_is_not_lost(tmp_path: Path) -> None:
    world, _ = _filled(tmp_path)
    log = world.nodes[3].partition.log
    log.reading.note_damage([Damage(25, 30, DamageKind.END)])
    healer = _Healer(world, 3)
    healer.tick()
    assert log.damage == ()
    assert world.nodes[3].follows(world.nodes[3].partition), "nothing had to rest for it"
