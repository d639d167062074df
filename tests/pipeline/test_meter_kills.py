"""kill -9 at random moments of metering: every record is one row, usage adds up to the byte, bills follow."""

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from contracts.usage_records import USAGE_TOPIC, UsageRecord
from pipeline.layout import PipelineLayout
from tests.integration.stack import Stack, running_stack
from tests.pipeline.killed import KilledJob, seeded
from tests.pipeline.topics import Record, Topics
from tests.pipeline.usage_topic import a_run

INSTANCES: Final = 12
POINTS: Final = 3
MINUTES: Final = 400
TABLES: Final = "pipeline/tables/usage*"


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


@pytest.mark.timeout(900)
def test_metering_that_is_killed_again_and_again(own_stack: Stack) -> None:
    generator = seeded()
    records = month_of(generator)
    bootstrap = own_stack.create_instance("masters")["bootstrap_servers"]
    topics = Topics(bootstrap)
    topics.create(USAGE_TOPIC, partitions=4)
    keyed = ((one.instance_id.encode(), msgspec.json.encode(one)) for one in records)
    topics.produce(USAGE_TOPIC, (Record(value, key, int(key[1:]) % 4) for key, value in keyed))
    ingest, everything = (
        KilledJob(own_stack.data_dir, TABLES, "meter", *step, "--bootstrap", bootstrap)
        for step in (("ingest", "--max-records-per-batch", "3000"), ("run",))
    )
    for job, commits_max in ((ingest, 2), (ingest, 3), (everything, 1), (everything, 3)):
        job.start()
        job.kill(generator, commits_max)
    everything.start()
    everything.finish()
    must_add_up(PipelineLayout(own_stack.data_dir), records)
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


def read(layout: PipelineLayout, table: str) -> pa.Table:
    return DeltaTable(str(layout.table(table))).to_pyarrow_table()
