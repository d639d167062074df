"""J5: every record that was loaded is in the lake table once, by looking at rows and brokers, not at claims.

Offsets are not rows: control records, compacted and aborted ones hold none. So what the table lacks of the
offsets that its commits say were read is read again; what the brokers give there is missing. What they no
longer have is held against the commits' row counts.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec
import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from pipeline.ingest.admin import Topic
from pipeline.ingest.commits import IngestTable
from pipeline.ingest.lease import table_lease
from pipeline.ingest.offsets import SourceOffsets
from pipeline.ingest.ranges import total_offsets
from pipeline.lake.audit_findings import BatchRows, Claims, TopicAudit, doubt, lost_rows
from pipeline.lake.backfill import BackfillDocument
from pipeline.lake.held import files_here, held_in, ints
from pipeline.lake.lake_tables import LakeTable
from pipeline.lake.own_rows import append_rows
from pipeline.lake.pieces import read_topic
from pipeline.lake.planning.offset_sets import (
    APART,
    Held,
    Ranges,
    by_partition,
    common,
    joined,
    minus,
    read_plan,
    total,
)
from pipeline.lake.rewrite import commit, data_files, expired_app, removal
from pipeline.layout import PipelineLayout
from pipeline.progress import Progress
from pipeline.schema.lake_audit import LAKE_AUDIT
from pipeline.store import AnyPath

TABLE: Final = "lake_audit"
_READ_OFFSETS_MAX: Final = 2_000_000


def audit_table(
    spark: Callable[[], SparkSession],
    lake: LakeTable,
    offsets: SourceOffsets,
    topic: Topic | None,
    forgotten: Mapping[int, Ranges],
    progress: Progress,
    now_ms: int,
) -> TopicAudit:
    """Look at everything. Spark is asked for where something is missing.

    `topic` is the topic as it is now, None where it is deleted or another one. `forgotten`: offsets by
    partition. Raises: PipelineError.
    """
    table = DeltaTable(str(lake.path))
    audit = TopicAudit(lake, now_ms)
    here, audit.missing_files = files_here(lake.path, table)
    kept = held_in(here)
    known = {*kept, *(topic.partitions if topic else ())}
    forgotten = {
        each: minus(ranges, kept[each].there if each in kept else []) for each, ranges in forgotten.items()
    }
    reader = IngestTable(lake.path, table)
    claims, told = _said(reader, table, lake, range(max(known, default=-1) + 1), forgotten)
    bounds = offsets.bounds([topic]).get(topic.name, {}) if topic else {}
    if topic is None:
        audit.note = "the topic is gone: its brokers cannot be asked"
    partitions = sorted({*kept, *claims.loaded})
    nothing = Held(0, [], [])
    doubts = {each: doubt(each, kept.get(each, nothing), claims, bounds) for each in partitions}
    gaps = {each: found.on_brokers for each, found in doubts.items()}
    missing = _missing(spark, offsets, topic, gaps, progress) if topic else {}
    for each in partitions:
        audit.add(each, kept.get(each, nothing), doubts[each], missing.get(each, []))
    audit.lost_rows = lost_rows(told, kept, missing, claims)
    audit.forgotten_rows = sum(map(total, forgotten.values()))
    positions = reader.positions(lake.load_app, bounds)
    audit.waiting_offsets = sum(
        max(0, each.end - positions.get(p, each.earliest)) for p, each in bounds.items()
    )
    return audit


def _missing(
    spark: Callable[[], SparkSession],
    offsets: SourceOffsets,
    topic: Topic,
    gaps: Mapping[int, Ranges],
    progress: Progress,
) -> dict[int, Ranges]:
    """What the brokers have in the gaps."""
    reads = read_plan(gaps, APART, _READ_OFFSETS_MAX)
    progress.planned(sum(map(total_offsets, reads)), "offsets")
    there: dict[int, Ranges] = {}
    done = 0
    for ranges in reads:
        for rows in read_topic(spark(), offsets, topic, ranges, _places):
            for each, found in by_partition(ints(rows, "partition"), ints(rows, "offset")).items():
                there[each] = joined([*there.get(each, ()), *found])
        done += total_offsets(ranges)
        progress.done(done)
    lacking = {each: common(there.get(each, []), ranges) for each, ranges in gaps.items()}
    return {each: ranges for each, ranges in lacking.items() if ranges}


def _places(records: DataFrame) -> pa.Table:
    return records.select("partition", "offset").toArrow()


def _said(
    reader: IngestTable,
    table: DeltaTable,
    lake: LakeTable,
    partitions: Iterable[int],
    forgotten: Mapping[int, Ranges],
) -> tuple[Claims, list[BatchRows]]:
    """What the log has of loads, backfills and expiry."""
    first = reader.first_offsets(lake.load_app, partitions)
    position = reader.positions(lake.load_app, partitions)
    loaded = {each: [(first.get(each, 0), end)] for each, end in position.items()}
    passed: dict[int, Ranges] = {}
    told = []
    for entry in table.history():
        document = _document(entry.get("userMetadata"))
        if document is None or document.app not in (lake.load_app, lake.backfill_app):
            continue
        told.append(BatchRows(_own(document, first), document.rows))
        for each in document.covered:
            loaded.setdefault(each.partition, []).append((each.start, each.end))
        for each in document.gaps:
            passed.setdefault(each.partition, []).append((each.start, each.end))
    expired = reader.numbers({each: expired_app(each) for each in partitions})
    return Claims(loaded, passed, expired, forgotten), told


def _own(document: BackfillDocument, first: Mapping[int, int]) -> dict[int, Ranges]:
    """The offsets that no other commit speaks of: a load's ranges, or a backfill's of before all loads."""
    if any(each.end > first.get(each.partition, 0) for each in document.covered):
        return {}
    ranges: dict[int, Ranges] = {}
    for each in (*document.ranges, *document.covered):
        ranges.setdefault(each.partition, []).append((each.start, each.end))
    return ranges


def _document(text: str | None) -> BackfillDocument | None:
    try:
        return msgspec.json.decode(text or "", type=BackfillDocument)
    except msgspec.DecodeError:
        return None


def forget_missing_files(lake: LakeTable, now_ms: int) -> int:
    """Take files that are not on disk out of the table, so that a backfill can bring their rows again."""
    with table_lease(lake.path, "portico pipeline audit", "maintenance"):
        table = DeltaTable(str(lake.path))
        _, gone = files_here(lake.path, table)
        if gone:
            files = [each for each in data_files(table) if each.path in gone]
            actions = [removal(each, now_ms, data_change=True) for each in files]
            document = {"job": "forget_missing_files", "files": len(gone)}
            commit(lake.path, int(table.version()), actions, "FSCK", document, now_ms)
        return len(gone)


def write_audits(layout: PipelineLayout, audits: list[TopicAudit]) -> AnyPath:
    """Append what was found to `lake_audit`; returns its path."""
    rows = [row for audit in audits for row in audit.rows]
    return append_rows(layout, TABLE, LAKE_AUDIT, "Completeness of lake tables", rows, "audit")
