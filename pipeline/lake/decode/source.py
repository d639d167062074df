"""What decode tasks read: row groups of Parquet files, chosen by a table's log and read with Arrow.

Spark would hand every row from its own format to Arrow's one by one, which costs more than decoding it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from pipeline.errors import PipelineError
from pipeline.ingest.commits import IngestTable
from pipeline.lake.decode.steps import BatchSpan, spread
from pipeline.lake.lake_tables import LakeTable
from pipeline.schema.lake import LAKE_PARTITION_BY
from pipeline.store import AnyPath, of_text, open_parquet

_BATCH_ROWS: Final = 8192
RECORD_COLUMNS: Final = ("partition", "offset", "timestamp", "key", "value", "headers")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Slice(NamedTuple):
    """One row group of a file."""

    path: str
    hour_us: int | None
    """When its rows were loaded, the table's partition."""
    row_group: int
    rows: int
    low: int | None
    """The lowest ingest batch, and below the highest; None where the file does not tell."""
    high: int | None


class Selection(NamedTuple):
    """Which rows of slices are meant."""

    rows: pc.Expression
    column: str
    """That `rows` looks at."""
    bounds: tuple[tuple[int, int], ...] = ()
    """Ingest batches from and to, one of which a slice has to have; none: any may."""
    again: bool = False
    """Whether they are dead letters, each at its next attempt."""

    def may_have(self, part: Slice) -> bool:
        """Whether a slice has to be read."""
        if not self.bounds or part.low is None or part.high is None:
            return True
        return any(low <= part.high and part.low <= high for low, high in self.bounds)

    def attempts(self, found: pa.RecordBatch) -> pa.Array:
        """Which try this is, from 1."""
        first = pa.scalar(1, pa.int32())
        return pc.add(found.column("attempt"), first) if self.again else pa.repeat(first, found.num_rows)


def of_batches(span: BatchSpan) -> Selection:
    """Lake rows of a span of batches."""
    backfills = (-span.backfills[1], -span.backfills[0] - 1)  # backfill n is written as -(n + 1)
    bounds = ((span.loads[0], span.loads[1] - 1), backfills)
    batch = pc.field("ingest_batch")
    first, second = ((batch >= low) & (batch <= high) for low, high in bounds)
    return Selection(first | second, "ingest_batch", bounds)


def of_letters(error_classes: Sequence[str]) -> Selection:
    """Dead letters, all or those of some error classes."""
    error_class = pc.field("error_class")
    wanted = error_class.isin([*error_classes]) if error_classes else error_class.is_valid()
    return Selection(wanted, "error_class", again=True)


class LakeSource(NamedTuple):
    """One version of a lake table."""

    loads_end: int
    """Behind the last load's batch number."""
    backfills_end: int
    rows: dict[int, int]
    """About how many each ingest batch has."""
    slices: list[Slice]


def lake_source(lake: LakeTable) -> LakeSource:
    """The table now, without Spark. Raises: PipelineError."""
    table = DeltaTable(str(lake.path))
    reader = IngestTable(lake.path, table)
    loads_end, backfills_end = (reader.batch(app) + 1 for app in (lake.load_app, lake.backfill_app))
    slices = slices_of(log_files(table), lake.path, LAKE_PARTITION_BY[0])
    told = [
        (each.rows, each.low, each.high) for each in slices if each.low is not None and each.high is not None
    ]
    return LakeSource(loads_end, backfills_end, spread(told), slices)


def log_files(table: DeltaTable) -> list[dict[str, Any]]:
    """What the log says of a version's files: `num_records`, `min.<column>` and so on."""
    return list(pa.table(table.get_add_actions(flatten=True)).to_pylist())


def row_count(table: DeltaTable) -> int:
    """Rows of all files, by their statistics; every writer of ours gives them."""
    return sum(each["num_records"] or 0 for each in log_files(table))


def file_path(root: AnyPath, name: str) -> AnyPath:
    """Where a file of the log lies. Some writers' names have escapes, which the log escapes once more."""
    path = root / name
    return path if "%" not in name or path.exists() else root / unquote(name)


def slices_of(files: Iterable[Mapping[str, Any]], root: AnyPath, hour_column: str) -> list[Slice]:
    """All row groups of files of a log. Raises: PipelineError where one is missing."""
    found: list[Slice] = []
    for told in files:
        path = file_path(root, told["path"])
        hour = told.get(f"partition.{hour_column}")
        try:
            with open_parquet(path) as file:
                footer = file.metadata
        except FileNotFoundError:
            raise PipelineError(
                f"file {path} of table {root.name} is missing: see what is lost with `portico pipeline audit`"
            ) from None
        found += [_slice(path, hour, footer, index) for index in range(footer.num_row_groups)]
    return found


def _slice(path: AnyPath, hour: datetime | None, footer: Any, index: int) -> Slice:
    group = footer.row_group(index)
    columns = {group.column(n).path_in_schema: n for n in range(group.num_columns)}
    at = columns.get("ingest_batch")
    stats = group.column(at).statistics if at is not None else None
    low, high = (stats.min, stats.max) if stats is not None and stats.has_min_max else (None, None)
    if hour is not None:
        hour = hour if hour.tzinfo else hour.replace(tzinfo=UTC)
    hour_us = None if hour is None else (hour - _EPOCH) // timedelta(microseconds=1)
    return Slice(str(path), hour_us, index, group.num_rows, low, high)


def bundles(parts: Iterable[Slice], count: int) -> list[list[Slice]]:
    """Even shares of the rows for at most `count` tasks; row groups of a file stay in order."""
    shares: list[list[Slice]] = [[] for _ in range(count)]
    rows = [0] * count
    for part in sorted(parts, key=lambda each: -each.rows):
        smallest = rows.index(min(rows))
        shares[smallest].append(part)
        rows[smallest] += part.rows
    return [sorted(share) for share in shares if share]


def read_bundle(
    bundle: Iterable[Slice], selection: Selection, columns: Sequence[str] = RECORD_COLUMNS
) -> Iterator[tuple[int | None, pa.RecordBatch]]:
    """Rows in batches, each with its table's partition, and with their `attempt`."""
    read = [*columns, selection.column, *(["attempt"] if selection.again else [])]
    for part in bundle:
        with open_parquet(of_text(part.path), coerce_int96_timestamp_unit="us") as file:
            for batch in file.iter_batches(_BATCH_ROWS, row_groups=[part.row_group], columns=read):
                found = batch.filter(selection.rows)
                if found.num_rows:
                    rows = found.select([*columns]).append_column("attempt", selection.attempts(found))
                    yield part.hour_us, rows
