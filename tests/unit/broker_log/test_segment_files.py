"""A partition's files, byte by byte, against Kafka's format."""

import struct
from pathlib import Path

from crc32c import crc32c

from broker.log.log_config import LogConfig
from tests.unit.broker_log.builders import NOW_MS, append, batch, idempotent, new_log_in, open_manager

CONFIG = LogConfig(segment_bytes=3000, index_interval_bytes=400)


def write(directory: Path) -> Path:
    manager, _ = open_manager(directory, CONFIG)
    log = new_log_in(manager, CONFIG)
    for number in range(40):
        late = number * 10 if number % 3 else 0
        append(log, batch("x" * 50, "y" * 50, at_ms=NOW_MS + late), leader_epoch=number // 20)
    append(log, idempotent(11, 7, 3, epoch=2), leader_epoch=1)
    assert manager.close() == []
    return log.directory


def batches(data: bytes) -> list[tuple[int, int, int, int, int]]:
    """(position, size, base offset, last offset, max timestamp) of each batch, every CRC checked."""
    found, at = [], 0
    while at < len(data):
        base_offset, length, _epoch, magic, crc = struct.unpack_from(">qiibI", data, at)
        assert magic == 2
        assert crc32c(data[at + 21 : at + 12 + length]) == crc
        (delta,) = struct.unpack_from(">i", data, at + 23)
        (max_timestamp,) = struct.unpack_from(">q", data, at + 35)
        found.append((at, length + 12, base_offset, base_offset + delta, max_timestamp))
        at += length + 12
    return found


def test_names_and_continuity(tmp_path: Path) -> None:
    directory = write(tmp_path)
    logs = sorted(directory.glob("*.log"))
    expected = 0
    for path in logs:
        assert path.name == f"{expected:020d}.log"
        for _, _, base, last, _ in batches(path.read_bytes()):
            assert base == expected
            expected = last + 1
    assert expected == 83
    assert len(logs) > 2
    suffixes = {path.suffix for path in directory.iterdir()}
    assert suffixes == {".log", ".index", ".timeindex", ".snapshot", ".metadata", ""}


def test_an_index_entry_is_added_before_the_batch_that_exceeds_the_interval(tmp_path: Path) -> None:
    for path in sorted(write(tmp_path).glob("*.log")):
        base_offset = int(path.stem)
        expected_offsets: list[tuple[int, int]] = []
        expected_times: list[tuple[int, int]] = []
        since, largest = 0, (-1, 0)
        for position, size, _, last, max_timestamp in batches(path.read_bytes()):
            if since > 400:
                expected_offsets.append((last - base_offset, position))
                if not expected_times or largest[0] > expected_times[-1][0]:
                    expected_times.append(largest)
                since = 0
            since += size
            if max_timestamp > largest[0]:
                largest = (max_timestamp, last - base_offset)
        if not expected_times or largest[0] > expected_times[-1][0]:
            expected_times.append(largest)
        index = path.with_suffix(".index").read_bytes()
        assert list(struct.iter_unpack(">ii", index)) == expected_offsets
        assert expected_offsets or path.stat().st_size < 1000
        times = path.with_suffix(".timeindex").read_bytes()
        assert list(struct.iter_unpack(">qi", times)) == expected_times


def test_snapshots_stand_at_every_base_offset_and_at_the_end(tmp_path: Path) -> None:
    directory = write(tmp_path)
    bases = sorted(int(path.stem) for path in directory.glob("*.log"))[1:]
    snapshots = sorted(directory.glob("*.snapshot"))
    assert [int(path.stem) for path in snapshots] == [*bases, 83]
    empty, last = snapshots[0].read_bytes(), snapshots[-1].read_bytes()
    assert empty == struct.pack(">hIi", 1, crc32c(bytes(4)), 0)
    assert struct.unpack_from(">hIi", last) == (1, crc32c(last[6:]), 1)
    assert struct.unpack_from(">qhiqiqiq", last, 10) == (11, 2, 9, 82, 2, NOW_MS, -1, -1)


def test_the_epoch_checkpoint_lists_where_epochs_begin(tmp_path: Path) -> None:
    assert (write(tmp_path) / "leader-epoch-checkpoint").read_text() == "0\n2\n0 0\n1 40\n"
