"""What decode tasks read: row groups of Parquet files, chosen by the table's log and read with Arrow.

Spark would hand every row from its own format to Arrow's one by one, which costs more than decoding it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from pipeline.errors import PipelineError
from pipeline.lake.decode.steps import BatchSpan
from pipeline.store import AnyPath, of_text, open_parquet

_BATCH_ROWS: Final = 8192
_COLUMNS: Final = ("partition", "offset", "timestamp", "key", "value", "headers")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Slice(NamedTuple):
    """One row group of a file."""

    path: str
    hour_us: int | None
    """Its rows' hour, the table's partition."""
    row_group: int
    rows: int
    low: int | None
    """The lowest ingest batch, and below the highest; None where the file does not tell."""
    high: int | None


class Selection(Protocol):
    """Which rows of the slices are meant, and the attempt that it is."""

    @property
    def columns(self) -> tuple[str, ...]:
        """What is read of files."""

    def may_have(self, part: Slice) -> bool:
        """Whether a slice has to be read."""

    def mask(self, rows: pa.RecordBatch) -> Any:
        """Booleans."""

    def attempts(self, rows: pa.RecordBatch) -> pa.Array:
        """From 1."""


class OfBatches:
    """Lake rows of a span of batches: their first attempt."""

    columns = (*_COLUMNS, "ingest_batch")

    def __init__(self, span: BatchSpan) -> None:
        backfills = (-span.backfills[1], -span.backfills[0] - 1)  # backfill n is written as -(n + 1)
        self._bounds = [(span.loads[0], span.loads[1] - 1), backfills]

    def may_have(self, part: Slice) -> bool:
        """Whether the slice's batches are among those asked for."""
        if part.low is None or part.high is None:
            return True
        return any(low <= part.high and part.low <= high for low, high in self._bounds)

    def mask(self, rows: pa.RecordBatch) -> Any:
        """Rows whose batch is asked for."""
        batch = rows.column("ingest_batch")
        first, second = (
            pc.and_(pc.greater_equal(batch, low), pc.less_equal(batch, high)) for low, high in self._bounds
        )
        return pc.or_(first, second)

    def attempts(self, rows: pa.RecordBatch) -> pa.Array:
        """The first."""
        return pa.repeat(pa.scalar(1, pa.int32()), rows.num_rows)


class OfLetters:
    """Dead letters, all or those of some error classes: their next attempt."""

    columns = (*_COLUMNS, "error_class", "attempt")

    def __init__(self, error_classes: Sequence[str]) -> None:
        self._classes = tuple(error_classes)

    def may_have(self, part: Slice) -> bool:
        """Any does."""
        return part.rows > 0

    def mask(self, rows: pa.RecordBatch) -> Any:
        """Rows whose error class is asked for."""
        found = rows.column("error_class")
        if not self._classes:
            return pa.repeat(pa.scalar(True), rows.num_rows)
        return pc.is_in(found, value_set=pa.array(self._classes, pa.string()))

    def attempts(self, rows: pa.RecordBatch) -> pa.Array:
        """One more."""
        return pc.add(rows.column("attempt"), pa.scalar(1, pa.int32()))


def log_files(table: DeltaTable) -> list[dict[str, Any]]:
    """What the log says of a version's files: `num_records`, `min.<column>` and so on."""
    return list(pa.table(table.get_add_actions(flatten=True)).to_pylist())


def file_path(root: AnyPath, told: Mapping[str, Any]) -> AnyPath:
    """Where a file of the log lies. Some writers' names have escapes, which the log escapes once more."""
    name = str(told["path"])
    path = root / name
    return path if "%" not in name or path.exists() else root / unquote(name)


def slices_of(files: Iterable[Mapping[str, Any]], root: AnyPath, hour_column: str) -> list[Slice]:
    """All row groups of files of a log. Raises: PipelineError where one is missing."""
    found: list[Slice] = []
    for told in files:
        path = file_path(root, told)
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
    return Slice(
        str(path),
        None if hour is None else _microseconds(hour),
        index,
        group.num_rows,
        low,
        high,
    )


def _microseconds(hour: datetime) -> int:
    since = (hour if hour.tzinfo else hour.replace(tzinfo=UTC)) - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000


def bundles(parts: Iterable[Slice], count: int) -> list[list[Slice]]:
    """Even shares of the rows for at most `count` tasks; row groups of a file stay in order."""
    shares: list[list[Slice]] = [[] for _ in range(count)]
    rows = [0] * count
    for part in sorted(parts, key=lambda each: -each.rows):
        smallest = rows.index(min(rows))
        shares[smallest].append(part)
        rows[smallest] += part.rows
    return [sorted(share) for share in shares if share]


def read_bundle(bundle: Iterable[Slice], selection: Selection) -> Iterator[pa.RecordBatch]:
    """Rows in batches, with `attempt` and `event_hour`."""
    for part in bundle:
        with open_parquet(of_text(part.path), coerce_int96_timestamp_unit="us") as file:
            columns = list(selection.columns)
            for batch in file.iter_batches(_BATCH_ROWS, row_groups=[part.row_group], columns=columns):
                chosen = batch.filter(selection.mask(batch))
                if chosen.num_rows:
                    yield _completed(chosen, selection.attempts(chosen), part.hour_us)


def _completed(rows: pa.RecordBatch, attempts: pa.Array, hour_us: int | None) -> pa.RecordBatch:
    hours = pa.repeat(pa.scalar(hour_us, pa.timestamp("us", tz="UTC")), rows.num_rows)
    named = {name: rows.column(name) for name in _COLUMNS} | {"attempt": attempts, "event_hour": hours}
    return pa.RecordBatch.from_arrays(list(named.values()), names=list(named))
