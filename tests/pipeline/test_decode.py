"""Lake tables become typed rows and dead letters: every record is in exactly one, whatever is killed when."""

import io
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import msgspec
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from pipeline.errors import PipelineError
from pipeline.lake.compact import compact
from pipeline.lake.decode.job import DecodeResult, OnError, decode, redrive
from pipeline.lake.decode.registry import RegistryAt, TopicSchemas
from pipeline.lake.decode.schema import RecordSchema, read_schema
from pipeline.lake.decode.target_tables import DEAD_KIND, DECODED_KIND, DecodeTables
from pipeline.lake.lake_tables import LakeTable
from pipeline.layout import PipelineLayout
from pipeline.progress import Silent
from tests.integration.stack import ROOT
from tests.pipeline.lake_tables import HOUR_MS, START_MS, LakeWriter, Record, now
from tests.pipeline.stand_in_registry import Says, framed, stand_in_registry
from tests.pipeline.stand_in_registry import schema as told_by


def schema(fields: str, version: int = 1) -> RecordSchema:
    return read_schema(msgspec.json.encode({"version": version, "fields": fields}), "x")


STRICT = schema("user string NOT NULL, ms int")
LOOSE = schema("user string, ms int, text string", 2)


def clicks(partition: int, first: int, count: int) -> list[Record]:
    """Every tenth lacks its user, every seventh is no JSON; spread over three hours."""
    found = []
    for n in range(first, first + count):
        value: dict[str, Any] = {"ms": n} if n % 10 == 0 else {"user": f"u{n}", "ms": n}
        text = b"no json" if n % 7 == 0 else json.dumps(value).encode()
        found.append(Record(partition, n, text, START_MS + n % 3 * HOUR_MS, b"k%d" % n, [("h", b"%d" % n)]))
    return found


class Decoding:
    """One lake table and what is made of it."""

    def __init__(self, spark: SparkSession, layout: PipelineLayout) -> None:
        self.spark = spark
        self.layout = layout
        self.lake = LakeWriter(layout)

    @property
    def table(self) -> LakeTable:
        return self.lake.table

    def decode(
        self, by: RecordSchema | TopicSchemas = STRICT, on_error: str = "dlq", **settings: Any
    ) -> DecodeResult:
        return decode(self.spark, self.layout, self.table, by, OnError(on_error), Silent(), **settings)

    def redrive(self, by: RecordSchema | TopicSchemas, *classes: str) -> DecodeResult:
        return redrive(self.spark, self.layout, self.table, by, Silent(), classes)

    def path(self, kind: str) -> Path:
        return self.table.derived(self.layout, kind)

    def rows(self, kind: str) -> list[dict[str, Any]]:
        return list(DeltaTable(str(self.path(kind))).to_pyarrow_table().to_pylist())

    def decoded(self) -> list[tuple[int, int]]:
        return sorted((row["_partition"], row["_offset"]) for row in self.rows(DECODED_KIND))

    def dead(self) -> list[tuple[int, int]]:
        return sorted((row["partition"], row["offset"]) for row in self.rows(DEAD_KIND))

    def open(self) -> list[tuple[int, int]]:
        """Dead letters as docs/lake.md tells to find them, at every moment."""
        return sorted(set(self.dead()) - set(self.decoded()))


@pytest.fixture
def decoding(spark: SparkSession, layout: PipelineLayout) -> Decoding:
    return Decoding(spark, layout)


class KilledError(Exception):
    """In the place of a kill between two commits: what is on disk is the same."""


def killed(*_: object, **__: object) -> None:
    raise KilledError


def places(records: list[Record], keep: Callable[[int], bool]) -> list[tuple[int, int]]:
    return sorted((each.partition, each.offset) for each in records if keep(each.offset))


def is_good(n: int) -> bool:
    return n % 10 != 0 and n % 7 != 0


def test_every_record_is_decoded_or_a_dead_letter(decoding: Decoding) -> None:
    records = [*clicks(0, 0, 100), *clicks(1, 0, 50)]
    decoding.lake.load(records[:60])
    decoding.lake.load(records[60:])
    told = decoding.decode(rows_max=60)
    assert (told.rows, told.decoded + told.dead_letters) == (150, 150)
    assert decoding.decoded() == places(records, is_good)
    assert decoding.dead() == decoding.open() == places(records, lambda n: not is_good(n))
    assert told.errors == {"malformed": 23, "missing_field": 12}

    older = clicks(1, 50, 10)
    decoding.lake.backfill(older)
    decoding.lake.load(clicks(0, 100, 10))
    told = decoding.decode()
    assert told.rows == 20 and decoding.decode().rows == 0
    assert decoding.decoded() == places([*records, *older, *clicks(0, 100, 10)], is_good)
    assert told.totals == {
        "lake_rows": 170,
        "decoded": len(decoding.decoded()),
        "dead_letters": len(decoding.dead()),
        "dropped": 0,
    }

    [row] = [row for row in decoding.rows(DECODED_KIND) if (row["_partition"], row["_offset"]) == (1, 31)]
    assert (row["user"], row["ms"], row["_schema_version"]) == ("u31", 31, 1)
    assert row["_timestamp"].timestamp() * 1000 == START_MS + HOUR_MS
    assert row["_ingest_hour"].timestamp() * 1000 == START_MS, "when its lake row was loaded"
    [letter] = [row for row in decoding.rows(DEAD_KIND) if (row["partition"], row["offset"]) == (0, 7)]
    assert (letter["topic"], letter["topic_id"]) == ("clicks", decoding.table.topic_id)
    assert (letter["key"], letter["value"], letter["attempt"]) == (b"k7", b"no json", 1)
    assert letter["headers"] == [{"key": "h", "value": b"7"}] and letter["schema_id"] == STRICT.id
    assert letter["error_class"] == "malformed" and "malformed" in letter["message"]


def test_records_that_do_not_parse_may_be_dropped_or_stop_it(decoding: Decoding) -> None:
    decoding.lake.load(clicks(0, 0, 20))
    with pytest.raises(
        PipelineError, match="4 of the next 20 records do not parse, first the one of partition 0 at"
    ):
        decoding.decode(on_error="pause")
    told = decoding.decode(on_error="drop")
    assert (told.decoded, told.dropped, decoding.dead()) == (16, 4, [])
    decoding.lake.load([each for each in clicks(0, 20, 7) if is_good(each.offset)])
    assert decoding.decode(on_error="pause").rows == 5
    assert decoding.decode().totals == {"lake_rows": 25, "decoded": 21, "dead_letters": 0, "dropped": 4}


def test_schemas_evolve_and_unknown_fields_are_told(decoding: Decoding) -> None:
    decoding.lake.load([Record(0, 0, b'{"user": "a", "ms": 1, "geo": {"lat": 1.5}}')])
    assert decoding.decode().unknown_fields == {"geo": 1}
    wider = schema("user string NOT NULL, geo struct<lat: double>", 2)
    decoding.lake.load([Record(0, 1, b'{"user": "b", "geo": {"lat": 2.5, "lon": 1}}')])
    assert decoding.decode(wider).unknown_fields == {"geo.lon": 1}
    widest = schema("user string, geo struct<lat: double, lon: double>, ms int", 3)
    decoding.lake.load([Record(0, 2, b'{"geo": {"lon": 7}, "ms": 3}')])
    decoding.decode(widest)
    found = {row["_offset"]: (row["user"], row["ms"], row["geo"]) for row in decoding.rows(DECODED_KIND)}
    assert found == {
        0: ("a", 1, None),
        1: ("b", None, {"lat": 2.5, "lon": None}),
        2: (None, 3, {"lat": None, "lon": 7.0}),
    }
    with pytest.raises(PipelineError, match="'ms' is int in the table and string in the new schema"):
        decoding.decode(schema("ms string", 4))
    with pytest.raises(PipelineError, match="version 2 is older"):
        decoding.decode(wider)


def test_dead_letters_that_parse_now_move(decoding: Decoding) -> None:
    records = clicks(0, 0, 70)
    decoding.lake.load(records)
    decoding.decode()
    told = decoding.redrive(LOOSE, "missing_field")
    assert (told.decoded, told.dead_letters) == (6, 0)
    assert decoding.decoded() == places(records, lambda n: n % 7 != 0)
    assert decoding.dead() == decoding.open() == places(records, lambda n: n % 7 == 0)
    told = decoding.redrive(LOOSE)
    assert (told.decoded, told.dead_letters) == (0, 10)
    assert {(row["attempt"], row["schema_id"]) for row in decoding.rows(DEAD_KIND)} == {(2, LOOSE.id)}
    assert told.totals == {"lake_rows": 70, "decoded": 60, "dead_letters": 10, "dropped": 0}


def test_a_kill_between_the_commits_of_a_decode_loses_and_doubles_nothing(
    decoding: Decoding, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = clicks(0, 0, 40)
    decoding.lake.load(records)
    with monkeypatch.context() as patch:
        patch.setattr(DecodeTables, "add_decoded", killed)
        with pytest.raises(KilledError):
            decoding.decode()
    assert decoding.decoded() == [] and len(decoding.dead()) > 0
    told = decoding.decode(LOOSE)
    assert decoding.decoded() == places(records, lambda n: n % 7 != 0)
    assert decoding.dead() == places(records, lambda n: n % 7 == 0)
    assert told.totals["decoded"] + told.totals["dead_letters"] == 40


def test_a_kill_between_the_commits_of_a_redrive_leaves_every_record_in_one_place(
    decoding: Decoding, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = clicks(0, 0, 40)
    decoding.lake.load(records)
    decoding.decode()
    with monkeypatch.context() as patch:
        patch.setattr(DecodeTables, "change_letters", killed)
        with pytest.raises(KilledError):
            decoding.redrive(LOOSE)
    moved, left = places(records, lambda n: n % 7 != 0), places(records, lambda n: n % 7 == 0)
    assert (decoding.decoded(), decoding.open()) == (moved, left)
    assert decoding.decode(LOOSE).rows == 0
    assert (decoding.decoded(), decoding.open(), decoding.dead()) == (moved, left, left)


def test_records_of_a_registry_are_decoded_while_their_schemas_change(decoding: Decoding) -> None:
    def values(schema_id: int, told: dict[str, Any], first: int, *rows: dict[str, Any]) -> list[Record]:
        found = []
        for n, row in enumerate(rows):
            out = io.BytesIO()
            fastavro.schemaless_writer(out, fastavro.parse_schema(told), row)
            found.append(Record(0, first + n, framed(schema_id, out.getvalue()), START_MS, b"k"))
        return found

    def avro(**fields: str) -> dict[str, Any]:
        told = [{"name": name, "type": kind} for name, kind in fields.items()]
        return {"type": "record", "name": "R", "fields": told}

    first, third = avro(user="string", ms="int"), avro(ms="string")
    second = avro(user="string", ms="long", geo="string")
    with stand_in_registry() as registry:
        schemas = TopicSchemas(RegistryAt(registry.url), "clicks")
        registry.has(1, told_by(first), "clicks-value")
        decoding.lake.load([*values(1, first, 0, {"user": "a", "ms": 1}), Record(0, 1, b"{}", START_MS)])
        told = decoding.decode(schemas)
        assert (told.decoded, told.errors) == (1, {"bad_framing": 1})

        registry.has(2, told_by(second, version=2), "clicks-value")
        decoding.lake.load(values(2, second, 2, {"user": "b", "ms": 2**40, "geo": "x"}))
        decoding.lake.load(values(1, first, 3, {"user": "c", "ms": 3}))
        decoding.decode(schemas)

        registry.has(3, told_by(third, version=3), "clicks-value")
        decoding.lake.load([*values(3, third, 4, {"ms": "4"}), *values(1, first, 5, {"user": "d", "ms": 5})])
        told = decoding.decode(schemas)
        assert told.errors == {"incompatible_schema": 1}
        assert "'ms' is bigint in the table and string" in told.notes[0]

        decoding.lake.load(values(9, first, 6, {"user": "e", "ms": 6}))
        registry.says["/schemas/ids/9"] = Says(b"", 503)
        with pytest.raises(PipelineError, match="answered 503 for schema 9"):
            decoding.decode(schemas)
        del registry.says["/schemas/ids/9"]
        assert decoding.decode(schemas).errors == {"unknown_schema": 1}
        registry.has(9, told_by(first))
        told = decoding.redrive(TopicSchemas(RegistryAt(registry.url), "clicks"), "unknown_schema")
        assert (told.decoded, told.dead_letters) == (1, 0)
    found = [
        (row["_offset"], row["user"], row["ms"], row["geo"], row["_schema_version"])
        for row in decoding.rows(DECODED_KIND)
    ]
    assert sorted(found) == [
        *((0, "a", 1, None, 1), (2, "b", 2**40, "x", 2), (3, "c", 3, None, 2)),
        *((5, "d", 5, None, 2), (6, "e", 6, None, 2)),
    ]
    assert decoding.dead() == decoding.open() == [(0, 1), (0, 4)]


def test_compacted_tables_are_decoded_no_second_time(decoding: Decoding) -> None:
    for first in range(0, 30, 10):
        decoding.lake.load(clicks(0, first, 10))
        decoding.decode(rows_max=5)
    for path in (decoding.table.path, decoding.path(DECODED_KIND), decoding.path(DEAD_KIND)):
        before = sorted(map(str, DeltaTable(str(path)).to_pyarrow_table().to_pylist()))
        told = compact(decoding.layout, path, now(), Silent())
        assert told.rewritten_files > told.files_after == 1
        assert sorted(map(str, DeltaTable(str(path)).to_pyarrow_table().to_pylist())) == before
    assert decoding.decode().rows == 0
    decoding.lake.load(clicks(0, 30, 10))
    assert decoding.decode().rows == 10
    assert decoding.decoded() == places(clicks(0, 0, 40), is_good)


_KILLED_JOB = """
import sys
from pathlib import Path
from pipeline.lake.decode.job import OnError, decode, redrive
from pipeline.lake.decode.schema import read_schema
from pipeline.lake.lake_tables import lake_tables
from pipeline.layout import PipelineLayout
from pipeline.progress import Silent
from pipeline.session import spark_session

layout = PipelineLayout(Path(sys.argv[1]))
spark = spark_session(layout.scratch)
[lake] = lake_tables(layout, "i-1")
for number in range(int(sys.argv[2]), 1000):
    text = f'{{"version": {number + 1}, "fields": "user string, ms int, a{number} int"}}'
    strict = f'{{"version": {number + 1}, "fields": "user string NOT NULL, ms int, a{number} int"}}'
    if number % 2:
        redrive(spark, layout, lake, read_schema(text.encode(), "x"), Silent())
    else:
        decode(spark, layout, lake, read_schema(strict.encode(), "x"), OnError.DLQ, Silent(), 3000)
    Path(sys.argv[1], "done").write_text(str(number + 1))
"""


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_kills_at_random_moments_leave_every_record_in_one_place(decoding: Decoding, tmp_path: Path) -> None:
    seed = int(os.environ.get("PORTICO_SEED") or random.randrange(2**32))
    print(f"PORTICO_SEED={seed}")
    generator = random.Random(seed)
    records: list[Record] = []
    done = tmp_path / "done"
    done.write_text("0")
    for kill in range(10):
        for _ in range(5):
            fresh = clicks(0, len(records), 2000)
            decoding.lake.load(fresh)
            records += fresh
        command = [sys.executable, "-c", _KILLED_JOB, str(tmp_path), done.read_text()]
        process = subprocess.Popen(command, cwd=ROOT, start_new_session=True)
        started, begun = done.read_text(), time.monotonic()
        while done.read_text() == started and process.poll() is None and time.monotonic() - begun < 300:
            time.sleep(0.02)
        time.sleep(generator.uniform(0, 6))
        assert process.poll() is None, f"the job ended by itself before kill {kill + 1}"
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        decoded, letters = decoding.decoded(), decoding.open()
        assert len(decoded) == len(set(decoded)) and len(letters) == len(set(letters))
        assert not set(decoded) & set(letters), "a record is in both"
    last = schema("user string, ms int", 2000)
    decoding.decode(last)
    decoding.redrive(schema("user string, ms int, z int", 2001))
    assert decoding.decoded() == places(records, lambda n: n % 7 != 0)
    assert decoding.dead() == decoding.open() == places(records, lambda n: n % 7 == 0)
