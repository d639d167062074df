"""The one place where Spark is started: on this machine, or as the driver of a cluster (docs/adr/0057)."""

import os
import sys
import zipfile
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from pipeline.jars import JARS, S3_JARS, cache_dir, ensure_jars
from pipeline.java import spark_java_home
from pipeline.memory import memory_here
from pipeline.spark_at import THIS_MACHINE, SparkAt
from pipeline.store import AnyPath, StorePath

SHUFFLE_PARTITIONS: Final = 4
"""Frozen in the checkpoints of streaming queries with state: changing it starts those anew."""
_started: Final[list[Any]] = []
_LOG_SETTINGS: Final = Path(__file__).with_name("log4j2.properties")
_TASKS_IMPORT: Final = ("contracts", "pipeline", "runtime", "wire")


def spark_session(
    scratch: Path,
    say: Callable[[str], None] = lambda _: None,
    at: SparkAt = THIS_MACHINE,
    lake: AnyPath | None = None,
) -> SparkSession:
    """A session with Kafka and Delta Lake that reaches `lake`; UTC, errors only in the log, no web pages.

    Raises: PipelineError without Java or the jars.
    """
    is_stored = isinstance(lake, StorePath)
    jars = ensure_jars(say, (*JARS, *S3_JARS) if is_stored else JARS)
    scratch.mkdir(parents=True, exist_ok=True)
    if home := spark_java_home(cache_dir()):
        os.environ["JAVA_HOME"] = home
    python = at.settings.get("spark.pyspark.python", sys.executable)
    os.environ["PYSPARK_PYTHON"], os.environ["PYSPARK_DRIVER_PYTHON"] = python, sys.executable
    if at.is_local:
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = _settings(scratch, jars) | _settings_at(at, jars)
    settings |= (s3_settings(os.environ) if is_stored else {}) | dict(at.settings)
    conf = SparkConf().setMaster(at.master).setAppName("portico").setAll([*settings.items()])
    if SparkSession.getActiveSession() is None:
        context = SparkContext(conf=conf, gateway=_java(conf))
        if not at.is_local:
            context.addPyFile(str(_packed(scratch / "tasks.zip")))
    return SparkSession.builder.config(conf=conf).getOrCreate()


def _settings_at(at: SparkAt, jars: list[Path]) -> dict[str, str]:
    """An address on which executors reach the driver is Spark's own choice, as its machine is named."""
    if at.is_local:
        return {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return {"spark.jars": ",".join(str(jar) for jar in jars)}


def s3_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """What the environment says to deltalake, in Hadoop's words; credentials it takes from there itself."""
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    endpoint = environment.get("AWS_ENDPOINT_URL")
    by_host = environment.get("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", str(endpoint is None)).lower() == "true"
    found = {"endpoint.region": region, "endpoint": endpoint, "path.style.access": str(not by_host).lower()}
    return {f"spark.hadoop.fs.s3a.{name}": value for name, value in found.items() if value}


def _packed(archive: Path) -> Path:
    """Our own packages, for executors: what else tasks import is installed there, as here."""
    with zipfile.ZipFile(archive, "w") as packed:
        for name in _TASKS_IMPORT:
            spec = find_spec(name)
            assert spec is not None and spec.origin is not None, f"{name} is a package"
            package = Path(spec.origin).parent
            for file in sorted(package.rglob("*.py")):
                packed.write(file, Path(name) / file.relative_to(package))
    return archive


def _java(conf: SparkConf) -> Any:
    """The process's JVM, in a session of its own: a signal to the job's process group is for the job, which
    stops Spark after itself. It ends with the job in any case, when its standard input does.
    """
    if not _started:
        _started.append(launch_gateway(conf, {"start_new_session": True}))  # type: ignore[no-untyped-call]
    return _started[0]


def _quoted(option: str) -> str:
    """One option of Java's, whatever folders are called."""
    return '"' + option.replace("\\", r"\\").replace('"', r"\"") + '"'


def _settings(scratch: Path, jars: list[Path]) -> dict[str, str]:
    # Spark looks for causes of a Python failure with a regular expression that needs a deep stack
    options = f"-Xss4m {_quoted(f'-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}')}"
    return {
        "spark.driver.memory": f"{memory_here() // 1024**2}m",
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
