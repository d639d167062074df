"""Series that stay: packing, the busiest, longer steps, and what may be asked for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenants.rules import series
from tenants.rules.series import (
    COARSE_STEP_MS,
    METRICS,
    NAMES_MAX,
    POINTS_MAX,
    REST,
    STEP_MS,
    Block,
    Columns,
    Kind,
    Span,
    merged,
    span_of,
)

_VALUE = st.none() | st.integers(0, 2**62)
_POINT = st.lists(_VALUE, min_size=2, max_size=2)
_DAY_MS = 86_400_000
_NOW_MS = 1_795_000_000_000


@given(st.dictionaries(st.integers(0, 59), _POINT))
def test_what_a_block_packs_it_unpacks(points: dict[int, list[int | None]]) -> None:
    columns = {_NOW_MS + place * STEP_MS: point for place, point in points.items()}
    block = Block(series.pack_block({Kind.TOPIC: {"a": columns}}, _NOW_MS, STEP_MS, 60), _NOW_MS, STEP_MS)
    known = {at_ms: point for at_ms, point in columns.items() if point != [None, None]}
    assert block.columns(Kind.TOPIC, "a") == known
    assert block.columns(Kind.TOPIC, "b") == block.columns(Kind.GROUP, "a") == {}
    assert block.names(Kind.TOPIC) == ["a"]


@given(st.binary(max_size=200))
def test_what_is_not_ours_is_refused(data: bytes) -> None:
    for unpack in (series.unpack_step, lambda found: Block(found, 0, STEP_MS)):
        with pytest.raises(ValueError, match="series"):
            unpack(data)


def test_a_step_keeps_owners_apart() -> None:
    packed = series.pack_step({"ia": {Kind.TOPIC: {"t": (1, 2)}}, "ib": {Kind.TOPIC: {"t": (3, None)}}})
    opened = series.unpack_step(packed)
    assert series.figures_of(opened["ib"]) == {"topic": {"t": [3, None]}}
    assert series.gathered([(15_000, opened["ia"])]) == {Kind.TOPIC: {"t": {15_000: [1, 2]}}}


def test_a_block_of_a_release_with_fewer_metrics_is_read_as_unknown_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    packed = series.pack_block({Kind.TOPIC: {"t": {0: [1, 2]}}}, 0, STEP_MS, 2)
    wider = {**METRICS, Kind.TOPIC: (*METRICS[Kind.TOPIC], series.Metric("new", series.Merge.MAX))}
    monkeypatch.setattr(series, "METRICS", wider)
    assert Block(packed, 0, STEP_MS).columns(Kind.TOPIC, "t") == {0: [1, 2, None]}


def test_the_busiest_have_series_and_the_others_add_up() -> None:
    found = {f"g{n:03}": (n, n * 10) for n in range(NAMES_MAX + 30)}
    order = sorted(found, reverse=True)
    kept = series.bounded(Kind.GROUP, found, order)
    assert len(kept) == NAMES_MAX + 1
    assert kept[order[0]] == found[order[0]]
    others = [found[name] for name in order[NAMES_MAX:]]
    # Records add up; the rest is as late as the latest of them.
    assert list(kept[REST]) == [sum(one[0] for one in others), max(one[1] for one in others)]


def test_names_that_come_and_go_within_a_block_are_bounded_and_nothing_is_lost() -> None:
    """A client that names itself anew each time, beside one that stays."""
    flood: dict[str, Columns] = {
        f"random-{step}-{number:02}": {step * STEP_MS: [10 + number, 0, 1, 1, number]}
        for step in range(60)
        for number in range(NAMES_MAX)
    }
    named = {
        "stays": {step * STEP_MS: [1, 1, 1, 1, 0] for step in range(60)},
        REST: {0: [5, 0, 0, 7, None]},
        **flood,
    }
    kept = series.narrowed({Kind.CLIENT: named})[Kind.CLIENT]
    assert len(kept) == series.BLOCK_NAMES_MAX + 1
    assert kept["stays"] == named["stays"]
    assert {name[-2:] for name in kept if name not in ("stays", REST)} == {"19"}, (
        "of equals those that do most"
    )
    for metric in range(4):
        for step in range(60):
            before, after = (
                sum(one[step * STEP_MS][metric] or 0 for one in every.values() if step * STEP_MS in one)
                for every in (named, kept)
            )
            assert before == after, (metric, step)
    assert max(point[4] or 0 for point in kept[REST].values()) == 19
    few = {Kind.TOPIC: {"t": {0: [1, None]}, REST: {0: [2, 3]}}}
    assert series.narrowed(few) == few


def test_longer_steps_average_rates_and_keep_what_was_largest() -> None:
    topic = {0: [10, 5], STEP_MS: [20, 9], 2 * STEP_MS: [None, None], COARSE_STEP_MS: [7, None]}
    assert merged(Kind.TOPIC, topic, COARSE_STEP_MS) == {0: [15, 9], COARSE_STEP_MS: [7, None]}


@pytest.mark.parametrize(
    ("age_ms", "length_ms", "step_ms"),
    [
        (0, 900_000, STEP_MS),
        (0, 6 * 3_600_000, STEP_MS),
        (0, _DAY_MS, COARSE_STEP_MS),
        (2 * _DAY_MS, 900_000, COARSE_STEP_MS),
        (0, 7 * _DAY_MS, 1_800_000),
        (0, 30 * _DAY_MS, 1_800_000),
    ],
)
def test_the_server_chooses_the_step(age_ms: int, length_ms: int, step_ms: int) -> None:
    to_ms = _NOW_MS - age_ms
    span = span_of(to_ms - length_ms, to_ms, _NOW_MS)
    assert isinstance(span, Span)
    assert span.step_ms == step_ms
    assert len(list(span.times())) <= POINTS_MAX + 1


@pytest.mark.parametrize(
    ("from_ms", "to_ms"),
    [(5, 5), (6, 5), (0, _NOW_MS), (-1, 5), (5, 2**62), (_NOW_MS + 1, None)],
)
def test_spans_that_are_refused(from_ms: int, to_ms: int | None) -> None:
    assert isinstance(span_of(from_ms, to_ms, _NOW_MS), list)


@given(st.integers(0, _NOW_MS), st.integers(1, 31 * _DAY_MS), st.integers(10, POINTS_MAX))
def test_points_are_bounded(from_ms: int, length_ms: int, points: int) -> None:
    span = span_of(from_ms, from_ms + length_ms, _NOW_MS, points)
    assert isinstance(span, Span)
    # The longest step bounds 31 days; a first and a last step may be cut.
    assert len(list(span.times())) <= max(points, 31 * 12) + 2
