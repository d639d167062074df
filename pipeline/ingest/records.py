"""Reading a few records without Spark's Kafka source, for times that it cannot hold."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, TimestampType

from pipeline.errors import PipelineError
from pipeline.ingest.offsets import KafkaSource
from pipeline.ingest.ranges import PartitionRange
from pipeline.schema.lake import HEADERS, columns

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_MS: Final = -62_135_596_800_000
_LAST_MS: Final = 253_402_300_799_999
_SILENCE_MAX_S: Final = 120.0
_FETCH: Final = 1000
_TURN_S: Final = 0.2
_SCHEMA: Final = columns(
    key=BinaryType(),
    value=BinaryType(),
    topic=StringType(),
    partition=IntegerType(),
    offset=LongType(),
    timestamp=TimestampType(),
    timestampType=IntegerType(),
    headers=HEADERS,
    timestamp_raw_ms=LongType(),
)
_OFFSET: Final = _SCHEMA.names.index("offset")


def read_by_client(spark: SparkSession, source: KafkaSource, topic: str, part: PartitionRange) -> DataFrame:
    """The columns of `kafka.read_ranges`, and `timestamp_raw_ms` where `timestamp` cannot hold the time.

    All records pass through this process: for ranges of thousands. Raises: PipelineError.
    """
    settings = {
        "bootstrap.servers": source.bootstrap,
        "group.id": "portico-pipeline",  # librdkafka wants one; nothing is joined or committed
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
        "isolation.level": "read_committed",
        "log_level": 0,
    }
    consumer = Consumer(settings | dict(source.settings))
    try:
        consumer.assign([TopicPartition(topic, part.partition, part.start)])
        rows = _rows(consumer, topic, part)
    finally:
        consumer.close()
    return spark.createDataFrame(rows, _SCHEMA)


def _rows(consumer: Consumer, topic: str, part: PartitionRange) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    heard_s = time.monotonic()
    while True:
        # It waits until it has so many: a short time, so that the last few are not waited for.
        messages = consumer.consume(_FETCH, _TURN_S)
        if messages:
            heard_s = time.monotonic()
        elif time.monotonic() - heard_s > _SILENCE_MAX_S:
            raise PipelineError(f"{topic}-{part.partition}: no record in {_SILENCE_MAX_S:.0f} s: try again")
        for message in messages:
            failure = message.error()
            if failure is not None and failure.code() != KafkaError._PARTITION_EOF:
                raise PipelineError(f"{topic}-{part.partition} at {message.offset()}: {failure.str()}")
            if failure is not None or message.offset() >= part.end:
                return rows
            rows.append(_row(message))
        if rows and rows[-1][_OFFSET] == part.end - 1:
            return rows


def _row(message: Any) -> tuple[Any, ...]:
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
