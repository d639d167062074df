"""The tables of advice have the columns that their readers know."""

import types
from datetime import date
from enum import StrEnum
from typing import Any, get_args, get_origin

import msgspec
import pytest
from pyspark.sql.types import StructType

from contracts import advice as rows
from pipeline.schema import advice

_SPARK_TYPES = {str: "string", int: "bigint", bool: "boolean", float: "double", date: "date"}
_PAIRS = [
    (advice.ADVICE, rows.AdviceRow),
    (advice.SKEW, rows.SkewRow),
    (advice.FORECAST, rows.ForecastRow),
    (advice.MOVES, rows.MoveRow),
]


def spark_type(of: Any) -> str:
    if isinstance(of, types.UnionType):
        [of] = [part for part in get_args(of) if part is not type(None)]
    if get_origin(of) is list:
        return f"array<{spark_type(get_args(of)[0])}>"
    if issubclass(of, msgspec.Struct):
        inner = ",".join(f"{field.name}:{spark_type(field.type)}" for field in msgspec.structs.fields(of))
        return f"struct<{inner}>"
    return "string" if issubclass(of, StrEnum) else _SPARK_TYPES[of]


@pytest.mark.parametrize(("schema", "row"), _PAIRS, ids=lambda of: getattr(of, "__name__", ""))
def test_a_table_has_the_columns_of_its_contract(schema: StructType, row: type[msgspec.Struct]) -> None:
    columns = {field.name: field.dataType.simpleString() for field in schema.fields}
    assert columns == {field.name: spark_type(field.type) for field in msgspec.structs.fields(row)}
