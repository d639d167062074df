"""Usage records into `usage_raw`: each once, gaps filled to the byte, lies set aside.

What can be told apart by boot id shares batches.
"""

from typing import Any

import msgspec
import pytest

from contracts.usage_batches import COLUMNS, encoded
from contracts.usage_records import UsageRecord
from pipeline.ingest.commits import IngestTable
from pipeline.layout import PipelineLayout
from pipeline.metering.batch import IngestFigures
from tests.pipeline.usage_topic import BOOT, MINUTE_MS, NOW_MS, START_MS, UsageTopicTable, a_record, a_run

Rows = list[dict[str, Any]]


@pytest.fixture
def table(layout: PipelineLayout) -> UsageTopicTable:
    return UsageTopicTable(layout)


def changed(**changes: Any) -> bytes:
    """A message of one record, changed: a column by its name, or what is the same of all of them."""
    message = msgspec.json.decode(encoded([a_record(5, 1, 1)]))
    for name, value in changes.items():
        at = message["columns"] if name in COLUMNS else message
        at[name] = [value] if name in COLUMNS else value
    return msgspec.json.encode(message)


def column(rows: Rows, name: str) -> list[Any]:
    return [row[name] for row in rows]


RUN = a_run([100, 200, 300, 401, 500], boot_id="late")
NOTHING = {"stored_bytes": 0, "stored_byte_ms": 0, "partitions_led": 0}
MASTER_MS = START_MS + 2 * MINUTE_MS + 20_000
LOSSY = a_run([(7 * minute) % 13 * 1_000_001 for minute in range(40)], boot_id="lossy")
HEARD = [one for index, one in enumerate(LOSSY) if (index % 7 != 3 and index % 11 != 5) or index == 39]
SHUFFLED = sorted(HEARD * 2, key=lambda one: (one.interval_start_ms * 7919) % 1_000_003)

SCENARIOS: dict[str, list[list[UsageRecord]]] = {
    "once": [[*a_run([100, 200, 300], boot_id="once"), a_record(1, 200, 300, boot_id="once")]] * 2,
    "late": [RUN[:2], [RUN[4]], [RUN[2]], [RUN[3]]],
    # A new master's first record begins in the middle of an interval; then the old one's, from its journal.
    "failover": [
        a_run([100, 200], boot_id="failover"),
        [
            a_record(2, 50, 450, boot_id="failover", start_ms=MASTER_MS, interval_ms=40_000),
            a_record(3, 10, 460, boot_id="failover"),
        ],
        [a_record(2, 70, 370, boot_id="failover", interval_ms=12_000)],
    ],
    "beginning": [[a_record(3, 40, 1000, boot_id="beginning")]],
    "unknown": [[a_record(9, 0, 77, boot_id="unknown", counted_since_ms=0)]],
    "twice": [
        [
            *a_run([100, 200, 300], boot_id="twice"),
            a_record(
                1, 250, 400, boot_id="twice", start_ms=START_MS + MINUTE_MS + 30_000, interval_ms=30_000
            ),
        ]
    ],
    # What was taken back stays so when a record of the same boot id arrives late, and when another one does.
    "once only": [
        [
            *a_run([100, 200], boot_id="once only"),
            a_record(1, 250, 300, boot_id="once only", start_ms=START_MS + 90_000, interval_ms=30_000),
            a_record(5, 40, 500, boot_id="once only"),
        ],
        [a_record(3, 60, 400, boot_id="once only")],
        [a_record(4, 60, 460, boot_id="once only")],
    ],
    "idle": [
        [a_record(0, 5, 5, boot_id="idle", **NOTHING), a_record(50, 7, 12, boot_id="idle", **NOTHING)],
        [a_record(60, 0, 12, boot_id="idle"), a_record(63, 0, 12, boot_id="idle")],
    ],
    "outage": [[a_record(0, 1, 1, boot_id="outage"), a_record(24 * 60, 1, 1_000_003, boot_id="outage")]],
    "liar": [[a_record(0, 1, 1, boot_id="liar"), a_record(9, 1, 10**15, boot_id="liar")]],
    "lossy": [SHUFFLED[number::4] for number in range(4)],
}


class History:
    """All scenarios, batch by batch, and the tables after each."""

    def __init__(self, table: UsageTopicTable) -> None:
        self.figures: list[IngestFigures] = []
        self.after: list[Rows] = []
        for number in range(4):
            records = [
                one for batches in SCENARIOS.values() for one in (batches[number : number + 1] or [[]])[0]
            ]
            self.figures.append(table.take(records))
            self.after.append(table.rows())

    def rows(self, scenario: str, batch: int = 3) -> Rows:
        """A scenario's rows after one of its batches."""
        return [row for row in self.after[batch] if row["boot_id"] == scenario]


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    return History(UsageTopicTable(PipelineLayout(tmp_path_factory.mktemp("usage"))))


def test_records_become_rows_once_and_again_changes_nothing(history: History) -> None:
    rows = history.rows("once")
    assert column(rows, "produce_bytes") == [100, 200, 300]
    assert column(rows, "ingest_batch") == [1, 1, 1]
    assert {str(row["day"]) for row in rows} == {"2026-11-20"}
    assert msgspec.to_builtins(SCENARIOS["once"][0][0]).items() <= rows[0].items()
    read = sum(len(batch) for batches in SCENARIOS.values() for batch in batches)
    assert sum(figures.records for figures in history.figures) == read
    distinct = {one.id for batches in SCENARIOS.values() for batch in batches for one in batch}
    assert sum(figures.rows for figures in history.figures) == len(distinct)
    assert sum(figures.duplicates for figures in history.figures) == read - len(distinct)


def test_missing_records_are_recovered_and_replaced_when_they_come(history: History) -> None:
    rows = history.rows("late", 1)
    assert column(rows, "recovered") == [False, False, True, True, False]
    assert column(rows, "produce_bytes") == [100, 200, 350, 351, 500]
    assert column(rows, "consume_bytes") == [200, 400, 701, 701, 1000]
    assert column(rows, "produce_bytes_total") == [100, 300, 650, 1001, 1501]
    assert column(rows, "stored_byte_ms") == [1000 * MINUTE_MS] * 5
    assert column(rows, "id") == [record.id for record in RUN]
    rows = history.rows("late", 2)
    assert column(rows, "produce_bytes") == [100, 200, 300, 401, 500]
    assert column(rows, "recovered") == [False, False, False, True, False]
    assert column(rows, "ingest_batch") == [1, 1, 3, 3, 2]
    rows = history.rows("late", 3)
    assert column(rows, "recovered") == [False] * 5
    assert column(rows, "produce_bytes") == [100, 200, 300, 401, 500]


def test_what_a_new_master_did_not_see_is_recovered(history: History) -> None:
    rows = history.rows("failover", 1)
    assert column(rows, "produce_bytes") == [100, 200, 100, 50, 10]
    assert (rows[2]["interval_start_ms"], rows[2]["interval_ms"]) == (START_MS + 2 * MINUTE_MS, 20_000)
    rows = history.rows("failover", 2)
    assert sum(column(rows, "produce_bytes")) == 460
    assert [(row["produce_bytes"], row["interval_ms"], row["recovered"]) for row in rows][2:4] == [
        (70, 12_000, False),
        (30, 8_000, True),
    ]


def test_bytes_before_the_first_record_are_recovered_since_the_boot_if_that_is_known(
    history: History,
) -> None:
    assert column(history.rows("beginning"), "produce_bytes") == [320, 320, 320, 40]
    assert column(history.rows("unknown"), "produce_bytes") == [0]


def test_what_two_masters_counted_is_taken_back(history: History) -> None:
    rows = history.rows("twice")
    assert sum(column(rows, "produce_bytes")) == 600
    assert all(row["interval_ms"] == 0 and row["recovered"] for row in rows if row["produce_bytes"] < 0)


def test_what_is_taken_back_is_so_once_whatever_arrives_later(history: History) -> None:
    for batch, recovered in enumerate((3, 2, 1)):
        rows = history.rows("once only", batch)
        assert sum(column(rows, "produce_bytes")) == 500
        assert [row["produce_bytes"] < 0 for row in rows if row["interval_ms"] == 0] == [True]
        assert len([row for row in rows if row["recovered"] and row["interval_ms"]]) == recovered


def test_no_two_rows_have_one_id(history: History) -> None:
    for rows in history.after:
        assert len({row["id"] for row in rows}) == len(rows)


def test_only_instances_that_held_something_have_gaps_without_bytes(history: History) -> None:
    rows = history.rows("idle")
    assert [(row["interval_start_ms"] - START_MS) // MINUTE_MS for row in rows] == [0, 50, 60, 61, 62, 63]
    assert sum(row["stored_byte_ms"] for row in rows if row["recovered"]) == 2 * MINUTE_MS * 1000


def test_long_gaps_are_filled_on_a_coarse_grid(history: History) -> None:
    rows = history.rows("outage")
    assert len(rows) == 2 + 24 * 12
    assert sum(column(rows, "produce_bytes")) == 1_000_003


def test_bytes_that_no_port_carries_are_not_recovered(history: History) -> None:
    assert column(history.rows("liar"), "produce_bytes") == [1, 1]


def test_any_order_and_loss_comes_out_at_the_totals(history: History) -> None:
    """A part never comes, all else twice and in disorder over four batches."""
    rows = history.rows("lossy")
    for direction in ("produce_bytes", "consume_bytes"):
        assert sum(column(rows, direction)) == getattr(LOSSY[-1], f"{direction}_total")
    real = {row["id"]: row["produce_bytes"] for row in rows if not row["recovered"]}
    assert real == {record.id: record.produce_bytes for record in HEARD}
    assert sum(column(rows, "interval_ms")) == 40 * MINUTE_MS
    assert sum(column(rows, "stored_byte_ms")) == 40 * MINUTE_MS * 1000


UNREADABLE: dict[str, tuple[bytes, str]] = {
    "no JSON": (b"\x00\xff{", "schema"),
    "empty": (b"", "schema"),
    "a list": (b"[1, 2]", "schema"),
    "nested for ever": (b'{"version":2,"x":' + b"[" * 100_000, "schema"),
    "not an object": (b"17", "schema"),
    "fields are missing": (b'{"version": 2}', "schema"),
    "a record of its own": (msgspec.json.encode(a_record(5, 1, 1)), "schema"),
    "a text for a number": (changed(produce_bytes="many"), "schema"),
    "a fraction": (changed(produce_bytes=1.5), "schema"),
    "negative": (changed(consume_bytes=-1), "schema"),
    "too large for 64 bits": (changed(stored_bytes=2**63), "schema"),
    "null": (changed(boot_id=None), "schema"),
    "no name": (changed(instance_id=[""]), "schema"),
    "more names than numbers": (changed(instance_id=["a", "b"]), "schema"),
    "a column is missing": (changed(columns={}), "schema"),
    "bytes that are no text": (changed().replace(b"broker-1", b"\xff"), "schema"),
    "half of a character": (changed().replace(b"broker-1", b"\\ud800"), "schema"),
    "another version": (changed(version=1), "version"),
    "a version that is no number": (changed(version="x"), "schema"),
}
UNTRUE: dict[str, tuple[UsageRecord, str]] = {
    "overflowing": (a_record(5, 1, 1, stored_byte_ms=2**63 - 1), "overflow"),
    "no time": (a_record(6, 1, 1, interval_ms=0), "impossible"),
    "longer than any": (a_record(6, 1, 1, interval_ms=300_001, boot_id="b2"), "impossible"),
    "in the future": (a_record(5, 1, 1, start_ms=NOW_MS + 6 * MINUTE_MS), "clock"),
    "at the end of time": (a_record(5, 1, 1, start_ms=2**61), "clock"),
    "long ago": (a_record(5, 1, 1, start_ms=NOW_MS - 46 * 86_400_000), "clock"),
    "more than was ever counted": (a_record(7, 9, 8), "impossible"),
    "faster than a port": (a_record(8, 10**12, 10**12), "impossible"),
}


def test_what_cannot_be_true_is_quarantined(table: UsageTopicTable) -> None:
    """Of a message that is none all bytes, of one that is each record that lies."""
    good = a_run([100, 200])
    lies = [record for record, _ in UNTRUE.values()]
    figures = table.take([good[0], *lies, good[1], *(value for value, _ in UNREADABLE.values())])
    assert (figures.rows, figures.quarantined) == (2, len(UNTRUE) + len(UNREADABLE))
    assert figures.records == 2 + figures.quarantined
    rows = table.quarantine()
    assert all(row["error"] and row["key"] for row in rows)
    unreadable = {bytes(row["value"]): row["reason"] for row in rows if row["id"] is None}
    assert unreadable == dict(UNREADABLE.values())
    untrue = {row["id"]: row for row in rows if row["id"] is not None}
    assert {each: row["reason"] for each, row in untrue.items()} == {
        record.id: reason for record, reason in UNTRUE.values()
    }
    for record in lies:
        row = untrue[record.id]
        assert msgspec.json.decode(row["value"]) == msgspec.to_builtins(record)
        assert (row["instance_id"], row["interval_start_ms"]) == (
            record.instance_id,
            record.interval_start_ms,
        )
    assert [row["produce_bytes"] for row in table.rows()] == [100, 200]


def test_a_batch_that_was_killed_between_its_commits_is_quarantined_once(
    table: UsageTopicTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = [encoded([a_record(0, 5, 5)]), b"nonsense"]
    append = IngestTable.append

    def killed(self: IngestTable, *arguments: Any, **options: Any) -> None:
        if self.path.name == "usage_raw":
            raise KeyboardInterrupt
        append(self, *arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(IngestTable, "append", killed)
        with pytest.raises(KeyboardInterrupt):
            table.take_again(0, values)
    assert len(table.quarantine()) == 1
    figures = table.take_again(0, [*values, b"more"])
    assert (figures.rows, figures.quarantined) == (1, 1)
    assert len(table.quarantine()) == 2
    assert [row["boot_id"] for row in table.rows()] == [BOOT]
