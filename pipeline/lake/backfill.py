"""J4: a window of a topic's offsets into its lake table, of what the table does not have.

A backfill looks at the table's rows, not at what earlier runs say they did: so it repairs, may be killed at
any moment and started again, and brings nothing twice. Offsets from the loader's position on are left to the
loader: what it will append is never in a backfill's range, whenever either of them commits.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from pipeline.ingest.commits import BatchDocument, IngestTable
from pipeline.ingest.lease import table_lease
from pipeline.ingest.offsets import SourceOffsets, Topic
from pipeline.ingest.ranges import Bounds, PartitionRange, total_offsets
from pipeline.ingest.staging import StagedFile, stage, tasks_area
from pipeline.lake.forgotten import forgotten_offsets
from pipeline.lake.held import held_in, ints, whole_files
from pipeline.lake.lake_tables import LakeTable
from pipeline.lake.pieces import read_topic
from pipeline.lake.planning.offset_sets import APART, Held, Ranges, are_in, minus, read_plan, total
from pipeline.lake.rows import Destination, ingested, lake_rows
from pipeline.layout import PipelineLayout
from pipeline.progress import Progress
from pipeline.schema.lake import LAKE_OPAQUE, LAKE_SORT_BY
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
        delta = DeltaTable(str(lake.path))
        table = IngestTable(lake.path, delta)
        there = held_in(whole_files(lake.path, delta))
        bounds = offsets.bounds([topic]).get(topic.name, {})
        wanted = clip(window, bounds, table.positions(lake.load_app, topic.partitions))
        result = BackfillResult(gone=wanted.gone, left_to_load=wanted.left_to_load)
        lacking = _lacking(wanted.ranges, there, forgotten_offsets(layout, lake.topic_id), result)
        reads = read_plan(lacking, APART, max(1, offsets_max // max(1, len(lacking))))
        progress.planned(sum(map(total_offsets, reads)), "offsets")
        done = 0
        for part in reads:
            batch = table.batch(lake.backfill_app) + 1
            bring = _Bring(topic, -1 - batch, lacking, area)
            pieces = read_topic(spark(), offsets, topic, part, bring)
            _commit(table, lake, part, [file for files in pieces for file in files], result)
            done += total_offsets(part)
            progress.done(done)
            progress.figures(rows=result.rows, bytes=result.bytes)
        return result


def _lacking(
    window: Sequence[PartitionRange],
    there: Mapping[int, Held],
    forgotten: Mapping[int, Ranges],
    result: BackfillResult,
) -> dict[int, Ranges]:
    """What of a window is to be read; the rest is counted."""
    lacking: dict[int, Ranges] = {}
    for each in window:
        asked = [(each.start, each.end)]
        here = there[each.partition].there if each.partition in there else []
        gaps = minus(asked, here)
        lacking[each.partition] = minus(gaps, forgotten.get(each.partition, []))
        result.offsets += each.offsets
        result.present += each.offsets - total(gaps)
        result.forgotten += total(gaps) - total(lacking[each.partition])
    return {partition: ranges for partition, ranges in lacking.items() if ranges}


@dataclass
class _Bring:
    """Stages what a piece's records add."""

    topic: Topic
    ingest_batch: int
    lacking: Mapping[int, Ranges]
    area: AnyPath

    def __call__(self, records: DataFrame) -> list[StagedFile]:
        records = records.mapInArrow(_only(self.lacking), records.schema)
        rows = lake_rows(records, {self.topic.name: Destination(self.topic.id, self.ingest_batch)})
        files = stage(rows.drop("topic"), self.area, (), LAKE_OPAQUE, LAKE_SORT_BY)
        return [ingested(each, datetime.now(UTC)) for each in files]


def _only(wanted: Mapping[int, Ranges]) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            is_wanted = are_in(ints(batch, "partition"), ints(batch, "offset"), wanted)
            yield batch.filter(pa.array(is_wanted))

    return run


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
