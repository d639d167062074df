"""J5: every record that was loaded is in the lake table once, by looking at rows and brokers, not at claims.

Offsets are not rows: control records, compacted and aborted ones hold none. So what the table lacks of the
offsets that its commits say were read is read again; what the brokers give there is missing. What they no
longer have is held against the commits' row counts.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from pipeline.ingest.commits import IngestTable
from pipeline.ingest.lease import table_lease
from pipeline.ingest.offsets import SourceOffsets, Topic
from pipeline.ingest.ranges import Bounds
from pipeline.lake.audit_findings import (
    BatchRows,
    Claims,
    Missing,
    PartitionFindings,
    Ranges,
    TopicAudit,
    add_partition,
    doubt,
    lost_rows,
)
from pipeline.lake.audit_scan import NO_HOUR, scan
from pipeline.lake.backfill import BackfillDocument
from pipeline.lake.backfill_read import read_pieces
from pipeline.lake.compact_log import commit, removal
from pipeline.lake.decode.source import file_path, log_files, slices_of
from pipeline.lake.lake_tables import LakeTable
from pipeline.lake.own_rows import append_rows
from pipeline.lake.planning.audit_runs import Runs, held, lacking, read_plan, within
from pipeline.lake.planning.compact_plan import EXPIRED_APP, DataFile
from pipeline.layout import PipelineLayout
from pipeline.progress import Progress
from pipeline.schema.lake import LAKE_PARTITION_BY
from pipeline.schema.lake_audit import LAKE_AUDIT
from pipeline.store import AnyPath

TABLE: Final = "lake_audit"
_APART: Final = 20_000
_READ_OFFSETS_MAX: Final = 2_000_000
_HOUR_US: Final = 3_600_000_000
_NOTHING: Final = np.empty(0, np.int64)


class LakeAudit:
    """Audits one table."""

    def __init__(
        self,
        spark: Callable[[], SparkSession],
        lake: LakeTable,
        offsets: SourceOffsets | None,
        topic: Topic | None,
        forgotten: Mapping[int, Ranges],
        progress: Progress,
    ) -> None:
        """`topic` is the topic as it is now, None where it is deleted or another one. `forgotten`:
        disjoint ranges of offsets by partition.
        """
        self._spark = spark
        self._lake = lake
        self._offsets = offsets
        self._topic = topic
        self._forgotten = forgotten
        self._progress = progress

    def run(self, now_ms: int) -> TopicAudit:
        """Look at everything. Raises: PipelineError."""
        table = DeltaTable(str(self._lake.path))
        files = log_files(table)
        here = [told for told in files if file_path(self._lake.path, told).exists()]
        runs = scan(self._spark, slices_of(here, self._lake.path, LAKE_PARTITION_BY[0]))
        known = {*runs, *(self._topic.partitions if self._topic else ())}
        loaded, passed, expired_before, told = _said(table, self._lake, range(max(known, default=0) + 1))
        bounds = self._bounds()
        audit = TopicAudit(self._lake, now_ms)
        audit.missing_files = [str(each["path"]) for each in files if each not in here]
        if self._topic is None:
            audit.note = "the topic is gone: its brokers cannot be asked"
        partitions = sorted({*runs, *loaded})
        empty = Runs(_NOTHING, _NOTHING, _NOTHING)
        kept = {each: held(runs.get(each, empty)) for each in partitions}
        forgotten = {each: lacking(kept[each], self._forgotten.get(each, ())) for each in partitions}
        claims = Claims(loaded, passed, expired_before, forgotten)
        doubts = {each: doubt(each, kept[each], claims, bounds) for each in partitions}
        missing = self._missing({each: found.on_brokers for each, found in doubts.items()})
        for each in partitions:
            found = PartitionFindings(
                each, runs.get(each, empty), kept[each], doubts[each], missing.get(each, _NONE)
            )
            add_partition(audit, found, claims.expired_before)
        audit.lost_rows = lost_rows(told, kept, missing, claims)
        audit.forgotten_rows = sum(end - start for ranges in forgotten.values() for start, end in ranges)
        audit.waiting_offsets = _waiting(table, self._lake, bounds)
        return audit

    def _bounds(self) -> Mapping[int, Bounds]:
        if self._offsets is None or self._topic is None:
            return {}
        return self._offsets.bounds([self._topic]).get(self._topic.name, {})

    def _missing(self, gaps: dict[int, list[tuple[int, int]]]) -> dict[int, Missing]:
        """What the brokers have in the gaps."""
        offsets, topic = self._offsets, self._topic
        if offsets is None or topic is None:
            return {}
        reads = read_plan(gaps, _APART, _READ_OFFSETS_MAX)
        self._progress.planned(sum(each.offsets for ranges in reads for each in ranges), "offsets")
        found: list[pa.Table] = []
        done = 0
        for ranges in reads:
            found += read_pieces(self._spark(), offsets, topic, ranges, _places)
            done += sum(each.offsets for each in ranges)
            self._progress.done(done)
        return {each: _of_partition(found, each, wanted) for each, wanted in gaps.items()} if found else {}


_NONE: Final = Missing(_NOTHING, _NOTHING)


def _places(records: DataFrame) -> pa.Table:
    hour = "CASE WHEN timestamp IS NULL THEN NULL ELSE unix_micros(timestamp) END AS time_us"
    return records.selectExpr("partition", "offset", hour).toArrow()


def _of_partition(found: list[pa.Table], partition: int, gaps: list[tuple[int, int]]) -> Missing:
    offsets, hours = [_NOTHING], [_NOTHING]
    for table in found:
        chosen = table.filter(pa.compute.equal(table.column("partition"), partition))
        at = chosen.column("offset").to_numpy().astype(np.int64)
        times = chosen.column("time_us").fill_null(NO_HOUR * _HOUR_US).to_numpy().astype(np.int64)
        is_lacking = within(at, gaps)
        offsets.append(at[is_lacking])
        hours.append(np.floor_divide(times[is_lacking], _HOUR_US))
    return Missing(np.concatenate(offsets), np.concatenate(hours))


class _Said(NamedTuple):
    """What the log has of loads, backfills and expiry; of offsets as in `Claims`."""

    loaded: dict[int, Ranges]
    passed_over: dict[int, Ranges]
    expired_before: int | None
    batches: list[BatchRows]


def _said(table: DeltaTable, lake: LakeTable, partitions: Iterable[int]) -> _Said:
    reader = IngestTable(lake.path, table)
    first = reader.first_offsets(lake.load_app, partitions)
    position = reader.positions(lake.load_app, partitions)
    loaded = {each: [(first.get(each, 0), end)] for each, end in position.items()}
    passed: dict[int, list[tuple[int, int]]] = {}
    told = []
    for entry in table.history():
        document = _document(entry.get("userMetadata"))
        if document is None or document.app not in (lake.load_app, lake.backfill_app):
            continue
        told.append(BatchRows(_own(document, first), document.rows, _hour(document.timestamp_min)))
        for each in document.covered:
            loaded.setdefault(each.partition, []).append((each.start, each.end))
        for each in document.gaps:
            passed.setdefault(each.partition, []).append((each.start, each.end))
    expired = table.transaction_version(EXPIRED_APP)
    return _Said(loaded, passed, None if expired is None else int(expired), told)


def _own(document: BackfillDocument, first: Mapping[int, int]) -> dict[int, list[tuple[int, int]]]:
    """The offsets that no other commit speaks of: a load's ranges, or a backfill's of before all loads."""
    ranges: dict[int, list[tuple[int, int]]] = {}
    for each in document.ranges:
        ranges.setdefault(each.partition, []).append((each.start, each.end))
    if any(each.end > first.get(each.partition, 0) for each in document.covered):
        return {}
    for each in document.covered:
        ranges.setdefault(each.partition, []).append((each.start, each.end))
    return ranges


def _document(text: str | None) -> BackfillDocument | None:
    if not text:
        return None
    try:
        return msgspec.json.decode(text, type=BackfillDocument)
    except msgspec.DecodeError:
        return None


def _hour(text: str | None) -> int | None:
    if text is None:
        return None
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return int(moment.timestamp() // 3600)


def _waiting(table: DeltaTable, lake: LakeTable, bounds: Mapping[int, Bounds]) -> int:
    positions = IngestTable(lake.path, table).positions(lake.load_app, bounds)
    return sum(max(0, each.end - positions.get(p, each.earliest)) for p, each in bounds.items())


def forget_missing_files(lake: LakeTable, now_ms: int) -> int:
    """Take files that are not on disk out of the table, so that a backfill can bring their rows again."""
    with table_lease(lake.path, "portico pipeline audit", "maintenance"):
        table = DeltaTable(str(lake.path))
        lost = [each for each in log_files(table) if not file_path(lake.path, each).exists()]
        if lost:
            files = [
                DataFile(
                    str(each["path"]), int(each["size_bytes"]), int(each["num_records"]), None, {}, (0, 0)
                )
                for each in lost
            ]
            actions = [removal(each, now_ms, data_change=True) for each in files]
            document = {"job": "forget_missing_files", "files": len(lost)}
            commit(lake.path, int(table.version()), actions, "FSCK", document, now_ms)
        return len(lost)


def write_audits(layout: PipelineLayout, audits: list[TopicAudit]) -> AnyPath:
    """Append what was found to `lake_audit`; returns its path."""
    rows = [row for audit in audits for row in audit.rows]
    return append_rows(layout, TABLE, LAKE_AUDIT, "Completeness of lake tables", rows, "audit")
