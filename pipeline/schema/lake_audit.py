"""Columns of `lake_audit`, `lake_forgotten` and `lake_forgets`."""

from typing import Final

import pyarrow as pa

from contracts.lake import LakeAuditRow, LakeForgetRow, LakeForgottenRow
from pipeline.schema.columns import columns_of

LAKE_AUDIT: Final = columns_of(LakeAuditRow, partition=pa.int32())
LAKE_FORGOTTEN: Final = columns_of(LakeForgottenRow, partition=pa.int32())
LAKE_FORGETS: Final = columns_of(LakeForgetRow)
