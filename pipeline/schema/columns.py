"""Columns of tables: those of a contract's struct, and others as names and types."""

import types
from collections.abc import Sequence
from datetime import date, datetime
from enum import StrEnum
from typing import Annotated, Any, Final, get_args, get_origin

import msgspec
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

_TYPES: Final[dict[type, type[DataType]]] = {
    str: StringType,
    int: LongType,
    bool: BooleanType,
    float: DoubleType,
    date: DateType,
    datetime: TimestampType,
}


def columns(**of: DataType) -> StructType:
    """Nullable columns, in order."""
    return StructType([StructField(name, kind) for name, kind in of.items()])


def columns_of(
    row: type[msgspec.Struct], order: Sequence[str] | None = None, **exact: DataType
) -> StructType:
    """A nullable column for each field of a row, in the row's order or another one.

    `exact` has the types that Python does not tell: the digits of a decimal, a shorter integer.
    """
    fields = {field.name: field.type for field in msgspec.structs.fields(row)}
    names = fields if order is None else order
    assert set(names) == set(fields), set(names) ^ set(fields)
    return columns(**{name: exact.get(name) or _column_type(fields[name]) for name in names})


def _column_type(of: Any) -> DataType:
    if get_origin(of) is Annotated:
        return _column_type(get_args(of)[0])
    if isinstance(of, types.UnionType):
        [of] = [part for part in get_args(of) if part is not types.NoneType]
    if get_origin(of) is list:
        return ArrayType(_column_type(get_args(of)[0]))
    if issubclass(of, msgspec.Struct):
        return columns_of(of)
    return StringType() if issubclass(of, StrEnum) else _TYPES[of]()
