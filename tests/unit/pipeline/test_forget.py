"""Records of a key go from all tables of a topic and from the disk, also when a run is killed."""

import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from pipeline.errors import PipelineError
from pipeline.ingest.commits import BatchDocument, IngestTable, TableSpec
from pipeline.ingest.lease import LeasedError, table_lease
from pipeline.ingest.staging import staged_file
from pipeline.lake import forget as forgetting
from pipeline.lake.forget import FORGETS, ForgetResult, forget
from pipeline.lake.forgotten import forgotten_offsets
from pipeline.layout import PipelineLayout
from pipeline.progress import Silent
from pipeline.schema.decoded import DEAD_LETTERS, KAFKA_COLUMNS
from tests.pipeline.lake_tables import HOUR_MS, START_MS, TOPIC_ID, LakeWriter, Record

ADA = b"ada-lovelace-1815"
OTHER = b"charles-babbage-1791"
DECODED = pa.schema([pa.field("user", pa.string()), *KAFKA_COLUMNS])


@pytest.fixture
def layout(tmp_path: Path) -> PipelineLayout:
    return PipelineLayout(tmp_path)


def keyed(first: int, count: int, partition: int = 0) -> list[Record]:
    """Over two hours; every fourth record is hers, every fifth without a key."""
    return [
        Record(
            partition,
            n,
            b"v%d" % n,
            START_MS + n // 2 % 2 * HOUR_MS,
            ADA if n % 4 == 0 else None if n % 5 == 0 else OTHER,
        )
        for n in range(first, first + count)
    ]


def derived(layout: PipelineLayout, kind: str, schema: pa.Schema, rows: list[dict[str, Any]]) -> Path:
    """A table made from the lake table."""
    path = layout.derived("i-1", "clicks", TOPIC_ID, kind)
    table = IngestTable.open(path, TableSpec(schema))
    area = layout.staging / uuid.uuid4().hex
    area.mkdir(parents=True)
    file = area / f"part-{uuid.uuid4()}.parquet"
    full = [dict.fromkeys(schema.names) | row for row in rows]
    pq.write_table(pa.Table.from_pylist(full, schema), file)
    document = BatchDocument(app="decode", batch=table.batch("decode") + 1, job="decode", job_version="1")
    table.append([staged_file(file, area)], document)
    return path


class Lake:
    """A topic that was loaded in three batches, and decoded."""

    def __init__(self, layout: PipelineLayout) -> None:
        self.layout = layout
        self.writer = LakeWriter(layout)
        for n in range(3):
            self.writer.load([*keyed(n * 20, 20), *keyed(n * 20, 20, partition=1)])
        self.lake = self.writer.table
        places = [(p, n) for p in (0, 1) for n in range(60)]
        self.decoded = derived(
            layout,
            "decoded",
            DECODED,
            [
                {"user": (ADA if n % 4 == 0 else OTHER).decode(), "_partition": p, "_offset": n}
                for p, n in places
                if n != 8
            ],
        )
        self.dead = derived(
            layout,
            "dead_letters",
            DEAD_LETTERS,
            [{"partition": p, "offset": 8, "key": ADA, "value": b"?"} for p in (0, 1)]
            + [{"partition": 0, "offset": 61, "key": OTHER, "value": b"?"}],
        )

    def forget(self, *keys: bytes, only_look: bool = False) -> ForgetResult:
        return forget(self.layout, self.lake, frozenset(keys), Silent(), now_ms=START_MS, only_look=only_look)

    def rows(self, path: Path) -> list[dict[str, Any]]:
        return list(DeltaTable(str(path)).to_pyarrow_table().to_pylist())

    def places(self) -> set[tuple[int, int]]:
        return {(row["partition"], row["offset"]) for row in self.rows(self.lake.path)}

    def files_with(self, text: bytes) -> list[Path]:
        return [file for file in self.layout.root.rglob("*") if file.is_file() and text in file.read_bytes()]


def kinds(told: ForgetResult) -> dict[str, tuple[int, bool]]:
    return {each.kind: (each.rows, each.files_rewritten > 0) for each in told.tables}


def test_rows_and_files_of_a_key_are_gone_and_all_others_are_there(layout: PipelineLayout) -> None:
    topic = Lake(layout)
    before = topic.places()
    assert topic.files_with(ADA)
    looked = topic.forget(ADA, only_look=True)
    assert kinds(looked) == {"lake": (30, False), "decoded": (28, False), "dead_letters": (2, False)}
    assert topic.places() == before and looked.proof is None

    told = topic.forget(ADA)
    assert kinds(told) == {"decoded": (28, True), "dead_letters": (2, True), "lake": (30, True)}
    assert topic.places() == {place for place in before if place[1] % 4 != 0}
    assert {row["user"] for row in topic.rows(topic.decoded)} == {OTHER.decode()}
    assert [row["offset"] for row in topic.rows(topic.dead)] == [61]
    assert topic.files_with(ADA) == [] and topic.files_with(ADA.hex().encode()) == []
    for path in (topic.lake.path, topic.decoded, topic.dead):
        named = {Path(each).name for each in DeltaTable(str(path)).file_uris()}
        assert {file.name for file in path.rglob("*.parquet") if "_delta_log" not in file.parts} == named

    assert told.proof == layout.table(FORGETS)
    noted = topic.rows(told.proof)
    assert [(each["kind"], each["rows"], each["keys"]) for each in noted] == [
        ("decoded", 28, 1),
        ("dead_letters", 2, 1),
        ("lake", 30, 1),
    ]
    assert [(each.rows, each.files_deleted) for each in topic.forget(ADA).tables] == [(0, 0)] * 3
    everything = [(n, n + 1) for n in range(0, 60, 4)]
    assert forgotten_offsets(layout, TOPIC_ID) == {0: everything, 1: everything}


def test_the_loader_goes_on_where_it_was(layout: PipelineLayout) -> None:
    topic = Lake(layout)
    topic.forget(ADA)
    assert LakeWriter(layout).load(keyed(60, 4)) == 3
    assert (0, 60) in topic.places(), "what comes later is not touched"


def test_others_loads_wait_and_nothing_is_half_done(
    layout: PipelineLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = Lake(layout)
    monkeypatch.setattr(forgetting, "_LEASE_WAIT_S", 0.0)
    with (
        table_lease(topic.lake.path, "portico pipeline load"),
        pytest.raises(LeasedError, match="portico pipeline load"),
    ):
        topic.forget(ADA)
    assert len(topic.places()) == 120


@pytest.mark.parametrize("survived", range(6))
def test_a_run_that_is_killed_is_finished_by_the_next(
    layout: PipelineLayout, monkeypatch: pytest.MonkeyPatch, survived: int
) -> None:
    """Killed after so many of its steps."""
    topic = Lake(layout)
    steps = 0

    def mortal(step: Any) -> Any:
        def run(*arguments: Any, **named: Any) -> Any:
            nonlocal steps
            if steps == survived:
                raise KeyboardInterrupt
            steps += 1
            return step(*arguments, **named)

        return run

    with monkeypatch.context() as patch:
        for name in ("commit", "note_offsets", "_sweep"):
            patch.setattr(forgetting, name, mortal(getattr(forgetting, name)))
        with pytest.raises(KeyboardInterrupt):
            topic.forget(ADA)
    told = topic.forget(ADA)
    assert told.proof is not None
    assert all(n % 4 for _, n in topic.places()) and len(topic.places()) == 90
    assert {row["user"] for row in topic.rows(topic.decoded)} == {OTHER.decode()}
    assert topic.files_with(ADA) == []
    assert set(forgotten_offsets(layout, TOPIC_ID)) == {0, 1}


def test_a_key_that_nobody_has_changes_nothing_but_old_versions(layout: PipelineLayout) -> None:
    topic = Lake(layout)
    told = topic.forget(b"nobody")
    assert kinds(told) == {"lake": (0, False), "decoded": (0, False), "dead_letters": (0, False)}
    assert len(topic.places()) == 120 and forgotten_offsets(layout, TOPIC_ID) == {}


def test_a_file_that_is_missing_is_said(layout: PipelineLayout) -> None:
    topic = Lake(layout)
    Path(DeltaTable(str(topic.lake.path)).file_uris()[0]).unlink()
    with pytest.raises(PipelineError, match="what it has cannot be told"):
        topic.forget(ADA)
