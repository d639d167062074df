"""Columns of `price_book`, `bill`, `bill_line` and `adjustment`."""

from typing import Final

import pyarrow as pa

from contracts.billing import Adjustment, Bill, BillLine, PriceBook
from pipeline.schema.columns import columns_of

_WHOLE: Final = pa.decimal128(38, 0)
_QUANTITY: Final = pa.decimal128(38, 6)

PRICE_BOOK: Final = columns_of(PriceBook)

BILL: Final = columns_of(Bill)
"""Partitioned by `month`, as `bill_line`; one row per instance and month."""

BILL_LINE: Final = columns_of(BillLine, base_quantity=_WHOLE, quantity=_QUANTITY)

ADJUSTMENT: Final = columns_of(Adjustment, base_quantity_delta=_WHOLE, quantity_delta=_QUANTITY)
"""Only appended to; partitioned by `bill_month`."""
