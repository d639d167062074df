"""J4: a window of a topic's offsets into its lake table, of what the table does not have.

A backfill looks at the table's rows, not at what earlier runs say they did: so it repairs, may be killed at
any moment and started again, and brings nothing twice. Offsets from the loader's position on are left to the
loader: what it will append is never in a backfill's range, whenever either of them commits.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from pipeline.errors import PipelineError
from pipeline.ingest.commits import BatchDocument, IngestTable
from pipeline.ingest.lease import table_lease
from pipeline.ingest.offsets import SourceOffsets, Topic
from pipeline.ingest.ranges import Bounds, PartitionRange, take, total_offsets, without
from pipeline.ingest.staging import StagedFile, stage, tasks_area
from pipeline.lake.backfill_read import read_pieces
from pipeline.lake.decode.source import file_path, log_files
from pipeline.lake.forgotten import forgotten_offsets
from pipeline.lake.lake_tables import LakeTable
from pipeline.lake.planning.audit_runs import clipped
from pipeline.lake.rows import Destination, lake_rows
from pipeline.layout import PipelineLayout
from pipeline.progress import Progress
from pipeline.schema.lake import LAKE_OPAQUE, LAKE_PARTITION_BY
from pipeline.store import AnyPath

JOB: Final = "backfill"
JOB_VERSION: Final = "1"
OFFSETS_PER_BATCH_MAX: Final = 1_000_000


class BackfillDocument(BatchDocument, frozen=True, kw_only=True, omit_defaults=True):
    """What a commit of a backfill says; it has no positions, so `ranges` are empty."""

    covered: tuple[PartitionRange, ...] = ()
    """After it the table has all records of these offsets."""


class Clipped(NamedTuple):
    """What of a window a backfill reads, and why not the rest."""

    ranges: tuple[PartitionRange, ...]
    gone: int
    """Offsets that retention has removed."""
    left_to_load: int
    """Offsets that the loader will bring, or has just begun to."""


@dataclass
class BackfillResult:
    """What one run did."""

    rows: int = 0
    """Added."""
    bytes: int = 0
    batches: int = 0
    present: int = 0
    """Rows of the window that were there."""
    offsets: int = 0
    forgotten: int = 0
    """Offsets whose records were taken out on purpose: they stay away."""
    gone: int = 0
    left_to_load: int = 0


def clip(
    window: Iterable[PartitionRange], bounds: Mapping[int, Bounds], positions: Mapping[int, int]
) -> Clipped:
    """What the brokers have of a window below the loader's positions. Pure."""
    ranges, gone, left = [], 0, 0
    for each in window:
        if each.partition not in bounds:
            continue
        earliest, end = bounds[each.partition]
        wanted = each._replace(end=min(each.end, max(end, each.start)))
        gone += max(0, min(wanted.end, earliest) - wanted.start)
        position = positions.get(each.partition, 0)
        start = max(wanted.start, earliest)
        left += max(0, wanted.end - max(start, position))
        if start < min(wanted.end, position):
            ranges.append(PartitionRange(each.partition, start, min(wanted.end, position)))
    return Clipped(tuple(ranges), gone, left)


def backfill(
    spark: Callable[[], SparkSession],
    layout: PipelineLayout,
    offsets: SourceOffsets,
    lake: LakeTable,
    topic: Topic,
    window: Sequence[PartitionRange],
    progress: Progress,
    offsets_max: int = OFFSETS_PER_BATCH_MAX,
) -> BackfillResult:
    """Add what the table lacks of a window. Raises: PipelineError."""
    assert topic.id == lake.topic_id, "the table of the topic as it is now"
    with (
        table_lease(lake.path, "portico pipeline backfill", JOB),
        tasks_area(layout.lake_staging) as area,
    ):
        table = IngestTable(lake.path, DeltaTable(str(lake.path)))
        _must_be_whole(lake)
        bounds = offsets.bounds([topic]).get(topic.name, {})
        wanted = clip(window, bounds, table.positions(lake.load_app, topic.partitions))
        result = BackfillResult(gone=wanted.gone, left_to_load=wanted.left_to_load)
        forgotten = forgotten_offsets(layout, lake.topic_id)
        waiting = wanted.ranges
        progress.planned(total_offsets(waiting), "offsets")
        while waiting:
            [part] = take({topic.name: waiting}, offsets_max).values()
            present = _present(spark(), lake, part)
            here = present.count()
            kept_away = _within(part, forgotten)
            if here < total_offsets(part):
                batch = table.batch(lake.backfill_app) + 1
                if kept_away:
                    present = present.unionByName(_frame(spark(), kept_away))
                bring = _Bring(topic, -1 - batch, present if here or kept_away else None, area)
                pieces = read_pieces(spark(), offsets, topic, part, bring)
                _commit(table, lake, part, [file for files in pieces for file in files], result)
            waiting = without(waiting, part)
            result.present += here
            result.forgotten += total_offsets(kept_away)
            result.offsets += total_offsets(part)
            progress.done(result.offsets)
            progress.figures(rows=result.rows, bytes=result.bytes)
        return result


@dataclass
class _Bring:
    """Stages what a piece's records add."""

    topic: Topic
    ingest_batch: int
    present: DataFrame | None
    area: AnyPath

    def __call__(self, records: DataFrame) -> list[StagedFile]:
        if self.present is not None:
            records = records.join(self.present, ["partition", "offset"], "left_anti")
        rows = lake_rows(records, {self.topic.name: Destination(self.topic.id, self.ingest_batch)})
        return stage(rows.drop("topic"), self.area, LAKE_PARTITION_BY, LAKE_OPAQUE)


def _must_be_whole(lake: LakeTable) -> None:
    for told in log_files(DeltaTable(str(lake.path))):
        if not (path := file_path(lake.path, told)).exists():
            raise PipelineError(
                f"file {path} of the table is missing, so what it has cannot be told: give the file back, or "
                "run `portico pipeline audit --forget-missing-files` and then this again"
            )


def _present(spark: SparkSession, lake: LakeTable, part: Sequence[PartitionRange]) -> DataFrame:
    inside = " OR ".join(
        f"(partition = {each.partition} AND offset >= {each.start} AND offset < {each.end})" for each in part
    )
    return spark.read.format("delta").load(str(lake.path)).where(inside).select("partition", "offset")


def _within(
    part: Sequence[PartitionRange], forgotten: Mapping[int, Sequence[tuple[int, int]]]
) -> list[PartitionRange]:
    return [
        PartitionRange(each.partition, start, end)
        for each in part
        for start, end in clipped(forgotten.get(each.partition, ()), each.start, each.end)
    ]


def _frame(spark: SparkSession, ranges: Sequence[PartitionRange]) -> DataFrame:
    """A row for each offset."""
    rows = spark.createDataFrame([tuple(each) for each in ranges], "partition int, start bigint, end bigint")
    return rows.selectExpr("partition", "explode(sequence(start, end - 1)) AS offset")


def _commit(
    table: IngestTable,
    lake: LakeTable,
    part: Sequence[PartitionRange],
    files: Sequence[StagedFile],
    result: BackfillResult,
) -> None:
    """Nothing where the table lacked nothing: then it is not changed."""
    if not files:
        return
    document = BackfillDocument(
        app=lake.backfill_app,
        batch=table.batch(lake.backfill_app) + 1,
        job=JOB,
        job_version=JOB_VERSION,
        topic=lake.topic,
        topic_id=lake.topic_id,
        covered=tuple(part),
    ).counted(files, "timestamp")
    table.append(files, document)
    result.rows += document.rows
    result.bytes += document.bytes
    result.batches += 1
