"""Files of a batch are all there before a commit may name them, whatever the file system."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.ingest.staging import StagingError, stage


def test_what_spark_wrote_is_what_is_staged(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(1000, numPartitions=3).selectExpr("id", "id % 2 AS half")
    files = stage(frame, tmp_path, ("half",))
    assert sum(file.rows for file in files) == 1000
    assert {file.partition_values["half"] for file in files} == {"0", "1"}


def test_no_rows_are_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    for frame in (spark.range(10).where("id < 0"), spark.range(0), spark.createDataFrame([], "id bigint")):
        assert sum(file.rows for file in stage(frame, tmp_path, ())) == 0


def test_a_disk_is_this_machines_where_hadoop_has_another(spark: SparkSession, tmp_path: Path) -> None:
    """`HADOOP_CONF_DIR` says so on machines of Hadoop's clusters, wherever the lake is."""
    spark.conf.set("fs.defaultFS", "hdfs://127.0.0.1:9")
    try:
        assert sum(file.rows for file in stage(spark.range(7), tmp_path, ())) == 7
    finally:
        spark.conf.unset("fs.defaultFS")


def test_files_of_executors_elsewhere_are_no_empty_batch(spark: SparkSession, elsewhere: Path) -> None:
    with pytest.raises(StagingError, match=r"Spark wrote 7 rows to .*, but there are 0"):
        stage(spark.range(7), elsewhere, ())
