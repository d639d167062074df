"""Small real Delta tables as the pipeline writes them, made from rows of contracts."""

import datetime as dt
import types
import typing
from collections.abc import Sequence
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from deltalake import write_deltalake

_PLAIN = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    dt.date: pa.date32(),
    dt.datetime: pa.timestamp("us", tz="UTC"),
    Decimal: pa.decimal128(38, 6),
}
_WHOLE = ("stored_byte_ms", "base_quantity", "base_quantity_delta")


def write(
    folder: Path, name: str, rows: Sequence[msgspec.Struct], by: str | None = None, mode: str = "append"
) -> None:
    """Add rows to a table, which is made with the first."""
    kind = type(rows[0])
    table = pa.Table.from_pylist(
        [msgspec.structs.asdict(one) | _nested(one) for one in rows], schema_of(kind)
    )
    write_deltalake(folder / name, table, partition_by=[by] if by else None, mode=mode)  # type: ignore[call-overload]


def schema_of(kind: type[msgspec.Struct]) -> pa.Schema:
    """The columns of a row type."""
    hints = typing.get_type_hints(kind)
    return pa.schema([(name, _type(hints[name], name)) for name in kind.__struct_fields__])


def _nested(row: msgspec.Struct) -> dict[str, Any]:
    """Lists of structs as lists of dictionaries."""
    return {
        name: [msgspec.structs.asdict(one) for one in value]
        for name in row.__struct_fields__
        if isinstance(value := getattr(row, name), list) and value and isinstance(value[0], msgspec.Struct)
    }


def _type(hint: Any, name: str = "") -> pa.DataType:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType or origin is typing.Union:
        return _type(next(one for one in arguments if one is not type(None)), name)
    if origin is list:
        return pa.list_(_type(arguments[0]))
    if name in _WHOLE:
        return pa.decimal128(38, 0)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return pa.string()
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return pa.struct(list(schema_of(hint)))
    return _PLAIN[hint]
