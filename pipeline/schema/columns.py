"""Columns of tables: those of a contract's struct, and others as names and types."""

import types
from collections.abc import Sequence
from datetime import date, datetime
from enum import StrEnum
from typing import Annotated, Any, Final, get_args, get_origin

import msgspec
import pyarrow as pa

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
_TYPES: Final[dict[type, pa.DataType]] = {
    str: pa.string(),
    int: pa.int64(),
    bool: pa.bool_(),
    float: pa.float64(),
    date: pa.date32(),
    datetime: TIMESTAMP,
}


def columns_of(
    row: type[msgspec.Struct], order: Sequence[str] | None = None, **exact: pa.DataType
) -> pa.Schema:
    """A nullable column for each field of a row, in the row's order or another one.

    `exact` has the types that Python does not tell: the digits of a decimal, a shorter integer.
    """
    fields = {field.name: field.type for field in msgspec.structs.fields(row)}
    names = fields if order is None else order
    assert set(names) == set(fields), set(names) ^ set(fields)
    return pa.schema([(name, exact.get(name) or _column_type(fields[name])) for name in names])


def _column_type(of: Any) -> pa.DataType:
    if get_origin(of) is Annotated:
        return _column_type(get_args(of)[0])
    if isinstance(of, types.UnionType):
        [of] = [part for part in get_args(of) if part is not types.NoneType]
    if get_origin(of) is list:
        return pa.list_(pa.field("element", _column_type(get_args(of)[0])))
    if issubclass(of, msgspec.Struct):
        return pa.struct([*columns_of(of)])
    return pa.string() if issubclass(of, StrEnum) else _TYPES[of]
