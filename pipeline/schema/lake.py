"""What was loaded of a topic: every record once, as it was, by (topic id, partition, offset)."""

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

HEADERS: Final = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))

LAKE_PARTITION_BY: Final = ("event_hour",)
LAKE_OPAQUE: Final = ("value",)
"""Whose bytes the writer neither collects in a dictionary nor compares."""

LAKE: Final = StructType(
    [
        StructField("topic_id", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        # Of the record. Null where it is outside the years 1 to 9999: then `timestamp_raw_ms` has it.
        StructField("timestamp", TimestampType()),
        StructField("timestamp_type", IntegerType()),  # 0: the producer's, 1: the broker's
        StructField("timestamp_raw_ms", LongType()),
        StructField("key", BinaryType()),  # null and empty are told apart, as in `value`
        StructField("value", BinaryType()),
        StructField("headers", HEADERS),  # in order, names may repeat; null without any
        # The commit that brought the row: from 0 the loader's batches, below 0 those of backfills.
        StructField("ingest_batch", LongType()),
        StructField("event_hour", TimestampType()),  # `timestamp` cut to the hour: late rows lie in theirs
    ]
)
