"""kill -9 of metering, at each step and at random moments.

Every record is one row, usage adds up to the byte, bills follow.
"""

import itertools
import multiprocessing
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from contracts.usage_batches import by_message, encoded
from contracts.usage_records import USAGE_TOPIC, UsageRecord
from pipeline.ingest.admin import Topic
from pipeline.ingest.consume import MESSAGES
from pipeline.ingest.ranges import Bounds
from pipeline.layout import PipelineLayout
from pipeline.metering.ingest import UsageIngest
from tests.integration.stack import Stack, running_stack
from tests.pipeline.killed import KilledJob, seeded
from tests.pipeline.topics import Record, Topics
from tests.pipeline.usage_topic import NOW_MS, UsageTopicTable, a_record, a_run, messages_of

INSTANCES: Final = 12
POINTS: Final = 3
MINUTES: Final = 400
_ROUND: Final = 100
TABLES: Final = "pipeline/tables/usage*"


_CHANGES: Final = ("os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.link")
_DAY: Final = 24 * 60
_BATCHES: Final = (
    # A table is made; a gap of a night is filled, and a record that cannot be true is set aside.
    [
        a_record(0, 5, 5),
        a_record(1, 7, 12),
        b"nonsense",
        a_record(_DAY, 1, 2000),
        a_record(_DAY + 1, 1, 2001),
    ],
    # Late ones: rows of two days are rewritten, among new rows and garbage.
    [
        a_record(90, 100, 400),
        a_record(0, 5, 5),
        b"{}",
        a_record(_DAY - 1, 9, 1999),
        a_record(_DAY + 9, 3, 2500),
    ],
    [a_record(_DAY + 10, 3, 2503), a_record(2, 1, 13, boot_id="b2"), b""],
)
_VALUES: Final = [messages_of(batch) for batch in _BATCHES]


def take_all(root: Path, step: int | None) -> None:
    """All batches that wait, as a run does, which is killed before it changes files for the `step`th time."""
    changes = itertools.count()

    def changing() -> None:
        if next(changes) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    def audited(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _CHANGES or (event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR)):
            changing()

    commit = DeltaTable.create_write_transaction

    def committing(table: DeltaTable, *arguments: Any, **options: Any) -> None:
        changing()
        commit(table, *arguments, **options)
        changing()

    sys.addaudithook(audited)
    pytest.MonkeyPatch().setattr(DeltaTable, "create_write_transaction", committing)
    tables = UsageIngest(PipelineLayout(root), Topic(USAGE_TOPIC, "0" * 32, (0,)))
    ends = [0, *itertools.accumulate(map(len, _VALUES))]
    for values, start, end in zip(_VALUES, ends, ends[1:], strict=False):
        plan = tables.plan({0: Bounds(0, end)})
        if plan.ranges:
            assert [(each.start, each.end) for each in plan.ranges] == [(start, end)]
            rows = [(0, start + at, NOW_MS, b"k", value) for at, value in enumerate(values)]
            messages = pa.Table.from_arrays([*zip(*rows, strict=True)], schema=MESSAGES)
            tables.take(messages, plan.ranges, (), now_ms=NOW_MS)


def test_a_run_that_is_killed_at_each_step(tmp_path: Path) -> None:
    """Again and again, one step later each time until something is committed; then from the first one on."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])

    def exit_code(root: Path, step: int | None) -> int | None:
        process = context.Process(target=take_all, args=(root, step))
        process.start()
        process.join()
        return process.exitcode

    killed, whole = tmp_path / "killed", tmp_path / "whole"
    assert exit_code(whole, None) == 0
    steps: list[int] = [0]
    versions = versions_of(killed)
    while (code := exit_code(killed, steps[-1])) != 0:
        assert code == -signal.SIGKILL
        now = versions_of(killed)
        steps = [*steps, 0] if now != versions else [*steps[:-1], steps[-1] + 1]
        versions = now
    # Both tables are made, and both are appended to three times.
    assert len(steps) == 9 and sum(steps) > 40, steps
    found, expected = (UsageTopicTable(PipelineLayout(root)) for root in (killed, whole))
    assert found.rows() == expected.rows() and len(found.rows()) > 8
    assert found.quarantine() == expected.quarantine() and len(found.quarantine()) == 3


def versions_of(root: Path) -> list[int]:
    paths = [PipelineLayout(root).table(name) for name in ("usage_raw", "usage_quarantine")]
    return [DeltaTable(path).version() if DeltaTable.is_deltatable(str(path)) else -1 for path in paths]


@pytest.fixture
def own_stack(tmp_path: Path) -> Iterator[Stack]:
    with running_stack(tmp_path / "data") as running:
        yield running


def month_of(generator: random.Random) -> list[UsageRecord]:
    """What masters wrote: in order of time, some of it twice."""
    runs = [
        a_run(
            [generator.randrange(10**7) for _ in range(MINUTES)],
            boot_id=f"boot-{point}",
            instance_id=f"i{number:011}",
            point=f"broker-{point}",
            node_id=point,
        )
        for number in range(1, INSTANCES + 1)
        for point in range(1, POINTS + 1)
    ]
    once = [record for minute in zip(*runs, strict=True) for record in minute]
    return sorted([*once, *generator.sample(once, len(once) // 10)], key=lambda each: each.sent_at_ms)


def messages(records: Sequence[UsageRecord]) -> Iterator[Record]:
    """As masters write them: round after round, of each point what it told of."""
    for first in range(0, len(records), _ROUND):
        for together in by_message(records[first : first + _ROUND]):
            point = together[0].point
            yield Record(encoded(together), point.encode(), int(point[-1]) % 4)


@pytest.mark.timeout(900)
def test_metering_that_is_killed_again_and_again(own_stack: Stack) -> None:
    generator = seeded()
    records = month_of(generator)
    bootstrap = own_stack.create_instance("masters")["bootstrap_servers"]
    topics = Topics(bootstrap)
    topics.create(USAGE_TOPIC, partitions=4)
    half = len(records) // 2
    never = [*messages(a_run([10**6] * 50, boot_id="aborted", instance_id=f"i{1:011}"))]
    topics.produce(USAGE_TOPIC, messages(records[:half]), **{"transactional.id": "master"})
    topics.abort(USAGE_TOPIC, never)
    topics.produce(USAGE_TOPIC, messages(records[half:]))
    topics.abort(USAGE_TOPIC, never)
    ingest, everything = (
        KilledJob(own_stack.data_dir, TABLES, "meter", *step, "--bootstrap", bootstrap)
        for step in (("ingest", "--max-messages-per-batch", "90"), ("run",))
    )
    for job, commits_max in ((ingest, 0), (ingest, 2), (ingest, 1), (everything, 1), (everything, 3)):
        job.start()
        print("killed in time:", job.kill(generator, commits_max, pace=0.3))
    everything.start()
    everything.finish()
    layout = PipelineLayout(own_stack.data_dir)
    must_add_up(layout, records)
    must_be_read_once(layout, len([*messages(records)]) + 2 * len(never))
    everything.start()
    again = everything.finish()
    assert (again["ingest"]["rows"], again["rollup"]["hours"], again["bills"]["bills"]) == (0, 0, 0)


def must_add_up(layout: PipelineLayout, records: list[UsageRecord]) -> None:
    once = {one.id: one for one in records}.values()
    raw = read(layout, "usage_raw")
    assert len(raw) == len(once) and pa.compute.count_distinct(raw["id"]).as_py() == len(once)
    expected: Counter[str] = Counter()
    for one in once:
        expected[one.instance_id] += one.produce_bytes
    for table in ("usage_raw", "usage_5m", "usage_hour", "usage_day"):
        sums = read(layout, table).group_by("instance_id").aggregate([("produce_bytes", "sum")])
        found = dict(zip(sums["instance_id"].to_pylist(), sums["produce_bytes_sum"].to_pylist(), strict=True))
        assert {name: int(total) for name, total in found.items()} == expected, table
    slots = read(layout, "usage_5m").group_by(["instance_id", "slot_start"]).aggregate([([], "count_all")])
    assert len(slots) == INSTANCES * MINUTES // 5, "a slot is there twice, or missing"


def must_be_read_once(layout: PipelineLayout, sent: int) -> None:
    """Commits follow one another, of all partitions, to the markers behind all messages."""
    reached = dict.fromkeys(range(4), 0)
    for entry in reversed(DeltaTable(layout.table("usage_raw")).history()):
        for partition, start, end in msgspec.json.decode(entry.get("userMetadata", "{}")).get("ranges", []):
            assert reached[partition] == start < end
            reached[partition] = end
    assert sum(reached.values()) > sent


def read(layout: PipelineLayout, table: str) -> pa.Table:
    return DeltaTable(str(layout.table(table))).to_pyarrow_table()
