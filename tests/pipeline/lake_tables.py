"""Lake tables written by tests, without brokers and Spark: the same files and commits as a load's."""

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.ingest.commits import BatchDocument, IngestTable, TableSpec
from pipeline.ingest.ranges import PartitionRange
from pipeline.ingest.staging import staged_file
from pipeline.lake.lake_tables import LakeTable
from pipeline.lake.rows import ingested
from pipeline.layout import PipelineLayout
from pipeline.schema.lake import LAKE, LAKE_PARTITION_BY

TOPIC_ID = "00000000000000000000000000000abc"
HOUR_MS = 3_600_000
START_MS = 1_700_000_000_000 - 1_700_000_000_000 % HOUR_MS

_SCHEMA = pa.schema(
    [
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestamp_type", pa.int32()),
        ("timestamp_raw_ms", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        (
            "headers",
            pa.list_(
                pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
            ),
        ),
        ("ingest_batch", pa.int64()),
    ]
)


class Record(NamedTuple):
    """One of a topic."""

    partition: int
    offset: int
    value: bytes | None
    timestamp_ms: int = START_MS
    key: bytes | None = None
    headers: list[tuple[str, bytes | None]] | None = None


class LakeWriter:
    """A lake table and what loads and backfills bring to it."""

    def __init__(self, layout: PipelineLayout, topic: str = "clicks", topic_id: str = TOPIC_ID) -> None:
        path = layout.lake("i-1", topic, topic_id)
        self.table = LakeTable("i-1", topic, topic_id, path)
        self._staging = layout.lake_staging_here
        self.loaded_at = datetime.fromtimestamp(START_MS / 1000, UTC)
        """By the driver's clock."""
        self._delta = IngestTable.open(path, TableSpec(LAKE, LAKE_PARTITION_BY))

    def load(self, records: Sequence[Record]) -> int:
        """Commit a batch of the loader; returns its number."""
        app = self.table.load_app
        batch = self._delta.batch(app) + 1
        done = self._delta.positions(app, {each.partition for each in records})
        ends: dict[int, int] = {}
        for each in records:
            ends[each.partition] = max(ends.get(each.partition, 0), each.offset + 1)
        first = {p: min(each.offset for each in records if each.partition == p) for p in ends}
        ranges = tuple(PartitionRange(p, done.get(p, first[p]), end) for p, end in sorted(ends.items()))
        self._commit(records, BatchDocument(app=app, batch=batch, job="load", job_version="1", ranges=ranges))
        return batch

    def backfill(self, records: Sequence[Record]) -> int:
        """Commit a batch of a backfill; returns its rows' number."""
        app = self.table.backfill_app
        batch = self._delta.batch(app) + 1
        self._commit(
            records, BatchDocument(app=app, batch=batch, job="backfill", job_version="1"), -1 - batch
        )
        return -1 - batch

    def _commit(
        self, records: Sequence[Record], document: BatchDocument, ingest_batch: int | None = None
    ) -> None:
        root = self._staging / f"written-{uuid.uuid4()}"
        number = document.batch if ingest_batch is None else ingest_batch
        root.mkdir(parents=True)
        in_order = sorted(records, key=lambda each: each.timestamp_ms)
        path = root / f"part-{uuid.uuid4()}.parquet"
        pq.write_table(_rows(self.table.topic_id, in_order, number), path)
        files = [ingested(staged_file(path, root), self.loaded_at)]
        self._delta.append(files, document.counted(files, "timestamp"))


def _rows(topic_id: str, records: list[Record], ingest_batch: int) -> pa.Table:
    count = len(records)
    headers = [
        None if each.headers is None else [{"key": k, "value": v} for k, v in each.headers]
        for each in records
    ]
    columns = [
        [topic_id] * count,
        [each.partition for each in records],
        [each.offset for each in records],
        [datetime.fromtimestamp(each.timestamp_ms / 1000, UTC) for each in records],
        [0] * count,
        [None] * count,
        [each.key for each in records],
        [each.value for each in records],
        headers,
        [ingest_batch] * count,
    ]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, _SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=_SCHEMA)


def now() -> datetime:
    """Two hours after START_MS."""
    return datetime.fromtimestamp((START_MS + 2 * HOUR_MS) / 1000, UTC)
