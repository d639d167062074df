"""Assignment of replicas: Kafka's own examples, and what holds for any cluster."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.controller.assignment import TooFewBrokers, assign_added, assign_replicas

FIVE = dict.fromkeys(range(5))


def test_two_rounds_of_five_brokers() -> None:
    """The table in Kafka's AdminUtils: 10 partitions, 3 replicas, start and shift 0."""
    assert assign_replicas(FIVE, 10, 3, start=0, shift=0) == [
        (0, 1, 2),
        (1, 2, 3),
        (2, 3, 4),
        (3, 4, 0),
        (4, 0, 1),
        (0, 2, 3),
        (1, 3, 4),
        (2, 4, 0),
        (3, 0, 1),
        (4, 1, 2),
    ]


def test_racks_of_kafkas_example() -> None:
    """Kafka's AdminUtils: six brokers in three racks; the first six partitions."""
    racks = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
    assert assign_replicas(racks, 7, 3, start=0, shift=0) == [
        (0, 3, 1),
        (3, 1, 5),
        (1, 5, 4),
        (5, 4, 2),
        (4, 2, 0),
        (2, 0, 3),
        (0, 4, 2),
    ]


def test_one_broker() -> None:
    assert assign_replicas({7: None}, 3, 1, start=4, shift=2) == [(7,), (7,), (7,)]


def test_more_replicas_than_brokers() -> None:
    with pytest.raises(TooFewBrokers, match="4 replicas cannot be on 3 brokers"):
        assign_replicas(dict.fromkeys(range(3)), 1, 4, start=0, shift=0)


def test_racks_do_not_count_when_a_broker_has_none() -> None:
    mixed = {0: "a", 1: "a", 2: None}
    assert assign_replicas(mixed, 3, 2, start=0, shift=0) == [(0, 1), (1, 2), (2, 0)]


def test_added_partitions_go_on_where_the_first_began() -> None:
    whole = assign_replicas(FIVE, 12, 3, start=3, shift=3)
    assert assign_added(FIVE, whole[:4], 8, start=0) == whole[4:]


def test_added_partitions_when_the_first_leader_is_gone() -> None:
    added = assign_added(dict.fromkeys((1, 2, 3)), [(9, 1)], 2, start=4)
    assert added == [(3, 2), (1, 3)]


clusters = st.integers(1, 12).flatmap(
    lambda n: st.tuples(
        st.just(n), st.integers(1, n), st.integers(0, 40), st.integers(0, 30), st.integers(0, 30)
    )
)


@given(clusters)
def test_any_assignment_is_distinct_and_spreads_leaders(drawn: tuple[int, int, int, int, int]) -> None:
    count, factor, partitions, start, shift = drawn
    assignment = assign_replicas(dict.fromkeys(range(count)), partitions, factor, start=start, shift=shift)
    assert len(assignment) == partitions
    assert all(len(set(replicas)) == factor for replicas in assignment)
    assert _spread_of(Counter(replicas[0] for replicas in assignment), range(count)) <= 1


@given(clusters, st.integers(1, 4))
def test_whole_rounds_spread_replicas_evenly(drawn: tuple[int, int, int, int, int], rounds: int) -> None:
    count, factor, _, start, shift = drawn
    assignment = assign_replicas(
        dict.fromkeys(range(count)), rounds * count, factor, start=start, shift=shift
    )
    assert _spread_of(Counter(each for replicas in assignment for each in replicas), range(count)) == 0


@given(
    st.lists(st.sampled_from("abcd"), min_size=1, max_size=12),
    st.integers(0, 40),
    st.data(),
    st.integers(0, 9),
)
def test_racks_are_distinct_while_there_are_any(
    racks: list[str], partitions: int, data: st.DataObject, shift: int
) -> None:
    brokers = dict(enumerate(racks))
    factor = data.draw(st.integers(1, len(racks)))
    start = data.draw(st.integers(0, len(racks) - 1))
    assignment = assign_replicas(brokers, partitions, factor, start=start, shift=shift)
    for replicas in assignment:
        assert len(set(replicas)) == factor
        assert len({brokers[each] for each in replicas}) == min(factor, len(set(racks)))
    assert _spread_of(Counter(replicas[0] for replicas in assignment), brokers) <= 1


@given(st.integers(2, 4), st.integers(1, 3), st.integers(1, 3), st.data())
def test_equal_racks_spread_replicas_evenly(
    rack_count: int, size: int, rounds: int, data: st.DataObject
) -> None:
    brokers = {index: f"rack{index % rack_count}" for index in range(rack_count * size)}
    factor = data.draw(st.integers(1, rack_count))
    assignment = assign_replicas(brokers, rounds * len(brokers), factor, start=1, shift=2)
    assert _spread_of(Counter(each for replicas in assignment for each in replicas), brokers) == 0


@given(clusters, st.integers(1, 20))
def test_a_topic_grown_is_as_one_made_whole(drawn: tuple[int, int, int, int, int], added: int) -> None:
    count, factor, partitions, start, _ = drawn
    brokers = dict.fromkeys(range(count))
    start %= count
    whole = assign_replicas(brokers, partitions + 1 + added, factor, start=start, shift=start)
    more = assign_added(brokers, whole[: partitions + 1], added, start=0)
    if partitions < count:  # later the shift starts anew, as Kafka's does
        assert more == whole[partitions + 1 :]
    grown = whole[: partitions + 1] + more
    assert all(len(set(replicas)) == factor for replicas in grown)
    assert _spread_of(Counter(replicas[0] for replicas in grown), range(count)) <= 1


def _spread_of(counts: Counter[int], brokers: object) -> int:
    every = [counts[broker] for broker in brokers]  # type: ignore[attr-defined]
    return max(every) - min(every)
