"""Columns of `usage_raw` and `usage_quarantine`, and of a record as it stands on topic `usage`."""

from typing import Final

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DateType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from contracts.usage_records import UsageRecord
from pipeline.schema.columns import columns, columns_of

USAGE_RECORD: Final = columns_of(UsageRecord)

_OF_INGESTION: Final = columns(
    interval_start=TimestampType(),
    recovered=BooleanType(),
    ingest_batch=LongType(),
    ingested_at_ms=LongType(),
    kafka_partition=IntegerType(),
    kafka_offset=LongType(),
    day=DateType(),
)
USAGE_RAW: Final = StructType([*USAGE_RECORD.fields, *_OF_INGESTION.fields])
"""One row per record id, and rows with `recovered` that fill gaps between records; partitioned by `day`.

Every row counts: sums over the table are what was used. A recovered row stands for a missing interval and has
the id of the missing record, which replaces it when it arrives late; one that stands for nothing any more is
kept with `interval_ms` and all amounts zero. `interval_start_ms` never changes. A row with `recovered`,
`interval_ms` zero and negative bytes takes back what two masters both counted. A row that is new or was
rewritten has the `ingest_batch` of that commit, which grows by one with each commit.
"""

USAGE_QUARANTINE: Final = columns(
    kafka_partition=IntegerType(),
    kafka_offset=LongType(),
    kafka_timestamp_ms=LongType(),
    key=BinaryType(),
    value=BinaryType(),
    reason=StringType(),
    error=StringType(),
    id=StringType(),
    instance_id=StringType(),
    interval_start_ms=LongType(),
    ingest_batch=LongType(),
    ingested_at_ms=LongType(),
)
"""Records that were not taken: `reason` is one word for counting, `error` the sentence for people.

`id`, `instance_id` and `interval_start_ms` are null where the bytes do not say them.
"""
