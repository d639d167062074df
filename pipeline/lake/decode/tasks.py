"""What a Spark task of decoding does: records in, Parquet files of typed rows and of dead letters out.

Tasks write their files themselves into a staging area, both kinds in one pass, and tell which; the job names
them in commits. Files of a task that failed are named by nobody.
"""

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.lake.decode.ddl import columns_of
from pipeline.lake.decode.registered import IDS_MAX, Writer, registry_reader
from pipeline.lake.decode.schema import RecordSchema
from pipeline.lake.decode.source import Selection, Slice, read_bundle
from pipeline.lake.decode.values import HEADER_BYTES, DecodedBatch, Fault, ValueDecoder, decoder_of
from pipeline.schema.decoded import DEAD_LETTERS, DEAD_PARTITION, DECODED_PARTITION, KAFKA_COLUMNS
from pipeline.store import AnyPath, move, of_text

DECODED: Final = "decoded"
DEAD: Final = "dead_letters"
ERRORS: Final = "errors"
UNKNOWN: Final = "unknown_fields"
SCHEMAS: Final = "schemas"
OTHERS: Final = "(others)"
"""Stands for unknown fields beyond the first hundred names: their names are the records', not ours."""
REPORT_DDL: Final = "kind string, name string, count bigint"
_NAMES_MAX: Final = 100
_GROUP_BYTES: Final = 32 * 1024 * 1024
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_REPORT: Final = pa.schema([("kind", pa.string()), ("name", pa.string()), ("count", pa.int64())])


class TaskPlan(NamedTuple):
    """What tasks need to know; it travels to them."""

    schema: RecordSchema
    area: str
    """Where files go: `area/decoded/_ingest_hour=.../x.parquet`, and below `area/dead_letters`."""
    topic: str
    topic_id: str
    decode_batch: int
    selection: Selection
    bundles: list[list[Slice]]
    """What each task reads, by its number."""
    writers: dict[int, Writer | Fault] | None
    """Schemas that records name; None: they are read by `schema`."""


def task_of(
    plan: TaskPlan, work: Callable[[TaskPlan, list[Slice]], Counter[tuple[str, str]]]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `mapInArrow` over numbers of bundles: reports what the work on each tells."""

    def run(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield _report(work(plan, plan.bundles[number]))

    return run


def schemas_named(plan: TaskPlan, bundle: list[Slice]) -> Counter[tuple[str, str]]:
    """The ids of schemas that most records name, with how many."""
    counts: Counter[bytes] = Counter()
    for _, batch in read_bundle(bundle, plan.selection, ("value",)):
        heads = pc.value_counts(pc.binary_slice(batch.column("value"), 0, HEADER_BYTES))
        for head, count in zip(*(part.to_pylist() for part in heads.flatten()), strict=True):
            if head is not None and len(head) == HEADER_BYTES and head[0] == 0:
                counts[head] += count
    return Counter({(SCHEMAS, str(int.from_bytes(head[1:]))): n for head, n in counts.most_common(IDS_MAX)})


def decoded_files(plan: TaskPlan, bundle: list[Slice]) -> Counter[tuple[str, str]]:
    """Files with their rows, errors and unknown fields."""
    decoder = (
        decoder_of(plan.schema)
        if plan.writers is None
        else ValueDecoder(plan.schema.fields, registry_reader(plan.schema.fields, plan.writers))
    )
    area = of_text(plan.area)
    decoded = HourFiles(area / DECODED, DECODED_PARTITION)
    dead = HourFiles(area / DEAD, DEAD_PARTITION)
    counts: Counter[tuple[str, str]] = Counter()
    for hour_us, batch in read_bundle(bundle, plan.selection):
        found = decoder.decode(batch.column("value").to_pylist())
        assert len(found.good) + len(found.faults) == batch.num_rows, "a record is decoded or dead"
        if found.good:
            decoded.add(decoded_rows(plan, batch.take(pa.array(found.good)), found), hour_us)
        if found.faults:
            dead.add(dead_rows(plan, batch.take(pa.array(found.faults)), found), hour_us)
        counts.update((ERRORS, fault.error_class) for fault in found.faults.values())
        _count_unknown(counts, found)
    for kind, files in ((DECODED, decoded), (DEAD, dead)):
        counts.update({(kind, path): rows for path, rows in files.close().items()})
    return counts


def _count_unknown(counts: Counter[tuple[str, str]], found: DecodedBatch) -> None:
    names = Counter(name for each in found.unknown if each for name in each)
    for name, count in names.items():
        room = (UNKNOWN, name) in counts or sum(kind == UNKNOWN for kind, _ in counts) < _NAMES_MAX
        counts[UNKNOWN, name if room else OTHERS] += count


def _report(counts: Counter[tuple[str, str]]) -> pa.RecordBatch:
    rows = [{"kind": kind, "name": name, "count": count} for (kind, name), count in counts.items()]
    return pa.RecordBatch.from_pylist(rows, _REPORT)


def decoded_rows(plan: TaskPlan, source: pa.RecordBatch, found: DecodedBatch) -> pa.Table:
    """Rows of the decoded table, without the partition column; `source` are the records that parse."""
    fields = columns_of(plan.schema.fields)
    known = dict(zip((each.name for each in fields), found.columns, strict=True)) | {
        "_partition": source.column("partition"),
        "_offset": source.column("offset"),
        "_timestamp": source.column("timestamp"),
        "_schema_version": plan.schema.version,
        "_decode_batch": plan.decode_batch,
        "_unknown_fields": pa.array(found.unknown, KAFKA_COLUMNS.field("_unknown_fields").type),
    }
    return _table(known, pa.schema([*fields, *KAFKA_COLUMNS]), source.num_rows)


def dead_rows(plan: TaskPlan, letters: pa.RecordBatch, found: DecodedBatch) -> pa.Table:
    """Rows of the dead-letter table, without the partition column; `letters` are the ones with faults."""
    faults = list(found.faults.values())
    known = {name: letters.column(name) for name in letters.schema.names} | {
        "topic": plan.topic,
        "topic_id": plan.topic_id,
        "schema_id": plan.schema.id,
        "error_class": pa.array([each.error_class for each in faults]),
        "message": pa.array([_text(each.message) for each in faults]),
        "decode_batch": plan.decode_batch,
    }
    return _table(known, DEAD_LETTERS, letters.num_rows)


def _text(message: str) -> str:
    """Parsers quote what they were given, which need not be valid text."""
    return message.encode("utf-8", "replace").decode()


def _table(known: dict[str, Any], schema: pa.Schema, rows: int) -> pa.Table:
    """Those columns of a table that are known; what is no array is every row's."""
    fields = [each for each in schema if each.name in known]
    arrays = [
        (column if isinstance(column, pa.Array) else pa.repeat(column, rows)).cast(each.type)
        for each in fields
        for column in [known[each.name]]
    ]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


class HourFiles:
    """Files of one kind, each of an hour; rows wait until there are enough for a row group."""

    def __init__(self, root: AnyPath, column: str) -> None:
        self._root = root
        self._column = column
        self._hour_us: int | None = None
        self._waiting: list[pa.Table] = []
        self._writer: tuple[AnyPath, Path, pq.ParquetWriter] | None = None
        """Where the file goes, and where it is written: a store takes whole files."""
        self._rows: Counter[str] = Counter()

    def add(self, rows: pa.Table, hour_us: int | None) -> None:
        """Rows of one hour: another one begins another file."""
        if hour_us != self._hour_us:
            self.close()
            self._hour_us = hour_us
        self._waiting.append(rows)
        if sum(each.nbytes for each in self._waiting) >= _GROUP_BYTES:
            self._write()

    def close(self) -> Counter[str]:
        """Rows of every file by its path."""
        self._write()
        if self._writer is not None:
            path, here, writer = self._writer
            self._writer = None
            writer.close()
            if here != path:
                move(here, path)
                here.parent.rmdir()
        return self._rows

    def _write(self) -> None:
        if not self._waiting:
            return
        rows = pa.concat_tables(self._waiting)
        self._waiting.clear()
        if self._writer is None:
            folder = self._root / f"{self._column}={_hour_text(self._hour_us)}"
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"part-{uuid.uuid4()}.zstd.parquet"
            here = path if isinstance(path, Path) else Path(mkdtemp()) / path.name
            self._writer = (
                path,
                here,
                pq.ParquetWriter(here, rows.schema, compression="zstd", compression_level=1),
            )
        path, _, writer = self._writer
        writer.write_table(rows)
        self._rows[str(path)] += rows.num_rows


def _hour_text(hour_us: int | None) -> str:
    """As Spark names a folder."""
    if hour_us is None:
        return "__HIVE_DEFAULT_PARTITION__"
    return quote((_EPOCH + timedelta(microseconds=hour_us)).replace(tzinfo=None).isoformat(" "))
