"""How a log rolls, frees space and is replaced."""

from pathlib import Path

import pytest
from crc32c import crc32c

from broker.log.errors import OffsetOutOfRange
from broker.log.log_config import LogConfig
from broker.log.results import AppendOrigin
from tests.unit.broker_log.builders import (
    NOW_MS,
    SMALL,
    append,
    batch,
    fill,
    new_log,
    read_all,
    values,
)


def test_segments_roll_by_size_and_are_named_by_offset(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    fill(log, 30)
    names = sorted(path.name for path in log.directory.glob("*.log"))
    assert names == ["00000000000000000000.log", "00000000000000000011.log", "00000000000000000022.log"]
    assert all(path.stat().st_size <= SMALL.segment_bytes for path in log.directory.glob("*.log"))
    assert sorted(path.name for path in log.directory.glob("*.snapshot")) == [
        "00000000000000000011.snapshot",
        "00000000000000000022.snapshot",
    ]


def test_segments_roll_by_record_time_and_by_ours(tmp_path: Path) -> None:
    log = new_log(tmp_path, LogConfig(segment_ms=1000))
    append(log, batch("a", at_ms=NOW_MS))
    append(log, batch("b", at_ms=NOW_MS + 1000))
    assert log.segment_count == 1
    append(log, batch("c", at_ms=NOW_MS + 1001), now_ms=NOW_MS + 1000)
    assert log.segment_count == 2
    assert not log.rolling.roll_if_due(NOW_MS + 2001)
    assert log.rolling.roll_if_due(NOW_MS + 2002)
    assert not log.rolling.roll_if_due(NOW_MS + 9999)
    assert log.segment_count == 3


def test_segments_roll_when_an_index_is_full(tmp_path: Path) -> None:
    log = new_log(tmp_path, LogConfig(segment_index_bytes=24, index_interval_bytes=100))
    fill(log, 10)
    assert log.segment_count > 2
    assert values(read_all(log))[9].startswith("9:")


def test_segments_roll_before_relative_offsets_overflow(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    huge = batch("a", base_offset=0, partition_leader_epoch=0)
    huge[23:27] = (2**31 - 1).to_bytes(4, "big")
    huge[17:21] = crc32c(bytes(huge[21:])).to_bytes(4, "big")
    append(log, huge, origin=AppendOrigin.REPLICATION)
    assert (log.log_end_offset, log.segment_count) == (2**31, 1)
    append(log, batch("b"))
    assert (log.log_end_offset, log.segment_count) == (2**31 + 1, 2)


def test_delete_records_frees_whole_segments_at_once(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    fill(log, 30)
    size = log.size_bytes
    assert log.retention.delete_records_before(10) == 10
    assert (log.size_bytes, log.segment_count) == (size, 3)
    assert log.retention.delete_records_before(15) == 15
    assert log.segment_count == 2
    assert log.size_bytes == sum(path.stat().st_size for path in log.directory.glob("*.log")) < size
    assert log.retention.delete_records_before(12) == 15
    assert [r.offset for r in read_all(log)] == list(range(15, 30))
    with pytest.raises(OffsetOutOfRange):
        log.retention.delete_records_before(31)


def test_a_log_emptied_to_its_end_gives_up_its_active_segment(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    fill(log, 30)
    assert log.retention.delete_records_before(30) == 30
    assert (log.size_bytes, log.segment_count, log.log_end_offset) == (0, 1, 30)
    assert [path.name for path in log.directory.glob("*.log")] == ["00000000000000000030.log"]
    append(log, batch("next"))
    assert [r.offset for r in read_all(log)] == [30]


def test_retention_by_time_takes_the_active_segment_too(tmp_path: Path) -> None:
    log = new_log(tmp_path, LogConfig(segment_bytes=4096, retention_ms=1000))
    fill(log, 30)
    size = log.size_bytes
    assert log.retention.apply(NOW_MS + 1000) == 0
    assert log.retention.apply(NOW_MS + 1020) > 0
    assert log.log_start_offset == 11
    log.retention.apply(NOW_MS + 5000)
    assert (log.size_bytes, log.log_start_offset, log.log_end_offset) == (0, 30, 30)
    assert size > 0


def test_retention_by_size(tmp_path: Path) -> None:
    log = new_log(tmp_path, LogConfig(segment_bytes=4096, retention_ms=-1, retention_bytes=5000))
    fill(log, 30)
    log.retention.apply(NOW_MS)
    assert log.log_start_offset == 11
    assert log.size_bytes >= 5000


def test_records_without_timestamps_expire_by_file_time(tmp_path: Path) -> None:
    log = new_log(tmp_path, LogConfig(retention_ms=1000))
    append(log, batch("a", at_ms=-1))
    assert log.retention.apply(NOW_MS + 1000) == 0
    assert log.retention.apply(NOW_MS + 1001) > 0
