"""What was loaded of a topic: every record once, as it was, by (topic id, partition, offset)."""

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)


def columns(**of: DataType) -> StructType:
    """Nullable columns, in order."""
    return StructType([StructField(name, kind) for name, kind in of.items()])


HEADERS: Final = ArrayType(columns(key=StringType(), value=BinaryType()))

LAKE_PARTITION_BY: Final = ("ingest_hour",)
LAKE_SORT_BY: Final = ("timestamp",)
"""The order of a file's rows: readers of some time pass over the files and row groups of others."""
LAKE_OPAQUE: Final = ("value",)
"""Whose bytes the writer neither collects in a dictionary nor compares."""

LAKE: Final = columns(
    topic_id=StringType(),
    partition=IntegerType(),
    offset=LongType(),
    # Of the record. Null where it is outside the years 1 to 9999: then `timestamp_raw_ms` has it.
    timestamp=TimestampType(),
    timestamp_type=IntegerType(),  # 0: the producer's, 1: the broker's
    timestamp_raw_ms=LongType(),
    key=BinaryType(),  # null and empty are told apart, as in `value`
    value=BinaryType(),
    headers=HEADERS,  # in order, names may repeat; null without any
    # The commit that brought the row: from 0 the loader's batches, below 0 those of backfills.
    ingest_batch=LongType(),
    ingest_hour=TimestampType(),  # when that batch was read, by our clock: the same in all its rows
)
