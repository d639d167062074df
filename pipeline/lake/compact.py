"""Maintenance of lake tables and of what is made from them: small files become large, old hours go.

Beside a running loader: a compaction replaces files that its commit names and nothing else, so what is
appended meanwhile stays, and the loader's positions, which are Delta's `txn` actions, are not touched.
"""

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from deltalake import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DataType, MapType, StructType

from pipeline.errors import PipelineError
from pipeline.ingest.lease import table_lease
from pipeline.ingest.staging import StagedFile, move_into, stage, tasks_area
from pipeline.lake.compact_log import addition, check_protocol, commit, removal
from pipeline.lake.decode.source import file_path, log_files
from pipeline.lake.planning.compact_plan import (
    EXPIRED_APP,
    RETENTION_H_MIN,
    Bin,
    DataFile,
    commits_of,
    expired,
    expiry,
    plan_bins,
    small_share,
)
from pipeline.layout import PipelineLayout
from pipeline.progress import Progress
from pipeline.spark_at import tasks_at_once
from pipeline.store import AnyPath

COMMIT_BYTES: Final = 1024 * 1024 * 1024
_LEASE_WAIT_S: Final = 60.0
_KEYS: Final = (("partition", "offset"), ("_partition", "_offset"))


@dataclass
class CompactResult:
    """What was done to one table."""

    table: AnyPath
    files_before: int = 0
    files_after: int = 0
    rewritten_files: int = 0
    rewritten_rows: int = 0
    rewritten_bytes: int = 0
    small_share: float = 0.0
    vacuumed_files: int = 0


@dataclass
class ExpireResult:
    """What was taken from one table."""

    table: AnyPath
    before: datetime
    files: int = 0
    rows: int = 0
    bytes: int = 0
    vacuumed_files: int = 0


def compact(
    spark: Callable[[], SparkSession],
    layout: PipelineLayout,
    path: AnyPath,
    now: datetime,
    progress: Progress,
) -> CompactResult:
    """Join the small files of every hour of a table; Spark is asked for where there are some.

    Raises: PipelineError, ConflictError.
    """
    with (
        _lease(path, "portico pipeline compact"),
        tasks_area(layout.lake_staging) as area,
    ):
        table = DeltaTable(str(path))
        check_protocol(table)
        files = data_files(table)
        groups = commits_of(plan_bins(files), COMMIT_BYTES)
        result = CompactResult(path, files_before=len(files))
        progress.planned(sum(each.size_bytes for group in groups for each in group), "bytes")
        schema = StructType.fromJson(json.loads(table.schema().to_json()))
        for group in groups:
            staged = _rewrite(spark(), path, schema, group, area)
            _commit(path, int(table.version()), group, staged, now)
            result.rewritten_files += sum(len(each.files) for each in group)
            result.rewritten_rows += sum(each.rows for each in group)
            result.rewritten_bytes += sum(each.size_bytes for each in group)
            progress.done(result.rewritten_bytes)
        after = data_files(DeltaTable(str(path)))
        result.files_after, result.small_share = len(after), small_share(after)
        return result


def expire(path: AnyPath, now: datetime, older_than: timedelta) -> ExpireResult:
    """Remove whole hours that are older. Positions stay: nothing is loaded again. Raises: ConflictError."""
    with _lease(path, "portico pipeline expire"):
        table = DeltaTable(str(path))
        check_protocol(table)
        before = expiry(now, older_than)
        gone = expired(data_files(table), before)
        result = ExpireResult(path, before)
        if gone:
            now_ms = _ms(now)
            actions = [removal(each, now_ms, data_change=True) for each in gone]
            hour = int(before.timestamp()) // 3600
            actions.append({"txn": {"appId": EXPIRED_APP, "version": hour, "lastUpdated": now_ms}})
            rows = sum(each.rows for each in gone)
            document = {"job": "expire", "before": before.isoformat(), "files": len(gone), "rows": rows}
            commit(path, int(table.version()), actions, "DELETE", document, now_ms)
            result.files, result.rows = len(gone), rows
            result.bytes = sum(each.size_bytes for each in gone)
        return result


def vacuum(path: AnyPath, retention_h: int) -> int:
    """Delete files that no version of the last hours needs; returns how many."""
    assert retention_h >= RETENTION_H_MIN, "readers of older versions need their files"
    with _lease(path, "portico pipeline vacuum"):
        table = DeltaTable(str(path))
        return len(table.vacuum(retention_h, dry_run=False, enforce_retention_duration=False, full=True))


def _lease(path: AnyPath, holder: str) -> AbstractContextManager[object]:
    """Beside whoever appends; only one maintains."""
    return table_lease(path, holder, "maintenance", wait_s=_LEASE_WAIT_S)


def data_files(table: DeltaTable) -> list[DataFile]:
    """The files of the table's version."""
    return [_data_file(told) for told in log_files(table)]


def _data_file(told: dict[str, Any]) -> DataFile:
    partitions = {
        name.removeprefix("partition."): value
        for name, value in told.items()
        if name.startswith("partition.")
    }
    [hour] = partitions.values() or [None]
    first = next(
        ((told[f"min.{p}"], told[f"min.{o}"]) for p, o in _KEYS if told.get(f"min.{p}") is not None), (0, 0)
    )
    return DataFile(
        str(told["path"]),
        int(told["size_bytes"]),
        int(told["num_records"] or 0),
        hour,
        {name: None if each is None else _partition_text(each) for name, each in partitions.items()},
        first,
    )


def _partition_text(value: datetime) -> str:
    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _rewrite(
    spark: SparkSession, path: AnyPath, schema: StructType, group: Sequence[Bin], area: AnyPath
) -> list[StagedFile]:
    """One file for each bin, in their order, that holds the same rows sorted by partition and offset."""
    partitions = group[0].files[0].partition_values.keys()
    columns = StructType([each for each in schema if each.name not in partitions])

    def join(found: Bin) -> StagedFile:
        rows = _read(spark, columns, [_location(path, file) for file in found.files])
        keys = next(pair for pair in _KEYS if pair[0] in columns.names)
        [file] = stage(rows.coalesce(1).sortWithinPartitions(*keys), area, ())
        return file._replace(partition_values=found.files[0].partition_values)

    with ThreadPoolExecutor(tasks_at_once(spark)) as threads:
        joined = list(threads.map(join, group))
    before = [_location(path, file) for found in group for file in found.files]
    _compare(spark, columns, path, before, [file.path for file in joined])
    return joined


def _location(table: AnyPath, file: DataFile) -> AnyPath:
    return file_path(table, {"path": file.path})


def _read(spark: SparkSession, columns: StructType, paths: Sequence[AnyPath]) -> DataFrame:
    return spark.read.schema(columns).parquet(*(str(each) for each in paths))


def _compare(
    spark: SparkSession,
    columns: StructType,
    table: AnyPath,
    before: Sequence[AnyPath],
    after: Sequence[AnyPath],
) -> None:
    """Row count and checksums of what is replaced and of what replaces it. Raises: PipelineError."""
    was, now = (_checksum(_read(spark, columns, paths)) for paths in (before, after))
    if was != now:
        raise PipelineError(
            f"table {table.name}: rows {was} became {now} when they were rewritten: nothing was changed"
        )


def _checksum(frame: DataFrame) -> tuple[int, int, int]:
    """Rows, and two folds of their hashes that do not depend on their order."""
    digest = F.xxhash64(*(_hashable(F.col(f"`{each.name}`"), each.dataType) for each in frame.schema))
    found = frame.select(digest.alias("digest")).agg(
        F.count("*").alias("rows"),
        F.coalesce(F.bit_xor("digest"), F.lit(0)).alias("folded"),
        F.coalesce(F.sum(F.shiftright("digest", 32)), F.lit(0)).alias("total"),
    )
    [row] = found.collect()
    return int(row["rows"]), int(row["folded"]), int(row["total"])


def _hashable(column: Column, kind: DataType) -> Column:
    """Spark hashes no maps."""
    return F.to_json(column) if "map<" in kind.simpleString() or isinstance(kind, MapType) else column


def _commit(
    path: AnyPath, version: int, group: Sequence[Bin], staged: Sequence[StagedFile], now: datetime
) -> None:
    now_ms = _ms(now)
    replaced = [file for each in group for file in each.files]
    actions = [removal(each, now_ms, data_change=False) for each in replaced]
    actions += [addition(move_into(path, each), each, now_ms) for each in staged]
    rows = sum(each.rows for each in replaced)
    document = {"job": "compact", "files": len(replaced), "into": len(staged), "rows": rows}
    commit(path, version, actions, "OPTIMIZE", document, now_ms)


def _ms(now: datetime) -> int:
    return int(now.timestamp() * 1000)
