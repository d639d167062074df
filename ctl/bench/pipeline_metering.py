"""Metering: records into usage_raw from files and through the gateway, a day rolled up, a month's p95."""

import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import date
from pathlib import Path
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from contracts.usage_records import USAGE_RAW, USAGE_TOPIC
from ctl.bench import servers
from ctl.bench.measure import Say, Spread, cpu_seconds, seconds_of
from ctl.bench.random_records import create_topics
from pipeline.ingest.offsets import KafkaSource, Topic
from pipeline.ingest.ranges import PartitionRange
from pipeline.layout import PipelineLayout
from pipeline.metering.ingest import UsageIngest, ingest
from pipeline.metering.month_usage import month_usage
from pipeline.metering.rollup import UsageTables, roll_up
from pipeline.metering.synthetic import day_of_records, month_of_slots
from pipeline.metering.versioned_tables import Table
from pipeline.schema.usage_records import USAGE_RECORD

INSTANCES: Final = 1_000
_POINTS: Final = 3
_MINUTES: Final = 500
_PARTITIONS: Final = 4
_REPEATED: Final = 50
"""One record in so many is there twice."""
_DAY: Final = date(2026, 11, 2)
_START_MS: Final = 1_793_577_600_000
_NOW_MS: Final = _START_MS + (_MINUTES + 1) * 60_000
_MONTH: Final = date(2026, 10, 1)
_SLOTS: Final = 8_928
"""All that the month has."""


def measure(spark: SparkSession, rounds: int, say: Say, minutes: int = _MINUTES) -> dict[str, object]:
    """Rates in records a second, and CPU seconds of the JVM per million of them."""
    with tempfile.TemporaryDirectory(dir=servers.scratch_parent(2_000_000_000)) as name, ExitStack() as stack:
        bench = _MeteringBench(spark, Path(name), stack, minutes)
        say(f"metering: {bench.records:,} usage records, as files and on a topic")
        bench.fill()
        files, topic, cpu_s = [], [], []
        for turn in range(rounds + 1):
            say(f"metering: round {turn} of {rounds}")
            taken = bench.from_files()
            through = bench.from_topic()
            if turn > 0:
                files.append(bench.records / taken[0])
                topic.append(bench.records / through[0])
                cpu_s.append(taken[1] * 1e6 / bench.records)
        say(f"metering: a day of {INSTANCES:,} instances")
        rolled = bench.rollup(rounds)
        say("metering: what bills need of a month")
        month = bench.month(rounds)
    return {
        "ingest from files, records/s": Spread.of(files),
        "ingest through the gateway, records/s": Spread.of(topic),
        "ingest, CPU s of the JVM per million records": Spread.of(cpu_s),
        f"a day of {INSTANCES:,} instances x {_POINTS} brokers rolled up, s": Spread.of(rolled),
        f"sums and p95 of {INSTANCES:,} instances x {_SLOTS:,} slots, s": Spread.of(month),
    }


class _MeteringBench:
    """A broker and a gateway with a topic of usage records, and the same records as files."""

    def __init__(self, spark: SparkSession, directory: Path, stack: ExitStack, minutes: int) -> None:
        self._spark = spark
        self._directory = directory
        self._minutes = minutes
        broker = stack.enter_context(servers.broker(directory))
        self._gateway = stack.enter_context(servers.gateway(directory, broker.port))
        self._source = KafkaSource(f"127.0.0.1:{self._gateway.port}")
        self._files = str(directory / "records")
        jvm: Any = spark._jvm
        self._jvm_pid = int(jvm.java.lang.ProcessHandle.current().pid())
        self._rounds = 0
        rows = INSTANCES * _POINTS * minutes
        self.records = rows + -(-rows // _REPEATED)
        self._rows = rows

    def fill(self) -> None:
        """Make the records."""
        messages(self._spark, self._minutes).write.parquet(self._files)
        create_topics(self._source.bootstrap, [USAGE_TOPIC], _PARTITIONS)
        frame = self._spark.read.parquet(self._files).select("key", "value", "partition")
        frame.write.format("kafka").mode("append").options(
            **{"kafka.bootstrap.servers": self._source.bootstrap, "topic": USAGE_TOPIC}
        ).save()

    def from_files(self) -> tuple[float, float]:
        """Seconds, and CPU seconds of the JVM."""
        layout = self._layout()
        tables = UsageIngest(layout, Topic(USAGE_TOPIC, "0" * 32, tuple(range(_PARTITIONS))))
        ranges = [PartitionRange(each, 0, self.records) for each in range(_PARTITIONS)]

        def take() -> int:
            frame = self._spark.read.parquet(self._files)
            return tables.take(self._spark, frame, ranges, (), now_ms=_NOW_MS).rows

        return self._timed(layout, take)

    def from_topic(self) -> tuple[float, float]:
        """Ingestion through the gateway."""
        layout = self._layout()

        def take() -> int:
            return ingest(lambda: self._spark, layout, self._source, now_ms=lambda: _NOW_MS).rows

        return self._timed(layout, take)

    def rollup(self, rounds: int) -> list[float]:
        """Seconds for a day, all hours of which are touched."""
        layout = self._layout()
        rows = day_of_records(self._spark, _DAY, instances=INSTANCES, points=_POINTS)
        rows.write.format("delta").partitionBy("day").save(str(layout.table(USAGE_RAW)))
        spent = [seconds_of(lambda: roll_up(layout, days=[_DAY])) for _ in range(rounds + 1)]
        shutil.rmtree(layout.root)
        return spent[1:]

    def month(self, rounds: int) -> list[float]:
        """Seconds for all that bills need of a month: sums, gaps and percentiles of all instances."""
        layout = self._layout()
        table = UsageTables(layout).slots
        month_of_slots(self._spark, _MONTH, instances=INSTANCES, slots=_SLOTS).write.format(
            "delta"
        ).partitionBy("day").save(str(table.path))
        spent = [seconds_of(lambda: self._used(table)) for _ in range(rounds + 1)]
        shutil.rmtree(layout.root)
        return spent[1:]

    def _used(self, slots: Table) -> None:
        found = month_usage(slots, slots.version(), f"{_MONTH:%Y-%m}")
        if len(found) != INSTANCES:
            raise RuntimeError(f"{len(found)} instances have usage, not {INSTANCES}")

    def _layout(self) -> PipelineLayout:
        self._rounds += 1
        return PipelineLayout(self._directory / f"round-{self._rounds}")

    def _timed(self, layout: PipelineLayout, take: Callable[[], int]) -> tuple[float, float]:
        cpu_s, started = cpu_seconds(self._jvm_pid), time.perf_counter()
        rows = take()
        spent_s = time.perf_counter() - started
        if rows != self._rows:
            raise RuntimeError(f"{rows} rows were ingested, not {self._rows}")
        shutil.rmtree(layout.root)
        return spent_s, cpu_seconds(self._jvm_pid) - cpu_s


def messages(spark: SparkSession, minutes: int) -> DataFrame:
    """What Kafka's source would give of a topic with a record per instance, point and minute."""
    pairs = INSTANCES * _POINTS
    rows = spark.range(0, pairs * minutes, 1, 8)
    instance = F.format_string("i%011d", F.expr(f"id % {INSTANCES}"))
    node = F.expr(f"id % {pairs} div {INSTANCES}")
    made = rows.select(
        instance.cast("binary").alias("key"),
        F.to_json(_record(instance, node, F.expr(f"id div {pairs}"))).cast("binary").alias("value"),
        F.expr(f"cast(id % {INSTANCES} % {_PARTITIONS} as int)").alias("partition"),
        F.col("id").alias("offset"),
        F.timestamp_millis(F.lit(_NOW_MS)).alias("timestamp"),
    )
    return made.unionByName(made.where(F.col("offset") % _REPEATED == 0))


def _record(instance: Column, node: Column, minute: Column) -> Column:
    start_ms = F.lit(_START_MS) + minute * 60_000
    boot = F.format_string("%032d", node)
    used = F.crc32(instance.cast("binary")) % 10**7 + 1
    known = {
        "id": F.concat_ws("/", boot, instance, start_ms.cast("string")),
        "point": F.format_string("broker-%d", node),
        "node_id": node,
        "cluster_id": F.lit("builtin-1"),
        "boot_id": boot,
        "counted_since_ms": F.lit(_START_MS),
        "instance_id": instance,
        "interval_start_ms": start_ms,
        "interval_ms": F.lit(60_000),
        "grid_ms": F.lit(60_000),
        "produce_bytes": used,
        "consume_bytes": used * 2,
        "produce_bytes_total": used * (minute + 1),
        "consume_bytes_total": used * 2 * (minute + 1),
        "partitions_led": F.lit(4),
        "stored_bytes": used * (minute + 1),
        "stored_byte_ms": used * (minute + 1) * 60_000,
        "sent_at_ms": start_ms + 60_100,
        "version": F.lit(1),
    }
    return F.struct(*(known.get(name, used % 1000).alias(name) for name in USAGE_RECORD.fieldNames()))
