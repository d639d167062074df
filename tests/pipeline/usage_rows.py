"""Rows of `usage_raw` for tests, and what they add up to, in plain Python."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from contracts.usage_records import record_id
from pipeline.layout import PipelineLayout
from pipeline.metering.rollup import UsageTables
from pipeline.metering.versioned_tables import Table
from pipeline.schema.usage_records import USAGE_RAW

MINUTE_MS = 60_000
SLOT_MS = 5 * MINUTE_MS
HOUR_MS = 12 * SLOT_MS
SUMS = (
    "produce_bytes",
    "consume_bytes",
    "produce_requests",
    "consume_requests",
    "refused",
    "produce_throttled_ms",
    "consume_throttled_ms",
    "blocked_ms",
    "stored_byte_ms",
)
LIMITS = ("produce_limit_bytes_per_s", "consume_limit_bytes_per_s", "capacity_bytes")


def ms(text: str) -> int:
    """Epoch ms of an ISO time, UTC."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def usage_row(instance_id: str, start_ms: int, length_ms: int = MINUTE_MS, **fields: Any) -> dict[str, Any]:
    """One row; what is not given is zero, the point `broker-1`."""
    boot = fields.get("boot_id", "boot-1")
    of_type = {"string": "", "bool": False, "int64": 0, "int32": 0}
    row = {field.name: of_type.get(str(field.type)) for field in USAGE_RAW}
    start = datetime.fromtimestamp(start_ms / 1000, UTC)
    row |= {
        "id": record_id(boot, instance_id, start_ms),
        "point": "broker-1",
        "boot_id": boot,
        "instance_id": instance_id,
        "interval_start_ms": start_ms,
        "interval_ms": length_ms,
        "version": 1,
        "interval_start": start,
        "day": start.date(),
        "partitions_led": 1,
    }
    return row | fields


def put_usage(layout: PipelineLayout, rows: list[dict[str, Any]], batch: int) -> Table:
    """Rows as one batch of the ingest: those with ids that are there replace them."""
    raw = UsageTables(layout).raw
    raw.ensure()
    found = pa.Table.from_pylist([row | {"ingest_batch": batch} for row in rows], schema=raw.schema)
    merge = DeltaTable(str(raw.path)).merge(found, "old.id = new.id", source_alias="new", target_alias="old")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    return raw


def expected_slots(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, int], dict[str, int]]:
    """(instance, start of slot) -> its columns, by walking through every minute of every row."""
    slots: dict[tuple[str, int], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    minutes: dict[tuple[str, int, str], int] = defaultdict(int)
    whole: dict[tuple[str, int, str], int] = defaultdict(int)
    for row in rows:
        start, length = row["interval_start_ms"], row["interval_ms"]
        for low, high in _pieces(start, length):
            slot = low - low % SLOT_MS
            sums = slots[row["instance_id"], slot]
            for name in SUMS:
                part = _until(row[name], length, high - start) - _until(row[name], length, low - start)
                sums[name] += part if length else row[name]
            for direction in ("produce", "consume"):
                name = f"{direction}_bytes"
                part = _until(row[name], length, high - start) - _until(row[name], length, low - start)
                part = part if length else row[name]
                sums[f"{direction}_recovered_bytes"] += part if row["recovered"] else 0
                if high - low == SLOT_MS:
                    whole[row["instance_id"], slot, direction] += part
                else:
                    minutes[row["instance_id"], low // MINUTE_MS, direction] += part
            for name in LIMITS:
                sums[name] = max(sums[name], row[name])
            sums["records"] += low == start and not row["recovered"]
            sums["expected_ms"] += high - low
            sums["covered_ms"] += 0 if row["recovered"] else high - low
    for (instance, slot), sums in slots.items():
        for direction in ("produce", "consume"):
            first = slot // MINUTE_MS
            highest = max(minutes[instance, minute, direction] for minute in range(first, first + 5))
            highest += whole[instance, slot, direction] // 5
            sums[f"{direction}_peak_1m_bytes_per_s"] = highest // 60
        missing = sums["expected_ms"] > sums["covered_ms"]
        sums["estimated"] = bool(
            missing or sums["produce_recovered_bytes"] or sums["consume_recovered_bytes"]
        )
    return {key: dict(sums) for key, sums in slots.items()}


def _until(quantity: int, length: int, elapsed: int) -> int:
    return quantity * elapsed // length if length else 0


def _pieces(start: int, length: int) -> list[tuple[int, int]]:
    end = start + length
    if length == 0 or (length == SLOT_MS and start % SLOT_MS == 0):
        return [(start, end)]
    bounds = [start, *range(start - start % MINUTE_MS + MINUTE_MS, end, MINUTE_MS), end]
    return list(pairwise(bounds))
