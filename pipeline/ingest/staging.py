"""Writing a batch as Parquet files that belong to no table yet, and what their footers say.

Nobody sees the files before a commit names them, so a batch can still be given up after it was read, and
its commit can say how many rows there are.
"""

import fcntl
import shutil
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote

import pyarrow as pa

from pipeline.errors import PipelineError
from pipeline.spark_at import tasks_at_once
from pipeline.store import AnyPath, StorePath, move, open_parquet, relative_to, size_bytes, spark_url

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
_LOCK: Final = "lock"
_LEFT_AFTER: Final = timedelta(days=3)
_WRITE: Final = {"compression": "zstd", "parquet.compression.codec.zstd.level": "1"}
_WRITE_HERE: Final = {
    # Parquet has checksums of its own pages; Hadoop's beside each file would cost a fifth of the writing and
    # stay behind when the file is moved. What writes to a store keeps parts of files on disks by the other.
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}


class ColumnStats(NamedTuple):
    """Bounds of one column in one file; none where all is null or the type has none that are useful."""

    low: Any
    high: Any
    nulls: int


class StagedFile(NamedTuple):
    """A Parquet file that waits for its commit."""

    path: AnyPath
    partition_values: Mapping[str, str | None]
    """Values of the partition columns, as Delta writes them."""
    rows: int
    size_bytes: int
    data_bytes: int
    """Before compression."""
    columns: Mapping[str, ColumnStats]


class StagingError(PipelineError):
    """What Spark wrote is not what is there. Nothing was committed."""


@contextmanager
def tasks_area(root: AnyPath) -> Iterator[AnyPath]:
    """A folder for one run below `root`, for what Spark's tasks write: on a disk or in a store."""
    if isinstance(root, Path):
        with staging_area(root) as area:
            yield area
        return
    _sweep_store(root)
    own = root / uuid.uuid4().hex
    try:
        yield own
    finally:
        own.remove()


@contextmanager
def staging_area(root: Path) -> Iterator[Path]:
    """A folder for one run below `root`, on the tables' file system; those of killed runs are removed."""
    root.mkdir(parents=True, exist_ok=True)
    area = root / uuid.uuid4().hex
    with ExitStack() as held:
        with (root / _LOCK).open("w") as entry:  # nobody sweeps an area that is not locked yet
            fcntl.flock(entry, fcntl.LOCK_EX)
            for left in root.iterdir():
                if left.is_dir():
                    _sweep(left)
            area.mkdir()
            lock = held.enter_context((area / _LOCK).open("w"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield area
        finally:
            shutil.rmtree(area)


def _sweep_store(root: StorePath) -> None:
    """Nothing there says which runs live: no batch is read for so long."""
    for left in root.iterdir():
        changed_at = left.changed_at()
        if changed_at is not None and datetime.now(UTC) - changed_at > _LEFT_AFTER:
            left.remove()


def _sweep(area: Path) -> None:
    with (area / _LOCK).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return  # a run has it
        shutil.rmtree(area)


def stage(
    frame: "DataFrame",
    area: AnyPath,
    partition_by: Sequence[str],
    opaque: Sequence[str] = (),
    sort_by: Sequence[str] = (),
) -> list[StagedFile]:
    """Run the batch: files of `frame` without the partition columns, which are in `partition_values`.

    `opaque` columns hold large bytes that neither repeat nor are searched: no dictionary, no bounds.
    `sort_by` orders each file's rows, in the one sort that telling partitions apart costs anyway, unless a
    partition column is a text that may be null.
    Raises: StagingError where the files found here are not the rows that Spark's tasks wrote.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import TimestampType

    batch = area / uuid.uuid4().hex
    written = Observation()
    counted = frame.observe(written, F.count(F.lit(1)).alias("rows"))
    if sort_by:
        counted = counted.sortWithinPartitions(*partition_by, *sort_by)
    writer = counted.write.options(**_WRITE)
    if isinstance(area, Path):
        writer = writer.options(**_WRITE_HERE)
    for name in opaque:
        writer = writer.option(f"parquet.enable.dictionary#{name}", "false")
        writer = writer.option(f"parquet.column.statistics.enabled#{name}", "false")
    if partition_by:
        writer = writer.partitionBy(*partition_by)
    writer.parquet(spark_url(batch))
    times = {name for name in partition_by if isinstance(frame.schema[name].dataType, TimestampType)}
    files = [staged_file(path, batch, times) for path in _files_below(batch)]
    must_be_whole(files, int(written.get["rows"]), batch)
    return files


def must_be_shared(spark: "SparkSession", root: AnyPath) -> None:
    """Whether what tasks write below `root` is seen here: Delta's own writer does not look.

    Raises: StagingError.
    """
    tasks = tasks_at_once(spark)
    with tasks_area(root) as area:
        stage(spark.range(tasks, numPartitions=tasks).toDF("id"), area, ())


def _files_below(batch: AnyPath) -> list[AnyPath]:
    found: list[AnyPath] = [*batch.rglob("*.parquet")]
    return sorted(found, key=str)


def must_be_whole(files: Sequence[StagedFile], rows: int, batch: AnyPath) -> None:
    """Spark's tasks count what they write where they run; what lies here is all that a commit can name.

    A file system that is not everybody's shows nothing of other machines' files. Raises: StagingError.
    """
    found = sum(file.rows for file in files)
    if found != rows:
        raise StagingError(
            f"Spark wrote {rows} rows to {batch}, but there are {found} when looked at from here, so nothing "
            "was committed: every machine of the Spark cluster has to see the same files below this path, or "
            "--lake has to name a store"
        )


def staged_file(path: AnyPath, batch: AnyPath, times: Collection[str] = ()) -> StagedFile:
    """A file below `batch`, in folders `column=value`; `times` are the columns that hold timestamps."""
    values: dict[str, str | None] = {}
    for part in relative_to(path, batch).parts[:-1]:
        name, _, value = part.partition("=")
        text = unquote(value)
        values[name] = None if text == _NULL else _utc(text) if name in times else text
    try:
        with open_parquet(path) as file:
            footer = file.metadata
    except (OSError, pa.ArrowInvalid) as error:
        raise StagingError(
            f"{path}, just written, cannot be read ({error}): nothing was committed"
        ) from error
    groups = [footer.row_group(index) for index in range(footer.num_row_groups)]
    columns = {
        footer.schema.column(index).path: _column([group.column(index) for group in groups])
        for index in range(footer.num_columns)
        if footer.schema.column(index).max_repetition_level == 0
    }
    return StagedFile(
        path,
        values,
        footer.num_rows,
        size_bytes(path),
        sum(group.total_byte_size for group in groups),
        {name: found for name, found in columns.items() if found is not None},
    )


def _column(chunks: Sequence[Any]) -> ColumnStats | None:
    told = [chunk.statistics for chunk in chunks]
    if not told or any(one is None or not one.has_null_count for one in told):
        return None
    nulls = sum(one.null_count for one in told)
    bounded = [one for one in told if one.has_min_max and isinstance(one.min, int | datetime)]
    if len(bounded) < sum(one.num_values > 0 for one in told):
        return ColumnStats(None, None, nulls)
    lows, highs = [one.min for one in bounded], [one.max for one in bounded]
    return ColumnStats(min(lows, default=None), max(highs, default=None), nulls)


def _utc(text: str) -> str:
    moment = datetime.fromisoformat(text).replace(tzinfo=UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def move_into(table: AnyPath, file: StagedFile) -> str:
    """Put a file into its table's folder; returns the path as a commit names it. Spark's names are unique.

    Raises: StoreError.
    """
    folder = "-".join(_safe(value) for value in file.partition_values.values()) or "data"
    move(file.path, table / folder / file.path.name)
    return f"{folder}/{file.path.name}"


def _safe(value: str | None) -> str:
    """Characters that no URL escapes, so that every reader finds the file under its name."""
    return "null" if value is None else "".join(c for c in value if c.isalnum() or c in "-_")[:80]
