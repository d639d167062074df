"""Tables of usage for tests of advice, straight from numbers."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from deltalake import write_deltalake

from contracts.billing import HOUR_MS, USAGE_HOUR
from contracts.usage_records import USAGE_RAW
from pipeline.layout import PipelineLayout
from pipeline.schema import rollup, usage_records

Series = npt.NDArray[np.float64]
NOW_MS = int(datetime(2026, 11, 21, 12, 20, tzinfo=UTC).timestamp() * 1000)
LAST_HOUR_MS = NOW_MS // HOUR_MS * HOUR_MS - HOUR_MS
"""The last complete hour before."""


def put_hours(layout: PipelineLayout, instances: Mapping[str, tuple[Series, Series, Series]]) -> None:
    """(produce, consume, stored) per hour of each instance, up to the last complete hour; NaN: no row."""
    tables = []
    for instance_id, (produce, consume, stored) in instances.items():
        hours = np.flatnonzero(~np.isnan(produce))
        starts = LAST_HOUR_MS - (len(produce) - 1 - hours) * HOUR_MS
        peaks = {"produce": produce[hours].astype(np.int64), "consume": consume[hours].astype(np.int64)}
        columns: dict[str, Any] = {
            "instance_id": [instance_id] * len(hours),
            "day": (starts // 86_400_000).astype("datetime64[D]"),
            "hour_start": starts.astype("datetime64[ms]").astype("datetime64[us]"),
            "stored_byte_ms": [int(value) * HOUR_MS for value in stored[hours]],
            "estimated": np.zeros(len(hours), dtype=bool),
            "state": ["complete"] * len(hours),
        }
        for direction, peak in peaks.items():
            columns[f"{direction}_peak_5m_bytes_per_s"] = peak
            columns[f"{direction}_peak_1m_bytes_per_s"] = peak
            columns[f"{direction}_bytes"] = peak * 3600
        tables.append(_table(columns, rollup.USAGE_HOUR, len(hours)))
    _write(layout, USAGE_HOUR, pa.concat_tables(tables))


def put_points(layout: PipelineLayout, rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows of `usage_raw`; what is not given is zero, an interval is a minute."""
    starts = np.array([row["interval_start_ms"] for row in rows], dtype=np.int64)
    columns: dict[str, Any] = {
        "day": (starts // 86_400_000).astype("datetime64[D]"),
        "interval_start": starts.astype("datetime64[ms]").astype("datetime64[us]"),
        "interval_ms": np.full(len(rows), 60_000),
        "partitions_led": np.ones(len(rows), dtype=np.int64),
    }
    for name in {name for row in rows for name in row}:
        columns[name] = [row[name] for row in rows]
    _write(layout, USAGE_RAW, _table(columns, usage_records.USAGE_RAW, len(rows)))


def _table(columns: dict[str, Any], arrow: pa.Schema, rows: int) -> pa.Table:
    zero = {"string": "", "bool": False}
    filled = {
        field.name: columns.get(field.name, [zero.get(str(field.type), 0)] * rows)
        for field in arrow
        if field.name in columns or not pa.types.is_temporal(field.type)
    }
    arrays = [
        pa.nulls(rows, field.type)
        if field.name not in filled or pa.types.is_binary(field.type)
        else _array(filled[field.name], field.type)
        for field in arrow
    ]
    return pa.Table.from_arrays(arrays, schema=arrow)


def _array(values: Any, of: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(of):
        return pa.array(values).cast(pa.timestamp("us")).cast(of)
    if pa.types.is_decimal(of):
        return pa.array([int(value) for value in values], pa.decimal128(38, 0))
    return pa.array(values, of)


def _write(layout: PipelineLayout, name: str, table: pa.Table) -> None:
    write_deltalake(str(layout.table(name)), table, partition_by=["day"], mode="append")
