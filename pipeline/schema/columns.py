"""Schemas written as names and types."""

from pyspark.sql.types import DataType, StructField, StructType


def columns(**of: DataType) -> StructType:
    """Nullable columns, in order."""
    return StructType([StructField(name, kind) for name, kind in of.items()])
