"""Tables that decoding makes: typed rows of a topic, and its dead letters."""

from typing import Final

import pyarrow as pa

from pipeline.schema.columns import TIMESTAMP
from pipeline.schema.lake import HEADERS

KAFKA_COLUMNS: Final = pa.schema(
    {
        "_partition": pa.int32(),
        "_offset": pa.int64(),
        "_timestamp": TIMESTAMP,
        "_schema_version": pa.int32(),
        "_decode_batch": pa.int64(),
        "_unknown_fields": pa.list_(pa.field("element", pa.string())),
        "_ingest_hour": TIMESTAMP,
    }
)
"""Behind the fields of the schema. `_unknown_fields`: what the record had and the schema has not."""

DECODED_PARTITION: Final = "_ingest_hour"

DEAD_LETTERS: Final = pa.schema(
    {
        "topic": pa.string(),
        "topic_id": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": TIMESTAMP,
        "schema_id": pa.string(),
        "error_class": pa.string(),
        "message": pa.string(),
        "attempt": pa.int32(),
        "key": pa.binary(),
        "value": pa.binary(),
        "headers": HEADERS,
        "decode_batch": pa.int64(),
        "ingest_hour": TIMESTAMP,
    }
)
"""One row per record that did not parse; `attempt` counts from 1, `schema_id` is the last one's."""

DEAD_PARTITION: Final = "ingest_hour"
