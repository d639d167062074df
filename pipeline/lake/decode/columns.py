"""A field's type as Delta's schema and as Arrow's, and Python values as Arrow columns. Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from pipeline.lake.decode.field_types import Field, FieldType

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_PLAIN: Final = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}


_SPARK_NAMES: Final = {"tinyint": "byte", "smallint": "short", "int": "integer", "bigint": "long"}
_DDL_NAMES: Final = {spark: ddl for ddl, spark in _SPARK_NAMES.items()}


def spark_type(kind: FieldType) -> Any:
    """The type in JSON of Spark's and Delta's schemas. Columns take nulls: decoding checks requirements."""
    match kind.name:
        case "struct":
            return {"type": "struct", "fields": spark_fields(kind.fields)}
        case "array":
            assert kind.items is not None
            return {"type": "array", "elementType": spark_type(kind.items), "containsNull": True}
        case "map":
            assert kind.items is not None
            inner = spark_type(kind.items)
            return {"type": "map", "keyType": "string", "valueType": inner, "valueContainsNull": True}
    return _SPARK_NAMES.get(kind.name) or kind.ddl()


def spark_fields(fields: Sequence[Field]) -> list[dict[str, Any]]:
    """Columns of a Spark schema."""
    return [
        {"name": each.name, "type": spark_type(each.type), "nullable": True, "metadata": {}}
        for each in fields
    ]


def fields_of(columns: Sequence[dict[str, Any]]) -> tuple[Field, ...]:
    """The other way: a table's columns."""
    return tuple(Field(each["name"], _field_type(each["type"])) for each in columns)


def _field_type(told: Any) -> FieldType:
    if isinstance(told, str):
        if told.startswith("decimal("):
            precision, scale = told.removeprefix("decimal(").removesuffix(")").split(",")
            return FieldType("decimal", int(precision), int(scale))
        return FieldType(_DDL_NAMES.get(told, told))
    match told["type"]:
        case "struct":
            return FieldType("struct", fields=fields_of(told["fields"]))
        case "array":
            return FieldType("array", items=_field_type(told["elementType"]))
    return FieldType("map", items=_field_type(told["valueType"]))


def new_columns(table: Sequence[Field], wanted: Sequence[Field]) -> list[Field]:
    """Columns of a schema that a table has not, or not all of: they are merged into the table's."""
    known = {each.name: each.type for each in table}
    return [each for each in wanted if each.name not in known or _has_more(known[each.name], each.type)]


def _has_more(table: FieldType, wanted: FieldType) -> bool:
    if wanted.name == "struct":
        return bool(new_columns(table.fields, wanted.fields))
    return wanted.items is not None and table.items is not None and _has_more(table.items, wanted.items)


def arrow_type(kind: FieldType) -> pa.DataType:
    """The type in Parquet files of the table."""
    match kind.name:
        case "decimal":
            return pa.decimal128(kind.precision, kind.scale)
        case "struct":
            return pa.struct([pa.field(each.name, arrow_type(each.type)) for each in kind.fields])
        case "array":
            assert kind.items is not None
            return pa.list_(pa.field("element", arrow_type(kind.items)))
        case "map":
            assert kind.items is not None
            return pa.map_(pa.string(), arrow_type(kind.items))
    return _PLAIN[kind.name]


def arrow_column(values: Sequence[Any], kind: FieldType) -> pa.Array:
    """Decoded values, None where there is none."""
    match kind.name:
        case "struct":
            return _structs(values, kind)
        case "array":
            return _lists(values, kind)
        case "map":
            return _maps(values, kind)
        case "timestamp":
            return pa.array([_microseconds(each) for each in values], pa.int64()).cast(arrow_type(kind))
        case "decimal":
            return pa.array([_scaled(each, kind.scale) for each in values], arrow_type(kind))
    return pa.array(values, arrow_type(kind))


def _microseconds(value: Any) -> int | None:
    """Numbers are milliseconds since 1970; a time without a zone is UTC."""
    if value is None:
        return None
    if isinstance(value, int):
        return value * 1000
    assert isinstance(value, datetime)
    return ((value if value.tzinfo else value.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND


def _scaled(value: Decimal | None, scale: int) -> Decimal | None:
    """With the column's digits: Arrow refuses to drop even zeros."""
    return (
        None
        if value is None
        else value.scaleb(0)
        if value.as_tuple().exponent == -scale
        else _rescaled(value, scale)
    )


def _rescaled(value: Decimal, scale: int) -> Decimal:
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    number = int("".join(map(str, digits)) or "0")
    shift = exponent + scale
    number = number * 10**shift if shift >= 0 else number // 10**-shift
    return Decimal((sign, tuple(int(digit) for digit in str(number)), -scale))


def _structs(values: Sequence[Any], kind: FieldType) -> pa.Array:
    fields = arrow_type(kind)
    children = [
        arrow_column([None if each is None else getattr(each, f"f{index}") for each in values], field.type)
        for index, field in enumerate(kind.fields)
    ]
    absent = pa.array([each is None for each in values], pa.bool_())
    return pa.StructArray.from_arrays(children, fields=list(fields), mask=absent)


def _lists(values: Sequence[Any], kind: FieldType) -> pa.Array:
    assert kind.items is not None
    inner = arrow_column([item for each in values if each is not None for item in each], kind.items)
    return pa.ListArray.from_arrays(_offsets(values), inner, type=arrow_type(kind), mask=_absent(values))


def _maps(values: Sequence[Any], kind: FieldType) -> pa.Array:
    assert kind.items is not None
    present = [each for each in values if each is not None]
    keys = pa.array([name for each in present for name in each], pa.string())
    inner = arrow_column([item for each in present for item in each.values()], kind.items)
    return pa.MapArray.from_arrays(_offsets(values), keys, inner, type=arrow_type(kind), mask=_absent(values))


def _offsets(values: Sequence[Any]) -> pa.Array:
    at = 0
    offsets = [0]
    for each in values:
        at += 0 if each is None else len(each)
        offsets.append(at)
    return pa.array(offsets, pa.int32())


def _absent(values: Sequence[Any]) -> pa.Array:
    return pa.array([each is None for each in values], pa.bool_())
