"""Columns of `lake_audit` (`contracts.lake`)."""

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

RANGES: Final = ArrayType(StructType([StructField("start", LongType()), StructField("end", LongType())]))

LAKE_AUDIT: Final = StructType(
    [
        StructField("audited_at_ms", LongType()),
        StructField("instance_id", StringType()),
        StructField("topic", StringType()),
        StructField("topic_id", StringType()),
        StructField("partition", IntegerType()),
        StructField("hour", TimestampType()),
        StructField("lake_rows", LongType()),
        StructField("duplicate_rows", LongType()),
        StructField("missing_rows", LongType()),
        StructField("expired_rows", LongType()),
        StructField("unverified_offsets", LongType()),
        StructField("is_complete", BooleanType()),
        StructField("missing_ranges", RANGES),
        StructField("duplicate_ranges", RANGES),
    ]
)
