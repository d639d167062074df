"""Moves of partitions: each makes the hottest broker less hot, and none is left that would."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.advice.judging.moves import Basis, Led, plan_moves, weigh

TOPIC = "iaaaaaaaaaaa.t"


def led(
    partition: int,
    leader: int,
    *,
    grew: int = 0,
    size: int = 0,
    replicas: tuple[int, ...] = (),
    isr: tuple[int, ...] | None = None,
) -> Led:
    replicas = replicas or (leader,)
    return Led(TOPIC, partition, leader, replicas, replicas if isr is None else isr, size, grew)


def test_a_hot_broker_with_two_busy_partitions_gives_one_away() -> None:
    partitions = [led(0, 1, grew=45), led(1, 1, grew=45), led(2, 2, grew=5), led(3, 3, grew=5)]
    plan = plan_moves(partitions, [1, 2, 3], {1: 90.0, 2: 5.0, 3: 5.0})
    assert plan is not None
    first, second = plan.moves
    assert (first.led.partition, first.to, first.replicas) == (0, 2, (2,))
    assert first.load_share == pytest.approx(0.45)
    assert first.usable_share_after == pytest.approx(100 / 3 / 50)
    assert (second.led.partition, second.to) == (2, 3)
    assert plan.usable_share_before == pytest.approx(100 / 3 / 90)
    assert plan.usable_share_after == pytest.approx(100 / 3 / 45)


def test_one_hot_partition_cannot_be_evened_out() -> None:
    partitions = [led(0, 1, grew=90), led(1, 2, grew=5), led(2, 3, grew=5)]
    plan = plan_moves(partitions, [1, 2, 3], {1: 90.0, 2: 5.0, 3: 5.0})
    assert plan is not None and plan.moves == ()
    assert plan.heaviest.partition == 0 and plan.heaviest_share == pytest.approx(0.9)


def test_idle_neighbours_of_a_hot_partition_stay() -> None:
    partitions = [led(0, 1, grew=90), led(1, 1), led(2, 2, grew=5), led(3, 3, grew=5)]
    plan = plan_moves(partitions, [1, 2, 3], {1: 90.0, 2: 5.0, 3: 5.0})
    assert plan is not None and plan.moves == ()


def test_a_replica_in_sync_is_preferred_and_nothing_is_copied() -> None:
    partitions = [
        led(0, 1, grew=30, size=7, replicas=(1, 2), isr=(1,)),
        led(1, 1, grew=30, size=9, replicas=(1, 3)),
        led(2, 1, grew=30, size=9),
        led(3, 2, grew=10),
    ]
    plan = plan_moves(partitions, [1, 2, 3], {1: 90.0, 2: 10.0})
    assert plan is not None
    first = plan.moves[0]
    assert (first.led.partition, first.to, first.replicas) == (1, 3, (3, 1))
    assert first.is_leadership_only and first.copied_bytes == 0
    assert plan.usable_share_after == pytest.approx(100 / 3 / 40)


def test_a_new_copy_replaces_the_leaders() -> None:
    hot = [led(number, 1, grew=50, size=7, replicas=(1, 5), isr=(1,)) for number in (0, 1)]
    plan = plan_moves([*hot, led(2, 2, grew=1)], [1, 2], {1: 100.0, 2: 1.0})
    assert plan is not None
    [move] = plan.moves
    assert (move.to, move.replicas, move.copied_bytes) == (2, (2, 5), 7)


def test_all_on_one_broker_is_even_by_definition() -> None:
    plan = plan_moves([led(0, 1, grew=5), led(1, 1, grew=5)], [1, 2], {1: 10.0})
    assert plan is not None and plan.moves == () and plan.usable_share_before == 1


def test_without_growth_sizes_count_and_without_sizes_the_number() -> None:
    sizes = [led(0, 1, size=30), led(1, 1, size=10)]
    assert weigh(sizes, {1: 80.0}) == ([60.0, 20.0], Basis.SIZE)
    assert weigh([led(0, 1), led(1, 1)], {1: 80.0}) == ([40.0, 40.0], Basis.COUNT)
    some_grew = [led(0, 1, grew=30, size=10), led(1, 2, size=10)]
    assert weigh(some_grew, {1: 60.0, 2: 40.0}) == ([60.0, 40.0], Basis.SIZE)
    assert weigh(some_grew, {1: 60.0}) == ([60.0, 0.0], Basis.GROWTH)


def test_leaderless_partitions_and_no_traffic() -> None:
    assert plan_moves([led(0, -1)], [1], {}) is None
    assert plan_moves([led(0, 1)], [1], {}) is None
    assert plan_moves([], [1], {1: 5.0}) is None


layouts = st.lists(
    st.tuples(st.integers(1, 4), st.integers(0, 100), st.booleans()), min_size=1, max_size=12
).map(
    lambda rows: [
        led(number, leader, grew=grew, size=grew, replicas=(leader, leader % 4 + 1) if copied else ())
        for number, (leader, grew, copied) in enumerate(rows)
    ]
)


@given(layouts)
def test_moves_lower_the_hottest_and_end_where_no_single_move_would(partitions: list[Led]) -> None:
    loads = {
        broker: float(sum(p.grew_bytes for p in partitions if p.leader == broker)) for broker in range(5)
    }
    plan = plan_moves(partitions, [1, 2, 3, 4], loads)
    if plan is None:
        assert sum(loads.values()) == 0
        return
    for move in plan.moves:
        assert move.replicas[0] == move.to and move.to in (1, 2, 3, 4)
        assert len(move.replicas) == len(move.led.replicas) == len(set(move.replicas))
        assert move.is_leadership_only == (move.to in move.led.isr)
        before = max(loads.values())
        loads[move.led.leader] -= move.led.grew_bytes
        loads[move.to] += move.led.grew_bytes
        assert max(loads.values()) <= before and loads[move.to] < before
    assert len({move.led for move in plan.moves}) == len(plan.moves)
    if plan.usable_share_after < 0.9:
        hottest = max(loads.values())
        moved = {move.led for move in plan.moves}
        for partition, target in itertools.product(partitions, [1, 2, 3, 4]):
            if partition not in moved and loads[partition.leader] == hottest and partition.grew_bytes:
                assert loads[target] + partition.grew_bytes > 0.98 * hottest or _is_shared(loads, hottest)


def _is_shared(loads: dict[int, float], hottest: float) -> bool:
    """Several brokers are equally hot: only one of them is looked at."""
    return sum(load == hottest for load in loads.values()) > 1
