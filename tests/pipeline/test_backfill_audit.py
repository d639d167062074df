"""Backfills bring what a table lacks and nothing else; audits find what is missing and doubled."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from pipeline.errors import PipelineError
from pipeline.ingest.admin import Topic
from pipeline.ingest.offsets import KafkaSource, SourceOffsets
from pipeline.ingest.ranges import PartitionRange
from pipeline.lake.audit import audit_table, forget_missing_files, write_audits
from pipeline.lake.audit_findings import TopicAudit
from pipeline.lake.backfill import BackfillResult, backfill
from pipeline.lake.compact import compact, expire
from pipeline.lake.forget import forget
from pipeline.lake.forgotten import forgotten_offsets
from pipeline.lake.lake_tables import LakeTable, lake_tables
from pipeline.lake.load import Loader, LoadSettings
from pipeline.lake.plan import LoadSource
from pipeline.layout import PipelineLayout
from pipeline.progress import Silent
from tests.integration.stack import Stack
from tests.pipeline.topics import Record, Topics, numbered

HOUR_MS = 3_600_000
NOW_MS = int(time.time() * 1000)


@pytest.fixture(scope="module")
def instance(stack: Stack) -> dict[str, Any]:
    return stack.create_instance("repairs")


@pytest.fixture(scope="module")
def topics(instance: dict[str, Any]) -> Topics:
    return Topics(instance["bootstrap_servers"])


class Lake:
    """One topic of the instance, and its table."""

    def __init__(
        self, instance: dict[str, Any], topic: str, spark: SparkSession, layout: PipelineLayout
    ) -> None:
        self._instance = instance
        self._name = topic
        self.spark = spark
        self._layout = layout
        self.offsets = SourceOffsets(KafkaSource(instance["bootstrap_servers"]))
        self.topic: Topic = self.offsets.topics([topic])[topic]

    @property
    def table(self) -> LakeTable:
        [found] = lake_tables(self._layout, str(self._instance["id"]), [self._name])
        return found

    def load(self) -> None:
        source = LoadSource(str(self._instance["id"]), "repairs", self.offsets.source, (self._name,))
        Loader(lambda: self.spark, self._layout, [source], LoadSettings(), Silent()).run()

    def backfill(self, *window: tuple[int, int, int], offsets_max: int = 1_000_000) -> BackfillResult:
        ranges = [PartitionRange(*each) for each in window]
        return backfill(
            lambda: self.spark,
            self._layout,
            self.offsets,
            self.table,
            self.topic,
            ranges,
            Silent(),
            offsets_max,
        )

    def audit(self) -> TopicAudit:
        forgotten = forgotten_offsets(self._layout, self.topic.id)
        found = audit_table(
            lambda: self.spark, self.table, self.offsets, self.topic, forgotten, Silent(), NOW_MS
        )
        table = write_audits(self._layout, [found])
        written = DeltaTable(str(table)).to_pyarrow_table().to_pylist()
        assert sum(row["lake_rows"] for row in written if row["audited_at_ms"] == NOW_MS) >= found.lake_rows
        return found

    def places(self) -> list[tuple[int, int]]:
        rows = DeltaTable(str(self.table.path)).to_pyarrow_table(columns=["partition", "offset"]).to_pylist()
        return sorted((row["partition"], row["offset"]) for row in rows)

    def sql(self, statement: str) -> None:
        self.spark.sql(statement.format(table=f"delta.`{self.table.path}`"))


def spread(count: int, partitions: int = 2, first: int = 0) -> list[Record]:
    """Over the last five hours, in no order."""
    return [
        each._replace(timestamp_ms=NOW_MS - (n * 7 % 5) * HOUR_MS)
        for n, each in enumerate(numbered(count, partitions, first))
    ]


def rest(found: TopicAudit) -> tuple[int, int, int]:
    return found.missing_rows, found.duplicate_rows, len(found.missing_files)


def ranges(rows: Sequence[Any], kind: str) -> list[tuple[int, int, int]]:
    return sorted(
        (row.partition, each.start, each.end) for row in rows for each in getattr(row, f"{kind}_ranges")
    )


def data_file(table: Path) -> Path:
    """The largest one of the newest version."""
    return max(
        (Path(each) for each in DeltaTable(str(table)).file_uris()), key=lambda path: path.stat().st_size
    )


@pytest.mark.long
def test_an_audit_finds_what_was_done_to_a_table_and_a_backfill_mends_it(
    instance: dict[str, Any], topics: Topics, spark: SparkSession, layout: PipelineLayout
) -> None:
    topics.create("wounded", partitions=2)
    topics.produce("wounded", spread(1000))
    topics.abort("wounded", numbered(50))
    topics.produce("wounded", spread(1000, first=1000), **{"transactional.id": "wounded"})
    lake = Lake(instance, "wounded", spark, layout)
    lake.load()
    whole = lake.places()
    assert len(whole) == 2000
    found = lake.audit()
    assert found.is_complete and found.lake_rows == 2000 and found.unverified_offsets == 0
    assert [row.partition for row in found.rows] == [0, 1]

    lake.sql("DELETE FROM {table} WHERE partition = 1 AND offset BETWEEN 17 AND 19")
    lake.sql("INSERT INTO {table} SELECT * FROM {table} WHERE partition = 0 AND offset = 42")
    found = lake.audit()
    assert rest(found) == (3, 1, 0)
    assert ranges(found.rows, "duplicate") == [(0, 42, 43)]
    lost = ranges(found.rows, "missing")
    assert [(p, offset) for p, start, end in lost for offset in range(start, end)] == [
        (1, n) for n in (17, 18, 19)
    ]

    victim = data_file(lake.table.path)
    gone = {
        (row["partition"], row["offset"])
        for row in spark.read.parquet(str(victim)).select("partition", "offset").collect()
    }
    victim.unlink()
    copied = (0, 42)  # whose copy is in a file of its own
    found = lake.audit()
    lost_rows = (gone - {copied}) | {(1, 17), (1, 18), (1, 19)}
    assert (found.missing_rows, len(found.missing_files)) == (len(lost_rows), 1)
    with pytest.raises(PipelineError, match="is missing, so what it has cannot be told"):
        lake.backfill((0, 0, 5000), (1, 0, 5000))

    assert forget_missing_files(lake.table, NOW_MS) == 1
    assert forget_missing_files(lake.table, NOW_MS) == 0
    mended = lake.backfill((0, 0, 5000), (1, 0, 5000), offsets_max=700)
    assert mended.rows == found.missing_rows and mended.batches > 1
    assert sorted(set(lake.places())) == whole
    assert rest(lake.audit()) == (0, int(copied not in gone), 0)
    assert lake.backfill((0, 0, 5000), (1, 0, 5000)).rows == 0


def test_a_backfill_leaves_to_the_loader_what_it_will_bring(
    instance: dict[str, Any], topics: Topics, spark: SparkSession, layout: PipelineLayout
) -> None:
    topics.create("shared", partitions=1)
    topics.produce("shared", spread(300, 1))
    lake = Lake(instance, "shared", spark, layout)
    lake.load()
    topics.produce("shared", spread(100, 1, first=300))
    lake.sql("DELETE FROM {table} WHERE offset < 100")
    told = lake.backfill((0, 50, 10_000))
    assert (told.rows, told.present, told.left_to_load) == (50, 200, 100)
    found = lake.audit()
    assert found.missing_rows == 50 and found.waiting_offsets == 100
    lake.load()
    assert lake.places() == [(0, n) for n in range(50, 400)]
    compact(layout, lake.table.path, lake_now(), Silent())
    assert lake.backfill((0, 0, 60)).rows == 50
    assert lake.places() == [(0, n) for n in range(400)]
    assert lake.audit().is_complete


def ages_ago(lake: Lake) -> None:
    """What was loaded until now was loaded long ago."""
    lake.sql("UPDATE {table} SET ingest_hour = ingest_hour - INTERVAL 50 HOURS")


def lake_now() -> Any:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(NOW_MS / 1000, UTC)


def test_what_expired_and_what_retention_removed_is_not_missing(
    instance: dict[str, Any], topics: Topics, spark: SparkSession, layout: PipelineLayout
) -> None:
    from datetime import timedelta

    topics.create("old", partitions=1)
    topics.produce("old", spread(500, 1))
    lake = Lake(instance, "old", spark, layout)
    lake.load()
    topics.produce("old", spread(200, 1, first=500))
    ages_ago(lake)
    lake.load()
    gone = expire(lake.table.path, lake_now(), timedelta(hours=2))
    assert gone.rows == 500
    found = lake.audit()
    assert (found.is_complete, found.expired_offsets, found.lake_rows) == (True, 500, 200)
    lake.sql("DELETE FROM {table} WHERE offset BETWEEN 600 AND 609")
    assert lake.audit().missing_rows == 10
    topics.delete_records("old", 650)
    found = lake.audit()
    assert (found.missing_rows, found.unverified_offsets > 0) == (0, True)
    lake.load()
    assert lake.audit().waiting_offsets == 0


def test_rows_that_the_brokers_no_longer_have_are_held_against_the_commits(
    instance: dict[str, Any], topics: Topics, spark: SparkSession, layout: PipelineLayout
) -> None:
    topics.create("forgotten", partitions=1)
    topics.produce("forgotten", spread(100, 1))
    lake = Lake(instance, "forgotten", spark, layout)
    lake.load()
    lake.sql("DELETE FROM {table} WHERE offset BETWEEN 10 AND 14")
    topics.delete_records("forgotten", 50)
    found = lake.audit()
    assert (found.missing_rows, found.lost_rows, found.unverified_offsets) == (0, 5, 5)
    assert not found.is_complete


def test_what_was_forgotten_is_not_missed_and_not_brought_again(
    instance: dict[str, Any], topics: Topics, spark: SparkSession, layout: PipelineLayout
) -> None:
    topics.create("people", partitions=1)
    keyed = [each._replace(key=b"k%d" % (n % 10)) for n, each in enumerate(spread(100, 1))]
    topics.produce("people", keyed)
    lake = Lake(instance, "people", spark, layout)
    lake.load()
    gone = [(0, n) for n in range(2, 100, 10)]
    told = forget(layout, lake.table, frozenset({b"k2"}), Silent(), now_ms=NOW_MS)
    assert told.rows == len(gone)
    assert spark.read.format("delta").load(str(lake.table.path)).where("key = 'k2'").count() == 0
    found = lake.audit()
    assert (found.is_complete, found.forgotten_rows, found.missing_rows) == (True, len(gone), 0)
    lake.sql("DELETE FROM {table} WHERE offset BETWEEN 10 AND 14")
    assert lake.audit().missing_rows == 4  # and one of five had been forgotten
    brought = lake.backfill((0, 0, 100))
    assert (brought.rows, brought.forgotten) == (4, len(gone))
    assert lake.places() == [(0, n) for n in range(100) if (0, n) not in gone]
    assert lake.audit().is_complete
