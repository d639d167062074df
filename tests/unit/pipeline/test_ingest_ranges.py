"""Which offsets a batch reads."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline.ingest.ranges import (
    BUNDLE_BYTES_MAX,
    Bounds,
    PartitionRange,
    beginnings,
    pack,
    plan_topic,
    take,
    total_offsets,
    without,
)


def test_a_table_begins_at_log_starts() -> None:
    bounds = {1: Bounds(3, 7), 0: Bounds(0, 9), 2: Bounds(4, 4)}
    begins = beginnings(bounds)
    assert begins == (PartitionRange(0, 0, 0), PartitionRange(1, 3, 3), PartitionRange(2, 4, 4))
    plan = plan_topic({each.partition: each.start for each in begins}, bounds)
    assert plan.ranges == (PartitionRange(0, 0, 9), PartitionRange(1, 3, 7))
    assert plan.gaps == plan.regressed == ()


def test_a_partition_that_came_later_begins_at_0() -> None:
    """Offsets that retention removed before its first load are lost, not unheard of."""
    plan = plan_topic({0: 5}, {0: Bounds(0, 9), 1: Bounds(700, 900), 2: Bounds(4, 4), 3: Bounds(0, 0)})
    assert plan.ranges == (PartitionRange(0, 5, 9), PartitionRange(1, 700, 900))
    assert plan.gaps == (PartitionRange(1, 0, 700), PartitionRange(2, 0, 4))


def test_what_retention_removed_is_a_gap() -> None:
    plan = plan_topic({0: 5, 1: 5}, {0: Bounds(8, 20), 1: Bounds(9, 9)})
    assert plan.ranges == (PartitionRange(0, 8, 20),)
    assert plan.gaps == (PartitionRange(0, 5, 8), PartitionRange(1, 5, 9))


def test_an_end_before_the_position_is_told() -> None:
    plan = plan_topic({0: 5}, {0: Bounds(0, 3)})
    assert plan.regressed == (PartitionRange(0, 3, 5),)
    assert plan.ranges == ()


def test_a_batch_is_shared_by_lag() -> None:
    waiting = {
        "a": [PartitionRange(0, 0, 900), PartitionRange(1, 50, 50)],
        "b": [PartitionRange(0, 100, 200)],
    }
    taken = take(waiting, 100)
    assert taken == {"a": (PartitionRange(0, 0, 90),), "b": (PartitionRange(0, 100, 110),)}
    assert without(waiting["a"], taken["a"]) == (PartitionRange(0, 90, 900),)


def test_few_even_tasks() -> None:
    small = [(PartitionRange(index, 0, 1000), 1000.0) for index in range(100)]
    assert pack(small[:20], cores=2).tasks == 1
    assert pack(small, cores=2).tasks == 2
    two = [(PartitionRange(0, 0, 200_000), 1000.0)]
    assert pack(two, cores=2) == (2, 100_000)
    large = [(PartitionRange(0, 0, 10**6), 1000.0), (PartitionRange(1, 0, 10), 1000.0)]
    assert pack(large, cores=2).tasks == -(-1_000_010_000 // BUNDLE_BYTES_MAX) == 4
    huge = [(PartitionRange(0, 0, 10**9), 1000.0)]
    assert pack(huge, cores=2).tasks == 6
    assert pack([], cores=2).tasks == 1


RANGES = st.lists(st.tuples(st.integers(0, 10**12), st.integers(0, 10**9)), min_size=1, max_size=20).map(
    lambda pairs: tuple(PartitionRange(i, start, start + n) for i, (start, n) in enumerate(pairs))
)


@given(st.dictionaries(st.text(max_size=3), RANGES, max_size=5), st.integers(1, 10**7))
def test_batches_end_and_cover_everything_once(
    waiting: dict[str, tuple[PartitionRange, ...]], offsets_max: int
) -> None:
    read = {(key, each.partition): [] for key, ranges in waiting.items() for each in ranges}  # type: dict[tuple[str, int], list[PartitionRange]]
    left = dict(waiting)
    units = sum(len(ranges) for ranges in waiting.values())
    for _ in range(50):
        taken = take(left, offsets_max)
        if not taken:
            break
        assert sum(total_offsets(ranges) for ranges in taken.values()) <= offsets_max + units
        for key, ranges in taken.items():
            for each in ranges:
                assert each.offsets > 0
                read[key, each.partition].append(each)
            left[key] = without(left[key], ranges)
    for key, ranges in waiting.items():
        for each in ranges:
            at = each.start
            for one in read[key, each.partition]:
                assert one.start == at
                at = one.end
            assert at == next((w.start for w in left[key] if w.partition == each.partition), each.end)
