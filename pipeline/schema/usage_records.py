"""Columns of `usage_raw` and `usage_quarantine`, and of a record as it stands on topic `usage`."""

from typing import Final

import pyarrow as pa

from contracts.usage_records import UsageRecord
from pipeline.schema.columns import TIMESTAMP, columns_of

USAGE_RECORD: Final = columns_of(UsageRecord)

_OF_INGESTION: Final = pa.schema(
    [
        ("interval_start", TIMESTAMP),
        ("recovered", pa.bool_()),
        ("ingest_batch", pa.int64()),
        ("ingested_at_ms", pa.int64()),
        ("kafka_partition", pa.int32()),
        ("kafka_offset", pa.int64()),
        ("day", pa.date32()),
    ]
)
USAGE_RAW: Final = pa.schema([*USAGE_RECORD, *_OF_INGESTION])
"""One row per record id, and rows with `recovered` that fill gaps between records; partitioned by `day`.

Every row counts: sums over the table are what was used. A recovered row stands for a missing interval and has
the id of the missing record, which replaces it when it arrives late; one that stands for nothing any more is
kept with `interval_ms` and all amounts zero. `interval_start_ms` never changes. A row with `recovered`,
`interval_ms` zero and negative bytes takes back what two masters both counted. A row that is new or was
rewritten has the `ingest_batch` of that commit, which grows by one with each commit.
"""

USAGE_QUARANTINE: Final = pa.schema(
    [
        ("kafka_partition", pa.int32()),
        ("kafka_offset", pa.int64()),
        ("kafka_timestamp_ms", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("reason", pa.string()),
        ("error", pa.string()),
        ("id", pa.string()),
        ("instance_id", pa.string()),
        ("interval_start_ms", pa.int64()),
        ("ingest_batch", pa.int64()),
        ("ingested_at_ms", pa.int64()),
    ]
)
"""Records that were not taken: `reason` is one word for counting, `error` the sentence for people.

`id`, `instance_id` and `interval_start_ms` are null where the bytes do not say them.
"""
