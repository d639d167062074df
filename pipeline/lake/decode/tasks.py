"""What a Spark task of decoding does: records in, Parquet files of typed rows and of dead letters out.

Tasks write their files themselves into a staging area, both kinds in one pass, and tell which; the job names
them in commits. Files of a task that failed are named by nobody.
"""

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.lake.decode.columns import arrow_type
from pipeline.lake.decode.schema import RecordSchema
from pipeline.lake.decode.source import Selection, Slice, read_bundle
from pipeline.lake.decode.values import DecodedBatch, ValueDecoder
from pipeline.schema.decoded import DEAD_PARTITION, DECODED_PARTITION
from pipeline.store import AnyPath, move, of_text

DECODED: Final = "decoded"
DEAD: Final = "dead_letters"
ERRORS: Final = "errors"
UNKNOWN: Final = "unknown_fields"
OTHERS: Final = "(others)"
"""Stands for unknown fields beyond the first hundred names: their names are the records', not ours."""
REPORT_DDL: Final = "kind string, name string, count bigint"
_NAMES_MAX: Final = 100
_WRITERS_MAX: Final = 32
_GROUP_BYTES: Final = 32 * 1024 * 1024
_WAITING_BYTES_MAX: Final = 128 * 1024 * 1024
_HEADERS: Final = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)
_MICROSECONDS: Final = pa.timestamp("us", tz="UTC")
_REPORT: Final = pa.schema([("kind", pa.string()), ("name", pa.string()), ("count", pa.int64())])


class TaskPlan(NamedTuple):
    """What tasks need to know; it travels to them."""

    schema: RecordSchema
    area: str
    """Where files go: `area/decoded/_event_hour=.../x.parquet`, and below `area/dead_letters`."""
    topic: str
    topic_id: str
    decode_batch: int
    selection: Selection
    bundles: list[list[Slice]]
    """What each task reads, by its number."""


def decode_task(plan: TaskPlan) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `mapInArrow` over numbers of bundles: tells files, errors and unknown fields."""

    def run(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield _report(_run(plan, read_bundle(plan.bundles[number], plan.selection)))

    return run


def _run(plan: TaskPlan, batches: Iterable[pa.RecordBatch]) -> Counter[tuple[str, str]]:
    decoder = ValueDecoder(plan.schema)
    area = of_text(plan.area)
    decoded = HourFiles(area / DECODED, DECODED_PARTITION)
    dead = HourFiles(area / DEAD, DEAD_PARTITION)
    counts: Counter[tuple[str, str]] = Counter()
    for batch in batches:
        found = decoder.decode(batch.column("value").to_pylist())
        assert len(found.good) + len(found.faults) == batch.num_rows, "a record is decoded or dead"
        if found.good:
            decoded.add(decoded_rows(plan, batch, found), _take(batch, found.good).column("event_hour"))
        if found.faults:
            letters = _take(batch, list(found.faults))
            dead.add(dead_rows(plan, letters, found), letters.column("event_hour"))
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
    kinds, names = [kind for kind, _ in counts], [name for _, name in counts]
    return pa.RecordBatch.from_arrays(
        [pa.array(kinds, pa.string()), pa.array(names, pa.string()), pa.array(counts.values(), pa.int64())],
        schema=_REPORT,
    )


def _take(batch: pa.RecordBatch, rows: list[int]) -> pa.RecordBatch:
    return batch if len(rows) == batch.num_rows else batch.take(pa.array(rows, pa.int64()))


def decoded_rows(plan: TaskPlan, batch: pa.RecordBatch, found: DecodedBatch) -> pa.Table:
    """Rows of the decoded table, without the partition column."""
    source = _take(batch, found.good)
    rows = source.num_rows
    columns = {
        each.name: (arrow_type(each.type), column)
        for each, column in zip(plan.schema.fields, found.columns, strict=True)
    }
    columns |= {
        "_partition": (pa.int32(), source.column("partition")),
        "_offset": (pa.int64(), source.column("offset")),
        "_timestamp": (_MICROSECONDS, source.column("timestamp")),
        "_schema_version": (pa.int32(), _repeated(plan.schema.version, rows, pa.int32())),
        "_decode_batch": (pa.int64(), _repeated(plan.decode_batch, rows, pa.int64())),
        "_unknown_fields": (
            pa.list_(pa.field("element", pa.string())),
            pa.array(found.unknown, pa.list_(pa.string())),
        ),
    }
    return _table(columns)


def dead_rows(plan: TaskPlan, letters: pa.RecordBatch, found: DecodedBatch) -> pa.Table:
    """Rows of the dead-letter table, without the partition column; `letters` are the ones with faults."""
    rows = letters.num_rows
    faults = list(found.faults.values())
    columns = {
        "topic": (pa.string(), _repeated(plan.topic, rows, pa.string())),
        "topic_id": (pa.string(), _repeated(plan.topic_id, rows, pa.string())),
        "partition": (pa.int32(), letters.column("partition")),
        "offset": (pa.int64(), letters.column("offset")),
        "timestamp": (_MICROSECONDS, letters.column("timestamp")),
        "schema_id": (pa.string(), _repeated(plan.schema.id, rows, pa.string())),
        "error_class": (pa.string(), pa.array([each.error_class for each in faults], pa.string())),
        "message": (pa.string(), pa.array([_text(each.message) for each in faults], pa.string())),
        "attempt": (pa.int32(), letters.column("attempt")),
        "key": (pa.binary(), letters.column("key")),
        "value": (pa.binary(), letters.column("value")),
        "headers": (_HEADERS, letters.column("headers")),
        "decode_batch": (pa.int64(), _repeated(plan.decode_batch, rows, pa.int64())),
    }
    return _table(columns)


def _text(message: str) -> str:
    """Parsers quote what they were given, which need not be valid text."""
    return message.encode("utf-8", "replace").decode()


def _repeated(value: Any, rows: int, kind: pa.DataType) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), rows)


def _table(columns: dict[str, tuple[pa.DataType, Any]]) -> pa.Table:
    arrays = [array if array.type == kind else array.cast(kind) for kind, array in columns.values()]
    return pa.Table.from_arrays(
        arrays, schema=pa.schema([(name, kind) for name, (kind, _) in columns.items()])
    )


class HourFiles:
    """Files of one kind, one or more for each hour; rows wait until there is enough for a row group."""

    def __init__(self, root: AnyPath, column: str) -> None:
        self._root = root
        self._column = column
        self._waiting: dict[Any, list[pa.Table]] = {}
        self._waiting_bytes: Counter[Any] = Counter()
        self._writers: dict[Any, tuple[AnyPath, Path, pq.ParquetWriter]] = {}
        """Where a file goes, and where it is written: a store takes whole files."""
        self._rows: Counter[str] = Counter()

    def add(self, rows: pa.Table, hours: pa.Array) -> None:
        """Rows and the hour of each."""
        found = pc.unique(hours)
        for hour in found:
            part = rows if len(found) == 1 else rows.filter(_equal(hours, hour))
            key = hour.as_py()
            self._waiting.setdefault(key, []).append(part)
            self._waiting_bytes[key] += part.nbytes
            if self._waiting_bytes[key] >= _GROUP_BYTES:
                self._write(key)
        while self._waiting_bytes.total() >= _WAITING_BYTES_MAX:
            self._write(self._waiting_bytes.most_common(1)[0][0])

    def close(self) -> Counter[str]:
        """Rows of every file by its path."""
        for key in list(self._waiting):
            self._write(key)
        for key in list(self._writers):
            self._end(key)
        return self._rows

    def _write(self, key: Any) -> None:
        rows = pa.concat_tables(self._waiting.pop(key))
        del self._waiting_bytes[key]
        if key not in self._writers:
            if len(self._writers) == _WRITERS_MAX:
                self._end(next(iter(self._writers)))
            text = "__HIVE_DEFAULT_PARTITION__" if key is None else quote(key.strftime("%Y-%m-%d %H:%M:%S"))
            folder = self._root / f"{self._column}={text}"
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"part-{uuid.uuid4()}.zstd.parquet"
            here = path if isinstance(path, Path) else Path(mkdtemp()) / path.name
            writer = pq.ParquetWriter(here, rows.schema, compression="zstd", compression_level=1)
            self._writers[key] = (path, here, writer)
        path, _, writer = self._writers[key]
        writer.write_table(rows)
        self._rows[str(path)] += rows.num_rows

    def _end(self, key: Any) -> None:
        path, here, writer = self._writers.pop(key)
        writer.close()
        if here != path:
            move(here, path)
            here.parent.rmdir()


def _equal(hours: pa.Array, hour: pa.Scalar) -> pa.Array:
    return pc.equal(hours, hour) if hour.is_valid else pc.is_null(hours)
