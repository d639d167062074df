"""Columns of `lake_audit`."""

from typing import Final

from pyspark.sql.types import IntegerType

from contracts.lake import LakeAuditRow
from pipeline.schema.columns import columns_of

LAKE_AUDIT: Final = columns_of(LakeAuditRow, partition=IntegerType())
