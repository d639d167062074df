"""Records of Kafka's source as rows and files of lake tables."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from pipeline.ingest.staging import StagedFile
from pipeline.schema.lake import LAKE, LAKE_PARTITION_BY

_FIRST_US: Final = -62_135_596_800_000_000
"""0001-01-01, and 10000-01-01 below: other times have no text that all readers agree on."""
_AFTER_LAST_US: Final = 253_402_300_800_000_000


class Destination(NamedTuple):
    """Where a topic's records go."""

    topic_id: str
    batch: int


def lake_rows(records: DataFrame, destinations: Mapping[str, Destination]) -> DataFrame:
    """Columns of LAKE's files, and `topic` first: the tenant's name, by which files are told apart.

    `records` are Kafka's columns; `timestamp_raw_ms` besides where `timestamp` could not hold the time.
    """
    micros = F.unix_micros("timestamp")
    is_time = (micros >= _FIRST_US) & (micros < _AFTER_LAST_US)
    raw_ms = F.when(~is_time, F.unix_millis("timestamp"))
    if "timestamp_raw_ms" in records.columns:
        raw_ms = F.coalesce("timestamp_raw_ms", raw_ms)
    columns = {
        "timestamp": F.when(is_time, F.col("timestamp")),
        "timestamp_type": F.col("timestampType"),
        "timestamp_raw_ms": raw_ms,
    }
    names = [name for name in LAKE.names if name not in LAKE_PARTITION_BY]
    chosen = [columns.get(name, F.col(name)).alias(name) for name in names]
    return _placed(records, destinations).select(F.coalesce("topic", F.lit("")).alias("topic"), *chosen)


def _placed(records: DataFrame, destinations: Mapping[str, Destination]) -> DataFrame:
    """With `topic_id` and `ingest_batch`, by a look into a hash table where there are several topics."""
    [(_, only), *others] = destinations.items()
    if not others:
        to = {"topic_id": F.lit(only.topic_id), "ingest_batch": F.lit(only.batch).cast("long")}
        return records.withColumns(to)
    rows = [(topic, *to) for topic, to in destinations.items()]
    by_topic = records.sparkSession.createDataFrame(rows, "topic string, topic_id string, ingest_batch long")
    return records.join(F.broadcast(by_topic), "topic", "left")


def ingested(file: StagedFile, now: datetime) -> StagedFile:
    """A file of a topic's rows, in its partition: times that tenants choose make none."""
    hour = now.astimezone(UTC).strftime("%Y-%m-%dT%H:00:00.000000Z")
    return file._replace(partition_values=dict.fromkeys(LAKE_PARTITION_BY, hour))
