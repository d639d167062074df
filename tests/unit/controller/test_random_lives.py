"""Random lives of a cluster: crashes, bounces, deposed controllers, topics and reassignments in any order.

Checked all the time (by the world): SingleLeaderPerEpoch, a leader in its ISR, ISRs that only leaders widen,
leader epochs that grow by one. Checked at the end, when everything has been healed: a cluster at rest.
"""

import random
from uuid import UUID

import pytest

from broker.controller.api import DeletedTopicName, ElectionKind, NewPartitions, NewTopic
from broker.controller.events import (
    AlterReassignments,
    ControlledShutdown,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectLeaders,
    Tick,
)
from broker.metadata.znode_paths import CONTROLLER
from contracts.cluster import ControlledShutdownRequest
from tests.unit.controller.test_failover_anywhere import assert_at_rest
from tests.unit.controller.world import World

BROKERS = (1, 2, 3, 4, 5)
SEEDS = range(40)
LONG_SEEDS = range(1000, 2000)
KEPT = (
    (133, 1500),  # the late answer to an earlier StopReplica was taken for that to the last one
)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_life(seed: int) -> None:
    _live(seed, turns=600)


@pytest.mark.parametrize(("seed", "turns"), KEPT)
def test_what_once_went_wrong(seed: int, turns: int) -> None:
    _live(seed, turns=turns)


@pytest.mark.long
@pytest.mark.parametrize("seed", LONG_SEEDS)
def test_a_long_random_life(seed: int) -> None:
    _live(seed, turns=2_000)


def _live(seed: int, *, turns: int) -> None:
    dice = random.Random(seed)
    world = World(*BROKERS, default_replication_factor=3, leader_imbalance_check_interval_seconds=30)
    world.draw = dice.randrange
    life = _Life(world, dice)
    for broker_id in BROKERS[:3]:
        world.start(broker_id)
    for _ in range(turns):
        life.turn()
    life.heal()
    assert_at_rest(world)


class _Life:
    def __init__(self, world: World, dice: random.Random) -> None:
        self.world = world
        self.dice = dice
        self.zombies: set[int] = set()
        self.topics = 0
        self.calls = 0

    def turn(self) -> None:
        """Mostly something that would happen anyway, sometimes a stroke of fate."""
        world, dice = self.world, self.dice
        actions = list(world.actions())
        if actions and dice.random() < 0.9:
            dice.choice(actions)()
            return
        strokes = (
            (self.elect, 10),
            (world.catch_up, 8),
            (self.shrink, 4),
            (self.crash, 2),
            (self.start, 4),
            (self.bounce, 1),
            (self.oust, 1),
            (self.hear, 5),
            (self.create, 3),
            (self.grow, 1),
            (self.delete, 1),
            (self.reassign, 4),
            (self.elect_preferred, 1),
            (self.shut_down, 1),
            (self.tick, 2),
        )
        dice.choices([stroke for stroke, _ in strokes], [weight for _, weight in strokes])[0]()

    def alive(self) -> list[int]:
        return [broker_id for broker_id, broker in self.world.brokers.items() if broker.is_alive]

    def elect(self) -> None:
        candidates = [each for each in self.alive() if each not in self.zombies]
        if self.world.controller_id is None and candidates:
            self.world.elect(self.dice.choice(candidates))

    def crash(self) -> None:
        alive = self.alive()
        if alive:
            broker_id = self.dice.choice(alive)
            self.zombies.discard(broker_id)
            self.world.crash(broker_id)

    def start(self) -> None:
        dead = [each for each in BROKERS if each not in self.alive()]
        if dead:
            self.world.start(self.dice.choice(dead), unclean=self.dice.random() < 0.2)

    def bounce(self) -> None:
        alive = self.alive()
        if alive:
            broker_id = self.dice.choice(alive)
            self.zombies.discard(broker_id)
            self.world.crash(broker_id)
            self.world.start(broker_id)

    def oust(self) -> None:
        if self.world.controller_id is not None:
            self.zombies.add(self.world.controller_id)
            self.world.oust()

    def hear(self) -> None:
        for broker_id in list(self.zombies):
            self.world.deposed(broker_id)
            self.zombies.discard(broker_id)

    def shrink(self) -> None:
        """A leader drops somebody."""
        led = [
            key
            for broker in self.world.brokers.values()
            for key, role in broker.roles.items()
            if role.leader == broker.broker_id and self._leads(broker.broker_id, key, role.leader_epoch)
        ]
        if led:
            topic, partition = self.dice.choice(sorted(led))
            state = self.world.state(topic, partition)
            isr = tuple(each for each in state.isr if each == state.leader or self.dice.random() < 0.5)
            self.world.shrink(topic, partition, *isr)

    def _leads(self, broker_id: int, key: tuple[str, int], leader_epoch: int) -> bool:
        if self.world.tree.get(f"/brokers/topics/{key[0]}/partitions/{key[1]}/state") is None:
            return False
        state = self.world.state(*key)
        return state.leader == broker_id and state.leader_epoch == leader_epoch

    def post(self, make: object) -> None:
        if self.world.controller_id is not None:
            self.calls += 1
            self.world.post(make(self.calls))  # type: ignore[operator]

    def existing(self) -> list[str]:
        return self.world.tree.children("/brokers/topics") or []

    def create(self) -> None:
        self.topics += 1
        name = f"t{self.topics % 6}"  # names are taken again
        topic = NewTopic(name, UUID(int=self.topics), self.dice.randint(1, 3), -1)
        self.post(lambda call_id: CreateTopics(call_id, [topic], False))

    def grow(self) -> None:
        if self.existing():
            grown = NewPartitions(self.dice.choice(self.existing()), self.dice.randint(2, 5))
            self.post(lambda call_id: CreatePartitions(call_id, [grown], False))

    def delete(self) -> None:
        if self.existing():
            name = DeletedTopicName(self.dice.choice(self.existing()))
            self.post(lambda call_id: DeleteTopics(call_id, [name]))

    def reassign(self) -> None:
        if not self.existing():
            return
        name = self.dice.choice(self.existing())
        topic = self.world.topic(name)
        assert topic is not None
        partition = self.dice.choice(sorted(topic.partitions))
        target: tuple[int, ...] | None = tuple(self.dice.sample(BROKERS, self.dice.randint(1, 3)))
        if self.dice.random() < 0.25:
            target = None
        self.post(lambda call_id: AlterReassignments(call_id, {(name, partition): target}))

    def elect_preferred(self) -> None:
        self.post(lambda call_id: ElectLeaders(call_id, ElectionKind.PREFERRED, None))

    def shut_down(self) -> None:
        if self.alive():
            broker = self.world.brokers[self.dice.choice(self.alive())]
            request = ControlledShutdownRequest(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch)
            self.post(lambda call_id: ControlledShutdown(call_id, request))

    def tick(self) -> None:
        self.world.now_ms += self.dice.randint(0, 40_000)
        self.post(lambda _call_id: Tick())

    def heal(self) -> None:
        """Everybody lives, once more from the start where a shutdown was asked for; everything settles."""
        world = self.world
        self.hear()
        for broker_id in BROKERS:
            if broker_id in self.alive() and broker_id != world.controller_id:
                world.crash(broker_id)
        for broker_id in BROKERS:
            if broker_id not in self.alive():
                world.start(broker_id)
        if world.controller_id is not None and world.tree.get(CONTROLLER) is not None:
            world.crash(world.controller_id)
            world.start(next(each for each in BROKERS if each not in self.alive()))
        world.elect(BROKERS[0])
        world.run(catching_up=True)
