"""The one place where Spark is started: here, as a cluster's driver, or on a server (docs/adr/0057)."""

import logging
import os
import socket
import sys
import zipfile
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from pipeline import azure
from pipeline.errors import PipelineError
from pipeline.jars import JARS, STORE_JARS, cache_dir, ensure_jars
from pipeline.java import spark_java_home
from pipeline.memory import memory_here
from pipeline.spark_at import SUBMITTED, THIS_MACHINE, SparkAt
from pipeline.store import AnyPath, StorePath, spark_url

SHUFFLE_PARTITIONS: Final = 4
"""Frozen in the checkpoints of streaming queries with state: changing it starts those anew."""
_started: Final[list[Any]] = []
_LOG_SETTINGS: Final = Path(__file__).with_name("log4j2.properties")
_TASKS_IMPORT: Final = ("contracts", "pipeline", "runtime", "wire")
_CONNECT_PORT: Final = 15002
_COLLECTOR: Final = "-XX:+UseParallelGC"
"""Batches allocate much and keep little: with Java's default a load takes a quarter more CPU."""
_PROBE_S: Final = 5.0
_CATALOG: Final = "spark.sql.catalog.spark_catalog"
_QUERIES: Final = {
    _CATALOG: "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS),
    "spark.sql.session.timeZone": "UTC",
    "spark.databricks.delta.snapshotPartitions": "2",  # of a table's log; 50 tasks are for clusters
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # INT96 has no bounds in footers
    # Rows of several partitions of a table need no sorting where so few are written at a time.
    "spark.sql.maxConcurrentOutputFileWriters": "16",
    # Kafka's newer batch source hands rows on as they are; the older one takes them apart and back.
    "spark.sql.sources.useV1SourceList": "avro,csv,json,orc,parquet,text",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
"""What a session can say by itself, whoever started its Spark."""
_DRIVER: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stopTimeout": "30s",
    "spark.kafka.consumer.cache.capacity": "256",
    # A batch's consumers are not asked for again; idle ones count among the instance's connections, and what
    # they fetched beyond the batch's end stays in memory.
    "spark.kafka.consumer.cache.timeout": "15s",
    "spark.kafka.consumer.cache.evictorThreadRunInterval": "5s",
    "spark.kafka.consumer.fetchedData.cache.timeout": "15s",
    "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "5s",
}


def spark_session(
    scratch: Path,
    say: Callable[[str], None] = lambda _: None,
    at: SparkAt = THIS_MACHINE,
    lake: AnyPath | None = None,
) -> SparkSession:
    """A session with Kafka and Delta Lake that reaches `lake`; UTC, errors only in the log, no web pages.

    Raises: PipelineError without Java or the jars, or where a Spark Connect server is of no use.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    if at.is_connect:
        return _connected(at, tasks_archive(scratch))
    if at.url == SUBMITTED:
        session = SparkSession.builder.getOrCreate()
        session.sparkContext.addPyFile(str(tasks_archive(scratch)))
        return _reaching(lake, session)
    is_stored = isinstance(lake, StorePath) and not lake.is_hdfs
    jars = ensure_jars(say, (*JARS, *STORE_JARS) if is_stored else JARS)
    os.environ.update(spark_environment(at))
    settings = settings_of(at, scratch, jars) | (s3_settings(os.environ) if is_stored else {})
    conf = (
        SparkConf().setMaster(at.url).setAppName("portico").setAll([*(settings | dict(at.settings)).items()])
    )
    if SparkSession.getActiveSession() is None:
        context = SparkContext(conf=conf, gateway=_java(conf))
        if not at.is_local:
            context.addPyFile(str(tasks_archive(scratch)))
    return _reaching(lake, SparkSession.builder.config(conf=conf).getOrCreate())


def _reaching(lake: AnyPath | None, session: SparkSession) -> SparkSession:
    """The session once it has the key of an account of Azure, which Hadoop takes from no environment: told
    to the running JVM, as everybody on the machine sees what one is started with.
    """
    if isinstance(lake, StorePath) and (host := lake.azure_host) is not None:
        java: Any = session.sparkContext
        for name, value in azure.for_hadoop(host, os.environ).items():
            java._jsc.hadoopConfiguration().set(name, value)
    return session


def spark_environment(at: SparkAt) -> dict[str, str]:
    """What a driver's process needs: Java, and the Python of its tasks. Raises: PipelineError."""
    found = {
        "PYSPARK_PYTHON": at.settings.get("spark.pyspark.python", sys.executable),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    if home := spark_java_home(cache_dir()):
        found["JAVA_HOME"] = home
    return found | ({"SPARK_LOCAL_IP": "127.0.0.1"} if at.is_local else {})


def _connected(at: SparkAt, packages: Path) -> SparkSession:
    """A session of a server that has the jars and reaches the lake by itself. Raises: PipelineError."""
    server = urlsplit(at.url)
    try:
        # PySpark tries for ten minutes.
        socket.create_connection((server.hostname or "", server.port or _CONNECT_PORT), _PROBE_S).close()
    except OSError as error:
        raise PipelineError(f"no Spark Connect server is at {server.netloc}: {error}") from error
    session = SparkSession.builder.remote(at.url).getOrCreate()
    if session.conf.get(_CATALOG, "") != _QUERIES[_CATALOG]:
        raise PipelineError(
            f"the Spark Connect server at {server.netloc} has no Delta Lake: start it by `portico pipeline "
            "submit connect`, or with the jars and settings that this prints with --dry-run"
        )
    for name, value in (_QUERIES | dict(at.settings)).items():
        if session.conf.isModifiable(name):
            session.conf.set(name, value)
    session.addArtifacts(str(packages), pyfile=True)
    return session


def s3_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """What the environment says to deltalake, in Hadoop's words; credentials it takes from there itself."""
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    endpoint = environment.get("AWS_ENDPOINT_URL")
    by_host = environment.get("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", str(endpoint is None)).lower() == "true"
    found = {"endpoint.region": region, "endpoint": endpoint, "path.style.access": str(not by_host).lower()}
    return {f"spark.hadoop.fs.s3a.{name}": value for name, value in found.items() if value}


def tasks_archive(scratch: Path) -> Path:
    """Our own packages, for executors: what else tasks import is installed there, as here."""
    archive = scratch / "tasks.zip"
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
        logging.getLogger("py4j").setLevel(logging.CRITICAL)  # what it logs it raises as well
        _started.append(launch_gateway(conf, {"start_new_session": True}))  # type: ignore[no-untyped-call]
    return _started[0]


def _quoted(option: str) -> str:
    """One option of Java's, whatever folders are called."""
    return '"' + option.replace("\\", r"\\").replace('"', r"\"") + '"'


def settings_of(at: SparkAt, scratch: Path, jars: list[Path]) -> dict[str, str]:
    """Spark's settings of a driver on this machine, without those that `at` has."""
    # Spark looks for causes of a Python failure with a regular expression that needs a deep stack.
    options = f"-Xss4m {_COLLECTOR} {_quoted(f'-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}')}"
    # An address on which executors reach the driver is Spark's own choice, as its machine is named.
    where = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if not at.is_local:
        where = {
            "spark.jars": ",".join(str(jar) for jar in jars),
            "spark.executor.extraJavaOptions": _COLLECTOR,
        }
    return {
        **_QUERIES,
        **_DRIVER,
        **where,
        "spark.driver.memory": f"{memory_here() // 1024**2}m",
        "spark.driver.extraJavaOptions": options,
        "spark.driver.extraClassPath": ":".join(str(jar) for jar in jars),
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": spark_url(scratch / "warehouse"),
    }
