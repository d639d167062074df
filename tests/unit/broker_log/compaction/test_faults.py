"""Compaction beside everything else: crashes, damage, full disks, changes under it."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from broker.log.cleaning import CleaningResult, CleaningTask, clean
from broker.log.cleaning_job import CleaningJob
from broker.log.errors import StorageFailed
from broker.log.partition_log import PartitionLog
from broker.storage.cleaning_process import clean_in_process
from broker.storage.manager import LogManager
from tests.unit.broker_log.builders import (
    NOW_MS,
    TOPIC,
    crash,
    flush,
    new_log_in,
    open_manager,
)
from tests.unit.broker_log.compaction.compacted_log import (
    COMPACT,
    compact,
    files,
    layout,
    roll,
    rows,
    table,
    write,
)
from tests.unit.broker_log.test_transactions import COORDINATOR
from wire.batch import build_batch


def test_it_runs_in_a_process_of_its_own(log: PartitionLog) -> None:
    write(log, ("a", "1"), ("a", "2"))
    roll(log)
    job = log.compaction.begin(NOW_MS)
    assert job is not None
    job.run(clean_in_process)
    assert log.compaction.complete(job) is not None
    assert layout(log) == [(1, "2")]


def test_the_process_answers_with_what_is_wrong(log: PartitionLog) -> None:
    write(log, ("a", "1"))
    roll(log)
    job = log.compaction.begin(NOW_MS)
    assert job is not None
    log.segments.first.path().unlink()
    job.run(clean_in_process)
    with pytest.raises(StorageFailed) as raised:
        log.compaction.complete(job)
    assert raised.value.error_code is ErrorCode.kafka_storage_error


def test_batches_larger_than_a_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.log.cleaning._READ_BYTES", 150)
    log = new_log_in(open_manager(tmp_path, COMPACT)[0], COMPACT)
    for number in range(10):
        write(log, (f"k{number % 3}", "x" * 37 * number))
    roll(log)
    expected = table(log)
    compact(log)
    assert table(log) == expected
    assert len(layout(log)) == 3


def test_a_process_nobody_waits_for_is_ended(log: PartitionLog) -> None:
    write(log, ("a", "1"))
    roll(log)
    job = log.compaction.begin(NOW_MS)
    assert job is not None
    job.is_cancelled = True
    job.run(clean_in_process)
    assert job.result is None and job.error is None
    assert ".cleaned" not in files(log)


@pytest.mark.parametrize("damage", ["crc", "offset", "records", "cut"])
def test_a_damaged_log_is_left_as_it_is(log: PartitionLog, damage: str) -> None:
    write(log, ("a", "1"))
    if damage == "records":
        garbage = build_batch(rows(("a", "1")), payload=b"\xff" * 30)
        log.append(garbage, now_ms=NOW_MS, leader_epoch=0, origin=COORDINATOR)
        log.advance_high_watermark()
    write(log, ("a", "2"))
    roll(log)
    path = log.segments.first.path()
    if damage in ("crc", "offset"):
        data = bytearray(path.read_bytes())
        data[69 if damage == "crc" else 70] ^= 1
        path.write_bytes(data)
    if damage == "cut":
        os.truncate(path, path.stat().st_size - 1)
    before = path.read_bytes()
    job = log.compaction.begin(NOW_MS)
    assert job is not None
    job.run()
    assert log.compaction.complete(job) is None
    assert log.compaction.uncleanable is not None and "segment 0" in log.compaction.uncleanable
    assert path.read_bytes() == before
    assert not files(log) & {".cleaned", ".swap"}
    assert log.compaction.begin(NOW_MS) is None


def test_changes_under_a_compaction_make_it_void(manager: LogManager, log: PartitionLog) -> None:
    def truncate() -> None:
        log.offsets.high_watermark = 1
        log.truncation.truncate_to(1)

    changes: list[tuple[Callable[[], object], bool]] = [
        (lambda: log.retention.delete_records_before(1), True),
        (truncate, True),
        (lambda: log.truncation.truncate_fully_and_start_at(9), True),
        (lambda: log.truncation.truncate_to(log.log_end_offset - 1), False),
        (lambda: log.retention.apply(NOW_MS), False),
    ]
    for change, cancels in changes:
        for when in ("before", "after"):
            log.truncation.truncate_fully_and_start_at(0)
            log.compaction.cleaned_to = -1
            write(log, ("a", "1"), ("b", "1"))
            write(log, ("a", "2"))
            roll(log)
            write(log, ("c", "1"))
            write(log, ("c", "2"))
            job = log.compaction.begin(NOW_MS)
            assert job is not None
            if when == "before":
                change()
                job.run()
            else:
                job.run()
                change()
            assert (log.compaction.complete(job) is None) is cancels
            assert not files(log) & {".cleaned", ".swap"}
            layout(log)


def test_a_deleted_partition_takes_its_compaction_along(manager: LogManager, log: PartitionLog) -> None:
    write(log, ("a", "1"))
    roll(log)
    job = log.compaction.begin(NOW_MS)
    assert job is not None
    manager.delete(TOPIC, 0)
    again = new_log_in(manager, COMPACT)
    job.run()
    assert log.compaction.complete(job) is None
    assert not files(again) & {".cleaned", ".swap"}


def prepare(directory: Path) -> tuple[LogManager, PartitionLog, CleaningJob]:
    manager, _ = open_manager(directory, COMPACT)
    log = new_log_in(manager, COMPACT)
    for number in range(36):
        write(log, (f"k{number % 7}", f"{number}" * 60))
    write(log, ("k1", None))
    roll(log)
    write(log, ("end", "1"))
    flush(manager)
    assert log.segment_count == 5
    job = log.compaction.begin(NOW_MS)
    assert job is not None
    return manager, log, job


class PowerCut(BaseException):
    """The process ends here."""


def test_a_crash_at_any_step_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory is left as it is before the n-th rename or unlink, for every n."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    steps = 0
    while True:
        directory = tmp_path / str(steps)
        manager, log, job = prepare(directory)
        expected = table(log)
        left = [steps]

        def step(real: Callable[..., object], left: list[int] = left) -> Callable[..., object]:
            def count(*arguments: object, **options: object) -> object:
                left[0] -= 1
                if left[0] < 0:
                    raise PowerCut
                return real(*arguments, **options)

            return count

        with monkeypatch.context() as patch:
            patch.setattr(Path, "rename", step(Path.rename))
            patch.setattr(Path, "unlink", step(Path.unlink))
            try:
                job.run()
                log.compaction.complete(job)
                finished = True
            except PowerCut:
                finished = False
        crash(manager)
        manager, report = open_manager(directory, COMPACT)
        log = manager.logs[TOPIC, 0]
        assert report.truncated_bytes == 0
        assert table(log) == expected
        assert not files(log) & {".cleaned", ".swap"}
        write(log, ("after", "1"))
        roll(log)
        compact(log)
        assert table(log) == {**expected, "after": "1"}
        crash(manager)
        shutil.rmtree(directory)
        steps += 1
        if finished:
            break
    assert steps > 20


def test_a_full_disk_leaves_the_log_as_it_was(log: PartitionLog, monkeypatch: pytest.MonkeyPatch) -> None:
    write(log, ("a", "1"), ("a", "2"))
    roll(log)
    before = layout(log)

    def refuse(task: CleaningTask, should_stop: Callable[[], bool]) -> CleaningResult:
        (Path(task.directory) / "00000000000000000000.log.cleaned").mkdir()
        return clean(task, should_stop)

    job = log.compaction.begin(NOW_MS)
    assert job is not None
    job.run(refuse)
    with pytest.raises(StorageFailed):
        log.compaction.complete(job)
    (log.directory / "00000000000000000000.log.cleaned").rmdir()
    assert layout(log) == before
    compact(log)


def test_where_it_ended_is_known_after_a_restart(tmp_path: Path) -> None:
    manager, _ = open_manager(tmp_path, COMPACT)
    log = new_log_in(manager, COMPACT)
    write(log, ("a", "1"), ("a", "2"))
    roll(log)
    compact(log)
    assert manager.close() == []
    assert (tmp_path / "cleaner-offset-checkpoint").read_text() == f"0\n1\n{TOPIC} 0 2\n"
    manager, _ = open_manager(tmp_path, COMPACT)
    assert manager.logs[TOPIC, 0].compaction.cleaned_to == 2


def test_slices_that_are_being_sent_keep_their_file(log: PartitionLog) -> None:
    write(log, ("a", "1"), ("a", "2"))
    roll(log)
    found = log.read(0, 10**6, up_to=log.high_watermark, min_one_batch=True)
    assert found is not None
    before = found.read()
    compact(log)
    assert found.read() == before
