"""What is lost of a log is known, told, and an error for who asks for it. It is never skipped."""

import shutil
import uuid
from dataclasses import replace
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from broker.log.checkpoint_text import CheckpointCorrupt
from broker.log.damage import (
    RANGES_MAX,
    Damage,
    DamageKind,
    format_damage,
    merged,
    parse_damage,
    within,
)
from broker.log.errors import RecordsDamaged
from broker.log.load_report import LoadReport
from broker.log.partition_log import PartitionLog
from broker.log.scrub_findings import ScrubFinding, leave_findings
from broker.log.sealed_segments import SEALED_SEGMENTS
from broker.storage.log_directory import DAMAGE
from broker.storage.manager import LogManager
from tests.unit.broker_log.builders import (
    NOW_MS,
    TOPIC,
    TOPIC_ID,
    append,
    batch,
    crash,
    fill,
    flush,
    new_log_in,
    open_manager,
    read_all,
    whole_batches,
)
from tests.unit.broker_log.compaction.compacted_log import COMPACT, roll, write
from wire.batch import HEADER_SIZE, Record

KEY = (TOPIC, 0)
SHORT, MISSING, CONTENT, END = DamageKind.SHORT, DamageKind.MISSING, DamageKind.CONTENT, DamageKind.END


def _closed(tmp_path: Path, *, clean: bool = True, count: int = 40) -> Path:
    """A log of segments 0, 11, 22 and 33, whose broker has stopped; its directory."""
    manager, _ = open_manager(tmp_path)
    log = new_log_in(manager)
    fill(log, count)
    flush(manager)
    directory = log.directory
    if clean:
        assert manager.close() == []
    else:
        crash(manager)
    return directory


def _segment(directory: Path, base_offset: int) -> Path:
    return directory / f"{base_offset:020d}.log"


def _cut(path: Path, size_bytes: int) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - size_bytes)


def _opened(tmp_path: Path) -> tuple[PartitionLog, LoadReport, LogManager]:
    manager, report = open_manager(tmp_path)
    return manager.logs[KEY], report, manager


def _error_at(log: PartitionLog, offset: int) -> ErrorCode:
    with pytest.raises(RecordsDamaged) as damaged:
        log.read(offset, 10_000, up_to=log.high_watermark, min_one_batch=True)
    return damaged.value.error_code


def _offsets(log: PartitionLog, offset: int) -> list[int]:
    """What a consumer gets that begins there, up to an error."""
    try:
        return [record.offset for record in read_all(log, offset)]
    except RecordsDamaged:
        return []


@pytest.mark.parametrize("clean", [True, False])
def test_a_closed_segment_that_was_cut_is_a_range_of_errors(tmp_path: Path, clean: bool) -> None:
    directory = _closed(tmp_path, clean=clean)
    _cut(_segment(directory, 11), 1_000)
    log, report, _ = _opened(tmp_path)
    (damage,) = log.damage
    assert (damage.next_offset, damage.kind) == (22, SHORT)
    first = damage.first_offset
    assert 11 < first < 22
    assert report.damaged == {KEY: (damage,)} and report.is_unclean
    seen = [record.offset for offset in (0, 11) for record in _until_error(log, offset, first)]
    assert seen == [*range(first), *range(11, first)]
    assert {_error_at(log, offset) for offset in range(first, 22)} == {ErrorCode.corrupt_message}
    assert _offsets(log, 22) == list(range(22, 40))
    append(log, batch("goes on"))
    assert log.log_end_offset == 41


def _until_error(log: PartitionLog, offset: int, error_at: int) -> list[Record]:
    found: list[Record] = []
    while offset < error_at:
        data = log.reading.read_bytes(offset, 10_000, up_to=log.high_watermark, min_one_batch=True)
        found += [record for record in whole_batches(data) if record.offset >= offset]
        assert found, "there is something to read in front of the damage"
        offset = found[-1].offset + 1
    assert offset == error_at, "nothing behind the damage is served with what is in front of it"
    return found


def test_a_cut_between_two_batches_is_found_too(tmp_path: Path) -> None:
    directory = _closed(tmp_path)
    path = _segment(directory, 11)
    log, _, manager = _opened(tmp_path)
    found = log.segments.find(18)
    assert found is not None
    manager.close()
    with path.open("r+b") as file:
        file.truncate(found[1])
    assert _opened(tmp_path)[0].damage == (Damage(18, 22, SHORT),)


@pytest.mark.parametrize(
    ("bases", "damage"),
    [
        ([11], (Damage(11, 22, MISSING),)),
        ([0], (Damage(0, 11, MISSING),)),
        ([0, 11], (Damage(0, 22, MISSING),)),
    ],
)
def test_segments_that_are_gone_are_missed(
    tmp_path: Path, bases: list[int], damage: tuple[Damage, ...]
) -> None:
    directory = _closed(tmp_path)
    for base in bases:
        _segment(directory, base).unlink()
    log, _, _ = _opened(tmp_path)
    assert log.damage == damage
    assert log.log_start_offset == 0, "nobody is sent to a later start as if retention had been there"
    assert _error_at(log, bases[0] + 3) is ErrorCode.corrupt_message
    assert _offsets(log, 22) == list(range(22, 40))


def test_an_empty_file_has_lost_everything(tmp_path: Path) -> None:
    directory = _closed(tmp_path)
    _segment(directory, 22).write_bytes(b"")
    assert _opened(tmp_path)[0].damage == (Damage(22, 33, SHORT),)


def test_what_is_behind_the_size_it_was_closed_with_is_ignored(tmp_path: Path) -> None:
    directory = _closed(tmp_path)
    with _segment(directory, 11).open("ab") as file:
        file.write(b"\0" * 100)
    log, report, _ = _opened(tmp_path)
    assert log.damage == () and not report.is_unclean
    assert _offsets(log, 0) == list(range(40))


def test_nothing_is_missed_after_retention_deletion_truncation_and_restarts(tmp_path: Path) -> None:
    _closed(tmp_path)
    log, report, manager = _opened(tmp_path)
    assert report.damaged == {}
    log.retention.delete_records_before(15)
    log.truncation.truncate_to(25)
    fill(log, 30)
    flush(manager)
    crash(manager)
    log, report, manager = _opened(tmp_path)
    assert (report.damaged, log.log_start_offset) == ({}, 15)
    log.retention.delete_records_before(log.high_watermark)
    log.truncation.truncate_fully_and_start_at(500)
    fill(log, 20)
    manager.close()
    log, report, _ = _opened(tmp_path)
    assert (report.damaged, _offsets(log, 500)) == ({}, list(range(500, 520)))


@pytest.mark.parametrize("clean", [True, False])
def test_compaction_leaves_gaps_that_are_none(tmp_path: Path, clean: bool) -> None:
    manager, _ = open_manager(tmp_path, COMPACT)
    log = new_log_in(manager, COMPACT)
    for number in range(30):
        write(log, ("a", str(number)), (f"k{number % 3}", "x"))
        roll(log)
    flush(manager)
    job = log.compaction.begin(NOW_MS + 10**9)
    assert job is not None
    job.run()
    assert log.compaction.complete(job) is not None
    if clean:
        manager.close()
    else:
        flush(manager)
        crash(manager)
    manager, report = open_manager(tmp_path, COMPACT)
    assert report.damaged == {}
    manager.close()
    manager, report = open_manager(tmp_path, replace(COMPACT, cleanup_policy=frozenset({"delete"})))
    assert report.damaged == {}, "not even once the topic is no longer compacted"
    manager.close()
    directory = next(path for path in tmp_path.iterdir() if path.is_dir())
    _cut(next(path for path in sorted(directory.glob("*.log")) if path.stat().st_size > 10), 10)
    assert open_manager(tmp_path, COMPACT)[1].damaged


def test_a_full_disk_that_refuses_the_sizes_keeps_nothing_from_being_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager, _ = open_manager(tmp_path)
    log = new_log_in(manager)
    fill(log, 40)
    flush(manager)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as context:
        context.setattr("broker.log.sealed_segments.replace_file", full)
        assert log.retention.delete_records_before(25) == 25
    assert not (log.directory / SEALED_SEGMENTS).exists(), "no word rather than a wrong one"
    crash(manager)
    assert _opened(tmp_path)[1].damaged == {}


def test_without_a_record_of_sizes_ends_and_gaps_tell(tmp_path: Path) -> None:
    directory = _closed(tmp_path)
    (directory / SEALED_SEGMENTS).unlink()
    _cut(_segment(directory, 11), 1_000)
    assert [each.kind for each in _opened(tmp_path)[0].damage] == [SHORT]


def test_damage_inside_a_segment_is_an_error_also_when_nobody_knew(tmp_path: Path) -> None:
    """A batch whose length is wrong hides everything behind it in its segment."""
    directory = _closed(tmp_path)
    log, _, manager = _opened(tmp_path)
    found = log.segments.find(15)
    assert found is not None
    with _segment(directory, 11).open("r+b") as file:
        file.seek(found[1] + 8)
        file.write(b"\xff\xff\xff\xff")
    assert [record.offset for record in _until_error(log, 11, 15)] == [11, 12, 13, 14]
    assert _error_at(log, 15) is ErrorCode.corrupt_message
    assert log.damage == (Damage(15, 22, CONTENT),) and manager.take_damage() == [log]
    assert manager.take_damage() == []
    assert log.truncation.truncate_to(16)
    assert log.log_end_offset == 15, "what cannot be followed goes with what was to go"
    fill(log, 5)
    assert _offsets(log, 0) == list(range(20))


@pytest.mark.parametrize("within_batch", [False, True])
def test_a_segment_that_is_cut_while_it_is_served_is_found_by_reading(
    tmp_path: Path, within_batch: bool
) -> None:
    directory = _closed(tmp_path)
    log, _, manager = _opened(tmp_path)
    position = log.segments.find(17)[1]  # type: ignore[index]
    with _segment(directory, 11).open("r+b") as file:
        file.truncate(position + 80 * within_batch)
    assert log.damage == (), "nobody has looked"
    found = log.read(11, 10_000, up_to=log.high_watermark, min_one_batch=True)
    assert found is not None and found.size_bytes == position, "no more is promised than there is"
    assert [record.offset for record in _until_error(log, 11, 17)] == [*range(11, 17)]
    assert _error_at(log, 17) is ErrorCode.corrupt_message
    assert log.damage == (Damage(17, 22, SHORT),) and manager.damaged() == [log]
    assert manager.take_damage() == [log] and manager.take_damage() == []
    assert _offsets(log, 22) == list(range(22, 40))
    manager.close()
    assert _opened(tmp_path)[0].damage == (Damage(17, 22, SHORT),)


def test_an_active_segment_that_is_cut_while_it_is_served_is_found_by_reading(tmp_path: Path) -> None:
    directory = _closed(tmp_path)
    log, _, _ = _opened(tmp_path)
    append(log, batch("one more"))  # which waiting fetches find without a look at the disk
    position = log.segments.find(36)[1]  # type: ignore[index]
    with _segment(directory, 33).open("r+b") as file:
        file.truncate(position)
    assert [record.offset for record in _until_error(log, 33, 36)] == [33, 34, 35]
    assert {_error_at(log, offset) for offset in range(36, 41)} == {ErrorCode.corrupt_message}
    assert log.damage == (Damage(36, 41, SHORT),)


def test_a_damaged_index_is_no_damaged_segment(tmp_path: Path) -> None:
    directory = _closed(tmp_path)
    index = directory / f"{11:020d}.index"
    size = index.stat().st_size
    assert size >= 16
    log, _, _ = _opened(tmp_path)
    index.write_bytes((1).to_bytes(4, "big") + (77).to_bytes(4, "big") + b"\0" * (size - 8))
    assert _offsets(log, 11) == list(range(11, 40))


def test_a_log_that_lost_its_end_says_so_until_that_has_gone_by(tmp_path: Path) -> None:
    directory = _closed(tmp_path)
    _cut(_segment(directory, 33), 900)
    log, report, manager = _opened(tmp_path)
    end = log.log_end_offset
    assert 33 < end < 40
    assert log.damage == (Damage(end, 40, END),) == report.damaged[KEY]
    assert report.is_unclean
    fill(log, 20)
    assert _offsets(log, 33) == list(range(33, end + 20)), "its offsets are given anew"
    flush(manager)
    manager.close()
    log, report, _ = _opened(tmp_path)
    assert log.damage == (Damage(end, 40, END),), "a restart does not make it well"
    assert not report.is_unclean, "but nothing is less than before"
    log.retention.delete_records_before(45)
    assert log.damage == ()


def test_what_a_scrub_found_is_taken_once_and_kept(tmp_path: Path) -> None:
    directory = _closed(tmp_path)
    log, _, manager = _opened(tmp_path)
    for offset in (12, 13):
        found = log.segments.find(offset)
        assert found is not None
        with _segment(directory, 11).open("r+b") as file:
            file.seek(found[1] + HEADER_SIZE + 20)
            file.write(b"\xee")
    leave_findings(
        tmp_path,
        [
            ScrubFinding(TOPIC, 0, TOPIC_ID, 12, 14),
            ScrubFinding(TOPIC, 0, uuid.UUID(int=9), 30, 31),
            ScrubFinding("gone", 3, TOPIC_ID, 0, 1),
        ],
    )
    assert manager.take_damage() == [log]
    assert manager.take_damage() == []
    crash(manager)
    log, report, manager = _opened(tmp_path)
    assert log.damage == (Damage(12, 14, CONTENT),) == report.damaged[KEY], "it was not written down yet"
    assert log.damage == (Damage(12, 14, CONTENT),) and manager.damaged() == [log]
    assert _offsets(log, 14) == list(range(14, 40))
    assert _error_at(log, 13) is ErrorCode.corrupt_message
    flush(manager)
    crash(manager)
    again, report, manager = _opened(tmp_path)
    assert again.damage == (Damage(12, 14, CONTENT),) == report.damaged[KEY]
    assert not list(tmp_path.glob("scrub-*")), "what is written down is not needed any more"
    again.truncation.truncate_to(12)
    assert again.damage == ()
    flush(manager)
    assert parse_damage((tmp_path / DAMAGE).read_text()) == {}


@pytest.mark.parametrize("by_scrub", [False, True])
def test_files_that_are_put_back_are_well_again(tmp_path: Path, by_scrub: bool) -> None:
    directory = _closed(tmp_path)
    path = _segment(directory, 11)
    whole = path.read_bytes()
    if by_scrub:
        path.write_bytes(bytes([4]) + whole[1:])  # its base offset, which no CRC covers
        leave_findings(tmp_path, [ScrubFinding(TOPIC, 0, TOPIC_ID, 11, 12)])
    else:
        path.write_bytes(whole[:-500])
    for _ in range(2):
        log, report, manager = _opened(tmp_path)
        assert log.damage and report.damaged
        append(log, batch("goes on"))
        manager.close()
    path.write_bytes(whole)
    log, report, _ = _opened(tmp_path)
    assert (log.damage, report.damaged, report.is_unclean) == ((), {}, False)
    assert _offsets(log, 0) == list(range(42))


def test_findings_that_cannot_be_read_stop_nothing(tmp_path: Path) -> None:
    _closed(tmp_path)
    _, _, manager = _opened(tmp_path)
    (tmp_path / "scrub-x.findings").write_text("[{]")
    assert manager.take_damage() == []
    assert (tmp_path / "scrub-x.unreadable").exists()


def test_a_directory_that_is_emptied_is_short_of_what_was_committed(tmp_path: Path) -> None:
    directory = _closed(tmp_path)
    shutil.rmtree(directory)
    report = open_manager(tmp_path)[1]
    assert report.short == {KEY: (0, 40)} and report.is_unclean


def test_ranges_are_merged_bounded_and_cut_to_the_log() -> None:
    assert merged([Damage(5, 9, CONTENT), Damage(1, 6, CONTENT), Damage(9, 10, CONTENT)]) == (
        Damage(1, 10, CONTENT),
    )
    assert merged([Damage(1, 3, CONTENT), Damage(2, 4, END)]) == (
        Damage(1, 3, CONTENT),
        Damage(2, 4, END),
    )
    many = merged(Damage(3 * number, 3 * number + 1, CONTENT) for number in range(RANGES_MAX + 1))
    assert many == (Damage(0, 3 * RANGES_MAX + 1, CONTENT),)
    assert within([Damage(1, 5, CONTENT), Damage(7, 30, SHORT), Damage(8, 30, END)], 3, 10) == (
        Damage(3, 5, CONTENT),
        Damage(7, 10, SHORT),
        Damage(8, 30, END),
    )
    found = {KEY: (Damage(1, 3, CONTENT), Damage(2, 4, END)), ("u", 7): (Damage(0, 1, MISSING),)}
    assert parse_damage(format_damage(found)) == found
    with pytest.raises(CheckpointCorrupt):
        parse_damage("0\n1\nt 0 1 2 nonsense\n")


def test_a_healthy_start_reads_nothing_of_closed_segments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted work: sizes are compared, whatever the number of segments."""
    _closed(tmp_path, count=400)
    walked: list[int] = []
    monkeypatch.setattr("broker.log.damage_check.walk_headers", lambda *_: walked.append(1) or iter(()))
    assert _opened(tmp_path)[1].damaged == {}
    assert walked == []
