"""The tables of usage and bills have the columns that their readers know."""

from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

import msgspec
import pytest
from pyspark.sql.types import StructType

from contracts import billing as rows
from pipeline.schema import billing, rollup

_SPARK_TYPES = {str: "string", int: "bigint", bool: "boolean", date: "date", datetime: "timestamp"}
_PAIRS = [
    (rollup.USAGE_5M, rows.UsageSlot),
    (rollup.USAGE_HOUR, rows.UsageHour),
    (rollup.USAGE_DAY, rows.UsageDay),
    (billing.PRICE_BOOK, rows.PriceBook),
    (billing.BILL, rows.Bill),
    (billing.BILL_LINE, rows.BillLine),
    (billing.ADJUSTMENT, rows.Adjustment),
]


def spark_type(of: Any) -> str:
    return "string" if issubclass(of, StrEnum) else _SPARK_TYPES[of]


@pytest.mark.parametrize(("schema", "row"), _PAIRS, ids=lambda of: getattr(of, "__name__", ""))
def test_a_table_has_the_columns_of_its_contract(schema: StructType, row: type[msgspec.Struct]) -> None:
    columns = {field.name: field.dataType.simpleString() for field in schema.fields}
    decimals = {name: of for name, of in columns.items() if of.startswith("decimal(38,")}
    named = {field.name: field.type for field in msgspec.structs.fields(row)}
    assert set(columns) == set(named)
    for name, of in named.items():
        if of is Decimal:
            assert name in decimals, name
        else:
            assert columns[name] == spark_type(of), name
