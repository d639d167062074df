"""Decoding on one core, files of a lake table to files of typed rows, beside Spark's own functions."""

import io
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import fastavro
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from contracts.registered_schemas import SchemaText
from ctl.bench import servers
from ctl.bench.measure import Say, Spread, cpu_seconds
from pipeline.lake.decode.registered import Writer, writer_of
from pipeline.lake.decode.schema import RecordSchema, ValueFormat, read_schema
from pipeline.lake.decode.source import of_batches, slices_of
from pipeline.lake.decode.steps import BatchSpan
from pipeline.lake.decode.tasks import TaskPlan, decoded_files, task_of
from pipeline.lake.decode.values import Fault

OURS: Final = "decode"
PEERS: Final = (OURS, "from_json")
_RECORD_BYTES: Final = 1_000
_HOUR: Final = "ingest_hour"
_FIELDS: Final = (
    "user STRING, url STRING, at BIGINT, ms BIGINT, score DOUBLE, ok BOOLEAN, tags ARRAY<STRING>, "
    "geo STRUCT<lat: DOUBLE, lon: DOUBLE>, agent STRING, body STRING, n1 BIGINT, n2 BIGINT"
)
_AVRO: Final[dict[str, object]] = {
    "type": "record",
    "name": "View",
    "fields": [
        *({"name": name, "type": "string"} for name in ("user", "url", "agent", "body")),
        *({"name": name, "type": "long"} for name in ("at", "ms", "n1", "n2")),
        {"name": "score", "type": "double"},
        {"name": "ok", "type": "boolean"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {
            "name": "geo",
            "type": {
                "type": "record",
                "name": "Geo",
                "fields": [{"name": "lat", "type": "double"}, {"name": "lon", "type": "double"}],
            },
        },
    ],
}
_HEADER: Final = b"\x00\x00\x00\x00\x01"


def measure(spark: SparkSession, rounds: int, megabytes: int, say: Say) -> dict[str, object]:
    """MiB of values for a second of CPU; `report.with_ratios(..., OURS, PEERS[1:])` adds the ratio."""
    jvm: Any = spark._jvm
    jvm_pid = int(jvm.java.lang.ProcessHandle.current().pid())
    needed = 4 * megabytes * 1_000_000
    with tempfile.TemporaryDirectory(dir=servers.scratch_parent(needed)) as name:
        root = Path(name)
        rows = [_row(n) for n in range(megabytes * 1_000_000 // _RECORD_BYTES)]
        as_json = [json.dumps(row).encode() for row in rows]
        as_avro = [_avro(row) for row in rows]
        schema = read_schema(msgspec.json.encode({"version": 1, "fields": _FIELDS}), "bench")
        writer = writer_of(SchemaText("avro", json.dumps(_AVRO)))
        registered = RecordSchema(1, ValueFormat.REGISTRY, writer.fields)
        json_file, avro_file = _file(root / "json", as_json), _file(root / "avro", as_avro)
        works: dict[str, dict[str, tuple[int, Callable[[], object]]]] = {
            "JSON, MiB per CPU s": {
                OURS: (sum(map(len, as_json)), lambda: _decode(json_file, schema, None)),
                PEERS[1]: (sum(map(len, as_json)), lambda: _from_json(spark, json_file)),
            },
            "Avro behind a registry's header, MiB per CPU s": {
                OURS: (sum(map(len, as_avro)), lambda: _decode(avro_file, registered, {1: writer}))
            },
        }
        del rows, as_json, as_avro
        results: dict[str, object] = {}
        for case, peers in works.items():
            rates: dict[str, list[float]] = {peer: [] for peer in peers}
            for turn in range(rounds + 1):
                for peer, (size_bytes, work) in peers.items():
                    say(f"decode: {case}, {peer}, round {turn} of {rounds}")
                    pid = os.getpid() if peer == OURS else jvm_pid
                    used_s = cpu_seconds(pid)
                    work()
                    rate = size_bytes / 2**20 / (cpu_seconds(pid) - used_s)
                    if turn:  # the first warms up
                        rates[peer].append(rate)
            results[case] = {peer: Spread.of(found) for peer, found in rates.items()}
        return results


def _row(n: int) -> dict[str, object]:
    return {
        "user": f"user-{n % 5000}",
        "url": f"https://shop.example.com/articles/{n * 7919 % 100_000}?from=search&page={n % 9}",
        "at": 1_790_000_000_000 + n,
        "ms": n % 900,
        "score": n * 1.25,
        "ok": n % 3 == 0,
        "tags": [f"tag{n % 7}", f"tag{n % 11}", "all"],
        "geo": {"lat": n % 90 + 0.25, "lon": n % 180 + 0.5},
        "agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0",
        "body": " ".join(f"{n * each % 1_000_003:x}" for each in range(1, 96)),
        "n1": n,
        "n2": -n,
    }


def _avro(row: dict[str, object]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, _AVRO, row)
    return _HEADER + out.getvalue()


def _file(folder: Path, values: list[bytes]) -> Path:
    """As a load writes them."""
    folder.mkdir()
    count = len(values)
    columns = {
        "partition": pa.repeat(pa.scalar(0, pa.int32()), count),
        "offset": pa.array(range(count), pa.int64()),
        "timestamp": pa.repeat(pa.scalar(0, pa.timestamp("us", tz="UTC")), count),
        "key": pa.nulls(count, pa.binary()),
        "value": pa.array(values, pa.binary()),
        "headers": pa.nulls(count, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        "ingest_batch": pa.repeat(pa.scalar(0, pa.int64()), count),
    }
    pq.write_table(pa.table(columns), folder / "part.parquet", compression="zstd", row_group_size=100_000)
    return folder / "part.parquet"


def _decode(file: Path, schema: RecordSchema, writers: dict[int, Writer | Fault] | None) -> None:
    """What one task does."""
    parts = slices_of([{"path": file.name}], file.parent, _HOUR)
    area = file.parent / "decoded"
    plan = TaskPlan(
        schema, str(area), "bench", "", 0, of_batches(BatchSpan((0, 1), (0, 0))), [parts], writers
    )
    for _ in task_of(plan, decoded_files)([pa.record_batch({"id": [0]})]):
        pass
    shutil.rmtree(area)


def _from_json(spark: SparkSession, file: Path) -> None:
    """The same in one task of Spark: what parses is written, what does not is left out."""
    area = file.parent / "spark"
    rows = spark.read.parquet(str(file)).coalesce(1)
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt"}
    parsed = F.from_json(F.col("value").cast("string"), f"{_FIELDS}, _corrupt STRING", options)
    found = rows.select("partition", "offset", "timestamp", parsed.alias("row")).where("row._corrupt IS NULL")
    flat = found.select("row.*", "partition", "offset", "timestamp")
    flat.write.option("compression", "zstd").option("parquet.compression.codec.zstd.level", "1").parquet(
        str(area)
    )
    shutil.rmtree(area)
