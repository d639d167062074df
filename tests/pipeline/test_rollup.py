"""Usage of slots, hours and days against a walk through every minute of every record."""

import random
from datetime import date
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from contracts.billing import PeriodState
from pipeline.layout import PipelineLayout
from pipeline.metering.amounts.slots import to_slots
from pipeline.metering.rollup import UsageTables, roll_up
from pipeline.metering.versioned_tables import Table
from pipeline.schema.rollup import LARGEST, SUMMED, USAGE_5M
from pipeline.schema.usage_records import USAGE_RAW
from tests.pipeline.usage_rows import HOUR_MS, LIMITS, MINUTE_MS, SLOT_MS, SUMS, expected_slots, ms, put_usage
from tests.pipeline.usage_rows import usage_row as row

NOON = ms("2026-11-03T12:00")
LENGTHS = [0, 1, 1000, 7001, MINUTE_MS, MINUTE_MS, MINUTE_MS, 61_000, SLOT_MS - 1, SLOT_MS, SLOT_MS]


def random_rows(seed: int, count: int) -> list[dict[str, Any]]:
    of = random.Random(seed)
    rows = []
    for _ in range(count):
        length = of.choice(LENGTHS)
        unit = of.choice([1, 1000, max(length, 1000)])
        start = NOON + of.randrange(0, 2 * HOUR_MS) // unit * unit
        sizes = {name: of.choice([0, 1, 59, of.randrange(2**20), of.randrange(2**55)]) for name in SUMS}
        limits = {name: of.randrange(10**9) for name in LIMITS}
        where = {"boot_id": f"boot-{of.randrange(3)}", "recovered": of.random() < 0.05}
        rows.append(row(f"i{of.randrange(4)}", start, length, **sizes, **limits, **where))
    return rows


def slots_of(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    with duckdb.connect() as database:
        database.register("raw", pa.Table.from_pylist(rows, schema=USAGE_RAW))
        slots = database.sql(to_slots("raw")).to_arrow_table()
    assert slots.column_names == USAGE_5M.names
    return list(slots.cast(USAGE_5M).to_pylist())


def rows_of(table: Table) -> list[SimpleNamespace]:
    return [SimpleNamespace(**each) for each in table.dataset().to_table().to_pylist()]


def content(table: Table) -> list[str]:
    return sorted(map(repr, rows_of(table)))


def test_a_slot_is_what_a_walk_through_every_minute_of_every_record_finds() -> None:
    rows = random_rows(seed=7, count=3000)
    found = {}
    for each in slots_of(rows):
        key = (each["instance_id"], int(each["slot_start"].timestamp() * 1000))
        columns = {name: each[name] for name in (*SUMMED, *LARGEST, "estimated")}
        found[key] = {
            name: int(value) if isinstance(value, Decimal) else value for name, value in columns.items()
        }
        assert each["day"] == each["slot_start"].date()
    assert found == expected_slots(rows)


def test_a_record_across_slots_is_divided_without_loss() -> None:
    crossing = row("i1", NOON - 90_000, SLOT_MS, produce_bytes=7, stored_byte_ms=2**62 + 1)
    slots = sorted(slots_of([crossing]), key=lambda each: each["slot_start"])
    assert [each["produce_bytes"] for each in slots] == [7 * 9 // 30, 7 - 7 * 9 // 30]
    assert sum(each["stored_byte_ms"] for each in slots) == 2**62 + 1


def test_peaks_are_of_all_points_together() -> None:
    busy = [
        row("i1", NOON, boot_id="a", produce_bytes=6000),
        row("i1", NOON, boot_id="b", produce_bytes=600),
        row("i1", NOON + MINUTE_MS, boot_id="b", produce_bytes=6100),
    ]
    [slot] = slots_of(busy)
    assert slot["produce_peak_1m_bytes_per_s"] == 110


def test_hours_and_days_follow_what_arrives_and_running_again_changes_nothing(
    layout: PipelineLayout,
) -> None:
    tables = UsageTables(layout)
    rows = [
        row("i1", NOON + minute * MINUTE_MS, produce_bytes=minute + 1, stored_byte_ms=60_000 * 50)
        for minute in range(75)
    ]
    late = rows.pop(30)
    lost = late | {"recovered": True}
    put_usage(layout, [*rows, lost], batch=0)
    first = roll_up(layout)
    assert (first.raw_batch, first.hours, first.slots) == (0, 2, 15)
    [noon, one] = sorted(rows_of(tables.hours), key=lambda each: each.hour_start)
    assert noon.produce_bytes == sum(range(1, 61))
    assert noon.produce_recovered_bytes == 31
    assert noon.stored_byte_ms == HOUR_MS * 50
    assert (noon.state, noon.estimated, noon.expected_ms - noon.covered_ms) == ("open", True, MINUTE_MS)
    assert noon.produce_peak_5m_bytes_per_s == sum(range(56, 61)) // 300
    assert one.state == PeriodState.OPEN

    put_usage(layout, [late], batch=1)
    assert roll_up(layout).hours == 1
    [noon, one] = sorted(rows_of(tables.hours), key=lambda each: each.hour_start)
    assert noon.produce_bytes == sum(range(1, 61))
    assert (noon.produce_recovered_bytes, noon.state, noon.estimated) == (0, "complete", False)

    every = (tables.slots, tables.hours, tables.days)
    before = [content(table) for table in every]
    versions = [table.version() for table in every]
    assert roll_up(layout).hours == 0
    assert [table.version() for table in every] == versions
    assert roll_up(layout, days=[date(2026, 11, 3)]).hours == 24
    assert [content(table) for table in every] == before

    [day] = rows_of(tables.days)
    assert (day.month, day.hours, day.hours_complete, day.state) == ("2026-11", 2, 1, "open")
    assert day.produce_bytes == sum(range(1, 76))


def test_an_hour_and_its_day_become_complete_when_the_service_is_heard_later(
    layout: PipelineLayout,
) -> None:
    tables = UsageTables(layout)
    last = ms("2026-11-03T23:00")
    put_usage(layout, [row("i1", last + each * SLOT_MS, SLOT_MS) for each in range(12)], batch=0)
    roll_up(layout)
    assert rows_of(tables.days)[0].state == PeriodState.OPEN
    put_usage(layout, [row("i2", last + HOUR_MS + 2 * SLOT_MS, SLOT_MS)], batch=1)
    roll_up(layout)
    states = {(each.instance_id, each.state) for each in rows_of(tables.days)}
    assert states == {("i1", "complete"), ("i2", "open")}


def test_a_run_that_was_cut_short_is_made_again(
    layout: PipelineLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit on hours fails after the one on slots: the next run starts from where the last one ended."""
    tables = UsageTables(layout)
    put_usage(layout, [row("i1", NOON, produce_bytes=5)], batch=0)
    tables.ensure()
    log = tables.hours.path / "_delta_log"
    log.rename(log.with_name("away"))
    (tables.hours.path / "_delta_log").write_text("in the way")
    with pytest.raises(Exception, match="delta_log"):
        roll_up(layout)
    log.unlink()
    log.with_name("away").rename(log)
    assert roll_up(layout).hours == 1
    assert [each.produce_bytes for each in rows_of(tables.days)] == [5]
