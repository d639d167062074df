"""Tables that decoding makes: typed rows of a topic, and its dead letters."""

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

KAFKA_COLUMNS: Final = StructType(
    [
        StructField("_partition", IntegerType()),
        StructField("_offset", LongType()),
        StructField("_timestamp", TimestampType()),
        StructField("_schema_version", IntegerType()),
        StructField("_decode_batch", LongType()),
        StructField("_unknown_fields", ArrayType(StringType())),
        StructField("_event_hour", TimestampType()),
    ]
)
"""Behind the fields of the schema. `_unknown_fields`: what the record had and the schema has not."""

DECODED_PARTITION: Final = "_event_hour"

DEAD_LETTERS: Final = StructType(
    [
        StructField("topic", StringType()),
        StructField("topic_id", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("schema_id", StringType()),
        StructField("error_class", StringType()),
        StructField("message", StringType()),
        StructField("attempt", IntegerType()),
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField(
            "headers",
            ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
        ),
        StructField("decode_batch", LongType()),
        StructField("event_hour", TimestampType()),
    ]
)
"""One row per record that did not parse; `attempt` counts from 1, `schema_id` is the last one's."""

DEAD_PARTITION: Final = "event_hour"
