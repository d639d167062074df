"""Lake tables are asked by name in Spark's SQL."""

import time

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from pipeline.lake.lake_tables import places
from pipeline.lake.planning.readable_names import readable, spark_views
from pipeline.layout import PipelineLayout
from tests.pipeline.lake_tables import LakeWriter, Record


def test_tables_are_asked_by_name(spark: SparkSession, layout: PipelineLayout) -> None:
    """The topic that was made again has the name, whatever their order."""
    before = LakeWriter(layout, "Orders.v2", "e" * 32)
    time.sleep(0.01)  # tables tell milliseconds
    now = LakeWriter(layout, "Orders.v2", "f" * 32)
    before.load([Record(0, offset, b"old") for offset in range(3)])
    now.load([Record(0, offset, b"new") for offset in range(5)])
    found = readable(places(layout, {"i-1": "Shop", "i-2": "empty"}, ("lake", "decoded")))
    assert [f"{each.schema}.{each.name}" for each in found] == [
        "shop.orders_v2",
        "shop.orders_v2_eeeeeeee",
    ]
    for each in spark_views(found):
        spark.sql(each)
    [row] = spark.sql("SELECT count(*) AS n, max(value) AS v FROM shop.orders_v2").collect()
    assert (row["n"], bytes(row["v"])) == (5, b"new")
    with pytest.raises(AnalysisException):
        spark.sql("DELETE FROM shop.orders_v2")
    spark.sql("DROP SCHEMA shop CASCADE")
