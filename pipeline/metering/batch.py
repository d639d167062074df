"""One batch of usage records: what its commit holds, from bytes to staged files. IO around pure decisions.

Most batches are one Spark job: their records follow what the table has. Jobs are added for what is rare:
records that are quarantined, gaps, and records that arrive late where others were recovered.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from pipeline.ingest.staging import StagedFile, stage
from pipeline.metering.distinct import compared
from pipeline.metering.gaps import PAIR
from pipeline.metering.records import judged, quarantined, taken
from pipeline.metering.settle import ADDED, REPLACED, REWRITTEN, changes, of_pairs, opened
from pipeline.schema.usage_records import USAGE_RAW
from pipeline.store import AnyPath

NEIGHBOUR_MS: Final = 65 * 60_000
"""A master tells the totals of a live boot id once an hour: within this time a record has neighbours."""
LATE_MS: Final = 15 * 60_000
"""A batch with records that are later than this is read twice."""
_COLUMNS: Final = USAGE_RAW.fieldNames()
_BY_DAY: Final = ("day",)
DAY_MS: Final = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class IngestFigures:
    """What a batch, or all batches of a run, did."""

    records: int = 0
    """Read from the topic."""
    rows: int = 0
    """New in `usage_raw`, recovered ones not among them."""
    duplicates: int = 0
    quarantined: int = 0
    recovered_rows: int = 0
    """Added for gaps."""
    rewritten_rows: int = 0
    """Recovered rows that changed or went because their record arrived late."""

    def __add__(self, other: "IngestFigures") -> "IngestFigures":
        return IngestFigures(
            *(getattr(self, each.name) + getattr(other, each.name) for each in fields(IngestFigures))
        )


@dataclass(frozen=True, slots=True)
class StagedBatch:
    """Files for one commit of each table."""

    raw: list[StagedFile]
    replaced_days: tuple[str, ...]
    """Days of which `raw` has every row; its other files are added to what is there."""
    quarantine: list[StagedFile]
    figures: IngestFigures


@dataclass(frozen=True, slots=True)
class Batch:
    """What is the same in all steps of one batch."""

    spark: SparkSession
    table: AnyPath | None
    """`usage_raw`; None while it has no rows."""
    area: Path
    ingest_batch: int
    now_ms: int

    @property
    def _stamp(self) -> dict[str, int]:
        return {"ingest_batch": self.ingest_batch, "now_ms": self.now_ms}

    def staged(
        self, frame: DataFrame, *, heard_until_ms: int, quarantined_until: Mapping[int, int]
    ) -> StagedBatch:
        """`frame` is Kafka's; `heard_until_ms` the latest interval start that the table has.

        `quarantined_until`: per partition the next offset that the quarantine has not seen.
        """
        records = judged(frame, self.now_ms)
        since_ms = max(0, heard_until_ms - LATE_MS - NEIGHBOUR_MS)
        seen, files = self._distinct(records, since_ms)
        if seen["rows"] and seen["start_min_ms"] - NEIGHBOUR_MS < since_ms and self.table is not None:
            _discard(files)
            since_ms = max(0, seen["start_min_ms"] - NEIGHBOUR_MS)
            seen, files = self._distinct(records, since_ms)
        rejected = self._rejected(records, quarantined_until) if seen["quarantined"] else []
        figures = IngestFigures(
            records=seen["records"],
            rows=seen["rows"],
            duplicates=seen["duplicates"],
            quarantined=sum(file.rows for file in rejected),
        )
        staged = StagedBatch(files, (), rejected, figures)
        if seen["unsettled"]:
            return self._settled(staged, since_ms)
        return self._opened(staged, since_ms) if seen["gaps"] else staged

    # -- the records ------------------------------------------------------------------------------------

    def _distinct(self, records: DataFrame, since_ms: int) -> tuple[dict[str, int], list[StagedFile]]:
        """The batch's own rows, and what there is to know of them."""
        read, told = Observation(), Observation()
        # what is observed is computed whole, so what nobody reads is dropped before
        observed = records.drop("key", "value", "error").observe(
            read,
            _count(F.lit(True)).alias("records"),
            _count(F.col("reason").isNotNull()).alias("quarantined"),
        )
        rows = compared(taken(observed, **self._stamp), self._known(since_ms))
        is_row = ~F.col("is_duplicate")
        counted = rows.observe(
            told,
            _count(is_row).alias("rows"),
            _count(F.col("is_duplicate")).alias("duplicates"),
            _count(F.col("has_gap")).alias("gaps"),
            _count(F.col("is_unsettled")).alias("unsettled"),
            F.min(F.when(is_row, F.col("interval_start_ms"))).alias("start_min_ms"),
        )
        files = _stage(counted.where(is_row).select(*_COLUMNS), self.area, _BY_DAY)
        return read.get | told.get, files

    def _rejected(self, records: DataFrame, quarantined_until: Mapping[int, int]) -> list[StagedFile]:
        """Read once more, as it is rare: what is not taken. What the quarantine has is left out."""
        is_new = F.lit(True)
        for partition, offset in quarantined_until.items():
            is_new = is_new & ((F.col("kafka_partition") != partition) | (F.col("kafka_offset") >= offset))
        return _stage(quarantined(records.where(is_new), **self._stamp), self.area, ())

    def _table(self) -> DataFrame | None:
        if self.table is None:
            return None
        return self.spark.read.format("delta").load(str(self.table))

    def _known(self, since_ms: int) -> DataFrame | None:
        """Rows around the batch's; recovered ones that stand for nothing are of no use to anyone."""
        table = self._table()
        if table is None:
            return None
        day = datetime.fromtimestamp(since_ms / 1000, UTC).date()
        return table.where(
            (F.col("day") >= F.lit(day))
            & (F.col("interval_start_ms") >= since_ms)
            & (F.col("interval_ms") > 0)
        )

    # -- gaps -------------------------------------------------------------------------------------------

    def _opened(self, staged: StagedBatch, since_ms: int) -> StagedBatch:
        """Gaps between this batch's records and those before them: rows are added."""
        new, known = self._read_back(staged.raw), self._known(since_ms)
        pairs, _ = self._pairs(new, known, F.col("has_gap"))
        near = None if known is None else of_pairs(known, pairs)
        more = _stage(opened(of_pairs(new, pairs), near, **self._stamp), self.area, _BY_DAY)
        return replace(
            staged, raw=[*staged.raw, *more], figures=replace(staged.figures, recovered_rows=_rows(more))
        )

    def _settled(self, staged: StagedBatch, since_ms: int) -> StagedBatch:
        """Records among recovered ones, or without any before them: what changes is written anew."""
        new = self._read_back(staged.raw)
        pairs, began_ms = self._pairs(new, self._known(since_ms), F.col("has_gap") | F.col("is_unsettled"))
        known = self._known(max(0, min(began_ms, self.now_ms) - DAY_MS))
        whole = of_pairs(new.limit(0) if known is None else known, pairs)
        found = changes(of_pairs(new, pairs), whole, **self._stamp).cache()
        counts: Counter[str] = Counter()
        days: set[str] = set()
        for row in found.groupBy("change", F.col("day").cast("string").alias("day")).count().collect():
            counts[row["change"]] += row["count"]
            if row["change"] != ADDED:
                days.add(row["day"])
        rows = found.where(F.col("change") != REPLACED).select(*_COLUMNS)
        figures = replace(
            staged.figures, recovered_rows=counts[ADDED], rewritten_rows=counts[REWRITTEN] + counts[REPLACED]
        )
        if not days:
            more = _stage(rows, self.area, _BY_DAY) if counts[ADDED] else []
            return replace(staged, raw=[*staged.raw, *more], figures=figures)
        return replace(self._anew(staged, found, rows, sorted(days)), figures=figures)

    def _anew(self, staged: StagedBatch, found: DataFrame, rows: DataFrame, days: list[str]) -> StagedBatch:
        """Some days with every row that they have now; the batch's rows of other days beside them."""
        table = self._table()
        assert table is not None, "rows of it change"
        is_anew = F.col("day").isin([date.fromisoformat(day) for day in days])
        changed = F.broadcast(found.where(F.col("change") != ADDED).select("id"))
        kept = table.where(is_anew).join(changed, "id", "left_anti").select(*_COLUMNS)
        new = self._read_back(staged.raw).where(is_anew)
        files = _stage(kept.unionByName(new).unionByName(rows), self.area, _BY_DAY)
        others = [file for file in staged.raw if file.partition_values["day"] not in days]
        return replace(staged, raw=[*others, *files], replaced_days=tuple(days))

    def _pairs(self, new: DataFrame, known: DataFrame | None, which: Column) -> tuple[DataFrame, int]:
        """Boot ids and instances of some new records, and when the first of them began to count."""
        flagged = compared(new, known).where(which)
        found = flagged.groupBy(*PAIR).agg(F.min("counted_since_ms").alias("since_ms")).collect()
        pairs = self.spark.createDataFrame(
            [(row[0], row[1]) for row in found], "boot_id string, instance_id string"
        )
        return pairs, min(int(row["since_ms"]) for row in found)

    def _read_back(self, files: Sequence[StagedFile]) -> DataFrame:
        root = files[0].path.parent
        for _ in _BY_DAY:
            root = root.parent
        return self.spark.read.schema(USAGE_RAW).parquet(str(root)).select(*_COLUMNS)


def _stage(frame: DataFrame, area: Path, partition_by: Sequence[str]) -> list[StagedFile]:
    """Without the empty file that stands for no rows at all."""
    return [file for file in stage(frame, area, partition_by) if file.rows]


def _count(what: Column) -> Column:
    return F.count(F.when(what, 1))


def _rows(files: Sequence[StagedFile]) -> int:
    return sum(file.rows for file in files)


def _discard(files: Sequence[StagedFile]) -> None:
    for file in files:
        file.path.unlink()
