"""Plans of decoding, compaction, expiry and backfills, and the log entries of maintenance."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctl.commands.pipeline import app
from ctl.commands.pipeline.lake_upkeep import parse_age
from ctl.errors import EXIT_USAGE, CommandError
from pipeline.ingest.failures import UnreadableTime
from pipeline.ingest.ranges import Bounds, PartitionRange
from pipeline.lake.backfill import lacking_of
from pipeline.lake.decode.steps import (
    BACKFILLS,
    DROPPED,
    LOADS,
    REDRIVEN,
    SOURCE_ROWS,
    BatchSpan,
    Repair,
    plan_steps,
    positions_after,
    repair_of,
    spread,
)
from pipeline.lake.pieces import Piece, Ranges, around
from pipeline.lake.planning.compact_plan import (
    DataFile,
    Limits,
    commits_of,
    expired,
    expiry,
    hour_text,
    plan_bins,
    small_share,
)
from pipeline.lake.planning.offset_sets import held
from pipeline.lake.rewrite import ConflictError, commit, conflict, removal

HOUR = datetime(2026, 1, 1, 5, tzinfo=UTC)


def data_file(number: int, size: int, hour: int = 0, minute: int | None = None) -> DataFile:
    values: dict[str, str | None] = {"ingest_hour": hour_text(HOUR + timedelta(hours=hour))}
    first = None if minute is None else HOUR + timedelta(minutes=minute)
    return DataFile(f"f{number}", size, size * 10, values, first)


@settings(deadline=None)
@given(
    st.integers(0, 5),
    st.integers(0, 3),
    st.integers(0, 12),
    st.integers(0, 8),
    st.dictionaries(st.integers(-8, 12), st.integers(0, 50)),
    st.integers(1, 60),
)
def test_steps_take_every_batch_once_and_in_order(
    load: int, backfill: int, loads: int, backfills: int, sizes: dict[int, int], most: int
) -> None:
    steps = plan_steps({LOADS: load, BACKFILLS: backfill}, loads, backfills, sizes, most)
    at = {LOADS: load, BACKFILLS: backfill}
    for step in steps:
        assert step.loads[0] == at[LOADS] and step.backfills[0] == at[BACKFILLS]
        taken = [*range(*step.loads), *(-1 - n for n in range(*step.backfills))]
        assert taken
        assert sum(sizes.get(n, 0) > 0 for n in taken) <= 1 or sum(sizes.get(n, 0) for n in taken) <= most
        at = {LOADS: step.loads[1], BACKFILLS: step.backfills[1]}
    assert at == {LOADS: max(load, loads), BACKFILLS: max(backfill, backfills)}


def test_sizes_of_batches_are_spread_over_files() -> None:
    assert spread([(10, 0, 1), (3, 1, 1), (4, -2, -2)]) == {0: 5, 1: 8, -2: 4}


def test_positions_are_totals_as_well() -> None:
    done = {LOADS: 3, SOURCE_ROWS: 100, DROPPED: 5}
    after = positions_after(done, BatchSpan((3, 5), (0, 1)), 40, 2)
    assert {each.partition: (each.start, each.end) for each in after} == {
        LOADS: (3, 5),
        BACKFILLS: (0, 1),
        SOURCE_ROWS: (100, 140),
        DROPPED: (5, 7),
    }


@pytest.mark.parametrize(
    ("decoded_batch", "redriven", "applied", "needed"),
    [
        (-1, 0, 0, Repair.NONE),
        (-1, 0, 1, Repair.FORGET_LETTERS),
        (4, 0, 5, Repair.NONE),
        (4, 0, 2, Repair.NONE),
        (4, 0, 6, Repair.FORGET_LETTERS),
        (4, 5, 3, Repair.CLOSE_LETTERS),
        (4, 5, 5, Repair.NONE),
        (6, 5, 5, Repair.NONE),
    ],
)
def test_what_a_killed_decode_left(decoded_batch: int, redriven: int, applied: int, needed: Repair) -> None:
    assert repair_of(decoded_batch, {REDRIVEN: redriven}, applied) is needed


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(0, 1), st.none() | st.integers(0, 3)), max_size=30),
    st.integers(5, 30),
    st.integers(2, 5),
)
def test_bins_join_small_files_of_an_hour(
    files: list[tuple[int, int, int | None]], small: int, files_min: int
) -> None:
    given_files = [data_file(n, *each) for n, each in enumerate(files)]
    bins = plan_bins(given_files, Limits(small, 2 * small, files_min))
    taken = [file.path for each in bins for file in each]
    assert len(taken) == len(set(taken))
    for each in bins:
        assert len(each) > 1 and len({file.hour for file in each}) == 1
        assert sum(file.size_bytes for file in each) <= 2 * small
        assert all(file.size_bytes < small for file in each)
        times = [file.first for file in each if file.first is not None]
        assert times == sorted(times)
    per_hour = [[file for file in given_files if file.hour == each[0].hour] for each in bins]
    assert all(sum(file.size_bytes < small for file in hour) >= files_min for hour in per_hour)
    groups = commits_of(bins, 100)
    assert [each for group in groups for each in group] == bins
    sizes = [sum(file.size_bytes for each in group for file in each) for group in groups]
    assert all(size <= 100 or len(group) == 1 for size, group in zip(sizes, groups, strict=True))


def test_a_table_of_joined_files_is_left_alone() -> None:
    files = [data_file(0, 200), data_file(1, 10, 1), data_file(2, 10, 2), data_file(3, 10, 2)]
    assert plan_bins(files, Limits(100, 200)) == [[files[2], files[3]]]
    assert plan_bins(files, Limits(100, 200, 3)) == []
    assert small_share(files, 100) == 0.5 and small_share(files[:2], 100) == 0


def test_whole_hours_expire() -> None:
    now = datetime(2026, 1, 2, 10, 59, tzinfo=UTC)
    before = expiry(now, timedelta(hours=24))
    assert before == datetime(2026, 1, 1, 10, tzinfo=UTC)
    files = [data_file(n, 1, hour) for n, hour in enumerate((4, 5, 6))]
    assert expired(files, before) == files[:1]


def test_a_window_is_read_below_the_loader() -> None:
    window = [
        PartitionRange(0, 10, 200),
        PartitionRange(1, 0, 5),
        PartitionRange(2, 0, 9),
        PartitionRange(9, 0, 1),
    ]
    bounds = {0: Bounds(20, 150), 1: Bounds(0, 3), 2: Bounds(0, 9)}
    there = {0: held([(30, 40), (90, 120)])}
    lacking, told = lacking_of(window, bounds, {0: 100, 1: 50}, there, {0: [(0, 25), (35, 50)]})
    assert lacking == {0: [(25, 30), (50, 90)], 1: [(0, 3)]}
    assert (told.gone, told.left_to_load, told.offsets) == (10, 50 + 9, 80 + 3)
    assert (told.present, told.forgotten) == (20, 15)


@settings(deadline=None)
@given(st.integers(0, 30), st.integers(1, 20), st.integers(0, 19), st.integers(1, 9))
def test_an_unreadable_record_is_read_by_a_client(start: int, count: int, at: int, by_client: int) -> None:
    hit = PartitionRange(1, start, start + count)
    whole = {"t": [PartitionRange(0, 0, 5), hit], "u": [PartitionRange(1, 0, 3)]}
    record = UnreadableTime("t", 1, start + at % count)
    pieces = around(Piece(whole), record, by_client)

    def places(ranges: Ranges) -> list[tuple[str, int, int]]:
        return [
            (t, p.partition, n) for t, found in ranges.items() for p in found for n in range(p.start, p.end)
        ]

    read = [place for piece in pieces for place in places(piece.ranges)]
    assert sorted(read) == sorted(places(whole))
    [client] = [piece for piece in pieces if piece.by_client]
    [[only]] = client.ranges.values()
    assert (only.partition, only.start) == (1, record.offset)


def test_appends_do_not_disturb_maintenance() -> None:
    assert conflict(["a"], [{"commitInfo": {}}, {"add": {"path": "b"}}, {"txn": {}}]) is None
    assert conflict(["a"], [{"remove": {"path": "b"}}]) is None
    assert "removed already" in str(conflict(["a"], [{"remove": {"path": "a"}}]))
    assert "schema" in str(conflict([], [{"metaData": {}}]))


def test_log_entries_are_written_once(tmp_path: Path) -> None:
    log = tmp_path / "_delta_log"
    log.mkdir()

    def write(number: int) -> int:
        return commit(tmp_path, 0, [removal(data_file(number, 1), 1, data_change=False)], "OPTIMIZE", {}, 1)

    with ThreadPoolExecutor(8) as threads:
        versions = sorted(threads.map(write, range(30)))
    assert versions == list(range(1, 31))
    entries = sorted(log.glob("*.json"))
    removed = [
        json.loads(line)["remove"]["path"] for each in entries for line in each.read_text().splitlines()[1:]
    ]
    assert sorted(removed) == sorted(f"f{n}" for n in range(30))
    assert list(log.glob(".*")) == []
    with pytest.raises(ConflictError, match="removed already"):
        write(3)


@pytest.mark.parametrize(("text", "hours"), [("30d", 720), ("12h", 12), (" 1h ", 1)])
def test_ages_are_whole_hours(text: str, hours: int) -> None:
    assert parse_age(text, "--older-than") == hours


@pytest.mark.parametrize("text", ["", "30", "0d", "1.5h", "-1d", "10m", "1d 2h", "٣d"])
def test_what_is_no_age_is_wrong_usage(text: str) -> None:
    with pytest.raises(CommandError, match="no age like 30d"):
        parse_age(text, "--older-than")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["backfill", "x", "--topic", "t"], "name a window"),
        (["backfill", "x", "--topic", "t", "--from", "2026-01-01", "--to-offset", "5"], "name a window"),
        (["backfill", "x", "--topic", "t", "--from", "2026-01-02", "--to", "2026-01-01"], "a later --to"),
        (["backfill", "x", "--topic", "t", "--from-offset", "5", "--to-offset", "5"], "a larger --to-offset"),
        (
            ["decode", "x", "--topic", "t", "--schema", "f", "--on-error", "skip"],
            "--on-error is dlq, drop or",
        ),
        (["decode", "x", "--topic", "t"], "--schema with a file, or --registry"),
        (["redrive", "x", "--topic", "t", "--registry", "https://u:p@x"], "without a user"),
        (["expire", "x", "--older-than", "soon"], "no age like 30d"),
        (["expire", "x", "--older-than", "1d", "--retention", "2h"], "at least 24h"),
        (["compact", "x", "--table", "bronze"], "--table is lake, decoded or dead_letters"),
    ],
)
def test_wrong_arguments_are_one_sentence(arguments: list[str], sentence: str) -> None:
    with pytest.raises(CommandError, match=sentence) as raised:
        app(arguments, standalone_mode=False)
    assert raised.value.code == EXIT_USAGE
