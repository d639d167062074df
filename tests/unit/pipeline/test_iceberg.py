"""Iceberg's readers find the lake's tables by name, and in each snapshot exactly one of Delta's versions."""

import json
import multiprocessing
import os
import shutil
import signal
import uuid
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from inspect import getattr_static
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Schema, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual, LessThan
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pipeline.errors import PipelineError
from pipeline.ingest.commits import BatchDocument, IngestTable
from pipeline.ingest.lease import LeasedError, table_lease
from pipeline.ingest.staging import staged_file
from pipeline.lake import iceberg
from pipeline.lake.compact import expire
from pipeline.lake.decode.schema import SchemaFile, schema_of
from pipeline.lake.decode.target_tables import DecodeTables
from pipeline.lake.forget import forget
from pipeline.lake.iceberg import IcebergLake, Shown
from pipeline.lake.lake_tables import LakeTable, places
from pipeline.lake.planning.readable_names import Readable, readable
from pipeline.layout import PipelineLayout
from pipeline.progress import Silent
from pipeline.schema.decoded import DECODED_PARTITION
from pipeline.store import lake_root
from pipeline.table_rows import read_rows
from tests.pipeline.lake_tables import HOUR_MS, START_MS, LakeWriter, Record, now
from tests.pipeline.s3_server import S3Server, s3_server
from tests.pipeline.store_servers import use
from tests.servers.postgres import PostgresServer

KINDS = ("lake", "decoded", "dead_letters")


@pytest.fixture
def layout(tmp_path: Path) -> PipelineLayout:
    made = PipelineLayout(tmp_path / "it's #1 at 50%")
    made.iceberg_catalog.parent.mkdir(parents=True)
    return made


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as running:
        yield running


def catalog_url(layout: PipelineLayout) -> str:
    return f"sqlite:///{layout.iceberg_catalog}"


def by_name(layout: PipelineLayout) -> list[Readable]:
    return readable(places(layout, {"i-1": "Shop"}, KINDS))


def the_lake(layout: PipelineLayout) -> IcebergLake:
    return IcebergLake(layout.lake_root, catalog_url(layout), os.environ)


def show(layout: PipelineLayout, at: datetime | None = None) -> list[Shown]:
    return [the_lake(layout).show(each, at or datetime.now(UTC)) for each in by_name(layout)]


def catalog(layout: PipelineLayout, **settings: str) -> SqlCatalog:
    """As a stranger has it who knows nothing of Delta."""
    return SqlCatalog("portico", uri=catalog_url(layout), **settings)


def in_order(found: pa.Table) -> list[dict[str, Any]]:
    """Rows, by Delta's names; pyiceberg 0.12 reads a list of structs that is null as an empty one."""
    renamed = found.rename_columns([each.replace("_kafka_", "_") for each in found.column_names])
    rows = [
        each | ({"headers": each["headers"] or []} if "headers" in each else {})
        for each in renamed.to_pylist()
    ]
    return sorted(rows, key=lambda each: (each.get("partition", 0), each.get("offset", each.get("_offset"))))


def must_be_equal(layout: PipelineLayout) -> int:
    """Every table read by name has the rows of Delta's newest version, and no file that is gone."""
    count = 0
    for each in by_name(layout):
        table = catalog(layout).load_table(f"{each.schema}.{each.name}")
        delta = DeltaTable(each.place.url)
        snapshot = table.current_snapshot()
        assert snapshot is not None
        assert snapshot.summary is not None
        said = snapshot.summary.additional_properties
        assert said["portico.delta-version"] == str(delta.version())
        assert said["total-records"] == str(len(in_order(table.scan().to_arrow())))
        assert in_order(table.scan().to_arrow()) == in_order(read_rows(delta))
        assert all(Path(task.file.file_path).exists() for task in table.scan().plan_files())
        count += 1
    return count


def records(first: int, count: int) -> list[Record]:
    """Over three hours; every fourth without a key, every fifth without headers."""
    return [
        Record(
            n % 2,
            n,
            b"v%d" % n,
            START_MS + n % 3 * HOUR_MS + n,
            b"secret-%d" % n if n % 4 else None,
            [("h", b"x"), ("h", None)] if n % 5 else None,
        )
        for n in range(first, first + count)
    ]


def test_what_was_loaded_is_read_by_name(layout: PipelineLayout) -> None:
    lake = LakeWriter(layout, "Orders.v2")
    LakeWriter(layout, "empty", "e" * 32)
    lake.load(records(0, 10))
    made = {each.name: each for each in show(layout)}
    assert made["shop.orders_v2"][1:5] == ("made", 1, 1, 0)
    assert made["shop.empty"][1:5] == ("made", 0, 0, 0)
    assert must_be_equal(layout) == 2
    lake.load(records(10, 10))
    assert catalog(layout).load_table("shop.orders_v2").scan().count() == 10
    assert [each.state for each in show(layout)] == ["as it was", "changed"]
    assert must_be_equal(layout) == 2
    assert {each.state for each in show(layout)} == {"as it was"}


def test_nothing_is_copied_or_opened_and_no_key_is_in_metadata(
    layout: PipelineLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = LakeWriter(layout)
    lake.load(records(0, 30))
    monkeypatch.setattr(pq, "ParquetFile", None)
    show(layout)
    metadata = [each for each in (layout.lake_root / "iceberg").rglob("*") if each.is_file()]
    assert metadata
    assert not [each for each in metadata if each.suffix == ".parquet" or b"secret" in each.read_bytes()]


def test_files_are_passed_over_by_what_delta_knew_of_them(layout: PipelineLayout) -> None:
    lake = LakeWriter(layout)
    lake.load(records(0, 30))
    lake.loaded_at += timedelta(hours=1)
    lake.load(records(30, 30))
    lake.load([Record(0, 90, b"late", START_MS + 9 * HOUR_MS)])
    show(layout)
    table = catalog(layout).load_table("shop.clicks")
    hour = datetime.fromtimestamp((START_MS + HOUR_MS) / 1000, UTC)
    late = And(
        GreaterThanOrEqual("timestamp", (hour + timedelta(hours=5)).isoformat()), LessThan("offset", 99)
    )
    for wanted, files in (
        (EqualTo("ingest_hour", hour.isoformat()), 2),
        (late, 1),
        (EqualTo("offset", 59), 1),
    ):
        scan = table.scan(row_filter=wanted)
        assert len(list(scan.plan_files())) == files
        assert scan.count() > 0


def test_compacted_and_expired_and_forgotten(layout: PipelineLayout) -> None:
    lake = LakeWriter(layout)
    for first in range(0, 60, 10):
        lake.loaded_at = now() - timedelta(hours=2 - first // 30)
        lake.load(records(first, 10))
    show(layout)
    DeltaTable(str(lake.table.path)).optimize.compact()
    [compacted] = show(layout)
    assert compacted[3:5] == (2, 6)
    assert must_be_equal(layout) == 1
    expire(lake.table.path, now() + timedelta(hours=1), timedelta(hours=2))
    [expired] = show(layout)
    assert expired[3:5] == (0, 1)
    assert must_be_equal(layout) == 1
    assert forget(layout, lake.table, frozenset({b"secret-47"}), Silent(), now_ms=START_MS).rows == 1
    with pytest.raises(FileNotFoundError):
        catalog(layout).load_table("shop.clicks").scan().to_arrow()
    show(layout)
    assert must_be_equal(layout) == 1
    lake.load(records(60, 10))
    show(layout)
    assert must_be_equal(layout) == 1


FIELDS = (
    "user STRING NOT NULL, tiny TINYINT, small SMALLINT, number INT, big BIGINT, share FLOAT, exact DOUBLE, "
    "price DECIMAL(12,3), is_new BOOLEAN, raw BINARY, day DATE, at TIMESTAMP, tags ARRAY<STRING>, "
    "counts MAP<STRING, BIGINT>, place STRUCT<city: STRING, zip: INT%s>"
)


def decode(layout: PipelineLayout, lake: LakeTable, schema: SchemaFile, rows: list[dict[str, Any]]) -> None:
    """A decode batch, but without Spark's tasks."""
    with DecodeTables.leased(layout, lake, "a test") as tables:
        tables.use_schema(schema_of(schema))
        path = tables.decoded_path
    delta = DeltaTable(str(path))
    table, columns = IngestTable(path, delta), StructType.fromJson(json.loads(delta.schema().to_json()))
    number = table.batch("decode") + 1
    hour = datetime.fromtimestamp(START_MS / 1000, UTC)
    told = {"_partition": 0, "_ingest_hour": hour, "_schema_version": schema.version}
    full = [
        dict.fromkeys(columns.fieldNames()) | each | told | {"_offset": 10 * number + n}
        for n, each in enumerate(rows)
    ]
    area = layout.staging / uuid.uuid4().hex
    folder = area / f"{DECODED_PARTITION}={hour:%Y-%m-%d %H}%3A00%3A00"
    folder.mkdir(parents=True)
    file = folder / f"part-{uuid.uuid4()}.parquet"
    written = pa.Table.from_pylist(full, to_arrow_schema(columns, timezone="UTC"))
    pq.write_table(written.drop_columns(DECODED_PARTITION), file)
    document = BatchDocument(app="decode", batch=number, job="decode", job_version="1")
    table.append([staged_file(file, area, {DECODED_PARTITION})], document)


def test_a_decoded_table_grows(layout: PipelineLayout) -> None:
    """Of every type that a schema may name; a field comes, also inside a struct, which old rows lack."""
    lake = LakeWriter(layout).table
    ada = {
        "user": "ada",
        "tiny": -7,
        "small": 300,
        "number": 70_000,
        "big": 2**40,
        "share": 0.5,
        "exact": 0.1,
        "price": Decimal("12.345"),
        "is_new": True,
        "raw": b"\0x",
        "day": date(1815, 12, 10),
        "at": datetime(2026, 1, 2, 3, 4, 5, 678, UTC),
        "tags": ["a", None],
        "counts": [("x", 1), ("y", None)],
        "place": {"city": "London", "zip": None},
        "_unknown_fields": ["age"],
    }
    first = SchemaFile(version=1, format="json", fields=FIELDS % "")
    decode(layout, lake, first, [ada, {"user": "nobody"}])
    show(layout)
    assert must_be_equal(layout) == 3
    grown = FIELDS % ", street: STRING" + ", age INT, `place.code` BIGINT"
    second = SchemaFile(version=2, format="json", fields=grown)
    place = {"city": "Turin", "zip": 1, "street": "Via"}
    row = {"user": "charles", "age": 79, "place": place, "place.code": 10129}
    decode(layout, lake, second, [row])
    assert {each.state for each in show(layout)} == {"as it was", "changed"}
    assert must_be_equal(layout) == 3
    table = catalog(layout).load_table("shop.clicks_decoded")
    reserved = {"_file", "_partition", "_pos", "_deleted"}  # which Spark with Iceberg's jar refuses
    assert not reserved & {each.name for each in table.schema().fields}
    scan = table.scan(row_filter=And(EqualTo("_kafka_partition", 0), EqualTo("age", 79)))
    [found] = scan.to_arrow().to_pylist()
    assert (found["user"], found["place"], found["place.code"]) == ("charles", place, 10129)


def test_columns_that_iceberg_takes_for_one_are_a_sentence(layout: PipelineLayout) -> None:
    lake = LakeWriter(layout).table
    schema = SchemaFile(version=1, format="json", fields="place STRUCT<zip: INT>, `place.zip` BIGINT")
    decode(layout, lake, schema, [{"place.zip": 1}])
    with pytest.raises(PipelineError, match=r"shop\.clicks_decoded: its columns .* place\.zip"):
        show(layout)


def test_a_topic_made_again_takes_the_name(layout: PipelineLayout) -> None:
    before = LakeWriter(layout, "orders", "e" * 32)
    before.load(records(0, 9))
    show(layout)
    [old] = (layout.lake_root / "iceberg").glob("*/*")
    again = LakeWriter(layout, "orders", "f" * 32)
    again.load(records(0, 3))
    assert [(each.name, each.state) for each in show(layout)] == [
        ("shop.orders", "made again"),
        ("shop.orders_eeeeeeee", "made"),
    ]
    assert must_be_equal(layout) == 2
    assert catalog(layout).load_table("shop.orders").scan().count() == 3
    assert not old.exists()


def test_a_table_that_was_loaded_anew_is_made_again(layout: PipelineLayout) -> None:
    lake = LakeWriter(layout)
    lake.load(records(0, 9))
    show(layout)
    assert isinstance(lake.table.path, Path)
    shutil.rmtree(lake.table.path)
    LakeWriter(layout).load(records(0, 4))
    [again] = show(layout)
    assert again[1:5] == ("made again", 1, 1, 0)
    assert must_be_equal(layout) == 1


@pytest.mark.parametrize("kind", [pa.string(), pa.struct([("b", pa.int64())])])
def test_a_table_that_another_program_wrote_over_is_made_again(
    layout: PipelineLayout, kind: pa.DataType
) -> None:
    """It has its id still, but a column is of another type, or gone."""
    path = LakeWriter(layout).table.path
    hour = pa.array([datetime.fromtimestamp(START_MS / 1000, UTC)], pa.timestamp("us", "UTC"))
    first = pa.table({"offset": pa.array([1]), "ingest_hour": hour, "a": pa.array([1])})
    write_deltalake(str(path), first, mode="overwrite", schema_mode="overwrite")
    show(layout)
    for names in (["offset", "ingest_hour", "a"], ["offset", "ingest_hour"]):
        columns = {"offset": pa.array([2]), "ingest_hour": hour, "a": pa.array([None], kind)}
        other = pa.table(columns).select(names)
        write_deltalake(str(path), other, mode="overwrite", schema_mode="overwrite")
        assert [each.state for each in show(layout)] == ["made again"]
        assert must_be_equal(layout) == 1


def test_what_is_not_there_drops_no_name(layout: PipelineLayout) -> None:
    lake = LakeWriter(layout)
    lake.load(records(0, 9))
    other = LakeWriter(layout, "other", "f" * 32)
    show(layout)
    assert isinstance(other.table.path, Path)
    [table] = [each for each in by_name(layout) if each.name == "other"]
    shutil.rmtree(other.table.path)
    with pytest.raises(PipelineError, match=r"shop\.other: its table cannot be read"):
        the_lake(layout).show(table, datetime.now(UTC))
    assert the_lake(layout).gone(by_name(layout), drop=False) == ["shop.other"]
    assert catalog(layout).table_exists("shop.other")
    assert the_lake(layout).gone(by_name(layout), drop=True) == ["shop.other"]
    assert not catalog(layout).table_exists("shop.other")
    assert must_be_equal(layout) == 1


def test_names_of_another_lake_are_left_alone(layout: PipelineLayout, tmp_path: Path) -> None:
    LakeWriter(layout).load(records(0, 9))
    show(layout)
    elsewhere = PipelineLayout(tmp_path / "elsewhere")
    LakeWriter(elsewhere).load(records(0, 3))
    intruder = IcebergLake(elsewhere.lake_root, catalog_url(layout), {})
    with pytest.raises(PipelineError, match="not of the lake at"):
        intruder.show(by_name(elsewhere)[0], datetime.now(UTC))
    assert intruder.gone([], drop=True) == []
    assert must_be_equal(layout) == 1


def test_a_table_that_files_alone_do_not_show_is_refused(layout: PipelineLayout) -> None:
    path = layout.lake("i-1", "marked", "a" * 32)
    DeltaTable.create(
        str(path),
        Schema.from_arrow(pa.schema([("a", pa.int64())])),
        configuration={"delta.enableDeletionVectors": "true"},
    )
    with pytest.raises(PipelineError, match="read it as a Delta table"):
        show(layout)


def test_two_at_once(layout: PipelineLayout, monkeypatch: pytest.MonkeyPatch) -> None:
    """One waits for no other on a machine; on two, the catalog takes the first."""
    lake = LakeWriter(layout)
    lake.load(records(0, 9))
    with table_lease(lake.table.path, "the other", "iceberg"), pytest.raises(LeasedError, match="the other"):
        show(layout)
    monkeypatch.setattr(iceberg, "table_lease", lambda *_: nullcontext())
    commit = iceberg._commit

    def overtaken(*arguments: Any) -> None:
        monkeypatch.setattr(iceberg, "_commit", commit)
        show(layout)
        commit(*arguments)

    for first in (9, 18):  # one makes the table, the next changes it
        monkeypatch.setattr(iceberg, "_commit", overtaken)
        with pytest.raises(PipelineError, match="another run changed it meanwhile"):
            show(layout)
        assert must_be_equal(layout) == 1
        lake.load(records(first, 9))
    show(layout)
    assert must_be_equal(layout) == 1


def _dies(data_dir: Path, where: str) -> None:
    """A run in a process of its own, that is killed where it comes to a step."""

    def die(*_: Any, **__: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    step, _, is_after = where.partition(" ")
    owner: Any = shutil if step == "rmtree" else SqlCatalog
    real = getattr(owner, step)

    def after(*arguments: Any, **named: Any) -> None:
        real(*arguments, **named)
        die()

    is_static = isinstance(getattr_static(owner, step), staticmethod)
    changed: Any = after if is_after else die
    setattr(owner, step, staticmethod(changed) if is_static else changed)
    show(PipelineLayout(data_dir))


@pytest.mark.parametrize(
    "where",
    [
        "commit_table",
        "_write_metadata",
        "_write_metadata after",
        "commit_table after",
        "drop_table after",
        "rmtree",
    ],
)
def test_killed_at_any_step(layout: PipelineLayout, where: str) -> None:
    lake = LakeWriter(layout)
    lake.load(records(0, 9))
    show(layout)
    if where in ("drop_table after", "rmtree"):
        assert isinstance(lake.table.path, Path)
        shutil.rmtree(lake.table.path)
        LakeWriter(layout).load(records(0, 4))
    else:
        lake.load(records(9, 9))
        DeltaTable(str(lake.table.path)).optimize.compact()
    process = multiprocessing.get_context("spawn").Process(target=_dies, args=(layout.root.parent, where))
    process.start()
    process.join(120)
    assert process.exitcode == -signal.SIGKILL
    if catalog(layout).table_exists("shop.clicks"):
        assert catalog(layout).load_table("shop.clicks").scan().count() in (9, 18) or where == "rmtree"
    show(layout)
    assert must_be_equal(layout) == 1


def test_old_metadata_goes(layout: PipelineLayout) -> None:
    lake = LakeWriter(layout)
    for first in range(30):
        lake.load(records(first, 1))
        show(layout)
    table = catalog(layout).load_table("shop.clicks")
    assert len(table.metadata.snapshots) == 24
    [folder] = (layout.lake_root / "iceberg").glob("*/*/metadata")
    kept = len(list(folder.iterdir()))
    long_ago = datetime.now(UTC) - timedelta(days=2)
    for each in folder.iterdir():
        os.utime(each, (long_ago.timestamp(), long_ago.timestamp()))
    lake.load(records(30, 1))
    show(layout)
    assert len(list(folder.iterdir())) < kept
    assert must_be_equal(layout) == 1
    for snapshot in catalog(layout).load_table("shop.clicks").metadata.snapshots:
        assert catalog(layout).load_table("shop.clicks").scan(snapshot_id=snapshot.snapshot_id).count() > 0
    lake.load(records(31, 1))
    show(layout, datetime.now(UTC) + timedelta(days=3))
    assert len(catalog(layout).load_table("shop.clicks").metadata.snapshots) == 1
    assert must_be_equal(layout) == 1


def test_a_lake_in_a_store(layout: PipelineLayout, server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    use(server, monkeypatch)
    at = PipelineLayout(layout.root.parent, lake_root(f"s3a://{server.bucket}/{uuid.uuid4().hex}"))
    lake = LakeWriter(at)
    lake.load(records(0, 9))
    show(at)
    lake.load(records(9, 9))
    [changed] = show(at)
    assert changed.metadata.startswith("s3://")
    stranger = catalog(layout, **{"s3.endpoint": server.url, "s3.region": "us-east-1"}).load_table(
        "shop.clicks"
    )
    assert in_order(stranger.scan().to_arrow()) == in_order(read_rows(DeltaTable(str(lake.table.path))))
    assert the_lake(at).gone([], drop=True) == ["shop.clicks"]


def test_names_in_a_postgres(layout: PipelineLayout) -> None:
    """And a server that does not answer is a sentence."""
    server = PostgresServer().start()
    try:
        url = server.url(server.new_database())
        lake = LakeWriter(layout)
        for first in (0, 9):
            lake.load(records(first, 9))
            shown = IcebergLake(layout.lake_root, url, {})
            [told] = [shown.show(each, datetime.now(UTC)) for each in by_name(layout)]
        assert (told.state, told.added_files) == ("changed", 1)
        assert SqlCatalog("portico", uri=url).load_table("shop.clicks").scan().count() == 18
    finally:
        server.close()
    with pytest.raises(PipelineError, match="the catalog cannot be asked"):
        IcebergLake(layout.lake_root, url, {})
