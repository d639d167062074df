"""The session has what jobs rely on."""

from pathlib import Path

from pyspark.sql import SparkSession


def test_delta_tables_remember_the_batch_that_wrote_them(spark: SparkSession, tmp_path: Path) -> None:
    table = str(tmp_path / "table")
    for _ in range(2):
        writer = spark.range(10).write.format("delta").mode("append")
        writer.option("txnAppId", "load").option("txnVersion", "0").save(table)
    assert spark.read.format("delta").load(table).count() == 10


def test_times_are_utc(spark: SparkSession) -> None:
    [row] = spark.sql("select cast(timestamp_millis(0) as string) as text").collect()
    assert row.text == "1970-01-01 00:00:00"
