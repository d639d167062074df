"""Steps run in turns and are billed to the point; the CPU clock is what steps say they have cost."""

import asyncio

import pytest

from contracts.quota import NO_NODE, Direction
from contracts.specs import InstanceSpec, InstanceState
from runtime.clock import Clock
from runtime.pacing import GOING_ON_DEBT_MS, Pacing
from traffic.point import TrafficPoint
from traffic.turns import QUANTUM_ALONE_NS, QUANTUM_NS, Hold

MS = 1_000_000


class Clocks:
    """CPU and wall clock that stand still until told."""

    def __init__(self) -> None:
        self.cpu = 0
        self.preempted = 0
        self.ms = 1_000_000


class World:
    """A loop's pacing over a real point of a gateway worker. T is 10 percent: the worker's half 50 ms/s."""

    def __init__(self) -> None:
        self.clocks = Clocks()
        self.point = TrafficPoint(
            point="gateway-0", node_id=NO_NODE, cluster_id="", boot_id="b", now_ms=self.clocks.ms
        )
        self.pacing = Pacing(
            asyncio.get_running_loop(),
            self.point,
            clock=Clock(
                monotonic_ns=lambda: self.clocks.cpu + self.clocks.preempted,
                cpu_ns=lambda: self.clocks.cpu,
                monotonic_ms=lambda: self.clocks.ms,
            ),
        )
        self.ran: list[str] = []

    def limit(self, instance_id: str) -> None:
        spec = InstanceSpec(
            revision=1,
            instance_id=instance_id,
            tenant="t",
            name="n",
            state=InstanceState.ACTIVE,
            cluster_id="c",
            produce_rate_bytes_per_s=10**6,
            consume_rate_bytes_per_s=10**6,
            capacity_bytes=10**9,
            request_percent=10,
        )
        self.point.set_spec(spec, self.clocks.ms)

    def step(self, name: str, cost_ns: int) -> None:
        self.ran.append(name)
        self.clocks.cpu += cost_ns

    def used_us(self, instance_id: str) -> int:
        flow = self.point.flow(instance_id, Direction.CPU)
        return 0 if flow is None else flow.used


@pytest.fixture
async def world() -> World:
    return World()


async def settle() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


async def test_a_step_runs_at_once_and_is_billed_in_bulk(world: World) -> None:
    turn = world.pacing.join("a")
    world.pacing.run(turn, lambda: world.step("a", QUANTUM_NS - 1), begins=True)
    assert world.ran == ["a"] and world.used_us("a") == 0
    world.pacing.run(turn, lambda: world.step("a", 1), begins=True)
    assert world.used_us("a") == QUANTUM_NS // 1000
    await settle()
    world.pacing.run(turn, lambda: world.step("a", 5_500), begins=True)
    world.pacing.bill_all([turn])
    assert world.used_us("a") == QUANTUM_NS // 1000 + 5
    world.pacing.run(turn, lambda: world.step("a", 500), begins=True)
    world.pacing.bill_all([turn])
    assert world.used_us("a") == QUANTUM_NS // 1000 + 6, "less than a microsecond is carried over"
    assert world.pacing.pumped_steps == 0


async def test_what_others_had_the_processor_for_is_not_billed(world: World) -> None:
    turn = world.pacing.join("a")

    def step() -> None:
        world.step("a", QUANTUM_NS)
        world.clocks.preempted += 3 * QUANTUM_NS

    world.pacing.run(turn, step, begins=True)
    assert world.used_us("a") == QUANTUM_NS // 1000
    world.pacing.run(turn, lambda: world.step("a", QUANTUM_NS), begins=True)
    await settle()
    assert world.used_us("a") == 2 * QUANTUM_NS // 1000


async def test_who_has_used_up_its_quantum_waits_until_sockets_were_looked_at(world: World) -> None:
    greedy, polite = world.pacing.join("greedy"), world.pacing.join("polite")
    for _ in range(10):
        world.pacing.run(greedy, lambda: world.step("greedy", QUANTUM_NS // 2), begins=True)
    world.pacing.run(polite, lambda: world.step("polite", 1000), begins=True)
    assert world.ran == ["greedy", "greedy", "polite"]
    await settle()
    assert world.ran == ["greedy", "greedy", "polite"] + ["greedy"] * 8
    assert world.pacing.pumped_steps == 8


async def test_a_lone_instance_gets_long_turns_until_another_comes(world: World) -> None:
    lone, other = world.pacing.join("lone"), world.pacing.join("other")

    def steps_at_once() -> int:
        before = len(world.ran)
        for _ in range(40):
            world.pacing.run(lone, lambda: world.step("lone", QUANTUM_NS // 2), begins=True)
        return len(world.ran) - before

    assert steps_at_once() == 2
    await settle()
    world.pacing.bill_all([lone, other])
    world.pacing.run(lone, lambda: world.step("lone", QUANTUM_NS), begins=True)
    await settle()
    assert steps_at_once() >= QUANTUM_ALONE_NS // QUANTUM_NS
    await settle()
    world.pacing.run(other, lambda: world.step("other", 2_000), begins=True)
    world.pacing.bill_all([lone, other])
    world.pacing.run(lone, lambda: world.step("lone", QUANTUM_ALONE_NS), begins=True)
    await settle()
    assert steps_at_once() <= 2


async def test_between_two_turns_the_loop_looks_at_its_sockets(world: World) -> None:
    greedy, polite = world.pacing.join("greedy"), world.pacing.join("polite")
    for _ in range(20):
        world.pacing.run(greedy, lambda: world.step("greedy", QUANTUM_NS), begins=True)
    await asyncio.sleep(0)
    before = len(world.ran)
    assert before < 20
    world.pacing.run(polite, lambda: world.step("polite", 1000), begins=True)
    assert world.ran[before] == "polite"


async def test_debt_keeps_back_what_is_new_and_is_paid_by_time(world: World) -> None:
    world.limit("a")
    turn = world.pacing.join("a")
    world.clocks.ms += 10_000  # the burst is full: 1 s of 50 ms/s
    world.pacing.run(turn, lambda: world.step("a", 51 * MS), begins=True)
    assert turn.hold is Hold.BEGINNINGS
    world.pacing.run(turn, lambda: world.step("new", 1000), begins=True)
    world.pacing.run(turn, lambda: world.step("reply", 1000), begins=False)
    await settle()
    assert world.ran == ["a", "reply"]
    world.pacing.begin()
    assert world.pacing.throttle_ms(turn) == 21, "1 ms at 50 ms/s, and what the reply has cost"
    world.clocks.ms += 21
    world.pacing.look_again([turn])
    await settle()
    assert world.ran == ["a", "reply", "new"]
    assert world.pacing.throttle_ms(turn) == 0


async def test_large_debt_keeps_back_replies_too_until_it_is_small(world: World) -> None:
    world.limit("a")
    turn = world.pacing.join("a")
    world.clocks.ms += 10_000
    world.pacing.run(turn, lambda: world.step("a", (50 + 50) * MS), begins=True)
    assert turn.hold is Hold.ALL
    world.pacing.run(turn, lambda: world.step("reply", 1000), begins=False)
    world.clocks.ms += 1000 - GOING_ON_DEBT_MS - 1
    world.pacing.look_again([turn])
    await settle()
    assert world.ran == ["a"]
    world.clocks.ms += 1
    world.pacing.look_again([turn])
    await settle()
    assert world.ran == ["a", "reply"]
    assert turn.hold is Hold.BEGINNINGS


async def test_debts_that_grow_while_new_work_waits_hold_replies(world: World) -> None:
    world.limit("a")
    turn = world.pacing.join("a")
    world.clocks.ms += 10_000
    world.pacing.run(turn, lambda: world.step("a", 51 * MS), begins=True)
    assert turn.hold is Hold.BEGINNINGS
    world.pacing.run(turn, lambda: world.step("reply", 30 * MS), begins=False)
    await settle()
    assert turn.hold is Hold.ALL


async def test_the_timer_lets_go_by_itself(world: World) -> None:
    world.limit("a")
    turn = world.pacing.join("a")
    world.clocks.ms += 10_000
    world.pacing.run(turn, lambda: world.step("a", 51 * MS), begins=True)
    world.pacing.run(turn, lambda: world.step("new", 1000), begins=True)
    world.clocks.ms += 20
    async with asyncio.timeout(30):
        while world.ran != ["a", "new"]:
            await asyncio.sleep(0.005)


async def test_tasks_are_steps_piece_by_piece(world: World) -> None:
    turn = world.pacing.join("a")
    gate = asyncio.get_running_loop().create_future()

    async def work() -> None:
        world.step("first", QUANTUM_NS)
        await gate
        world.step("second", QUANTUM_NS)
        await asyncio.sleep(0)
        world.step("third", QUANTUM_NS)

    task = world.pacing.task(turn, work())
    await settle()
    assert world.ran == ["first"] and world.used_us("a") == QUANTUM_NS // 1000
    gate.set_result(None)
    await task
    assert world.ran == ["first", "second", "third"]
    assert world.used_us("a") == 3 * QUANTUM_NS // 1000


async def test_a_task_in_debt_waits_and_can_be_cancelled(world: World) -> None:
    world.limit("a")
    turn = world.pacing.join("a")
    world.clocks.ms += 10_000
    ended: list[str] = []

    async def work() -> None:
        world.step("first", 150 * MS)
        try:
            await asyncio.sleep(0)
            world.step("second", 1)
        finally:
            ended.append("cleaned up")

    task = world.pacing.task(turn, work())
    await settle()
    assert world.ran == ["first"] and turn.hold is Hold.ALL and turn.waiting == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["cleaned up"] and world.ran == ["first"]
    world.clocks.ms += 10_000
    world.pacing.look_again([turn])
    await settle()
    assert turn.waiting == 0


async def test_a_failing_task_fails(world: World) -> None:
    turn = world.pacing.join("a")

    async def work() -> None:
        await asyncio.sleep(0)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await world.pacing.task(turn, work())


async def test_time_of_a_helper_thread_counts(world: World) -> None:
    turn = world.pacing.join("a")
    world.pacing.add_helper_time(turn, 3 * QUANTUM_NS)
    assert world.used_us("a") == 3 * QUANTUM_NS // 1000
    assert not turn.may_begin


async def test_who_leaves_has_paid_for_everything(world: World) -> None:
    world.limit("a")
    turn = world.pacing.join("a")
    world.clocks.ms += 10_000
    world.pacing.run(turn, lambda: world.step("a", 51 * MS + 7_000), begins=True)
    world.pacing.run(turn, lambda: world.step("late", 1), begins=True)
    world.pacing.leave(turn)
    assert world.used_us("a") == 51_007
    world.clocks.ms += 10_000
    await settle()
    assert world.ran == ["a"]
