"""The table's columns are the contract's fields."""

import typing

import msgspec
from pyspark.sql.types import LongType, StringType

from contracts.usage import UsageRecord
from pipeline.schema.usage import USAGE_QUARANTINE, USAGE_RAW, USAGE_RECORD

_TYPES = {str: StringType(), int: LongType()}


def test_a_record_has_one_column_per_field_of_the_contract() -> None:
    hints = typing.get_type_hints(UsageRecord)
    expected = {field.name: _TYPES[hints[field.name]] for field in msgspec.structs.fields(UsageRecord)}
    assert {field.name: field.dataType for field in USAGE_RECORD.fields} == expected
    assert USAGE_RECORD.fieldNames() == [field.name for field in msgspec.structs.fields(UsageRecord)]


def test_the_raw_table_adds_where_a_row_came_from() -> None:
    added = USAGE_RAW.fieldNames()[len(USAGE_RECORD.fields) :]
    assert added == [
        "interval_start",
        "recovered",
        "ingest_batch",
        "ingested_at_ms",
        "kafka_partition",
        "kafka_offset",
        "day",
    ]
    assert {"key", "value", "reason", "error"} <= set(USAGE_QUARANTINE.fieldNames())
