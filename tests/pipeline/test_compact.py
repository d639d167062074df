"""Small files become large beside a loader, and whole hours go: rows and positions stay what they are."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from pipeline.errors import PipelineError
from pipeline.ingest.commits import IngestTable
from pipeline.lake import compact as maintenance
from pipeline.lake.compact import compact, data_files, expire, vacuum
from pipeline.lake.compact_log import ConflictError
from pipeline.layout import PipelineLayout
from pipeline.progress import Silent
from tests.pipeline.lake_tables import HOUR_MS, START_MS, LakeWriter, Record, now


def records(first: int, count: int, partition: int = 0) -> list[Record]:
    """Over two hours."""
    return [
        Record(partition, n, b"v%d" % n, START_MS + n % 2 * HOUR_MS, None if n % 3 else b"", [("h", None)])
        for n in range(first, first + count)
    ]


def content(path: Path) -> list[str]:
    return sorted(map(str, DeltaTable(str(path)).to_pyarrow_table().to_pylist()))


def test_what_is_loaded_meanwhile_stays(spark: SparkSession, layout: PipelineLayout) -> None:
    lake = LakeWriter(layout)
    for n in range(12):
        lake.load(records(n // 2 * 10, 10, n % 2))
    before = content(lake.table.path)

    def while_it_is_loaded() -> SparkSession:
        lake.load(records(60, 10))
        return spark

    told = compact(while_it_is_loaded, layout, lake.table.path, now(), Silent())
    assert (told.files_before, told.rewritten_files, told.files_after) == (24, 24, 4)
    assert told.rewritten_rows == len(before) == 120
    assert set(before) < set(content(lake.table.path)) and len(content(lake.table.path)) == 130

    table = DeltaTable(str(lake.table.path))
    opened = IngestTable(lake.table.path, table)
    assert opened.positions(lake.table.load_app, (0, 1)) == {0: 70, 1: 60}
    assert opened.batch(lake.table.load_app) == 12
    lake.load(records(70, 10))
    assert compact(lambda: spark, layout, lake.table.path, now(), Silent()).files_after == 2
    assert len(content(lake.table.path)) == 140
    for uri in DeltaTable(str(lake.table.path)).file_uris():
        rows = pq.read_table(uri, columns=["partition", "offset"]).to_pylist()
        keys = [(row["partition"], row["offset"]) for row in rows]
        assert keys == sorted(keys)
    assert spark.read.format("delta").load(str(lake.table.path)).count() == 140
    again = compact(lambda: pytest.fail("there is nothing to join"), layout, lake.table.path, now(), Silent())
    assert again.rewritten_files == 0 and again.small_share == 0


def test_rows_that_change_are_not_committed(
    spark: SparkSession, layout: PipelineLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = LakeWriter(layout)
    lake.load(records(0, 10))
    lake.load(records(10, 10))
    before = content(lake.table.path)
    honest = maintenance.stage

    def lossy(frame: Any, *rest: Any) -> Any:
        return honest(frame.where("offset <> 3"), *rest)

    with monkeypatch.context() as patch:
        patch.setattr(maintenance, "stage", lossy)
        with pytest.raises(PipelineError, match="nothing was changed"):
            compact(lambda: spark, layout, lake.table.path, now(), Silent())
    assert content(lake.table.path) == before

    def while_it_expires() -> SparkSession:
        vanished = [each for each in data_files(DeltaTable(str(lake.table.path))) if each.hour is not None]
        DeltaTable(str(lake.table.path)).delete(f"event_hour = '{max(f.hour for f in vanished if f.hour)}'")
        return spark

    with pytest.raises(ConflictError, match="removed already meanwhile"):
        compact(while_it_expires, layout, lake.table.path, now(), Silent())
    assert len(content(lake.table.path)) == 10


def test_files_that_another_program_has_joined_are_not_joined_again(
    spark: SparkSession, layout: PipelineLayout
) -> None:
    """delta-rs' own compaction would: every row would be there twice (docs/adr/0058)."""
    lake = LakeWriter(layout)
    lake.load(records(0, 10))
    lake.load(records(10, 10))
    before = content(lake.table.path)

    def while_it_is_joined() -> SparkSession:
        DeltaTable(str(lake.table.path)).optimize.compact()
        return spark

    with pytest.raises(ConflictError, match="removed already meanwhile"):
        compact(while_it_is_joined, layout, lake.table.path, now(), Silent())
    assert content(lake.table.path) == before


def test_whole_hours_expire_and_are_not_loaded_again(spark: SparkSession, layout: PipelineLayout) -> None:
    lake = LakeWriter(layout)
    lake.load(records(0, 20))
    lake.load([Record(0, 20, b"late", START_MS - 50 * HOUR_MS)])
    gone = expire(lake.table.path, now(), timedelta(hours=2))
    assert (gone.files, gone.rows) == (1, 1)
    gone = expire(lake.table.path, now(), timedelta(hours=1))
    assert (gone.files, gone.rows) == (1, 10)
    assert expire(lake.table.path, now(), timedelta(hours=1)).files == 0
    assert spark.read.format("delta").load(str(lake.table.path)).count() == 10
    table = IngestTable(lake.table.path, DeltaTable(str(lake.table.path)))
    assert table.positions(lake.table.load_app, (0,)) == {0: 21}
    before = content(lake.table.path)
    files = set(lake.table.path.rglob("*.parquet"))
    vacuum(lake.table.path, 24)
    assert content(lake.table.path) == before and len(set(lake.table.path.rglob("*.parquet"))) < len(files)
