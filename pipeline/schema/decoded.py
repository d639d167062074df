"""Tables that decoding makes: typed rows of a topic, and its dead letters."""

from typing import Final

from pyspark.sql.types import ArrayType, BinaryType, IntegerType, LongType, StringType, TimestampType

from pipeline.schema.lake import HEADERS, columns

KAFKA_COLUMNS: Final = columns(
    _partition=IntegerType(),
    _offset=LongType(),
    _timestamp=TimestampType(),
    _schema_version=IntegerType(),
    _decode_batch=LongType(),
    _unknown_fields=ArrayType(StringType()),
    _event_hour=TimestampType(),
)
"""Behind the fields of the schema. `_unknown_fields`: what the record had and the schema has not."""

DECODED_PARTITION: Final = "_event_hour"

DEAD_LETTERS: Final = columns(
    topic=StringType(),
    topic_id=StringType(),
    partition=IntegerType(),
    offset=LongType(),
    timestamp=TimestampType(),
    schema_id=StringType(),
    error_class=StringType(),
    message=StringType(),
    attempt=IntegerType(),
    key=BinaryType(),
    value=BinaryType(),
    headers=HEADERS,
    decode_batch=LongType(),
    event_hour=TimestampType(),
)
"""One row per record that did not parse; `attempt` counts from 1, `schema_id` is the last one's."""

DEAD_PARTITION: Final = "event_hour"
