"""Files of a Delta table replaced by others with its rows, or some of them, beside writers that only append.

Neither of the libraries commits that: delta-rs takes a file out that another compaction has taken out before
(docs/adr/0058), and Delta's own writer can replace a log entry of another process on a local disk. An entry
of the log is made complete and then given its number (by a link, in a store by a conditional put), which
fails where there is one already; what came before it is then read, and must leave our files alone.
"""

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from pipeline.errors import PipelineError
from pipeline.ingest.commits import add_action
from pipeline.ingest.staging import StagedFile, staged_file
from pipeline.ingest.transactions import LOG
from pipeline.lake.decode.ddl import columns_of
from pipeline.lake.decode.source import file_path, log_files
from pipeline.lake.planning.compact_plan import DataFile, hour_text
from pipeline.lake.planning.offset_sets import Bools
from pipeline.schema.lake import LAKE_OPAQUE
from pipeline.store import AnyPath, create, open_parquet, read_bytes

_ATTEMPTS: Final = 200
_READER_VERSION_MAX: Final = 1
_WRITER_VERSION_MAX: Final = 2
_GROUP_BYTES: Final = 64 * 1024 * 1024
_BATCH_ROWS: Final = 8192
_TIMES: Final = ("timestamp", "_timestamp")

IsDropped = Callable[[pa.RecordBatch], Bools]
"""Which rows go."""


class ConflictError(PipelineError):
    """Somebody else has changed the files that were to be replaced; nothing was committed."""


def data_files(table: DeltaTable) -> list[DataFile]:
    """The files of the table's version."""
    return [_data_file(told) for told in log_files(table)]


def _data_file(told: Mapping[str, Any]) -> DataFile:
    values = {
        name.removeprefix("partition."): None if value is None else hour_text(value)
        for name, value in told.items()
        if name.startswith("partition.")
    }
    first = next((at for name in _TIMES if (at := told.get(f"min.{name}")) is not None), None)
    return DataFile(str(told["path"]), int(told["size_bytes"]), int(told["num_records"] or 0), values, first)


def columns(table: DeltaTable) -> pa.Schema:
    """Nowhere NOT NULL: a file from before a column has none of it."""
    return pa.schema(columns_of(pa.schema(table.schema())))


def rewritten(
    path: AnyPath,
    table: DeltaTable,
    files: Sequence[DataFile],
    area: Path,
    is_dropped: IsDropped | None = None,
) -> StagedFile:
    """A file of one partition with the rows of those files that are not dropped, sorted by time in groups."""
    folder = area / uuid.uuid4().hex
    folder.mkdir()
    to = folder / f"part-{uuid.uuid4().hex}.parquet"
    schema = in_files(table)
    told = [name for name in schema.names if name not in LAKE_OPAQUE]
    time = next((name for name in _TIMES if name in schema.names), None)
    with pq.ParquetWriter(
        to, schema, compression="zstd", compression_level=1, use_dictionary=told, write_statistics=told
    ) as writer:
        for rows in _groups(batches(_places(path, files), schema), is_dropped):
            ordered = rows if time is None else _ordered(rows, time)
            writer.write_table(ordered, row_group_size=rows.num_rows)
    return staged_file(to, folder)._replace(partition_values=files[0].partition_values)


def _ordered(rows: pa.Table, column: str) -> pa.Table:
    """Rows are taken from one chunk each column: many cost several times as much."""
    times = rows.column(column).combine_chunks()
    if not times.null_count and pc.all(pc.less_equal(times[:-1], times[1:])).as_py():
        return rows
    return rows.combine_chunks().take(pc.array_sort_indices(times))


def in_files(table: DeltaTable) -> pa.Schema:
    """The columns that are no partition."""
    partitions = table.metadata().partition_columns
    return pa.schema([each for each in columns(table) if each.name not in partitions])


def _places(path: AnyPath, files: Iterable[DataFile]) -> list[AnyPath]:
    return [file_path(path, each.path) for each in files]


def batches(places: Iterable[AnyPath], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Rows of files that may lack some of the columns. Raises: PipelineError where one cannot be read."""
    for place in places:
        try:
            with open_parquet(place, coerce_int96_timestamp_unit="us") as file:
                names = [each for each in schema.names if each in file.schema_arrow.names]
                for batch in file.iter_batches(_BATCH_ROWS, columns=names):
                    arrays = [
                        batch.column(each.name).cast(each.type)
                        if each.name in names
                        else pa.nulls(batch.num_rows, each.type)
                        for each in schema
                    ]
                    yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        except (OSError, pa.ArrowInvalid) as error:
            raise PipelineError(
                f"file {place} of the table is missing or damaged ({error}): see what is lost with "
                "`portico pipeline audit`"
            ) from error


def _groups(rows: Iterable[pa.RecordBatch], is_dropped: IsDropped | None) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    size_bytes = 0
    for batch in rows:
        kept = batch if is_dropped is None else batch.filter(pa.array(~is_dropped(batch)))
        if kept.num_rows:
            waiting.append(kept)
            size_bytes += kept.nbytes
        if size_bytes >= _GROUP_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, size_bytes = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def must_be_equal(
    path: AnyPath, table: DeltaTable, before: Sequence[DataFile], after: Sequence[StagedFile]
) -> None:
    """Rows and checksums of what is replaced and of what replaces it. Raises: PipelineError."""
    schema = in_files(table)
    was, now = (
        _digest(batches(places, schema), schema)
        for places in (_places(path, before), [each.path for each in after])
    )
    if was != now:
        raise PipelineError(
            f"table {path.name}: rows {was} became {now} when they were rewritten: nothing was changed"
        )


def _digest(rows: Iterator[pa.RecordBatch], schema: pa.Schema) -> tuple[int, ...]:
    """Rows, and two folds of their hashes that do not depend on their order."""
    with duckdb.connect() as db:
        given = db.from_arrow(pa.RecordBatchReader.from_batches(schema, rows))
        folds = "count(*), coalesce(bit_xor(digest), 0), coalesce(sum(digest >> 32), 0)"
        found = given.query("given", f"SELECT {folds} FROM (SELECT hash(given) AS digest FROM given)")
        assert found is not None, "a SELECT has rows"
        return tuple(map(int, found.fetchall()[0]))


def check_protocol(table: DeltaTable) -> None:
    """Raises: PipelineError where the table has features that these commits know nothing of."""
    found = table.protocol()
    if found.min_reader_version > _READER_VERSION_MAX or found.min_writer_version > _WRITER_VERSION_MAX:
        raise PipelineError(
            f"table {table.table_uri} was given features by another program (reader "
            f"{found.min_reader_version}, writer {found.min_writer_version}): maintain it with that one"
        )


def removal(file: DataFile, now_ms: int, *, data_change: bool) -> dict[str, Any]:
    """The action that takes a file out."""
    return {
        "remove": {
            "path": file.path,
            "deletionTimestamp": now_ms,
            "dataChange": data_change,
            "extendedFileMetadata": True,
            "partitionValues": file.partition_values,
            "size": file.size_bytes,
        }
    }


def addition(path: str, file: StagedFile, now_ms: int, *, data_change: bool = False) -> dict[str, Any]:
    """The action that puts a file in which has only rows that the table had; `data_change`: not all."""
    action = add_action(path, file, now_ms)
    return {
        "add": {
            "path": action.path,
            "partitionValues": dict(action.partition_values),
            "size": action.size,
            "modificationTime": action.modification_time,
            "dataChange": data_change,
            "stats": action.stats,
        }
    }


def expired_app(partition: int) -> str:
    """Delta's `txn` whose number is the offset below which all loads of a partition have expired."""
    return f"expire/{partition}"


def conflict(removed: Iterable[str], actions: Iterable[Mapping[str, Any]]) -> str | None:
    """What another commit did that ours cannot follow, or None. Files that it added do not matter. Pure."""
    paths = set(removed)
    for each in actions:
        if "metaData" in each or "protocol" in each:
            return "the table's schema or settings were changed"
        if "remove" in each and each["remove"]["path"] in paths:
            return "a file was removed already"
        if "add" in each and each["add"]["path"] in paths:
            return "a file was added anew"
    return None


def commit(
    table: AnyPath,
    read_version: int,
    actions: Sequence[Mapping[str, Any]],
    operation: str,
    document: Mapping[str, Any],
    now_ms: int,
) -> int:
    """Commit to the table as it was at `read_version` or later; returns the new version.

    Raises: ConflictError, where a commit after that version changed what we remove.
    """
    removed = [each["remove"]["path"] for each in actions if "remove" in each]
    info = {
        "timestamp": now_ms,
        "operation": operation,
        "operationParameters": {},
        "isBlindAppend": False,
        "engineInfo": "portico",
        "userMetadata": json.dumps(document),
        "txnId": str(uuid.uuid4()),  # no other entry has the same bytes
    }
    lines = "".join(f"{json.dumps(each)}\n" for each in ({"commitInfo": info}, *actions))
    log = table / LOG
    for version in range(read_version + 1, read_version + 1 + _ATTEMPTS):
        entry = log / f"{version:020}.json"
        if create(entry, lines.encode()):
            return version
        if (reason := conflict(removed, _actions(entry))) is not None:
            raise ConflictError(f"table {table.name}: {reason} meanwhile; start it again")
    raise ConflictError(f"table {table.name} has {_ATTEMPTS} commits since it was read; start it again")


def _actions(entry: AnyPath) -> list[dict[str, Any]]:
    return [json.loads(line) for line in read_bytes(entry).splitlines() if line]
