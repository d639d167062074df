"""Usage records for tests: what a master would write, and a Kafka frame that holds it."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable

from contracts.usage_batches import by_message, encoded
from contracts.usage_records import UsageRecord, record_id
from pipeline.ingest.admin import Topic
from pipeline.ingest.consume import MESSAGES
from pipeline.ingest.ranges import PartitionRange
from pipeline.layout import PipelineLayout
from pipeline.metering.batch import IngestFigures
from pipeline.metering.ingest import UsageIngest

START_MS: Final = 1_795_132_800_000
"""A midnight."""
MINUTE_MS: Final = 60_000
NOW_MS: Final = START_MS + 3 * 24 * 3600 * 1000
BOOT: Final = "b1"
ID: Final = "iabcdefghijk"


def a_record(minute: int, produced: int, total: int, **changes: Any) -> UsageRecord:
    """One minute of one instance on one point; `total` is at its end. Consumes twice as much."""
    start_ms = changes.pop("start_ms", START_MS + minute * MINUTE_MS)
    boot_id, instance_id = changes.pop("boot_id", BOOT), changes.pop("instance_id", ID)
    interval_ms = changes.get("interval_ms", MINUTE_MS)
    values: dict[str, Any] = {
        "id": record_id(boot_id, instance_id, start_ms),
        "point": "broker-1",
        "node_id": 1,
        "cluster_id": "c",
        "boot_id": boot_id,
        "counted_since_ms": START_MS,
        "instance_id": instance_id,
        "interval_start_ms": start_ms,
        "interval_ms": MINUTE_MS,
        "produce_bytes": produced,
        "consume_bytes": 2 * produced,
        "produce_bytes_total": total,
        "consume_bytes_total": 2 * total,
        "produce_requests": 3,
        "consume_requests": 4,
        "produce_throttled_ms": 0,
        "consume_throttled_ms": 0,
        "refused": 0,
        "stored_bytes": 1000,
        "stored_byte_ms": 1000 * interval_ms,
        "produce_peak_bytes_per_s": produced,
        "consume_peak_bytes_per_s": produced,
        "produce_rate_bytes_per_s": 10_000_000,
        "consume_rate_bytes_per_s": 10_000_000,
        "produce_limit_bytes_per_s": 10_000_000,
        "consume_limit_bytes_per_s": 10_000_000,
        "capacity_bytes": 10**9,
        "partitions_led": 2,
        "blocked_ms": 0,
        "sent_at_ms": start_ms + interval_ms,
    }
    return UsageRecord(**(values | changes))


def a_run(amounts: Sequence[int], **changes: Any) -> list[UsageRecord]:
    """Records of successive minutes."""
    total, made = 0, []
    for minute, amount in enumerate(amounts):
        total += amount
        made.append(a_record(minute, amount, total, **changes))
    return made


def messages_of(records: Iterable[UsageRecord | bytes]) -> list[bytes]:
    """What a master writes of records; bytes are messages as they are."""
    given = list(records)
    told = map(encoded, by_message(one for one in given if not isinstance(one, bytes)))
    return [*told, *(one for one in given if isinstance(one, bytes))]


class UsageTopicTable:
    """`usage_raw` fed without Kafka: each `take` is a batch of one partition."""

    def __init__(self, layout: PipelineLayout) -> None:
        self.layout = layout
        self.offset = 0

    def take(self, records: Iterable[UsageRecord | bytes], *, now_ms: int = NOW_MS) -> IngestFigures:
        """One batch, by another process each time as far as the tables can tell."""
        values = messages_of(records)
        first, self.offset = self.offset, self.offset + len(values)
        return self.take_again(first, values, now_ms=now_ms)

    def take_again(self, first: int, values: Sequence[bytes], *, now_ms: int = NOW_MS) -> IngestFigures:
        """A batch from a given offset."""
        rows = [
            dict(zip(MESSAGES.names, (0, first + index, now_ms, b"k", value), strict=True))
            for index, value in enumerate(values)
        ]
        tables = UsageIngest(self.layout, Topic("usage", "0" * 32, (0,)))
        messages = pa.Table.from_pylist(rows, MESSAGES)
        part = PartitionRange(0, first, first + len(values))
        return tables.take(messages, [part], (), now_ms=now_ms)

    def quarantine(self) -> list[dict[str, Any]]:
        """What was not taken, in order."""
        return sorted(self._rows("usage_quarantine"), key=lambda row: row["kafka_offset"])

    def rows(self) -> list[dict[str, Any]]:
        """All rows in order of time."""
        return sorted(
            self._rows("usage_raw"),
            key=lambda row: (row["boot_id"], row["instance_id"], row["interval_start_ms"]),
        )

    def _rows(self, table: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = DeltaTable(self.layout.table(table)).to_pyarrow_table().to_pylist()
        return found
