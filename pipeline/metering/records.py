"""From bytes on topic `usage` to records, each with the reason why it is not taken, if there is one.

Pure: `now_ms` is an argument. A value that lies would bill somebody: what cannot be true is set aside with
its bytes, and what was carried meanwhile is recovered from the totals of later records.
"""

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import LongType, StringType

from contracts.usage_records import INTERVAL_MS_MAX, INTERVAL_MS_MIN, USAGE_VERSION
from pipeline.schema.usage_records import USAGE_QUARANTINE, USAGE_RECORD

FUTURE_MS: Final = 5 * 60_000
"""The master's clock may be ahead of ours by so much."""
OLD_MS: Final = 45 * 24 * 3600 * 1000
"""A month that ended so long ago is closed."""
PORT_BYTES_PER_S: Final = 12_500_000_000
"""100 Gbit/s: no point carries more than its network port does."""
LIMIT_TIMES: Final = 10
NUMBER_MAX: Final = 2**62
TEXT_LENGTH_MAX: Final = 200
_NUMBERS: Final = [field.name for field in USAGE_RECORD.fields if isinstance(field.dataType, LongType)]
_TEXTS: Final = [field.name for field in USAGE_RECORD.fields if isinstance(field.dataType, StringType)]
_PLACE: Final = ("kafka_partition", "kafka_offset", "kafka_timestamp_ms")


def judged(frame: DataFrame, now_ms: int) -> DataFrame:
    """A record's columns, `key`, `value`, its place in Kafka, `reason` and `error`: null when it is taken.

    `frame` has what Kafka's source gives: key, value, partition, offset, timestamp.
    """
    record = F.from_json(F.col("value").cast("string"), USAGE_RECORD)
    parsed = frame.select(
        "key",
        "value",
        F.col("partition").alias("kafka_partition"),
        F.col("offset").alias("kafka_offset"),
        F.unix_millis("timestamp").alias("kafka_timestamp_ms"),
        # What is not deterministic is computed where it stands; else filters of what follows would be pushed
        # below, and each of the hundred places that look at a field would parse the record for itself.
        F.when(F.monotonically_increasing_id() >= 0, record).alias("record"),
    )
    flat = parsed.select("key", "value", *_PLACE, "record.*")
    reasons = _faults(now_ms)
    return flat.select(
        "*",
        F.coalesce(*(F.when(fault, F.lit(reason)) for reason, fault, _ in reasons)).alias("reason"),
        F.coalesce(*(F.when(fault, error) for _, fault, error in reasons)).alias("error"),
    )


def taken(frame: DataFrame, *, ingest_batch: int, now_ms: int) -> DataFrame:
    """Rows of `usage_raw` from judged records; duplicates are still among them."""
    start = F.timestamp_millis("interval_start_ms")
    return frame.where(F.col("reason").isNull()).select(
        *USAGE_RECORD.fieldNames(),
        start.alias("interval_start"),
        F.lit(False).alias("recovered"),
        F.lit(ingest_batch).cast("long").alias("ingest_batch"),
        F.lit(now_ms).cast("long").alias("ingested_at_ms"),
        "kafka_partition",
        "kafka_offset",
        start.cast("date").alias("day"),
    )


def quarantined(frame: DataFrame, *, ingest_batch: int, now_ms: int) -> DataFrame:
    """Rows of `usage_quarantine` from judged records."""
    return (
        frame.where(F.col("reason").isNotNull())
        .withColumn("ingest_batch", F.lit(ingest_batch).cast("long"))
        .withColumn("ingested_at_ms", F.lit(now_ms).cast("long"))
        .select(*USAGE_QUARANTINE.fieldNames())
    )


def _faults(now_ms: int) -> list[tuple[str, Column, Column]]:
    """Reason, when it holds, and the sentence; the first that holds counts. Earlier ones guard later ones."""
    numbers = [F.col(name) for name in _NUMBERS]
    missing = reduce(Column.__or__, (F.col(name).isNull() for name in (*_NUMBERS, *_TEXTS)))
    names = F.array_join(
        F.filter(
            F.array(*(F.when(F.col(name).isNull(), F.lit(name)) for name in (*_NUMBERS, *_TEXTS))),
            lambda name: name.isNotNull(),
        ),
        ", ",
    )
    lengths = [F.length(F.col(name)) for name in _TEXTS]
    start, length = F.col("interval_start_ms"), F.col("interval_ms")
    wanted_id = F.concat_ws("/", "boot_id", "instance_id", start.cast("string"))
    return [
        ("schema", missing, F.concat(F.lit("missing, of another type or too large: "), names)),
        (
            "version",
            F.col("version") != USAGE_VERSION,
            F.concat(
                F.lit(f"this ingest reads version {USAGE_VERSION}, not "), F.col("version").cast("string")
            ),
        ),
        (
            "schema",
            (F.least(*lengths) < 1) | (F.greatest(*lengths) > TEXT_LENGTH_MAX) | (F.col("id") != wanted_id),
            F.lit("id is not boot_id/instance_id/interval_start_ms, or a text is empty or too long"),
        ),
        ("negative", F.least(*numbers) < 0, F.lit("a number is below zero")),
        ("overflow", F.greatest(*numbers) > NUMBER_MAX, F.lit("a number is above 2^62")),
        (
            "impossible",
            ~(
                length.between(1, INTERVAL_MS_MAX)
                & F.col("grid_ms").between(INTERVAL_MS_MIN, INTERVAL_MS_MAX)
            ),
            F.concat(F.lit("an interval of milliseconds: "), length.cast("string")),
        ),
        (
            "clock",
            start + length > now_ms + FUTURE_MS,
            F.lit(f"the interval ends more than {FUTURE_MS // 60_000} minutes ahead of this machine's clock"),
        ),
        (
            "clock",
            start < now_ms - OLD_MS,
            F.lit(f"the interval began more than {OLD_MS // 86_400_000} days ago"),
        ),
        *(_impossible_bytes(direction) for direction in ("produce", "consume")),
    ]


def bytes_per_s_max(direction: str) -> Column:
    """What nobody exceeds: ten times the limit, and what a port carries where that is more."""
    limit = F.col(f"{direction}_limit_bytes_per_s").cast("double")
    return F.greatest(F.lit(float(PORT_BYTES_PER_S)), LIMIT_TIMES * limit)


def _impossible_bytes(direction: str) -> tuple[str, Column, Column]:
    """More bytes than were ever counted, or faster than ten times the limit and than any port."""
    used = F.col(f"{direction}_bytes")
    rate = used * F.lit(1000.0) / F.greatest("interval_ms", F.lit(1))
    return (
        "impossible",
        (used > F.col(f"{direction}_bytes_total")) | (rate > bytes_per_s_max(direction)),
        F.concat(F.lit(f"{direction}_bytes of one interval: "), used.cast("string")),
    )
