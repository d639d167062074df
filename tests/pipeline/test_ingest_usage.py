"""Usage records into `usage_raw`: each once, gaps filled to the byte, lies set aside."""

from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from pipeline.layout import PipelineLayout
from tests.pipeline.usage_topic import BOOT, ID, MINUTE_MS, NOW_MS, START_MS, UsageTopicTable, a_record, a_run


@pytest.fixture
def table(spark: SparkSession, layout: PipelineLayout) -> UsageTopicTable:
    return UsageTopicTable(spark, layout)


def changed(record: Any, **changes: Any) -> bytes:
    return msgspec.json.encode(msgspec.to_builtins(record) | changes)


def test_records_become_rows_once_and_again_changes_nothing(table: UsageTopicTable) -> None:
    records = a_run([100, 200, 300])
    figures = table.take([*records, records[1], records[1]])
    assert (figures.records, figures.rows, figures.duplicates) == (5, 3, 2)
    again = table.take(records)
    assert (again.rows, again.duplicates, again.recovered_rows) == (0, 3, 0)
    rows = table.rows()
    assert [row["produce_bytes"] for row in rows] == [100, 200, 300]
    assert [row["ingest_batch"] for row in rows] == [1, 1, 1]
    assert {str(row["day"]) for row in rows} == {"2026-11-20"}
    assert msgspec.to_builtins(records[0]).items() <= rows[0].items()


def test_a_missing_record_is_recovered_and_replaced_when_it_comes(table: UsageTopicTable) -> None:
    records = a_run([100, 200, 300, 401, 500])
    table.take([records[0], records[1]])
    figures = table.take([records[4]])
    assert figures.recovered_rows == 2
    rows = table.rows()
    assert [row["recovered"] for row in rows] == [False, False, True, True, False]
    assert [row["produce_bytes"] for row in rows] == [100, 200, 350, 351, 500]
    assert [row["consume_bytes"] for row in rows] == [200, 400, 701, 701, 1000]
    assert [row["produce_bytes_total"] for row in rows] == [100, 300, 650, 1001, 1501]
    assert [row["stored_byte_ms"] for row in rows] == [1000 * MINUTE_MS] * 5
    assert [row["id"] for row in rows] == [record.id for record in records]
    late = table.take([records[2]])
    assert (late.rows, late.recovered_rows, late.rewritten_rows) == (1, 0, 2)
    rows = table.rows()
    assert [row["produce_bytes"] for row in rows] == [100, 200, 300, 401, 500]
    assert [row["recovered"] for row in rows] == [False, False, False, True, False]
    assert [row["ingest_batch"] for row in rows] == [1, 1, 3, 3, 2]
    table.take([records[3]])
    assert [row["recovered"] for row in table.rows()] == [False] * 5
    assert [row["produce_bytes"] for row in table.rows()] == [100, 200, 300, 401, 500]


def test_what_a_new_master_did_not_see_is_recovered(table: UsageTopicTable) -> None:
    """Its first record begins in the middle of an interval, with totals that are ahead."""
    before = a_run([100, 200])
    begin_ms = START_MS + 2 * MINUTE_MS + 20_000
    first = a_record(2, 50, 450, start_ms=begin_ms, interval_ms=40_000)
    figures = table.take([*before, first, a_record(3, 10, 460)])
    assert figures.recovered_rows == 1
    rows = table.rows()
    assert [row["produce_bytes"] for row in rows] == [100, 200, 100, 50, 10]
    assert (rows[2]["interval_start_ms"], rows[2]["interval_ms"]) == (START_MS + 2 * MINUTE_MS, 20_000)
    # The old master's open interval, from its journal: shorter than the gap.
    table.take([a_record(2, 70, 370, interval_ms=12_000)])
    rows = table.rows()
    assert sum(row["produce_bytes"] for row in rows) == 460
    assert [(row["produce_bytes"], row["interval_ms"], row["recovered"]) for row in rows][2:4] == [
        (70, 12_000, False),
        (30, 8_000, True),
    ]


def test_records_whose_beginning_was_never_written_are_recovered_since_the_boot(
    table: UsageTopicTable,
) -> None:
    figures = table.take([a_record(3, 40, 1000)])
    assert figures.recovered_rows == 3
    assert [row["produce_bytes"] for row in table.rows()] == [320, 320, 320, 40]
    assert (
        table.take([a_record(9, 0, 77, instance_id="izzzzzzzzzzz", counted_since_ms=0)]).recovered_rows == 0
    )


def test_what_two_masters_counted_is_taken_back(table: UsageTopicTable) -> None:
    records = a_run([100, 200, 300])
    other = a_record(1, 250, 400, start_ms=START_MS + MINUTE_MS + 30_000, interval_ms=30_000)
    table.take([records[0], records[1], other, records[2]])
    rows = table.rows()
    assert sum(row["produce_bytes"] for row in rows) == 600
    assert all(row["interval_ms"] == 0 and row["recovered"] for row in rows if row["produce_bytes"] < 0)


def test_idle_instances_without_anything_have_no_gaps(table: UsageTopicTable) -> None:
    nothing = {"stored_bytes": 0, "stored_byte_ms": 0, "partitions_led": 0}
    figures = table.take([a_record(0, 5, 5, **nothing), a_record(50, 7, 12, **nothing)])
    assert (figures.rows, figures.recovered_rows) == (2, 0)
    held = table.take([a_record(60, 0, 12), a_record(63, 0, 12)])
    assert held.recovered_rows == 2
    assert sum(row["stored_byte_ms"] for row in table.rows() if row["recovered"]) == 2 * MINUTE_MS * 1000


def test_long_gaps_are_filled_on_a_coarse_grid(table: UsageTopicTable) -> None:
    figures = table.take([a_record(0, 1, 1), a_record(24 * 60, 1, 1_000_003)])
    assert figures.recovered_rows == 24 * 12
    assert sum(row["produce_bytes"] for row in table.rows()) == 1_000_003


@pytest.mark.parametrize("batches", [1, 2, 5])
def test_any_order_and_loss_comes_out_at_the_totals(table: UsageTopicTable, batches: int) -> None:
    """A part never comes, a part twice, a part late: every boot's rows add up to its last total."""
    runs = {
        (boot, instance): a_run(
            [(7 * minute + seed) % 13 * 1_000_001 for minute in range(40)], boot_id=boot, instance_id=instance
        )
        for seed, (boot, instance) in enumerate((("b1", ID), ("b2", ID), ("b1", "izyxwvutsrqp")))
    }
    written = [
        record
        for run in runs.values()
        for index, record in enumerate(run)
        if (index % 7 != 3 and index % 11 != 5) or index == 39
    ]
    shuffled = sorted(written * 2, key=lambda record: hash((record.interval_start_ms * 7919) % 1_000_003))
    for number in range(batches):
        table.take(shuffled[number::batches])
    for (boot, instance), run in runs.items():
        rows = [row for row in table.rows() if (row["boot_id"], row["instance_id"]) == (boot, instance)]
        for direction in ("produce_bytes", "consume_bytes"):
            assert sum(row[direction] for row in rows) == getattr(run[-1], f"{direction}_total")
        real = {row["id"]: row["produce_bytes"] for row in rows if not row["recovered"]}
        assert real == {record.id: record.produce_bytes for record in run if record in written}
        assert sum(row["interval_ms"] for row in rows) == 40 * MINUTE_MS
        assert sum(row["stored_byte_ms"] for row in rows) == 40 * MINUTE_MS * 1000


BAD: dict[str, tuple[bytes, str]] = {
    "no JSON": (b"\x00\xff{", "schema"),
    "empty": (b"", "schema"),
    "a list": (b"[1, 2]", "schema"),
    "not an object": (b"17", "schema"),
    "a field is missing": (b'{"id": "x"}', "schema"),
    "a text for a number": (changed(a_record(5, 1, 1), produce_bytes="many"), "schema"),
    "a fraction": (changed(a_record(5, 1, 1), produce_bytes=1.5), "schema"),
    "null": (changed(a_record(5, 1, 1), boot_id=None), "schema"),
    "another version": (changed(a_record(5, 1, 1), version=2), "version"),
    "another id": (changed(a_record(5, 1, 1), id="b1/other/1"), "schema"),
    "negative": (changed(a_record(5, 1, 1), consume_bytes=-1), "negative"),
    "too large for 64 bits": (changed(a_record(5, 1, 1), stored_bytes=2**63), "schema"),
    "overflowing": (changed(a_record(5, 1, 1), stored_byte_ms=2**63 - 1), "overflow"),
    "no time": (changed(a_record(5, 1, 1), interval_ms=0), "impossible"),
    "in the future": (msgspec.json.encode(a_record(5, 1, 1, start_ms=NOW_MS + 6 * MINUTE_MS)), "clock"),
    "at the end of time": (msgspec.json.encode(a_record(5, 1, 1, start_ms=2**61)), "clock"),
    "long ago": (msgspec.json.encode(a_record(5, 1, 1, start_ms=NOW_MS - 46 * 86_400_000)), "clock"),
    "more than was ever counted": (changed(a_record(5, 9, 8)), "impossible"),
    "faster than a port": (changed(a_record(5, 10**12, 10**12)), "impossible"),
}


def test_what_cannot_be_true_is_quarantined_with_its_bytes(table: UsageTopicTable) -> None:
    good = a_run([100, 200])
    figures = table.take([good[0], *(value for value, _ in BAD.values()), good[1]])
    assert (figures.rows, figures.quarantined) == (2, len(BAD))
    rows = sorted(table.quarantine().collect(), key=lambda row: row["kafka_offset"])
    told = {name: row["reason"] for name, row in zip(BAD, rows, strict=True)}
    assert told == {name: reason for name, (_, reason) in BAD.items()}
    assert [bytes(row["value"]) for row in rows] == [value for value, _ in BAD.values()]
    assert all(row["error"] for row in rows)
    assert [row["produce_bytes"] for row in table.rows()] == [100, 200]


def test_a_batch_that_was_killed_between_its_commits_is_quarantined_once(
    table: UsageTopicTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipeline.ingest.commits import IngestTable

    values = [msgspec.json.encode(a_record(0, 5, 5)), b"nonsense"]
    append = IngestTable.append

    def killed(self: IngestTable, *arguments: Any, **options: Any) -> None:
        if self.path.name == "usage_raw":
            raise KeyboardInterrupt
        append(self, *arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(IngestTable, "append", killed)
        with pytest.raises(KeyboardInterrupt):
            table.take_again(0, values)
    assert table.quarantine().count() == 1
    figures = table.take_again(0, [*values, b"more"])
    assert (figures.rows, figures.quarantined) == (1, 1)
    assert table.quarantine().count() == 2
    assert [row["boot_id"] for row in table.rows()] == [BOOT]
