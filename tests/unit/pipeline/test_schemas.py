"""Tables have the columns that their readers know: those of the contracts, as they lie on disks."""

import json
from pathlib import Path
from typing import Annotated

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from contracts.advice import (
    ADVICE_TABLE,
    FORECAST_TABLE,
    MOVES_TABLE,
    SKEW_TABLE,
    AdviceRow,
    ForecastRow,
    MoveRow,
    SkewRow,
)
from pipeline.schema import billing, lake_audit, rollup, usage_records
from pipeline.schema.columns import columns_of

KNOWN: dict[str, list[str]] = json.loads((Path(__file__).parent / "golden" / "schemas.json").read_text())
SCHEMAS = {
    name.lower(): schema
    for module in (billing, lake_audit, rollup, usage_records)
    for name, schema in vars(module).items()
    if isinstance(schema, pa.Schema) and not name.startswith("_")
} | {
    ADVICE_TABLE: columns_of(AdviceRow),
    FORECAST_TABLE: columns_of(ForecastRow),
    MOVES_TABLE: columns_of(MoveRow),
    SKEW_TABLE: columns_of(SkewRow),
}


def test_no_table_is_left_out() -> None:
    assert SCHEMAS.keys() == KNOWN.keys()


@pytest.mark.parametrize("table", KNOWN)
def test_a_table_has_the_columns_of_tables_on_disks(table: str) -> None:
    """A field that is added to a contract is added here; one that changes its type needs a migration."""
    fields = from_arrow_schema(SCHEMAS[table]).fields
    assert [f"{field.name} {field.dataType.simpleString()}" for field in fields] == KNOWN[table]
    assert all(field.nullable for field in fields)


class Row(msgspec.Struct):
    """A contract."""

    name: Annotated[str, msgspec.Meta(min_length=1)]
    count: int | None


def test_columns_have_the_row_s_order_or_another_and_exact_types_where_python_is_vague() -> None:
    assert columns_of(Row) == pa.schema([("name", pa.string()), ("count", pa.int64())])
    turned = columns_of(Row, ("count", "name"), count=pa.int32())
    assert turned == pa.schema([("count", pa.int32()), ("name", pa.string())])


def test_an_order_names_every_field() -> None:
    with pytest.raises(AssertionError):
        columns_of(Row, ("name",))
