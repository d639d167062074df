"""Reading a few records without Spark's Kafka source, for times that it cannot hold."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import Message
from pyspark.sql import DataFrame, SparkSession

from pipeline.ingest.admin import Topic
from pipeline.ingest.consume import Reading, Watch, consuming
from pipeline.ingest.offsets import SourceOffsets
from pipeline.ingest.ranges import PartitionRange
from pipeline.schema.columns import TIMESTAMP
from pipeline.schema.lake import HEADERS

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_MS: Final = -62_135_596_800_000
_LAST_MS: Final = 253_402_300_799_999
_COLUMNS: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP),
        ("timestampType", pa.int32()),
        ("headers", HEADERS),
        ("timestamp_raw_ms", pa.int64()),
    ]
)


def read_by_client(
    spark: SparkSession, offsets: SourceOffsets, topic: Topic, part: PartitionRange
) -> DataFrame:
    """The columns of `kafka.read_ranges`, and `timestamp_raw_ms` where `timestamp` cannot hold the time.

    All records pass through this process: for ranges of thousands. Raises: PipelineError.
    """
    reading = Reading([part], part.offsets, bytes_max=sys.maxsize, rows=(_COLUMNS, _columns))
    with consuming(offsets.source, topic.name, [part]) as consumer:
        reading.fill(consumer, Watch(offsets, topic))
    return spark.createDataFrame(reading.batch().messages)


def _columns(messages: Sequence[Message]) -> list[tuple[Any, ...]]:
    return [*zip(*map(_row, messages), strict=True)]


def _row(message: Message) -> tuple[Any, ...]:
    kind, time_ms = message.timestamp()
    is_time = _FIRST_MS <= time_ms <= _LAST_MS
    return (
        message.key(),
        message.value(),
        message.topic(),
        message.partition(),
        message.offset(),
        _EPOCH + timedelta(milliseconds=time_ms) if is_time else None,
        max(kind - 1, 0),  # librdkafka counts from "not available"
        message.headers() or None,
        None if is_time else time_ms,
    )
