"""Columns of `usage_raw` and `usage_quarantine`, and of a record as it stands on topic `usage`."""

from typing import Final

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)


def _column(name: str, of: DataType, *, nullable: bool = True) -> StructField:
    return StructField(name, of, nullable)


USAGE_RECORD: Final = StructType(
    [
        _column("id", StringType()),
        _column("point", StringType()),
        _column("node_id", LongType()),
        _column("cluster_id", StringType()),
        _column("boot_id", StringType()),
        _column("counted_since_ms", LongType()),
        _column("instance_id", StringType()),
        _column("interval_start_ms", LongType()),
        _column("interval_ms", LongType()),
        _column("grid_ms", LongType()),
        _column("produce_bytes", LongType()),
        _column("consume_bytes", LongType()),
        _column("produce_bytes_total", LongType()),
        _column("consume_bytes_total", LongType()),
        _column("produce_requests", LongType()),
        _column("consume_requests", LongType()),
        _column("produce_throttled_ms", LongType()),
        _column("consume_throttled_ms", LongType()),
        _column("refused", LongType()),
        _column("stored_bytes", LongType()),
        _column("stored_byte_ms", LongType()),
        _column("produce_peak_bytes_per_s", LongType()),
        _column("consume_peak_bytes_per_s", LongType()),
        _column("produce_rate_bytes_per_s", LongType()),
        _column("consume_rate_bytes_per_s", LongType()),
        _column("produce_limit_bytes_per_s", LongType()),
        _column("consume_limit_bytes_per_s", LongType()),
        _column("capacity_bytes", LongType()),
        _column("partitions_led", LongType()),
        _column("blocked_ms", LongType()),
        _column("sent_at_ms", LongType()),
        _column("version", LongType()),
    ]
)
"""`contracts.usage.UsageRecord`, field by field."""

USAGE_RAW: Final = StructType(
    [
        *USAGE_RECORD.fields,
        _column("interval_start", TimestampType()),
        _column("recovered", BooleanType()),
        _column("ingest_batch", LongType()),
        _column("ingested_at_ms", LongType()),
        _column("kafka_partition", IntegerType()),
        _column("kafka_offset", LongType()),
        _column("day", DateType()),
    ]
)
"""One row per record id, and rows with `recovered` that fill gaps between records; partitioned by `day`.

Every row counts: sums over the table are what was used. A recovered row stands for a missing interval and has
the id of the missing record, which replaces it when it arrives late; one that stands for nothing any more is
kept with `interval_ms` and all amounts zero. `interval_start_ms` never changes. A row with `recovered`,
`interval_ms` zero and negative bytes takes back what two masters both counted. A row that is new or was
rewritten has the `ingest_batch` of that commit, which grows by one with each commit.
"""

USAGE_QUARANTINE: Final = StructType(
    [
        _column("kafka_partition", IntegerType()),
        _column("kafka_offset", LongType()),
        _column("kafka_timestamp_ms", LongType()),
        _column("key", BinaryType()),
        _column("value", BinaryType()),
        _column("reason", StringType()),
        _column("error", StringType()),
        _column("id", StringType()),
        _column("instance_id", StringType()),
        _column("interval_start_ms", LongType()),
        _column("ingest_batch", LongType()),
        _column("ingested_at_ms", LongType()),
    ]
)
"""Records that were not taken: `reason` is one word for counting, `error` the sentence for people.

`id`, `instance_id` and `interval_start_ms` are null where the bytes do not say them.
"""
