"""One batch of usage records: what its commit holds, from bytes to staged files. IO around queries.

Most batches follow what the table has. Steps are added for what is rare: records that are quarantined, gaps,
and records that arrive late where others were recovered.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
from duckdb import DuckDBPyConnection

from pipeline.ingest.commits import IngestTable
from pipeline.ingest.staging import StagedFile, staged_file
from pipeline.metering.distinct import KNOWN_COLUMNS, compared
from pipeline.metering.gaps import PAIR
from pipeline.metering.messages import read
from pipeline.metering.records import PLACE, judged, quarantined, taken
from pipeline.metering.settle import ADDED, COLUMNS, REPLACED, changes, opened
from pipeline.schema.usage_records import USAGE_QUARANTINE, USAGE_RAW

NEIGHBOUR_MS: Final = 65 * 60_000
"""A master tells the totals of a live boot id once an hour: within this time a record has neighbours."""
LATE_MS: Final = 15 * 60_000
DAY_MS: Final = 24 * 3600 * 1000
_ROWS_AT_ONCE: Final = 100_000
DAY_FOLDERS: Final = pyarrow.dataset.partitioning(pa.schema([USAGE_RAW.field("day")]), flavor="hive")


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

    database: DuckDBPyConnection
    """An empty one."""
    raw: IngestTable
    """`usage_raw` before the batch."""
    area: Path
    now_ms: int
    removed_before_ms: int = 0
    """Rows before are gone, but for each counter's last one."""

    @property
    def _stamp(self) -> dict[str, int]:
        return {"ingest_batch": self.raw.version + 1, "now_ms": self.now_ms}

    def staged(
        self, messages: pa.Table, *, heard_until_ms: int, quarantined_until: Mapping[int, int]
    ) -> StagedBatch:
        """`messages` as `consume` has them; `heard_until_ms` the latest interval start that the table has.

        `quarantined_until`: per partition the next offset that the quarantine has not seen.
        """
        found = read(messages)
        self.database.register("batches", found.batches)
        self._make("judged", judged("batches", self.now_ms))
        self.database.execute(f"create temp view taken as {taken('judged', **self._stamp)}")
        [(records, accepted, start_ms)] = self.database.sql(
            """select count(*), count(*) filter (reason is null),
            min(interval_start_ms) filter (reason is null) from judged"""
        ).fetchall()
        records += found.unreadable.num_rows
        since_ms = heard_until_ms - LATE_MS
        since_ms = max(0, min(since_ms, start_ms or since_ms) - NEIGHBOUR_MS)
        # Rows of no length are no neighbours: they take back bytes, or stand for nothing any more.
        self._load("near", since_ms, KNOWN_COLUMNS, "where interval_ms > 0")
        self._make("told", compared("taken", "near"))
        self.database.execute(
            f"""create temp view fresh as select {COLUMNS} from taken semi join
            (from told where not is_duplicate) using ({PLACE})"""
        )
        [(rows, gaps, unsettled)] = self.database.sql(
            """select count(*) filter (not is_duplicate), count(*) filter (has_gap),
            count(*) filter (is_unsettled) from told"""
        ).fetchall()
        beside = self._changes(since_ms, bool(unsettled)) if gaps or unsettled else {}
        days = sorted({str(day) for change, day in beside if change != ADDED})
        rejected = self._rejected(messages, found.unreadable, quarantined_until) if accepted < records else []
        added = sum(count for (change, _), count in beside.items() if change == ADDED)
        figures = IngestFigures(
            records=records,
            rows=rows,
            duplicates=accepted - rows,
            quarantined=sum(file.rows for file in rejected),
            recovered_rows=added,
            rewritten_rows=sum(beside.values()) - added,
        )
        return StagedBatch(self._rows(bool(beside), days), tuple(days), rejected, figures)

    def _make(self, table: str, query: str) -> None:
        self.database.execute(f"create temp table {table} as {query}")

    def _load(self, table: str, since_ms: int, columns: Sequence[str], only: str) -> None:
        """Rows of `usage_raw` since then."""
        day = datetime.fromtimestamp(since_ms / 1000, UTC).date()
        where = (pc.field("day") >= day) & (pc.field("interval_start_ms") >= since_ms)
        self._read(table, where, columns, only)

    def _read(
        self, table: str, where: pc.Expression, columns: Sequence[str] = USAGE_RAW.names, only: str = ""
    ) -> None:
        """Times are made anew from milliseconds: those of tables know a zone, ours here need none."""
        reader = self.raw.dataset().scanner(columns=[*columns], filter=where).to_reader()
        self.database.register("stored", reader)
        times = "replace (make_timestamp_ms(interval_start_ms) as interval_start)"
        self._make(table, f"select * {times if 'interval_start' in columns else ''} from stored {only}")
        self.database.unregister("stored")

    # -- beside the records themselves --------------------------------------------------------------------

    def _rejected(
        self, messages: pa.Table, unreadable: pa.Table, quarantined_until: Mapping[int, int]
    ) -> list[StagedFile]:
        """What is not taken. What the quarantine has is left out."""
        seen = " or ".join(
            f"(kafka_partition = {partition} and kafka_offset < {offset})"
            for partition, offset in quarantined_until.items()
        )
        self.database.register("messages", messages)
        self.database.register("unreadable", unreadable)
        query = quarantined("judged", "messages", "unreadable", **self._stamp, new=f"not ({seen or 'false'})")
        return self._stage(query, USAGE_QUARANTINE)

    def _changes(self, since_ms: int, is_unsettled: bool) -> dict[tuple[str, date], int]:
        """Make `beside`: rows that are recovered or change, and what becomes of them; returns how many.

        Gaps between this batch's records and those before them only add rows. With records among recovered
        ones, or without any before them, the whole history of their boot ids is looked at.
        """
        self._make(
            "pairs",
            f"select {PAIR}, min(counted_since_ms) as since_ms from told "
            f"where has_gap or is_unsettled group by {PAIR}",
        )
        if is_unsettled:
            [(began_ms,)] = self.database.sql("select min(since_ms) from pairs").fetchall()
            since_ms = max(0, min(began_ms, self.now_ms) - DAY_MS)
        of_pairs = f"semi join pairs using ({PAIR})"
        self._load("whole", since_ms, USAGE_RAW.names, of_pairs)
        new, known = f"(from fresh {of_pairs})", "whole"
        if is_unsettled:
            query = changes(new, known, **self._stamp, removed_before_ms=self.removed_before_ms)
            self._make("beside", query)
        else:
            self._make("beside", f"select *, '{ADDED}' as change from ({opened(new, known, **self._stamp)})")
        counts = self.database.sql("select change, day, count(*) from beside group by all").fetchall()
        return {(change, day): count for change, day, count in counts}

    def _rows(self, has_beside: bool, days: Sequence[str]) -> list[StagedFile]:
        """The batch's rows and those beside them; of `days`, whose rows change, all that they have now."""
        parts = [f"select {COLUMNS} from fresh"]
        if has_beside:
            parts.append(f"select {COLUMNS} from beside where change <> '{REPLACED}'")
        if days:
            self._read("kept", pc.field("day").isin([date.fromisoformat(day) for day in days]))
            changed = f"(from beside where change <> '{ADDED}')"
            parts.append(f"select {COLUMNS} from kept anti join {changed} using (id)")
        return self._stage(" union all ".join(parts), USAGE_RAW, DAY_FOLDERS)

    def _stage(
        self, query: str, schema: pa.Schema, by: pyarrow.dataset.Partitioning | None = None
    ) -> list[StagedFile]:
        return stage_rows(self.database, query, schema, self.area, by)


def stage_rows(
    database: DuckDBPyConnection,
    query: str,
    schema: pa.Schema,
    area: Path,
    by: pyarrow.dataset.Partitioning | None = None,
) -> list[StagedFile]:
    """Files of a query's rows, none where there are none."""
    found = database.sql(query).to_arrow_reader(_ROWS_AT_ONCE)
    folder, name = area / uuid.uuid4().hex, uuid.uuid4().hex
    parquet = pyarrow.dataset.ParquetFileFormat()
    pyarrow.dataset.write_dataset(
        pa.RecordBatchReader.from_batches(schema, (batch.cast(schema) for batch in found)),
        folder,
        format=parquet,
        file_options=parquet.make_write_options(compression="zstd", compression_level=1),
        partitioning=by,
        basename_template=f"part-{{i}}-{name}.zstd.parquet",
        min_rows_per_group=_ROWS_AT_ONCE,
    )
    files = [staged_file(path, folder) for path in sorted(folder.rglob("*.parquet"))]
    return [file for file in files if file.rows]
