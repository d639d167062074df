"""`portico log dump`: what the files of a log say, and what is damaged in them."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.groups.records import OffsetAndMetadata, OffsetRecord
from broker.groups.records import encode_key as encode_group_key
from broker.groups.records import encode_value as encode_group_value
from broker.log.partition_log import PartitionLog
from broker.log.results import AppendOrigin
from ctl.main import main
from ctl.tools.log_dump import Damage, Line, Wanted, dump, files_of
from ctl.tools.record_dump import Decoder
from tests.unit.broker_log.builders import NOW_MS, SMALL, append, batch, fill, flush, new_log_in, open_manager
from tests.unit.broker_log.test_transactions import end, write
from wire.batch import Record, build_batch, encode_records
from wire.compression import compress

LOOK = Wanted(records=True, verify_index=True)


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    """Closed cleanly, with aborted transactions, several segments and a producer."""
    manager, _ = open_manager(tmp_path / "data")
    log = new_log_in(manager, SMALL)
    fill(log, 20)
    for number in range(4):
        write(log, 7, number)
        end(log, 7, commit=number % 2 == 0)
    log.advance_high_watermark()
    append(log, build_batch([Record(0, NOW_MS, b"\xff", None, (("h", b"x"),))]), leader_epoch=3)
    flush(manager)
    assert manager.close() == []
    return log


def found_in(path: Path, wanted: Wanted = LOOK) -> tuple[list[Line], list[Damage]]:
    found = list(dump(path, wanted))
    return [f for f in found if isinstance(f, Line)], [f for f in found if isinstance(f, Damage)]


def one(log: PartitionLog, suffix: str, number: int = 0) -> Path:
    return sorted(path for path in log.directory.iterdir() if path.suffix == suffix)[number]


def test_everything_of_a_sound_log_is_told(log: PartitionLog) -> None:
    kinds: dict[str, int] = {}
    for path in files_of([log.directory.parent]):
        lines, damages = found_in(path)
        assert damages == [], path
        for line in lines:
            kinds[line.kind] = kinds.get(line.kind, 0) + 1
    assert kinds["batch"] == kinds["record"] == 29
    assert (kinds["txnindex"], kinds["epoch"], kinds["metadata"]) == (2, 2, 1)
    assert kinds["index"] > 10 and kinds["timeindex"] > 0
    assert kinds["producer"] >= 1
    assert kinds["checkpoint"] == 2, "recovery point and high watermark"


def test_records_are_shown_as_they_are(log: PartitionLog) -> None:
    lines, _ = found_in(one(log, ".log", -1))
    batches = [line.facts for line in lines if line.kind == "batch"]
    records = [line.facts for line in lines if line.kind == "record"]
    assert records[-1] == {
        "offset": 28,
        "timestamp": NOW_MS,
        "key": "0xff",
        "payload": None,
        "headers": {"h": "x"},
    }
    assert batches[-1]["partitionLeaderEpoch"] == 3
    assert [r["endTxnMarker"] for r in records if "endTxnMarker" in r][-2:] == ["COMMIT", "ABORT"]
    assert not [line for line in found_in(one(log, ".log", -1), Wanted())[0] if line.kind == "record"]


def damage(path: Path, change: Callable[[bytearray], None]) -> None:
    data = bytearray(path.read_bytes())
    change(data)
    path.write_bytes(data)


def flip(at: int) -> Callable[[bytearray], None]:
    def change(data: bytearray) -> None:
        data[at] ^= 1

    return change


def cut(count: int) -> Callable[[bytearray], None]:
    def change(data: bytearray) -> None:
        del data[-count:]

    return change


def add(more: bytes) -> Callable[[bytearray], None]:
    def change(data: bytearray) -> None:
        data += more

    return change


@pytest.mark.parametrize(
    ("suffix", "change", "reason", "goes_on"),
    [
        (".log", flip(100), "record batch is corrupt", True),
        (".log", cut(1), "cut off after", False),
        (".log", add(b"\0" * 30), "30 bytes follow the last batch", False),
        (".log", add(b"\0" * 100), "message format 0 is not read", False),
        (".log", add(bytes(batch("old"))), "offset 0 follows offset", True),
        (".index", cut(1), "are no multiple of 8", True),
        (".index", flip(7), "no batch at position", True),
        (".timeindex", cut(1), "are no multiple of 12", True),
        (".timeindex", flip(7), "has no timestamp", True),
        (".txnindex", cut(1), "are no multiple of 34", False),
        (".txnindex", flip(9), "no marker of producer", True),
        (".snapshot", flip(9), "CRC mismatch", False),
    ],
)
def test_damage_is_found(
    log: PartitionLog, suffix: str, change: Callable[[bytearray], None], reason: str, goes_on: bool
) -> None:
    path = one(log, suffix)
    before = len(found_in(path)[0])
    damage(path, change)
    lines, damages = found_in(path)
    assert any(reason in each.reason for each in damages), damages
    if goes_on:
        assert len(lines) >= before - 1


def test_checkpoints_that_do_not_parse_are_damaged(log: PartitionLog) -> None:
    path = log.directory / "leader-epoch-checkpoint"
    path.write_text("0\n7\ntorn")
    assert [each.reason for each in found_in(path)[1]] == ["1 entries where 7 are announced"]


def test_records_that_cannot_be_read_are_damage(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    rows = [Record(0, NOW_MS, b"k", b"v")]
    path.write_bytes(build_batch(rows, payload=b"\xff" * 20) + build_batch(rows, base_offset=1))
    lines, damages = found_in(path)
    assert len([line for line in lines if line.kind == "record"]) == 1
    assert [each.position for each in damages] == [0]
    assert found_in(path, Wanted())[1] == [], "batches alone are sound"


def test_records_of_the_coordinators_are_decoded(tmp_path: Path) -> None:
    stored = OffsetRecord("group", "topic", 3, OffsetAndMetadata(42, 5, "meta", NOW_MS))
    rows = [Record(0, NOW_MS, encode_group_key(stored), encode_group_value(stored))]
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(build_batch(rows, attributes=4, payload=compress(encode_records(rows), 4)))
    lines, damages = found_in(path, Wanted(decoder=Decoder.OFFSETS))
    assert damages == []
    facts = lines[-1].facts
    assert (facts["group_id"], facts["topic"], facts["partition"]) == ("group", "topic", 3)
    assert facts["value"]["offset"] == 42
    path.write_bytes(build_batch([Record(0, NOW_MS, b"\0\1\0\x09g", b"v")]))
    _, damages = found_in(path, Wanted(decoder=Decoder.OFFSETS))
    assert len(damages) == 1


def test_a_file_of_another_name_is_told(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("x")
    assert [each.reason for each in found_in(path)[1]] == ["no file of a log by its name"]
    assert files_of([tmp_path]) == []


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["portico", "log", "dump", *map(str, arguments)])
    with pytest.raises(SystemExit) as raised:
        main()
    return int(raised.value.code or 0)


def test_the_command_says_what_is_wrong(
    log: PartitionLog, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, log.directory, "--records", "--verify-index") == 0
    out = capsys.readouterr().out
    assert "baseOffset: 0 lastOffset: 0 count: 1" in out and "isvalid: true" in out
    damage(one(log, ".log"), flip(100))
    assert run(monkeypatch, log.directory.parent, "--json") == 1
    captured = capsys.readouterr()
    lines = [json.loads(line) for line in captured.out.splitlines()]
    damages = [line for line in lines if line["kind"] == "damage"]
    assert [line["position"] for line in damages] == [0]
    assert captured.err.startswith("portico: 1 of ")
    assert "00000000000000000000.log" in captured.err
    assert run(monkeypatch, "/nowhere") == 1
    assert "does not exist" in capsys.readouterr().err
    assert run(monkeypatch, log.directory, "--offsets-decoder", "--transaction-log-decoder") == 2


def test_it_reads_what_coordinators_append(tmp_path: Path) -> None:
    manager, _ = open_manager(tmp_path)
    log = new_log_in(manager, SMALL)
    stored = OffsetRecord("g", "t", 0, None)
    data = build_batch([Record(0, NOW_MS, encode_group_key(stored), None)])
    log.append(data, now_ms=NOW_MS, leader_epoch=0, origin=AppendOrigin.COORDINATOR)
    lines, damages = found_in(one(log, ".log"), Wanted(decoder=Decoder.OFFSETS))
    assert damages == []
    assert lines[-1].facts["value"] is None
