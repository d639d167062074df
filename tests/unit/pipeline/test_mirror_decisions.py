"""Names, progress, offset pairs and whose turn it is."""

import msgspec
import pytest

from pipeline.errors import PipelineError
from pipeline.mirror.planning.address import Address, check_bootstrap, parse_client_config
from pipeline.mirror.planning.errors import Paused
from pipeline.mirror.planning.progress import PAIR_STRETCH_OFFSETS, Pair, Position, Progress, progress_records
from pipeline.mirror.planning.tracks import (
    SMALL_OFFSETS_MAX,
    MirrorRequest,
    Plan,
    Track,
    bundled,
    due,
    lag_seconds,
    unfinished,
)
from pipeline.mirror.planning.units import Outcome, State, Unit, is_mirrored, target_name

UNIT = Unit("ia", "orders", "topic-id", 0, "west.orders")


def position(at: int, target: int = 0, timestamp_ms: int = -1) -> Position:
    return Position(
        **msgspec.structs.asdict(UNIT),
        source="west",
        target_topic_id="copy-id",
        position=at,
        target_position=target,
        timestamp_ms=timestamp_ms,
    )


@pytest.mark.parametrize(
    ("rename", "name"),
    [
        ("same", "orders"),
        ("{source}.{topic}", "west.orders"),
        ("x-{topic}", "x-orders"),
        ("{topic}", "orders"),
    ],
)
def test_topics_are_renamed(rename: str, name: str) -> None:
    assert target_name(rename, "west", "orders") == name


@pytest.mark.parametrize("source", ["a/b", "ä", "x" * 240])
def test_names_that_kafka_does_not_take_are_refused(source: str) -> None:
    with pytest.raises(PipelineError, match="choose another --rename"):
        target_name("{source}.{topic}", source, "orders")


@pytest.mark.parametrize(
    ("topic", "rename", "mirrored"),
    [
        ("orders", "{source}.{topic}", True),
        ("east.orders", "{source}.{topic}", False),
        ("east.orders", "same", True),
        ("__mirror_progress", "same", False),
    ],
)
def test_internal_topics_and_the_targets_copies_are_not_taken(
    topic: str, rename: str, mirrored: bool
) -> None:
    assert is_mirrored(topic, rename, "east") is mirrored


@pytest.mark.parametrize("text", ["", "host", "host:", "host:0", "host:70000", ":9092", "a:1,b"])
def test_addresses_are_host_and_port(text: str) -> None:
    with pytest.raises(PipelineError, match="is not HOST:PORT"):
        check_bootstrap(text)
    check_bootstrap("one:9092, [::1]:9093")


def test_client_properties_are_read_and_never_shown() -> None:
    text = "# a login\nsasl.username = app\n\nsasl.password=a=b\n"
    config = parse_client_config(text, "f")
    assert config == {"sasl.username": "app", "sasl.password": "a=b"}
    assert "a=b" not in repr(Address("one:9092", config))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("sasl.username=app\nsecret", "line 2 of f is not NAME=VALUE"),
        ("=secret", "line 1 of f is not NAME=VALUE"),
        ("transactional.id=secret", "line 1 of f: 'transactional.id' is the mirror's own to set"),
    ],
)
def test_properties_that_are_none_or_the_mirrors_own_are_refused(text: str, sentence: str) -> None:
    with pytest.raises(PipelineError) as refused:
        parse_client_config(text, "f")
    assert str(refused.value) == sentence


def test_progress_is_what_was_written_last_and_pairs_are_kept_by_stretch() -> None:
    progress = Progress()
    steps = [
        (position(100, 110), Pair(0, 5)),
        (position(200, 215), Pair(100, 110)),
        (position(PAIR_STRETCH_OFFSETS + 9, 70_000), Pair(PAIR_STRETCH_OFFSETS, 60_000)),
        (position(PAIR_STRETCH_OFFSETS + 20, 70_100), None),
    ]
    for at, (step, pair) in enumerate(steps):
        for key, value in progress_records(step, pair):
            progress.take(at, key, value)

    assert progress.positions[UNIT.key] == steps[-1][0]
    assert progress.next_offset == len(steps)
    assert progress.pair_below(UNIT, 50) is None  # compaction keeps the newest pair of a stretch
    assert progress.pair_below(UNIT, 150) == Pair(100, 110)
    assert progress.pair_below(UNIT, 10**9) == Pair(PAIR_STRETCH_OFFSETS, 60_000)


def test_foreign_records_among_the_progress_are_named() -> None:
    with pytest.raises(Paused, match="holds at offset 7 what no mirror wrote"):
        Progress().take(7, b"mirror/x", b"garbage")


def track(partition: int, *, end: int = 100, position: int = -1) -> Track:
    unit = Unit("ia", "orders", "topic-id", partition, "west.orders")
    return Track(
        unit,
        position=position,
        target_topic_id="copy-id",
        batch_bytes_max=1000,
        codec="",
        start=0,
        end=end,
        goal=end,
    )


def test_the_longest_work_comes_first() -> None:
    tracks = [track(0, end=10), track(1, end=90), track(2, end=50, position=50), track(3)]
    assert [each.unit.partition for each in due(tracks, 0, continuous=True)] == [3, 1, 0]


def test_small_work_goes_side_by_side_and_large_work_alone() -> None:
    request = MirrorRequest("west", "east", Address("one:9092"), Address("two:9092"))
    sizes = [5_000, 2_000, *([SMALL_OFFSETS_MAX] * 20)]
    plans = [Plan(track(n, end=size), request, "ib", 0) for n, size in enumerate(sizes)]
    shares = bundled(plans)
    assert [len(each) for each in shares] == [1, 1, 16, 4]
    assert [plan for each in shares for plan in each] == plans
    assert bundled([]) == []


def test_a_failure_is_tried_again_later_and_a_pause_only_when_continuous() -> None:
    each = track(0)
    each.take(Outcome(each.unit, State.RETRY, "away"), 1000)
    assert due([each], 1000, continuous=False) == []
    assert due([each], 3000, continuous=False) == [each]
    each.take(Outcome(each.unit, State.PAUSED, "too large"), 3000)
    assert not unfinished([each]) and due([each], 10**9, continuous=False) == []
    assert due([each], 10**9, continuous=True) == [each]


def test_a_run_ends_at_its_goal_or_where_nothing_more_can_be_read() -> None:
    each = track(0)
    assert unfinished([each])
    each.take(Outcome(each.unit, State.DONE, position=90, drained=True), 1)
    assert not unfinished([each]) and each.lag == 0
    each.extend(120)
    assert each.lag == 30


def test_progress_never_goes_back() -> None:
    each = track(0)
    each.see(position(80, 85, 1_000))
    each.see(position(50, 55, 500))
    each.take(Outcome(each.unit, State.RETRY, position=70, target_position=75), 1)
    assert (each.position, each.target_position) == (80, 85)
    assert lag_seconds([each], 61_000) == 60
