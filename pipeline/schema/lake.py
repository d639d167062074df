"""What was loaded of a topic: every record once, as it was, by (topic id, partition, offset)."""

from typing import Final

import pyarrow as pa

from pipeline.schema.columns import TIMESTAMP

_HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
HEADERS: Final = pa.list_(pa.field("element", _HEADER))

LAKE_PARTITION_BY: Final = ("ingest_hour",)
LAKE_SORT_BY: Final = ("timestamp",)
"""The order of a file's rows: readers of some time pass over the files and row groups of others."""
LAKE_OPAQUE: Final = ("value",)
"""Whose bytes the writer neither collects in a dictionary nor compares."""

LAKE: Final = pa.schema(
    {
        "topic_id": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        # Of the record. Null where it is outside the years 1 to 9999: then `timestamp_raw_ms` has it.
        "timestamp": TIMESTAMP,
        "timestamp_type": pa.int32(),  # 0: the producer's, 1: the broker's
        "timestamp_raw_ms": pa.int64(),
        "key": pa.binary(),  # null and empty are told apart, as in `value`
        "value": pa.binary(),
        "headers": HEADERS,  # in order, names may repeat; null without any
        # The commit that brought the row: from 0 the loader's batches, below 0 those of backfills.
        "ingest_batch": pa.int64(),
        "ingest_hour": TIMESTAMP,  # when that batch was read, by our clock: the same in all its rows
    }
)
