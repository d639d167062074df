"""Small files of a lake table joined as `compact` does it, all rows compared before and after."""

import os
import shutil
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from deltalake import WriterProperties, write_deltalake

from ctl.bench import servers
from ctl.bench.measure import Say, Spread, cpu_seconds
from pipeline.lake.compact import compact
from pipeline.layout import PipelineLayout
from pipeline.progress import Silent
from pipeline.schema.lake import LAKE, LAKE_PARTITION_BY

_SIZES_BYTES: Final = (1_000, 100)
_FILES: Final = 16
_PARTITIONS: Final = 4
_HOUR: Final = datetime(2026, 11, 1, 5, tzinfo=UTC)
_START_US: Final = 1_793_500_000_000_000


def measure(rounds: int, megabytes: int, say: Say) -> dict[str, object]:
    """MiB of values a second, and for a second of CPU, by a value's size."""
    found: dict[str, object] = {}
    total_bytes = megabytes * 1_000_000
    with tempfile.TemporaryDirectory(dir=servers.scratch_parent(4 * total_bytes)) as name:
        for size_bytes in _SIZES_BYTES:
            say(f"compact: {megabytes} MB of values of {size_bytes} bytes in {_FILES} files")
            layout = PipelineLayout(Path(name) / str(size_bytes))
            loaded = layout.root / "loaded"
            rows = total_bytes // size_bytes // _FILES
            for number in range(_FILES):
                write_deltalake(
                    str(loaded),
                    _file(number, rows, size_bytes),
                    mode="append",
                    partition_by=[*LAKE_PARTITION_BY],
                    writer_properties=WriterProperties(compression="ZSTD", compression_level=1),
                )
            costs = [_joined(layout, loaded, _FILES * rows) for _ in range(rounds + 1)][1:]
            mib = _FILES * rows * size_bytes / 2**20
            for each, spent in zip(("s", "CPU s"), zip(*costs, strict=True), strict=True):
                found[f"values of {size_bytes} bytes, MiB/{each}"] = Spread.of([mib / one for one in spent])
            shutil.rmtree(layout.root)
    return found


def _joined(layout: PipelineLayout, loaded: Path, rows: int) -> tuple[float, float]:
    """Seconds and CPU seconds of this process for a copy of the table."""
    path = layout.root / "table"
    shutil.copytree(loaded, path)
    started, cpu_s = time.perf_counter(), cpu_seconds(os.getpid())
    result = compact(layout, path, _HOUR, Silent())
    spent = time.perf_counter() - started, cpu_seconds(os.getpid()) - cpu_s
    if result.rewritten_rows != rows:
        raise RuntimeError(f"{result.rewritten_rows} rows were joined, not {rows}")
    shutil.rmtree(path)
    return spent


def _file(number: int, rows: int, size_bytes: int) -> pa.Table:
    """What a load brings of one partition."""
    offsets = np.arange(number // _PARTITIONS * rows, (number // _PARTITIONS + 1) * rows)
    values = np.random.default_rng(number).bytes(rows * size_bytes)
    ends = pa.array(np.arange(rows + 1) * size_bytes, pa.int32()).buffers()[1]
    times = _START_US + number * 10_000_000 + np.arange(rows)
    given = {
        "topic_id": ["AAAAAAAAAAAAAAAAAAAAAA"] * rows,
        "partition": np.full(rows, number % _PARTITIONS),
        "offset": offsets,
        "timestamp": times,
        "timestamp_type": np.zeros(rows),
        "key": [b"key-%d" % each for each in offsets],
        "value": pa.Array.from_buffers(pa.binary(), rows, [None, ends, pa.py_buffer(values)]),
        "ingest_batch": np.full(rows, number),
        "ingest_hour": [_HOUR] * rows,
    }
    columns = [
        pa.array(given[each.name], each.type) if each.name in given else pa.nulls(rows, each.type)
        for each in LAKE
    ]
    return pa.Table.from_arrays(columns, schema=LAKE)
