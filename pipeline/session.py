"""The one place where Spark is started."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from pipeline.jars import cache_dir, ensure_jars
from pipeline.java import spark_java_home

SHUFFLE_PARTITIONS: Final = 4
"""Frozen in the checkpoints of streaming queries with state: changing it starts those anew."""
_started: Final[list[Any]] = []
_LOG_SETTINGS: Final = Path(__file__).with_name("log4j2.properties")


def spark_session(
    scratch: Path,
    say: Callable[[str], None] = lambda _: None,
    *,
    cores: int = 2,
    driver_memory: str = "2g",
    **settings: Any,
) -> SparkSession:
    """A local session with Kafka and Delta Lake; UTC, errors only in the log, no web pages.

    `settings` are Spark's own with `.` as `__`. Raises: PipelineError without Java or the jars.
    """
    jars = ensure_jars(say)
    scratch.mkdir(parents=True, exist_ok=True)
    if home := spark_java_home(cache_dir()):
        os.environ["JAVA_HOME"] = home
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    all_settings = _settings(scratch, jars, driver_memory) | {
        name.replace("__", "."): value for name, value in settings.items()
    }
    conf = SparkConf().setMaster(f"local[{cores}]").setAppName("portico").setAll([*all_settings.items()])
    if SparkSession.getActiveSession() is None:
        SparkContext(conf=conf, gateway=_java(conf))
    return SparkSession.builder.config(conf=conf).getOrCreate()


def _java(conf: SparkConf) -> Any:
    """The process's JVM, in a session of its own: a signal to the job's process group is for the job, which
    stops Spark after itself. It ends with the job in any case, when its standard input does.
    """
    if not _started:
        _started.append(launch_gateway(conf, {"start_new_session": True}))  # type: ignore[no-untyped-call]
    return _started[0]


def _settings(scratch: Path, jars: list[Path], driver_memory: str) -> dict[str, str]:
    # Spark looks for causes of a Python failure with a regular expression that needs a deep stack
    options = f"-Xss4m -Dlog4j2.configurationFile=file:{_LOG_SETTINGS} -Dderby.system.home={scratch}"
    return {
        "spark.driver.memory": driver_memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": options,
        "spark.driver.extraClassPath": ":".join(str(jar) for jar in jars),
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "2",  # of a table's log; 50 tasks are for clusters
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # INT96 has no bounds in footers
        # Rows of several partitions of a table need no sorting where so few are written at a time.
        "spark.sql.maxConcurrentOutputFileWriters": "16",
        # Kafka's newer batch source hands rows on as they are; the older one takes them apart and back.
        "spark.sql.sources.useV1SourceList": "avro,csv,json,orc,parquet,text",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.sql.streaming.stopTimeout": "30s",
        "spark.kafka.consumer.cache.capacity": "256",
        # A batch's consumers are not asked for again; idle ones count among the instance's connections, and
        # what they fetched beyond the batch's end stays in memory.
        "spark.kafka.consumer.cache.timeout": "15s",
        "spark.kafka.consumer.cache.evictorThreadRunInterval": "5s",
        "spark.kafka.consumer.fetchedData.cache.timeout": "15s",
        "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "5s",
    }
