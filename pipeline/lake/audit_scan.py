"""The offsets that a lake table holds, read from the partition and offset columns of its files alone."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from pipeline.lake.decode.source import Slice, bundles
from pipeline.lake.planning.audit_runs import Runs, runs_of
from pipeline.spark_at import tasks_at_once
from pipeline.store import of_text, open_parquet

NO_HOUR: Final = -1
"""The label of rows without a usable time."""
_TASKS_PER_CORE: Final = 2
_DDL: Final = "partition bigint, hour bigint, start bigint, `end` bigint"
_SCHEMA: Final = pa.schema(
    [("partition", pa.int64()), ("hour", pa.int64()), ("start", pa.int64()), ("end", pa.int64())]
)
_SPARK_FROM: Final = 64
"""So many row groups are worth tasks of Spark; fewer are read here."""


def scan(spark: Callable[[], SparkSession], parts: Sequence[Slice]) -> dict[int, Runs]:
    """Runs of offsets by partition, labelled with epoch hours."""
    if len(parts) < _SPARK_FROM:
        found = pa.Table.from_batches([_scan_slice(part) for part in parts], _SCHEMA)
    else:
        session = spark()
        shares = bundles(parts, tasks_at_once(session) * _TASKS_PER_CORE)
        numbers = session.range(len(shares), numPartitions=len(shares))
        found = numbers.mapInArrow(_task(shares), _DDL).toArrow()
    partition, label, start, end = (found.column(name).to_numpy() for name in _SCHEMA.names)
    return {
        int(each): Runs(start[partition == each], end[partition == each], label[partition == each])
        for each in np.unique(partition)
    }


def _task(shares: list[list[Slice]]) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                for part in shares[number]:
                    yield _scan_slice(part)

    return run


def _scan_slice(part: Slice) -> pa.RecordBatch:
    with open_parquet(of_text(part.path)) as file:
        rows = file.read_row_group(part.row_group, ["partition", "offset"])
    partition, start, end = runs_of(_ints(rows, "partition"), _ints(rows, "offset"))
    label = NO_HOUR if part.hour_us is None else part.hour_us // 3_600_000_000
    labels = np.full(len(partition), label, np.int64)
    return pa.RecordBatch.from_arrays(
        [pa.array(each) for each in (partition, labels, start, end)], schema=_SCHEMA
    )


def _ints(rows: pa.Table, name: str) -> Any:
    return rows.column(name).to_numpy().astype(np.int64)
