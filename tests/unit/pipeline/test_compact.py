"""Small files become large beside a loader, and old loads go: rows and positions stay what they are."""

import multiprocessing
import os
import signal
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from pipeline.errors import PipelineError
from pipeline.ingest.commits import IngestTable
from pipeline.ingest.lease import table_lease
from pipeline.lake import compact as maintenance
from pipeline.lake.compact import compact, expire, tidy, vacuum
from pipeline.lake.lake_tables import lake_tables
from pipeline.lake.rewrite import ConflictError
from pipeline.layout import PipelineLayout
from pipeline.progress import Silent
from tests.pipeline.lake_tables import HOUR_MS, START_MS, LakeWriter, Record, now

FOREVER_S = float("inf")


@pytest.fixture
def layout(tmp_path: Path) -> PipelineLayout:
    return PipelineLayout(tmp_path)


def records(first: int, count: int, partition: int = 0) -> list[Record]:
    """Over two hours."""
    return [
        Record(partition, n, b"v%d" % n, START_MS + n % 2 * HOUR_MS, None if n % 3 else b"", [("h", None)])
        for n in range(first, first + count)
    ]


def content(path: Any) -> list[str]:
    return sorted(map(str, DeltaTable(str(path)).to_pyarrow_table().to_pylist()))


def before_the_commit(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Once: what others do while files are rewritten."""
    honest = maintenance.must_be_equal

    def meanwhile(*arguments: Any) -> None:
        monkeypatch.setattr(maintenance, "must_be_equal", honest)
        honest(*arguments)
        act()

    monkeypatch.setattr(maintenance, "must_be_equal", meanwhile)


def test_what_is_loaded_meanwhile_stays(layout: PipelineLayout, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = LakeWriter(layout)
    for n in range(12):
        lake.loaded_at += timedelta(hours=n // 6)
        lake.load(records(n // 2 * 10, 10, n % 2))
    before = content(lake.table.path)
    before_the_commit(monkeypatch, lambda: lake.load(records(60, 10)))
    told = compact(layout, lake.table.path, now(), Silent())
    assert (told.files_before, told.rewritten_files, told.files_after) == (12, 6, 8)
    assert told.rewritten_rows == 60
    assert set(before) < set(content(lake.table.path)) and len(content(lake.table.path)) == 130

    opened = IngestTable(lake.table.path, DeltaTable(str(lake.table.path)))
    assert opened.positions(lake.table.load_app, (0, 1)) == {0: 70, 1: 60}
    assert opened.batch(lake.table.load_app) == 12
    lake.load(records(70, 10))
    compact(layout, lake.table.path, now(), Silent())
    assert len(content(lake.table.path)) == 140
    for uri in DeltaTable(str(lake.table.path)).file_uris():
        times = pq.read_table(uri, columns=["timestamp"]).column("timestamp").to_pylist()
        assert times == sorted(times)
    again = compact(layout, lake.table.path, now(), Silent())
    assert again.rewritten_files == 0 and again.small_share == 0


def test_rows_that_change_are_not_committed(layout: PipelineLayout, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = LakeWriter(layout)
    lake.load(records(0, 10))
    lake.load(records(10, 10))
    before = content(lake.table.path)
    honest = maintenance.rewritten

    def lossy(*arguments: Any) -> Any:
        return honest(*arguments, lambda rows: rows.column("offset").to_numpy() == 3)

    with monkeypatch.context() as patch:
        patch.setattr(maintenance, "rewritten", lossy)
        with pytest.raises(PipelineError, match="nothing was changed"):
            compact(layout, lake.table.path, now(), Silent())
    assert content(lake.table.path) == before
    before_the_commit(monkeypatch, lambda: DeltaTable(str(lake.table.path)).delete("offset < 5"))
    with pytest.raises(ConflictError, match="removed already meanwhile"):
        compact(layout, lake.table.path, now(), Silent())
    assert len(content(lake.table.path)) == 15


def test_files_that_another_program_has_joined_are_not_joined_again(
    layout: PipelineLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """delta-rs' own compaction would: every row would be there twice (docs/adr/0058)."""
    lake = LakeWriter(layout)
    lake.load(records(0, 10))
    lake.load(records(10, 10))
    before = content(lake.table.path)
    before_the_commit(monkeypatch, lambda: DeltaTable(str(lake.table.path)).optimize.compact())
    with pytest.raises(ConflictError, match="removed already meanwhile"):
        compact(layout, lake.table.path, now(), Silent())
    assert content(lake.table.path) == before


def test_a_load_joins_very_small_files_where_there_are_many(layout: PipelineLayout) -> None:
    lake = LakeWriter(layout)
    path = lake.table.path

    def loaded(batch: int) -> int:
        lake.load(records(10 * batch, 10))
        return tidy(layout, path, now(), FOREVER_S)

    assert [loaded(batch) for batch in range(16)] == [*[0] * 15, 16]
    with table_lease(path, "another", "maintenance"):
        assert [loaded(batch) for batch in range(16, 32)] == [0] * 16, "it is left to those who maintain"
    assert tidy(layout, path, now(), 0.0) == 0, "there is no time left"
    assert tidy(layout, path, now(), FOREVER_S) == 17
    assert len(DeltaTable(str(path)).file_uris()) == 1 and len(content(path)) == 320


def test_a_load_leaves_files_that_others_change_to_them(
    layout: PipelineLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = LakeWriter(layout)
    for batch in range(16):
        lake.load(records(10 * batch, 10))
    before_the_commit(monkeypatch, lambda: DeltaTable(str(lake.table.path)).delete("offset < 5"))
    assert tidy(layout, lake.table.path, now(), FOREVER_S) == 0
    assert len(content(lake.table.path)) == 155


def _dies(data_dir: Path, step: str) -> None:
    """A compaction in a process of its own, that is killed where it comes to a step."""

    def die(*_: Any, **__: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(maintenance, step, die)
    layout = PipelineLayout(data_dir)
    tidy(layout, layout.lake("i-1", "clicks", "0" * 29 + "abc"), now(), FOREVER_S)


@pytest.mark.parametrize("step", ["rewritten", "must_be_equal", "move_into", "commit"])
def test_killed_at_any_step(layout: PipelineLayout, step: str) -> None:
    lake = LakeWriter(layout)
    for batch in range(16):
        lake.load(records(10 * batch, 10))
    before = content(lake.table.path)
    process = multiprocessing.get_context("spawn").Process(target=_dies, args=(layout.root.parent, step))
    process.start()
    process.join(120)
    assert process.exitcode == -signal.SIGKILL
    assert content(lake.table.path) == before
    assert tidy(layout, lake.table.path, now(), FOREVER_S) == 16
    assert content(lake.table.path) == before
    areas = [each for each in layout.lake_staging_here.iterdir() if each.is_dir()]
    assert all(each.name.startswith("written-") for each in areas), "what it left is gone"


def test_old_loads_expire_and_are_not_loaded_again(layout: PipelineLayout) -> None:
    """By when they were loaded: a time that a tenant chose keeps no row, and removes none."""
    lake = LakeWriter(layout)
    lake.loaded_at -= timedelta(hours=50)
    lake.load([*records(0, 10), Record(0, 10, b"far", 253_402_300_799_000)])
    lake.loaded_at += timedelta(hours=50)
    lake.load(records(11, 10))
    lake.load([Record(0, 21, b"old", START_MS - 500 * HOUR_MS)])
    gone = expire(lake.table.path, now(), timedelta(hours=10))
    assert (gone.files, gone.rows) == (1, 11)
    assert expire(lake.table.path, now(), timedelta(hours=10)).files == 0
    delta = DeltaTable(str(lake.table.path))
    assert delta.to_pyarrow_table().num_rows == 11
    assert delta.transaction_version("expire/0") == 11
    assert IngestTable(lake.table.path, delta).positions(lake.table.load_app, (0,)) == {0: 22}
    before = content(lake.table.path)
    files = set(lake.table.path.rglob("*.parquet"))
    vacuum(lake.table.path, 24)
    assert content(lake.table.path) == before and len(set(lake.table.path.rglob("*.parquet"))) < len(files)


def test_times_of_a_year_make_one_folder(layout: PipelineLayout) -> None:
    lake = LakeWriter(layout)
    hours = [Record(0, n, b"x", START_MS + n * HOUR_MS) for n in range(365 * 24)]
    ends = [Record(0, 8760, b"x", -62_135_596_800_000), Record(0, 8761, b"x", 253_402_300_799_999)]
    lake.load([*hours, *ends])
    lake.load([Record(0, 8762, b"x", -62_135_596_800_000)])
    compact(layout, lake.table.path, now(), Silent())
    assert len({each.parent for each in lake.table.path.rglob("*.parquet")}) == 1
    table = DeltaTable(str(lake.table.path))
    old = table.to_pyarrow_table(filters=[("timestamp", "<", datetime(2, 1, 1, tzinfo=UTC))])
    assert sorted(old.column("offset").to_pylist()) == [8760, 8762]
    [told] = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    assert told["min.timestamp"].year == 1 and told["max.timestamp"].year == 9999


def test_a_table_that_was_partitioned_otherwise_is_a_sentence(layout: PipelineLayout) -> None:
    """And stays as it is."""
    path = layout.lake("i-1", "clicks", "0" * 29 + "abc")
    hour = pa.array([datetime(2026, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    write_deltalake(str(path), pa.table({"offset": [1], "event_hour": hour}), partition_by=["event_hour"])
    before = content(path)
    for act in (lambda: lake_tables(layout, "i-1"), lambda: LakeWriter(layout)):
        with pytest.raises(PipelineError, match="partitioned by event_hour, not by ingest_hour"):
            act()
    assert content(path) == before


def test_a_damaged_file_is_a_sentence(layout: PipelineLayout) -> None:
    lake = LakeWriter(layout)
    for first in (0, 10):
        lake.load(records(first, 10))
    victim = Path(DeltaTable(str(lake.table.path)).file_uris()[0])
    victim.write_bytes(victim.read_bytes()[:-20] + b"x" * 20)
    with pytest.raises(PipelineError, match="missing or damaged"):
        compact(layout, lake.table.path, now(), Silent())
    victim.unlink()
    with pytest.raises(PipelineError, match="missing or damaged"):
        compact(layout, lake.table.path, now(), Silent())
    assert len(DeltaTable(str(lake.table.path)).file_uris()) == 2
