"""The offsets that a lake table holds, read from the partition and offset columns of its files alone."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from pipeline.lake.audit_runs import Runs, runs_of
from pipeline.lake.decode_source import Slice, bundles

NO_HOUR: Final = -1
"""The label of rows without a usable time."""
_TASKS_PER_CORE: Final = 2
_DDL: Final = "kind string, key bigint, label bigint, start bigint, `end` bigint"
_SCHEMA: Final = pa.schema(
    [
        ("kind", pa.string()),
        ("key", pa.int64()),
        ("label", pa.int64()),
        ("start", pa.int64()),
        ("end", pa.int64()),
    ]
)
_RUN: Final = "run"
_BATCH: Final = "batch"
_SPARK_FROM: Final = 64
"""So many row groups are worth tasks of Spark; fewer are read here."""


def scan(spark: Callable[[], SparkSession], parts: Sequence[Slice]) -> tuple[dict[int, Runs], dict[int, int]]:
    """By partition the runs of its offsets, labelled with epoch hours; by ingest batch its rows."""
    if len(parts) < _SPARK_FROM:
        found = pa.Table.from_batches([each for part in parts for each in _scan_slice(part)], _SCHEMA)
    else:
        session = spark()
        shares = bundles(parts, session.sparkContext.defaultParallelism * _TASKS_PER_CORE)
        numbers = session.range(len(shares), numPartitions=len(shares))
        found = numbers.mapInArrow(_task(shares), _DDL).toArrow()
    return _runs(found), _batches(found)


def _task(shares: list[list[Slice]]) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                for part in shares[number]:
                    yield from _scan_slice(part)

    return run


def _scan_slice(part: Slice) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(part.path) as file:
        rows = file.read_row_group(part.row_group, ["partition", "offset", "ingest_batch"])
    partition, start, end = runs_of(_ints(rows, "partition"), _ints(rows, "offset"))
    label = NO_HOUR if part.hour_us is None else part.hour_us // 3_600_000_000
    yield _batch(_RUN, partition, label, start, end)
    batch, count = np.unique(_ints(rows, "ingest_batch"), return_counts=True)
    yield _batch(_BATCH, batch, label, np.zeros(len(batch), np.int64), count.astype(np.int64))


def _ints(rows: pa.Table, name: str) -> Any:
    return rows.column(name).to_numpy().astype(np.int64)


def _batch(kind: str, key: Any, label: int, start: Any, end: Any) -> pa.RecordBatch:
    count = len(key)
    labels = pa.array(np.full(count, label, np.int64))
    kinds = pa.repeat(pa.scalar(kind, pa.string()), count)
    return pa.RecordBatch.from_arrays(
        [kinds, pa.array(key), labels, pa.array(start), pa.array(end)], schema=_SCHEMA
    )


def _columns(found: pa.Table, kind: str) -> list[Any]:
    chosen = found.filter(pa.compute.equal(found.column("kind"), kind))
    return [chosen.column(name).to_numpy() for name in ("key", "label", "start", "end")]


def _runs(found: pa.Table) -> dict[int, Runs]:
    partition, label, start, end = _columns(found, _RUN)
    return {
        int(each): Runs(start[partition == each], end[partition == each], label[partition == each])
        for each in np.unique(partition)
    }


def _batches(found: pa.Table) -> dict[int, int]:
    batch, _, _, rows = _columns(found, _BATCH)
    return {int(each): int(rows[batch == each].sum()) for each in np.unique(batch)}
