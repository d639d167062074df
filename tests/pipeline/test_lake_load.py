"""Topics become lake tables: every record once, as it was."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn

import pytest
from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from pipeline.errors import PipelineError
from pipeline.ingest import admin
from pipeline.ingest.commits import IngestTable, TableSpec
from pipeline.ingest.lease import table_lease
from pipeline.ingest.offsets import KafkaSource
from pipeline.ingest.ranges import PartitionRange
from pipeline.lake import drain
from pipeline.lake.load import Loader, LoadSettings
from pipeline.lake.plan import LoadSource, OnDataLoss, TopicLoad
from pipeline.layout import PipelineLayout
from pipeline.progress import Progress, Silent
from pipeline.schema.lake import LAKE, LAKE_PARTITION_BY
from tests.integration.stack import Stack
from tests.pipeline.topics import Record, Topics, numbered


@pytest.fixture(scope="module")
def instance(stack: Stack) -> dict[str, Any]:
    return stack.create_instance("lake")


@pytest.fixture(scope="module")
def topics(instance: dict[str, Any]) -> Topics:
    return Topics(instance["bootstrap_servers"])


class Lake:
    """Loads topics of one instance into the tables of one test."""

    def __init__(self, instance: dict[str, Any], spark: SparkSession, layout: PipelineLayout) -> None:
        self._kafka = KafkaSource(instance["bootstrap_servers"])
        self._instance_id = str(instance["id"])
        self._spark = spark
        self._layout = layout

    def load(self, *topics: str, **settings: Any) -> dict[str, TopicLoad]:
        """One pass over the topics."""
        return {load.topic.name: load for load in self.loader(*topics, **settings).run().loads}

    def loader(
        self,
        *topics: str,
        before_reading: Callable[[], None] = lambda: None,
        progress: Progress | None = None,
        **settings: Any,
    ) -> Loader:
        """`before_reading` runs once all is planned and before each read."""

        def session() -> SparkSession:
            before_reading()
            return self._spark

        source = LoadSource(self._instance_id, "lake", self._kafka, topics or None)
        return Loader(session, self._layout, [source], LoadSettings(**settings), progress or Silent())


class Told:
    """What a load says of its progress; stops it at so many."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.total = self.units = 0
        self.figures_told: dict[str, int] = {}
        self._stop_at = stop_at

    def planned(self, units: int, unit: str = "records") -> None:
        self.total = units

    def done(self, units: int) -> None:
        assert self.units <= units <= self.total
        self.units = units

    def figures(self, **totals: int) -> None:
        self.figures_told |= totals
        if self.units == self._stop_at:
            raise KeyboardInterrupt


@pytest.fixture
def lake(instance: dict[str, Any], spark: SparkSession, layout: PipelineLayout) -> Lake:
    return Lake(instance, spark, layout)


def rows(path: Path) -> list[dict[str, Any]]:
    """As a light reader sees them, by partition and offset."""
    found = DeltaTable(path).to_pyarrow_table().to_pylist()
    return sorted(found, key=lambda row: (row["partition"], row["offset"]))


def offsets(path: Path) -> list[tuple[int, int]]:
    return [(row["partition"], row["offset"]) for row in rows(path)]


def no_reading() -> NoReturn:
    raise AssertionError("there was nothing to read")


def test_executors_that_write_elsewhere_advance_no_position(
    instance: dict[str, Any], topics: Topics, spark: SparkSession, elsewhere: Path
) -> None:
    """What they wrote is not below our path: that is no empty batch."""
    topics.create("written-elsewhere")
    topics.produce("written-elsewhere", numbered(5))
    load = Lake(instance, spark, PipelineLayout(elsewhere)).load("written-elsewhere")["written-elsewhere"]
    assert "Spark wrote 5 rows" in load.failure and "there are 0 when looked at from here" in load.failure
    again = IngestTable.open(load.path, TableSpec(LAKE, LAKE_PARTITION_BY))
    assert (again.version, again.batch(load.app), again.positions(load.app, [0])) == (0, -1, {})


def test_records_are_kept_as_they_are(lake: Lake, topics: Topics, spark: SparkSession) -> None:
    late_ms = int(time.time() - 86_400) * 1000 + 123
    records = [
        Record(b"plain", b"key"),
        Record(b"", b""),
        Record(None, None),
        Record(b"late", b"key", 1, late_ms),
        Record(b"\x00\xff" * 600, b"\xfe", 1, headers=[("a", b"1"), ("a", b""), ("b", None)]),
    ]
    topics.create("kept", partitions=2)
    topics.create("never-written")
    topics.produce("kept", records)
    loads = lake.load("kept", "never-written")
    assert (loads["kept"].rows, loads["never-written"].rows) == (5, 0)
    assert rows(loads["never-written"].path) == []
    found = rows(loads["kept"].path)
    assert [(row["partition"], row["offset"]) for row in found] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
    assert [(row["key"], row["value"]) for row in found] == [(each.key, each.value) for each in records]
    assert {row["topic_id"] for row in found} == {loads["kept"].topic.id}
    late = found[3]
    assert late["timestamp"] == datetime.fromtimestamp(late_ms / 1000, UTC)
    [hour] = {row["ingest_hour"] for row in found}
    assert timedelta() <= datetime.now(UTC) - hour < timedelta(hours=2) and hour.minute == hour.second == 0
    assert (late["timestamp_type"], late["timestamp_raw_ms"], late["headers"]) == (0, None, None)
    assert found[4]["headers"] == [
        {"key": "a", "value": b"1"},
        {"key": "a", "value": b""},
        {"key": "b", "value": None},
    ]
    delta = spark.read.format("delta").load(str(loads["kept"].path))
    assert delta.schema == from_arrow_schema(LAKE)
    in_its_hour = delta.where(f"ingest_hour = timestamp'{hour:%Y-%m-%d %H:%M:%S}'")
    [row] = in_its_hour.where(f"timestamp = timestamp_millis({late_ms})").select("offset").collect()
    assert row.offset == 0


def test_what_is_new_is_loaded_in_bounded_batches(lake: Lake, topics: Topics) -> None:
    topics.create("bounded", "other", partitions=2)
    topics.produce("bounded", numbered(40, 2))
    topics.produce("other", numbered(20, 2))
    told_progress = Told()
    loads = lake.load("bounded", "other", offsets_per_batch_max=20, progress=told_progress)
    assert (told_progress.units, told_progress.total) == (60, 60)
    assert told_progress.figures_told["rows"] == 60 and told_progress.figures_told["lag_offsets"] == 0
    path = loads["bounded"].path
    assert (loads["bounded"].batches, loads["bounded"].rows, loads["other"].rows) == (3, 40, 20)
    again = lake.load("bounded", "other", before_reading=no_reading)
    assert (again["bounded"].batches, again["bounded"].offsets) == (0, 0)
    topics.add_partitions("bounded", 3)
    topics.produce("bounded", [Record(b"new", None, 2), Record(b"more", None, 0)])
    deadline = time.monotonic() + 20
    while sum(load.rows for load in lake.load("bounded").values()) and time.monotonic() < deadline:
        pass
    assert offsets(path) == [*((0, n) for n in range(21)), *((1, n) for n in range(20)), (2, 0)]
    table = IngestTable.open(path, TableSpec(LAKE, LAKE_PARTITION_BY))
    told = table.documents()
    assert sum(document.rows for document in told) == 42
    assert [document.batch for document in told] == list(reversed(range(len(told))))
    assert table.positions(loads["bounded"].app, range(3)) == {0: 21, 1: 20, 2: 1}


def test_only_committed_records_are_rows(lake: Lake, topics: Topics) -> None:
    topics.create("transactions")
    topics.produce("transactions", numbered(3), **{"transactional.id": "lake-1"})
    topics.abort("transactions", numbered(3))
    topics.produce("transactions", numbered(2))
    waiting = topics.leave_open("transactions", numbered(2))
    path = lake.load("transactions")["transactions"].path
    # 3 records and a marker, 3 aborted ones and a marker, 2 plain ones, then what is open.
    assert offsets(path) == [(0, 0), (0, 1), (0, 2), (0, 8), (0, 9)]
    waiting.commit_transaction(20)
    topics.abort("transactions", numbered(1))
    assert lake.load("transactions")["transactions"].rows == 2
    assert offsets(path)[5:] == [(0, 10), (0, 11)]
    lake.load("transactions", before_reading=no_reading)


def test_retention_that_overtakes_the_loader(lake: Lake, topics: Topics) -> None:
    topics.create("overtaken", "beside", partitions=2)
    topics.produce("overtaken", numbered(10, 2))
    path = lake.load("overtaken")["overtaken"].path
    topics.produce("overtaken", numbered(20, 2))
    topics.produce("beside", numbered(2))
    topics.delete_records("overtaken", 9, 0)
    topics.delete_records("overtaken", 15, 1)
    loads = lake.load("overtaken", "beside")
    assert loads["beside"].rows == 2
    assert loads["overtaken"].failure == (
        "topic overtaken: retention removed 14 offsets before they were loaded (partition 0: 5 to 8): load "
        "with --on-data-loss skip to go on behind them"
    )
    assert len(offsets(path)) == 10
    skipped = lake.load("overtaken", on_data_loss=OnDataLoss.SKIP)["overtaken"]
    assert (skipped.rows, skipped.lost, skipped.failure) == (6, 14, "")
    assert offsets(path)[5:11] == [(0, n) for n in range(9, 15)]
    gaps = IngestTable.open(path, TableSpec(LAKE, LAKE_PARTITION_BY)).documents()[1].gaps
    assert gaps == (PartitionRange(0, 5, 9), PartitionRange(1, 5, 15))


def test_a_new_partition_begins_at_0(lake: Lake, topics: Topics) -> None:
    """What retention removed of it before its first load is reported, as of any other partition."""
    topics.create("grown")
    topics.produce("grown", numbered(3))
    path = lake.load("grown")["grown"].path
    topics.add_partitions("grown", 3)
    topics.produce("grown", [Record(b"v%d" % n, None, 1) for n in range(9)])
    topics.produce("grown", [Record(b"w", None, 2)])
    topics.delete_records("grown", 7, 1)
    failed = lake.load("grown")["grown"]
    assert failed.failure == (
        "topic grown: retention removed 7 offsets before they were loaded (partition 1: 0 to 6): load "
        "with --on-data-loss skip to go on behind them"
    )
    skipped = lake.load("grown", on_data_loss=OnDataLoss.SKIP)["grown"]
    assert (skipped.rows, skipped.lost, skipped.failure) == (3, 7, "")
    assert offsets(path)[3:] == [(1, 7), (1, 8), (2, 0)]
    table = IngestTable.open(path, TableSpec(LAKE, LAKE_PARTITION_BY))
    assert table.first_offsets(skipped.app, range(3)) == {0: 0, 1: 0, 2: 0}


def test_what_went_before_a_table_began_is_no_loss(lake: Lake, topics: Topics) -> None:
    """But what goes between its first look, which found nothing, and the next one is."""
    topics.create("aged", "emptied", partitions=2)
    topics.produce("aged", numbered(20, 2))
    topics.produce("emptied", numbered(4, 2))
    topics.delete_records("aged", 4, 0)
    topics.delete_records("aged", 10, 1)
    for partition in (0, 1):
        topics.delete_records("emptied", 2, partition)
    loads = lake.load("aged", "emptied")
    assert [(each.rows, each.lost, each.failure) for each in loads.values()] == [(6, 0, ""), (0, 0, "")]
    topics.produce("aged", numbered(2, 2))
    assert lake.load("aged")["aged"].rows == 2
    topics.produce("emptied", numbered(2, 2))
    topics.delete_records("emptied", 3, 1)
    assert "removed 1 offsets before they were loaded (partition 1: 2 to 2)" in (
        lake.load("emptied")["emptied"].failure
    )


def test_retention_that_overtakes_a_read(lake: Lake, topics: Topics) -> None:
    topics.create("aging")
    topics.produce("aging", numbered(30))
    removed = []

    def remove() -> None:
        if not removed:
            removed.append(topics.delete_records("aging", 12))

    load = lake.load("aging", before_reading=remove, on_data_loss=OnDataLoss.SKIP)["aging"]
    assert (load.rows, load.lost, load.failure) == (18, 12, "")
    assert offsets(load.path) == [(0, n) for n in range(12, 30)]


def test_a_topic_that_is_made_anew_gets_a_table_of_its_own(lake: Lake, topics: Topics) -> None:
    """Between planning and reading, the worst moment: the new topic has records at the planned offsets."""
    topics.create("renewed", "steady")
    topics.produce("renewed", numbered(10))
    topics.produce("steady", numbered(5))
    done = []

    def renew() -> None:
        if not done:
            topics.delete("renewed")
            topics.create("renewed")
            done.append(topics.produce("renewed", numbered(12, first=100)))

    loads = lake.load("renewed", "steady", before_reading=renew)
    assert "renewed was deleted and made again while it was loaded" in loads["renewed"].failure
    assert rows(loads["renewed"].path) == []
    assert len(offsets(loads["steady"].path)) == 5
    second = lake.load("renewed")["renewed"]
    assert second.path != loads["renewed"].path
    assert [row["value"] for row in rows(second.path)] == [b"v%d" % n for n in range(100, 112)]


def test_a_topic_that_is_deleted_while_it_is_loaded(lake: Lake, topics: Topics) -> None:
    topics.create("doomed", "survivor")
    topics.produce("doomed", numbered(10))
    topics.produce("survivor", numbered(5))
    done = []

    def delete() -> None:
        if not done:
            done.append(topics.delete("doomed"))

    loads = lake.load("doomed", "survivor", before_reading=delete)
    assert "doomed was deleted while it was loaded" in loads["doomed"].failure
    assert loads["survivor"].rows == 5
    with pytest.raises(PipelineError, match="instance lake has no topic 'doomed'"):
        lake.load("doomed")


def test_times_that_no_timestamp_can_hold(lake: Lake, topics: Topics) -> None:
    topics.create("times", cleanup_policy="compact")
    strange_ms = -(2**60)
    records = [
        Record(b"%d" % n, b"%d" % n, 0, strange_ms if n in (4, 5) else 1_700_000_000_000 + n)
        for n in range(9)
    ]
    topics.produce("times", records)
    load = lake.load("times")["times"]
    assert (load.rows, load.failure) == (9, "")
    found = rows(load.path)
    assert [row["value"] for row in found] == [each.value for each in records]
    assert [row["timestamp_raw_ms"] for row in found] == [
        strange_ms if n in (4, 5) else None for n in range(9)
    ]
    assert len({row["ingest_hour"] for row in found}) == 1


def test_a_continuous_load_goes_on_until_it_is_stopped(
    lake: Lake, topics: Topics, layout: PipelineLayout
) -> None:
    """What may be gone by the next pass is said once: here another writer."""
    topics.create("endless")
    topics.produce("endless", numbered(3))
    path = lake.load("endless")["endless"].path
    topics.produce("endless", numbered(4))
    said: list[str] = []
    with ExitStack() as held:
        held.enter_context(table_lease(path, "somebody else"))

        def say(text: str) -> None:
            said.append(text)
            topics.produce("endless", numbered(2))
            held.close()

        told = Told(stop_at=6)
        with pytest.raises(KeyboardInterrupt):
            lake.loader("endless", progress=told).run_forever(0.2, say)
    assert ["somebody else" in text for text in said] == [True]
    assert (told.units, told.total) == (6, 6)
    assert len(offsets(path)) == 9


def test_many_topics_are_loaded_some_at_a_time(
    lake: Lake, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drain, "PARTITIONS_PER_BATCH_MAX", 3)
    monkeypatch.setattr(admin, "_ASKED_MAX", 2)
    names = ["many-wide", *(f"many-{number}" for number in range(7))]
    for name in names:
        topics.create(name, partitions=5 if name == "many-wide" else 1)
        topics.produce(name, numbered(10, partitions=5 if name == "many-wide" else 1))
    reads: list[int] = []
    loads = lake.load(*names, before_reading=lambda: reads.append(1))
    assert [(load.rows, load.batches, load.failure) for load in loads.values()] == [(10, 1, "")] * 8
    assert len(reads) == 4, "the wide one by itself, and seven in threes"
    assert all(len(offsets(load.path)) == 10 for load in loads.values())
    topics.produce("many-6", numbered(3))
    loads = lake.load(*names, before_reading=lambda: reads.append(1))
    assert (loads["many-6"].rows, sum(load.rows for load in loads.values()), len(reads)) == (3, 3, 5)


def test_topics_take_turns(lake: Lake, topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain, "PARTITIONS_PER_BATCH_MAX", 1)
    for name in ("turn-long", "turn-short"):
        topics.create(name)
    topics.produce("turn-long", numbered(9))
    topics.produce("turn-short", numbered(2))
    seen: list[tuple[int, int]] = []
    told = Told()
    loader = lake.loader(
        "turn-long",
        "turn-short",
        before_reading=lambda: seen.append((told.units, told.total)),
        progress=told,
        offsets_per_batch_max=4,
    )
    assert [load.batches for load in loader.run().loads] == [3, 1]
    assert seen == [(0, 11), (4, 11), (6, 11), (10, 11)]


def test_the_next_pass_looks_only_at_tables_with_something_new(
    lake: Lake, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What failed is looked at again, too."""
    for name in ("still", "moving", "refused"):
        topics.create(name)
        topics.produce(name, numbered(2))
    loader = lake.loader("still", "moving", "refused")
    paths = {load.topic.name: load.path for load in loader.run().loads}
    topics.produce("refused", numbered(1))
    with table_lease(paths["refused"], "somebody else"):
        assert "somebody else" in loader.run().failures
    looked: list[Path] = []
    find = IngestTable.find

    def looking(path: Path, spec: TableSpec) -> IngestTable | None:
        looked.append(path)
        return find(path, spec)

    monkeypatch.setattr(IngestTable, "find", looking)
    topics.produce("moving", numbered(3))
    assert {load.topic.name: load.rows for load in loader.run().loads} == {
        "still": 0,
        "moving": 3,
        "refused": 1,
    }
    assert {each.name for each in looked} == {paths["moving"].name, paths["refused"].name}
    looked.clear()
    assert sum(load.rows for load in loader.run().loads) == 0 and not looked


def test_a_table_that_cannot_be_written_stops_no_other(lake: Lake, topics: Topics) -> None:
    paths = {}
    for name in ("spoilt", "sound"):
        topics.create(name)
        topics.produce(name, numbered(2))
        paths[name] = lake.load(name)[name].path
        topics.produce(name, numbered(3))

    def spoil() -> None:
        (paths["spoilt"] / "_delta_log").rename(paths["spoilt"] / "away")
        (paths["spoilt"] / "_delta_log").write_text("")

    loads = lake.load("spoilt", "sound", before_reading=spoil)
    assert "spoilt" in loads["spoilt"].failure and "cannot be written" in loads["spoilt"].failure
    assert (loads["sound"].rows, loads["sound"].failure) == (3, "")


def filled(topics: Topics, prefix: str, count: int) -> list[str]:
    """Names of topics with two records each."""
    names = [f"{prefix}-{number}" for number in range(count)]
    topics.create(*names)
    for name in names:
        topics.produce(name, numbered(2))
    return names


def unreadable(monkeypatch: pytest.MonkeyPatch, *names: str) -> list[list[str]]:
    """Reads of these topics fail in Spark; returns what each read was of."""
    read, reads = drain.read_pieces, list[list[str]]()

    def reading(spark: SparkSession, offsets: Any, topics: Any, part: dict[str, Any], *more: Any) -> Any:
        reads.append([*part])
        if set(names) & set(part):
            raise PySparkException("Record batch for partition 0 at offset 0 is invalid")
        return read(spark, offsets, topics, part, *more)

    monkeypatch.setattr(drain, "read_pieces", reading)
    monkeypatch.setattr(drain, "_RETRY_S", 0.0)
    return reads


def test_a_topic_that_cannot_be_read_stops_no_other(
    lake: Lake, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = filled(topics, "near", 18)
    reads = unreadable(monkeypatch, "near-3", "near-4")
    loads = lake.load(*names)
    for name in ("near-3", "near-4"):
        assert f"topic {name}: reading failed 4 times: Record batch" in loads.pop(name).failure
        assert sum(name in each for each in reads) == 4
    assert [(load.rows, load.failure) for load in loads.values()] == [(2, "")] * 16
    assert [len(each) for each in reads][:3] == [18, 16, 1] and len(reads) < 20


def test_where_nothing_can_be_read_no_topic_is_tried_for_long(
    lake: Lake, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = filled(topics, "dark", 18)
    reads = unreadable(monkeypatch, *names)
    loads = lake.load(*names)
    assert all("reading failed" in load.failure for load in loads.values())
    assert len(reads) == 10 and sum(load.rows for load in loads.values()) == 0


def test_two_loads_of_one_instance_miss_and_double_nothing(
    lake: Lake, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one is quicker, and has seen records that ours was not planned for."""
    monkeypatch.setattr(drain, "PARTITIONS_PER_BATCH_MAX", 1)
    for name in ("slow-first", "slow-second", "slow-third"):
        topics.create(name)
        topics.produce(name, numbered(4))
    others: list[dict[str, TopicLoad]] = []

    def other() -> None:
        if not others:
            topics.produce("slow-second", numbered(5))
            others.append(lake.load("slow-first", "slow-second"))

    loads = lake.load("slow-first", "slow-second", "slow-third", before_reading=other)
    assert "is being written by portico pipeline load" in others[0]["slow-first"].failure
    assert others[0]["slow-second"].rows == 9
    assert [(load.rows, load.failure) for load in loads.values()] == [(4, ""), (0, ""), (4, "")]
    assert [len(offsets(load.path)) for load in loads.values()] == [4, 9, 4]


def test_one_writer_at_a_time(lake: Lake, topics: Topics) -> None:
    topics.create("leased")
    topics.produce("leased", numbered(3))
    path = lake.load("leased")["leased"].path
    with table_lease(path, "somebody else"):
        assert not lake.load("leased")["leased"].failure, "nothing is to be written"
        topics.produce("leased", numbered(1))
        assert "is being written by somebody else" in lake.load("leased")["leased"].failure


def test_who_may_not_connect_hears_so_at_once(
    stack: Stack, spark: SparkSession, layout: PipelineLayout
) -> None:
    closed = stack.create_instance("lake-closed", whitelist=["10.9.9.9/32"])
    started = time.monotonic()
    with pytest.raises(PipelineError, match="on the instance's whitelist"):
        Lake(closed, spark, layout).load()
    with pytest.raises(PipelineError, match="no connection"):
        Lake(closed | {"bootstrap_servers": "127.0.0.1:1"}, spark, layout).load()
    assert time.monotonic() - started < 20


def test_a_tenant_that_shuts_us_out_stops_no_other_load(
    stack: Stack, instance: dict[str, Any], topics: Topics, spark: SparkSession, layout: PipelineLayout
) -> None:
    closed = stack.create_instance("lake-shut", whitelist=["10.9.9.9/32"])
    topics.create("open")
    topics.produce("open", numbered(4))
    sources = [
        LoadSource(closed["id"], "lake-shut", KafkaSource(closed["bootstrap_servers"]), None),
        LoadSource("i" + "a" * 11, "nowhere", KafkaSource("127.0.0.1:1"), ("open",)),
        LoadSource(instance["id"], "lake", KafkaSource(instance["bootstrap_servers"]), ("missing",)),
        LoadSource(instance["id"], "lake", KafkaSource(instance["bootstrap_servers"]), ("open",)),
    ]
    done = Loader(lambda: spark, layout, sources, LoadSettings(), Silent()).run()
    assert [(load.topic.name, load.rows) for load in done.loads] == [("open", 4)]
    assert [(each.instance, each.is_passing) for each in done.refused] == [
        ("lake-shut", True),
        ("nowhere", True),
        ("lake", False),
    ]
    assert "instance lake-shut: Kafka at" in done.failures and "whitelist" in done.failures
    assert not done.is_hopeless


def test_an_instance_that_fails_while_it_is_read_stops_no_other_load(
    stack: Stack, instance: dict[str, Any], topics: Topics, spark: SparkSession, layout: PipelineLayout
) -> None:
    """Its whitelist loses us after planning; instances take turns, so it is read before the other, too."""
    other = stack.create_instance("lake-leaves")
    theirs = Topics(other["bootstrap_servers"])
    topics.create("stays")
    topics.produce("stays", numbered(6))
    theirs.create("leaves")
    theirs.produce("leaves", numbered(6))
    sources = [
        LoadSource(other["id"], "lake-leaves", KafkaSource(other["bootstrap_servers"]), ("leaves",)),
        LoadSource(instance["id"], "lake", KafkaSource(instance["bootstrap_servers"]), ("stays",)),
    ]
    turns: list[int] = []

    def session() -> SparkSession:
        turns.append(len(turns))
        if len(turns) == 2:
            stack.api("PUT", f"instances/{other['id']}/whitelist", {"cidrs": ["10.9.9.9/32"]})
        return spark

    done = Loader(session, layout, sources, LoadSettings(offsets_per_batch_max=4), Silent()).run()
    found = {load.topic.name: load for load in done.loads}
    assert (found["stays"].rows, found["stays"].failure) == (6, "")
    assert found["leaves"].rows == 4 and found["leaves"].failure
