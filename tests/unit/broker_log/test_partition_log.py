"""One partition: what append, read and the look-ups answer."""

import os
from pathlib import Path

import cramjam
import pytest
from kio.schema.errors import ErrorCode

from broker.log.errors import AppendRefused, OffsetOutOfRange
from broker.log.log_config import LogConfig
from broker.log.partition_log import PartitionLog
from broker.log.results import AppendOrigin
from broker.log.time_lookup import TimeSearch
from contracts import invariants
from tests.unit.broker_log.builders import (
    NOW_MS,
    append,
    batch,
    fill,
    idempotent,
    latest_found,
    new_log,
    read_all,
    records,
    time_found,
    values,
    whole_batches,
)
from wire.batch import (
    HEADER_SIZE,
    Record,
    build_batch,
    encode_records,
    iterate_batches,
    parse_header,
    seal_batch,
)


def refused(log: PartitionLog, data: bytearray, **options: int) -> ErrorCode:
    before = (log.log_end_offset, log.size_bytes)
    with pytest.raises(AppendRefused) as raised:
        append(log, data, **options)  # type: ignore[arg-type]
    assert (log.log_end_offset, log.size_bytes) == before
    return raised.value.error_code


# Appending


def test_batches_are_numbered_and_stored_as_received(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    first, second = batch("a", "b"), batch("c")
    assert append(log, first, leader_epoch=3).base_offset == 0
    result = append(log, second, leader_epoch=3)
    assert (result.base_offset, result.last_offset, result.log_append_time_ms) == (2, 2, -1)
    assert not result.is_duplicate
    stored = log.reading.read_bytes(0, 10_000, up_to=3, min_one_batch=True)
    assert stored == bytes(first + second)
    assert [h.partition_leader_epoch for _, h in iterate_batches(stored)] == [3, 3]
    assert values(read_all(log)) == ["a", "b", "c"]
    assert log.size_bytes == len(stored)


def test_a_memoryview_of_a_larger_buffer_is_enough(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    data = batch("a")
    frame = bytearray(b"head") + data + b"tail"
    with memoryview(frame) as view:
        log.append(view[4 : 4 + len(data)], now_ms=NOW_MS, leader_epoch=0, origin=AppendOrigin.CLIENT)
    assert frame[-4:] == b"tail"
    log.advance_high_watermark()
    assert values(read_all(log)) == ["a"]


def test_damaged_and_odd_batches_are_refused(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    flipped = batch("a")
    flipped[-1] ^= 1
    assert refused(log, flipped) is ErrorCode.corrupt_message
    assert refused(log, batch("a")[:-1]) is ErrorCode.corrupt_message
    assert refused(log, batch("a")[:60]) is ErrorCode.corrupt_message
    assert refused(log, bytearray()) is ErrorCode.corrupt_message
    assert refused(log, batch("a") + batch("b")) is ErrorCode.invalid_record
    assert refused(log, batch("a") + b"x") is ErrorCode.invalid_record
    assert refused(log, batch("a", base_offset=5)) is ErrorCode.invalid_record
    assert refused(log, batch("a", attributes=0x20)) is ErrorCode.invalid_record
    assert refused(log, batch("a", attributes=0x08)) is ErrorCode.invalid_timestamp
    old = batch("a")
    old[16] = 1
    assert refused(log, old) is ErrorCode.invalid_record


def test_a_transaction_nobody_verified_is_refused(tmp_path: Path) -> None:
    data = batch("a", attributes=0x10, producer_id=1, producer_epoch=0, base_sequence=0)
    assert refused(new_log(tmp_path), data) is ErrorCode.invalid_txn_state


def test_sizes_are_limited(tmp_path: Path) -> None:
    data = batch("a" * 500)
    log = new_log(tmp_path, LogConfig(max_message_bytes=len(data) - 1))
    assert refused(log, data) is ErrorCode.message_too_large
    log.reconfigure(LogConfig(max_message_bytes=len(data)))
    append(log, data)
    log.reconfigure(LogConfig(segment_bytes=len(data) - 1))
    assert refused(log, batch("a" * 500)) is ErrorCode.record_list_too_large


def test_timestamps_are_limited(tmp_path: Path) -> None:
    log = new_log(tmp_path, LogConfig(message_timestamp_before_max_ms=1000))
    assert refused(log, batch("a", at_ms=NOW_MS + 3_600_001)) is ErrorCode.invalid_timestamp
    append(log, batch("a", at_ms=NOW_MS + 3_600_000))
    assert refused(log, batch("a", at_ms=NOW_MS - 1001)) is ErrorCode.invalid_timestamp
    append(log, batch("a", at_ms=NOW_MS - 1000))
    append(log, batch("a", at_ms=-1))


def test_log_append_time_is_ours(tmp_path: Path) -> None:
    log = new_log(tmp_path, LogConfig(message_timestamp_type="LogAppendTime"))
    result = append(log, batch("a", at_ms=5), now_ms=NOW_MS + 7)
    assert result.log_append_time_ms == NOW_MS + 7
    assert [r.timestamp_ms for r in read_all(log)] == [NOW_MS + 7]
    assert log.reading.offset_for_timestamp(NOW_MS + 7) == (NOW_MS + 7, 0)
    assert log.reading.offset_for_timestamp(NOW_MS + 8) is None


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_a_compacted_topic_needs_keys(tmp_path: Path, codec: int) -> None:
    log = new_log(tmp_path, LogConfig(cleanup_policy=frozenset({"compact"})))
    keyed, keyless = records("a", "b"), records("a", "b", key=None)
    append(log, compressed(keyed, codec))
    assert refused(log, compressed([keyed[0], keyless[1]], codec)) is ErrorCode.invalid_record


def test_unreadable_records_are_refused_where_they_must_be_read(tmp_path: Path) -> None:
    log = new_log(tmp_path, LogConfig(cleanup_policy=frozenset({"compact"})))
    for codec in (1, 2, 3, 4):
        garbage = build_batch(records("a"), attributes=codec, payload=b"no such stream")
        assert refused(log, garbage) is ErrorCode.invalid_record


def compressed(wanted: list[Record], codec: int) -> bytearray:
    plain = encode_records(wanted)
    payload = {
        0: lambda: plain,
        1: lambda: bytes(cramjam.gzip.compress(plain)),
        2: lambda: bytes(cramjam.snappy.compress_raw(plain)),
        3: lambda: bytes(cramjam.lz4.compress(plain)),
        4: lambda: bytes(cramjam.zstd.compress(plain)),
    }[codec]()
    return build_batch(wanted, attributes=codec, payload=payload)


def test_repeated_batches_keep_their_first_offsets(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    for number in range(6):
        append(log, idempotent(9, number * 2, 2))
    size = log.size_bytes
    result = append(log, idempotent(9, 4, 2))
    assert result.is_duplicate
    assert (result.base_offset, result.last_offset) == (4, 5)
    assert (log.log_end_offset, log.size_bytes) == (12, size)
    assert refused(log, idempotent(9, 20)) is ErrorCode.out_of_order_sequence_number
    append(log, idempotent(9, 0, epoch=1))
    assert refused(log, idempotent(9, 12)) is ErrorCode.invalid_producer_epoch


def test_coordinators_append_several_batches_at_once(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, batch("a"))
    result = append(log, batch("b", "c") + batch("d"), origin=AppendOrigin.COORDINATOR, leader_epoch=2)
    assert (result.base_offset, result.last_offset) == (1, 3)
    assert values(read_all(log)) == ["a", "b", "c", "d"]
    assert log.end_offset_for_epoch(0) == (0, 1)


def test_replicated_batches_keep_offsets_and_epochs(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    data = batch("a", base_offset=0, partition_leader_epoch=4) + batch(
        "b", base_offset=3, partition_leader_epoch=5
    )
    append(log, data, origin=AppendOrigin.REPLICATION, leader_epoch=9)
    assert [r.offset for r in read_all(log)] == [0, 3]
    assert log.log_end_offset == 4
    assert log.end_offset_for_epoch(4) == (4, 3)


def test_a_flush_is_due_after_flush_messages(tmp_path: Path) -> None:
    log = new_log(tmp_path, LogConfig(flush_messages=2))
    assert not append(log, batch("a")).flush_due
    assert append(log, batch("b")).flush_due
    log.durability.flush()
    assert log.recovery_point == 2
    assert not append(log, batch("c")).flush_due


# Reading


def test_a_read_starts_with_the_batch_that_holds_the_offset(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    for _ in range(40):
        append(log, batch("a" * 50, "b" * 50, "c" * 50))
    assert log.segment_count > 1
    for offset in range(log.log_end_offset):
        found = log.read(offset, 1, up_to=log.high_watermark, min_one_batch=True)
        assert found is not None
        assert found.base_offset == offset // 3 * 3
        header = parse_header(found.read())
        assert (header.base_offset, header.size_bytes) == (found.base_offset, found.size_bytes)


def test_reads_respect_max_bytes_but_for_one_batch(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    fill(log, 5)
    one = log.size_bytes // 5
    end = log.high_watermark
    assert log.read(0, one - 1, up_to=end, min_one_batch=False) is None
    assert log.read(4, one - 1, up_to=end, min_one_batch=False) is None
    assert log.read(0, 0, up_to=end, min_one_batch=False) is None
    partial = log.read(0, one + 10, up_to=end, min_one_batch=False)
    assert partial is not None
    assert partial.size_bytes == one + 10
    assert len(whole_batches(partial.read())) == 1


def test_nothing_behind_up_to_is_read(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    fill(log, 30)
    assert log.segment_count > 1
    for up_to in range(31):
        for offset in range(31):
            data = log.reading.read_bytes(offset, 10**6, up_to=up_to, min_one_batch=True)
            found = [r.offset for r in whole_batches(data)]
            if offset >= up_to:
                assert found == []
            else:
                assert found[0] == offset
                assert found[-1] < up_to
                assert found == list(range(offset, found[-1] + 1))


def test_offsets_outside_the_log_are_out_of_range(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    fill(log, 3)
    log.retention.delete_records_before(2)
    for offset in (-1, 1, 4):
        with pytest.raises(OffsetOutOfRange):
            log.read(offset, 100, up_to=3, min_one_batch=True)
    assert log.read(3, 100, up_to=3, min_one_batch=True) is None


def test_a_slice_outlives_its_segment(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    fill(log, 30)
    expected = log.reading.read_bytes(0, 300, up_to=30, min_one_batch=True)
    found = log.read(0, 300, up_to=30, min_one_batch=True)
    assert found is not None
    log.retention.delete_records_before(30)
    opened = [os.open("/dev/null", os.O_RDONLY) for _ in range(8)]
    assert found.fd not in opened
    assert found.read() == expected
    for fd in opened:
        os.close(fd)


def test_the_high_watermark_only_rises(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append(batch("a", "b"), now_ms=NOW_MS, leader_epoch=0, origin=AppendOrigin.CLIENT)
    assert log.high_watermark == 0
    assert log.advance_high_watermark(1)
    assert not log.advance_high_watermark(0)
    assert log.advance_high_watermark(99)
    assert (log.high_watermark, log.last_stable_offset) == (2, 2)


# Looking up


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_a_timestamp_finds_the_first_record_at_or_after_it(tmp_path: Path, codec: int) -> None:
    log = new_log(tmp_path)
    for number in range(30):
        append(log, compressed(records("a", "b", "c", at_ms=1000 + number * 30, step_ms=10), codec))
    for timestamp in range(990, 1000 + 30 * 30):
        offset = max(0, -(-(timestamp - 1000) // 10))
        expected = (1000 + offset * 10, offset) if offset < 90 else None
        assert time_found(log, timestamp) == expected
    log.retention.delete_records_before(50)
    assert time_found(log, 0) == (1500, 50)
    assert time_found(log, 1700, up_to=70) is None


def test_unordered_timestamps_are_found(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    stamps = [50, 10, 90, 20, 70, 95, 5]
    for stamp in stamps:
        append(log, batch("x" * 600, at_ms=stamp))
    for wanted in range(100):
        first = next(((stamp, at) for at, stamp in enumerate(stamps) if stamp >= wanted), None)
        assert time_found(log, wanted) == first


def test_a_payload_that_cannot_be_read_answers_with_its_batch(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    two = records("a", "b", at_ms=1000, step_ms=10)
    garbage = build_batch(two, attributes=4, payload=b"garbage")
    log.append(garbage, now_ms=NOW_MS, leader_epoch=0, origin=AppendOrigin.CLIENT, is_looked=True)
    log.advance_high_watermark()
    assert latest_found(log, up_to=2) == (1010, 0), "its header is all there is to go by"
    assert isinstance(log.reading.offset_for_timestamp(1005), TimeSearch), (
        "what is compressed is not opened here"
    )
    assert time_found(log, 1005) == (1000, 0)


def test_the_latest_record_is_found_in_every_codec(tmp_path: Path) -> None:
    """Also where it is neither the last of its batch nor in the last batch."""
    log = new_log(tmp_path)
    assert latest_found(log, up_to=0) is None
    for codec in range(5):
        append(log, compressed(records("a", "b", "c", at_ms=NOW_MS + codec, step_ms=0), codec))
        append(log, compressed(records("d", "e", at_ms=NOW_MS + 500 - codec, step_ms=-7), codec))
    assert latest_found(log, up_to=log.log_end_offset) == (NOW_MS + 500, 3)
    assert latest_found(log, up_to=3) == (NOW_MS, 0)
    log.retention.delete_records_before(4)
    assert latest_found(log, up_to=log.log_end_offset) == (NOW_MS + 499, 8)
    assert latest_found(log, up_to=5) == (NOW_MS + 493, 4), (
        "what is left of a batch, not what its header says"
    )


def test_leader_epochs_and_their_ends(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    assert log.leader_epoch == -1
    for epoch in (0, 0, 2, 5):
        append(log, batch("a"), leader_epoch=epoch)
    assert log.leader_epoch == 5
    assert log.end_offset_for_epoch(0) == (0, 2)
    assert log.end_offset_for_epoch(4) == (2, 3)
    assert log.end_offset_for_epoch(5) == (5, 4)
    assert log.epoch_of(2) == 2
    log.retention.delete_records_before(3)
    assert log.end_offset_for_epoch(0) == (0, 3)


def test_a_header_that_promises_times_it_has_not_is_believed_in_the_end(tmp_path: Path) -> None:
    """Else every batch of the log would be opened, for each look-up again."""
    log = new_log(tmp_path, LogConfig())
    for _ in range(40):
        liar = build_batch(records("a", at_ms=NOW_MS))
        header = parse_header(liar)._replace(base_timestamp_ms=NOW_MS - 10, max_timestamp_ms=NOW_MS + 1_000)
        append(log, seal_batch(header, bytes(liar[HEADER_SIZE:]))[1])
    assert log.reading.offset_for_timestamp(NOW_MS + 500) == (NOW_MS + 1_000, 16)


def test_many_headers_are_walked_elsewhere(tmp_path: Path) -> None:
    """One old time in front keeps the time index from growing: the headers behind it have to be walked."""
    log = new_log(tmp_path, LogConfig())
    append(log, batch("a", at_ms=NOW_MS + 10))
    for _ in range(1_200):
        append(log, batch("a", at_ms=NOW_MS))
    append(log, batch("a", at_ms=NOW_MS + 20))
    assert isinstance(log.reading.offset_for_timestamp(NOW_MS + 15), TimeSearch)
    assert time_found(log, NOW_MS + 15) == (NOW_MS + 20, 1_201)


def test_what_must_be_true_of_a_log_is_asserted_where_it_changes(tmp_path: Path) -> None:
    """One comparison always, a walk where `invariants.are_checked`: tests would say it, a broker goes on."""
    log = new_log(tmp_path)
    append(log, batch("a"))
    log.offsets.high_watermark = log.log_end_offset + 2
    with pytest.raises(AssertionError, match="committed to 3"):
        log.append(batch("b"), now_ms=NOW_MS, leader_epoch=0, origin=AppendOrigin.CLIENT)
    log.offsets.high_watermark = 0
    with pytest.raises(AssertionError):
        log.offsets.start_at(1)
    log.offsets.log_start_offset = 0
    log.segments.size_bytes += 1
    with pytest.raises(AssertionError):
        log.rolling.roll(log.log_end_offset, NOW_MS)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(invariants, "are_checked", False)
        append(log, batch("c"))
        log.rolling.roll(log.log_end_offset, NOW_MS)
