"""Columns of `lake_audit`, `lake_forgotten` and `lake_forgets`."""

from typing import Final

from pyspark.sql.types import IntegerType

from contracts.lake import LakeAuditRow, LakeForgetRow, LakeForgottenRow
from pipeline.schema.columns import columns_of

LAKE_AUDIT: Final = columns_of(LakeAuditRow, partition=IntegerType())
LAKE_FORGOTTEN: Final = columns_of(LakeForgottenRow, partition=IntegerType())
LAKE_FORGETS: Final = columns_of(LakeForgetRow)
