"""Reading ranges of offsets as a DataFrame: Spark's Kafka source with settings for throughput."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pipeline.ingest.offsets import KafkaSource
from pipeline.ingest.ranges import Packing, PartitionRange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CLIENT_SETTINGS: Final = {
    # Spark asks for two offsets after every poll: large polls make those few.
    "max.poll.records": "10000",
    "fetch.max.bytes": str(64 * 1024 * 1024),
    "receive.buffer.bytes": str(1024 * 1024),
    # Behind a range's last record the client asks for more by itself, and what Spark asks then waits, on the
    # same connection, until the broker has given up waiting for some: half a second for each partition.
    "fetch.max.wait.ms": "10",
    "isolation.level": "read_committed",
    "client.id": "portico-pipeline",
    # What plans a read in Spark's driver cannot be interrupted, and other instances wait for this one.
    "default.api.timeout.ms": "30000",
}
_MIB: Final = 1024 * 1024
_FETCH_BYTES_MIN: Final = _MIB
_FETCH_BYTES_MAX: Final = 4 * _MIB
"""Of one partition at once."""
_FETCHED_BYTES_MAX: Final = 64 * _MIB
"""Of all: Spark keeps what its consumers have fetched."""
POLL_TIMEOUT_MS: Final = 600_000
"""A throttled consumer is silent for as long as its debt lasts, and has not failed."""


def read_ranges(
    spark: "SparkSession",
    source: KafkaSource,
    ranges: Mapping[str, Sequence[PartitionRange]],
    packing: Packing | None = None,
) -> "DataFrame":
    """Exactly these offsets of topics by the tenant's names: one range per topic-partition.

    Columns: key, value (binary), topic, partition, offset, timestamp, timestampType, headers. Offsets that a
    reader of committed records does not see are no rows. Retention overtaking the read fails it.
    """
    reader = spark.read.format("kafka").options(**_options(source, ranges))
    if packing is not None:
        reader = reader.option("maxRecordsPerPartition", packing.offsets_per_split_max)
    frame = reader.load()
    return frame if packing is None else frame.coalesce(packing.tasks)


def _options(source: KafkaSource, ranges: Mapping[str, Sequence[PartitionRange]]) -> dict[str, str]:
    partitions = {topic: [each.partition for each in found] for topic, found in ranges.items()}
    assert all(len(found) == len(set(found)) for found in partitions.values()), "one range per partition"
    share_bytes = _FETCHED_BYTES_MAX // max(1, sum(map(len, partitions.values())))
    fetch_bytes = max(_FETCH_BYTES_MIN, min(_FETCH_BYTES_MAX, share_bytes))
    starts = {topic: {str(each.partition): each.start for each in found} for topic, found in ranges.items()}
    ends = {topic: {str(each.partition): each.end for each in found} for topic, found in ranges.items()}
    client = CLIENT_SETTINGS | {"max.partition.fetch.bytes": str(fetch_bytes)} | dict(source.settings)
    client["bootstrap.servers"] = source.bootstrap
    return {f"kafka.{name}": value for name, value in client.items()} | {
        "assign": json.dumps(partitions),
        "startingOffsets": json.dumps(starts),
        "endingOffsets": json.dumps(ends),
        "includeHeaders": "true",
        "failOnDataLoss": "true",
        "fetchOffset.numRetries": "1",
        "kafkaConsumer.pollTimeoutMs": str(POLL_TIMEOUT_MS),
    }
