"""J4: a window of a topic's offsets into its lake table, of what the table does not have.

A backfill looks at the table's rows, not at what earlier runs say they did: so it repairs, may be killed at
any moment and started again, and brings nothing twice. Offsets from the loader's position on are left to the
loader: what it will append is never in a backfill's range, whenever either of them commits.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from pipeline.ingest.admin import Topic
from pipeline.ingest.commits import BatchDocument, IngestTable
from pipeline.ingest.lease import table_lease
from pipeline.ingest.offsets import SourceOffsets
from pipeline.ingest.ranges import Bounds, PartitionRange, total_offsets
from pipeline.ingest.staging import StagedFile, stage, tasks_area
from pipeline.lake.forgotten import forgotten_offsets
from pipeline.lake.held import held_in, ints, whole_files
from pipeline.lake.lake_tables import LakeTable
from pipeline.lake.pieces import read_topic
from pipeline.lake.planning.offset_sets import (
    APART,
    LAST,
    Held,
    Ranges,
    are_in,
    common,
    minus,
    read_plan,
    total,
)
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
    """Offsets that retention has removed."""
    left_to_load: int = 0
    """Offsets that the loader will bring, or has just begun to."""


def lacking_of(
    window: Iterable[PartitionRange],
    bounds: Mapping[int, Bounds],
    positions: Mapping[int, int],
    there: Mapping[int, Held],
    forgotten: Mapping[int, Ranges],
) -> tuple[dict[int, Ranges], BackfillResult]:
    """What of a window is to be read, below the loader's positions, and why not the rest. Pure."""
    lacking: dict[int, Ranges] = {}
    result = BackfillResult()
    for each in window:
        if each.partition not in bounds:
            continue
        earliest, end = bounds[each.partition]
        wanted = common([(each.start, each.end)], [(0, end)])
        kept = common(wanted, [(earliest, LAST)])
        asked = common(kept, [(0, positions.get(each.partition, 0))])
        gaps = minus(asked, there[each.partition].there if each.partition in there else [])
        found = minus(gaps, forgotten.get(each.partition, []))
        if found:
            lacking[each.partition] = found
        result.gone += total(wanted) - total(kept)
        result.left_to_load += total(kept) - total(asked)
        result.offsets += total(asked)
        result.present += total(asked) - total(gaps)
        result.forgotten += total(gaps) - total(found)
    return lacking, result


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
        positions = table.positions(lake.load_app, topic.partitions)
        forgotten = forgotten_offsets(layout, lake.topic_id)
        lacking, result = lacking_of(window, bounds, positions, there, forgotten)
        reads = read_plan(lacking, APART, max(1, offsets_max // max(1, len(lacking))))
        progress.planned(sum(map(total_offsets, reads)), "offsets")
        done = 0
        for part in reads:
            batch = table.batch(lake.backfill_app) + 1
            bring = _bringing(topic, -1 - batch, lacking, area)
            pieces = read_topic(spark(), offsets, topic, part, bring)
            _commit(table, lake, part, [file for files in pieces for file in files], result)
            done += total_offsets(part)
            progress.done(done)
            progress.figures(rows=result.rows, bytes=result.bytes)
        return result


def _bringing(
    topic: Topic, ingest_batch: int, lacking: Mapping[int, Ranges], area: AnyPath
) -> Callable[[DataFrame], list[StagedFile]]:
    """Stages what a piece's records add."""

    def bring(records: DataFrame) -> list[StagedFile]:
        records = records.mapInArrow(_only(lacking), records.schema)
        rows = lake_rows(records, {topic.name: Destination(topic.id, ingest_batch)})
        files = stage(rows.drop("topic"), area, (), LAKE_OPAQUE, LAKE_SORT_BY)
        return [ingested(each, datetime.now(UTC)) for each in files]

    return bring


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
