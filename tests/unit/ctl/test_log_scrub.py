"""`portico log scrub`: every batch is read, what is wrong is told as offsets, an end is a place to go on."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.log.damage import Damage, DamageKind
from broker.log.scrub_findings import ScrubFinding, read_findings
from ctl.main import main
from ctl.tools.log_scrub import PROGRESS_FILE, Scrubbed, Throttle, scrub
from tests.unit.broker_log.builders import TOPIC, TOPIC_ID, fill, flush, new_log_in, open_manager
from tests.unit.broker_log.compaction.compacted_log import COMPACT, roll, write
from wire.batch import HEADER_SIZE, parse_header

CONTENT = DamageKind.CONTENT


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A log directory with a log of segments 0, 11, 22 and 33, closed cleanly."""
    manager, _ = open_manager(tmp_path)
    fill(new_log_in(manager), 40)
    flush(manager)
    assert manager.close() == []
    return tmp_path


def _scrubbed(logs: Path, take: Callable[[int], None] = lambda _: None) -> tuple[Damage, ...]:
    found = list(scrub(logs, logs / PROGRESS_FILE, take, tell=False))
    assert len(found) == 1
    return found[0].damage


def _segment(logs: Path, base_offset: int) -> Path:
    return logs / f"{TOPIC}-0" / f"{base_offset:020d}.log"


def _position(path: Path, offset: int) -> int:
    content, position = path.read_bytes(), 0
    while parse_header(content, position).base_offset != offset:
        position += parse_header(content, position).size_bytes
    return position


def _changed(path: Path, position: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(content)


def test_a_sound_log_is_read_to_its_last_byte(logs: Path) -> None:
    read: list[int] = []
    assert _scrubbed(logs, read.append) == ()
    assert sum(read) == sum(path.stat().st_size for path in logs.glob("*/*.log"))


def test_a_flipped_bit_is_one_batch(logs: Path) -> None:
    path = _segment(logs, 11)
    _changed(path, _position(path, 15) + HEADER_SIZE + 20, b"\xee")
    assert _scrubbed(logs) == (Damage(15, 16, CONTENT),)


def test_behind_a_wrong_length_the_index_knows_the_way(logs: Path) -> None:
    path = _segment(logs, 11)
    _changed(path, _position(path, 13) + 8, b"\x7f\xff\xff\xff")
    (damage,) = _scrubbed(logs)
    assert (damage.first_offset, damage.kind) == (13, CONTENT)
    assert damage.next_offset < 20, "the rest of the segment is whole"


def test_without_an_index_the_rest_of_the_segment_is_lost(logs: Path) -> None:
    path = _segment(logs, 11)
    _changed(path, _position(path, 13) + 8, b"\x7f\xff\xff\xff")
    path.with_suffix(".index").unlink()
    assert _scrubbed(logs) == (Damage(13, 22, CONTENT),)


def test_zeros_short_files_and_files_that_are_gone(logs: Path) -> None:
    path = _segment(logs, 0)
    _changed(path, _position(path, 9), b"\0" * (path.stat().st_size - _position(path, 9)))
    _segment(logs, 11).write_bytes(_segment(logs, 11).read_bytes()[:-1_000])
    _segment(logs, 22).unlink()
    zeros, short, missing = _scrubbed(logs)
    assert zeros == Damage(9, 11, CONTENT)
    assert 11 < short.first_offset < short.next_offset == 22
    assert missing == Damage(22, 33, DamageKind.MISSING)


def test_offsets_and_epochs_that_go_back_are_damage(logs: Path) -> None:
    path = _segment(logs, 22)
    content = path.read_bytes()
    at = _position(path, 25)
    size = parse_header(content, at).size_bytes
    _changed(path, at + size, content[at : at + size])  # the same batch once more, its CRC is right
    (damage,) = _scrubbed(logs)
    assert damage.first_offset == 26
    assert 27 <= damage.next_offset < 33, "the index knows the way to what is whole"


@pytest.mark.parametrize("base", [0, 33])
def test_an_offset_that_leaps_is_damage_also_in_the_newest_segment(logs: Path, base: int) -> None:
    """It is not covered by the CRC."""
    path = _segment(logs, base)
    _changed(path, _position(path, base + 3), b"\x04")
    (damage,) = _scrubbed(logs)
    assert damage.first_offset == base + 3
    assert damage.next_offset <= base + 11


def test_what_is_not_on_the_disk_for_certain_is_not_judged(tmp_path: Path) -> None:
    """The broker runs, and is in the middle of a batch."""
    manager, _ = open_manager(tmp_path)
    log = new_log_in(manager)
    fill(log, 15)
    flush(manager)
    fill(log, 3)
    path = _segment(tmp_path, 11)
    with path.open("ab") as file:
        file.write(b"\0\0\0\0\0\0\0\x09\0\0")
    assert _scrubbed(tmp_path) == ()
    _changed(path, _position(path, 13) + HEADER_SIZE + 20, b"\xee")
    assert _scrubbed(tmp_path) == (Damage(13, 14, CONTENT),)
    manager.close()


def test_gaps_of_compaction_are_none(tmp_path: Path) -> None:
    manager, _ = open_manager(tmp_path, COMPACT)
    log = new_log_in(manager, COMPACT)
    for number in range(20):
        write(log, ("a", str(number)), (f"k{number % 3}", "x"))
        roll(log)
    flush(manager)
    job = log.compaction.begin(10**13)
    assert job is not None
    job.run()
    assert log.compaction.complete(job) is not None
    manager.close()
    assert _scrubbed(tmp_path) == ()


def test_an_interrupted_scrub_goes_on_where_it_was(logs: Path) -> None:
    path = _segment(logs, 0)
    _changed(path, _position(path, 5) + HEADER_SIZE + 20, b"\xee")
    read: list[int] = []

    def interrupted(count: int) -> None:
        read.append(count)
        if sum(read) > 9_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _scrubbed(logs, interrupted)
    assert (logs / PROGRESS_FILE).exists()
    again: list[int] = []
    assert _scrubbed(logs, again.append) == (Damage(5, 6, CONTENT),), "what was found before is told, too"
    total = sum(path.stat().st_size for path in logs.glob("*/*.log"))
    assert total - 9_000 <= sum(again) < total - 4_000, "whole segments are not read again"
    assert not (logs / PROGRESS_FILE).exists()


def test_what_is_found_is_left_for_the_broker(logs: Path) -> None:
    path = _segment(logs, 11)
    _changed(path, _position(path, 15) + HEADER_SIZE + 20, b"\xee")
    (one,) = scrub(logs, logs / PROGRESS_FILE, lambda _: None, tell=True)
    assert isinstance(one, Scrubbed) and one.damage
    assert list(read_findings(logs).values()) == [[ScrubFinding(TOPIC, 0, TOPIC_ID, 15, 16)]]
    manager, report = open_manager(logs)
    assert report.damaged == {(TOPIC, 0): (Damage(15, 16, CONTENT),)}
    manager.close()


def test_a_throttle_waits_for_what_is_read_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, slept = [100.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now_s[0] += seconds

    monkeypatch.setattr("ctl.tools.log_scrub.time.monotonic", lambda: now_s[0])
    monkeypatch.setattr("ctl.tools.log_scrub.time.sleep", sleep)
    throttle = Throttle(1_000_000)
    for _ in range(50):
        throttle.take(100_000)
    assert sum(slept) == pytest.approx(5.0)
    free = Throttle(0)
    free.take(10**12)
    assert sum(slept) == pytest.approx(5.0)


def test_the_command_tells_and_fails(
    logs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _segment(logs, 11)
    _changed(path, _position(path, 15) + HEADER_SIZE + 20, b"\xee")
    monkeypatch.setattr(sys, "argv", ["portico", "log", "scrub", str(logs), "--rate", "1GB/s", "--json"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 1
    out, err = capsys.readouterr()
    assert [json.loads(line)["first_offset"] for line in out.splitlines()] == [15]
    assert "1 of 1 logs are damaged" in err
    assert list(logs.glob("scrub-*.findings"))
