"""Message sets to record batches and back."""

from collections.abc import Generator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from tests.unit.legacy.sets import CODECS, Row, plain, read_old, wrapped
from wire.batch import (
    CODEC_ZSTD,
    CONTROL_BIT,
    HEADER_SIZE,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    BatchError,
    Record,
    assign_offset,
    build_batch,
    check_client_header,
    check_crc,
    decode_records,
    encode_records,
    parse_header,
    stamp_log_append_time,
)
from wire.compression import compress, decompress
from wire.legacy.conversion import (
    PAYLOAD_DOWN_MAX,
    RECORDS_DOWN_MAX,
    RECORDS_PER_STEP,
    Down,
    message_set_of,
    record_batch_of,
)

ROWS: list[Row] = [(0, 1000, b"k", b"v"), (1, 1001, None, b"w"), (2, 999, b"k", None)]
MANY = 1 << 20


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_a_set_becomes_one_batch(magic: int, codec: int) -> None:
    batch = record_batch_of(wrapped(magic, ROWS, codec) if codec else plain(magic, ROWS))
    header = parse_header(batch)
    check_client_header(header)
    check_crc(batch, 0, header)
    assert header.size_bytes == len(batch)
    assert header.codec == codec
    assert header.max_timestamp_ms == (1001 if magic else -1)
    found = decode_records(header, decompress(bytes(batch[HEADER_SIZE:]), codec))
    times = [1000, 1001, 999] if magic else [-1, -1, -1]
    assert [(each.timestamp_ms, each.key, each.value) for each in found] == [
        (time, row[2], row[3]) for time, row in zip(times, ROWS, strict=True)
    ]


def batch_at(base_offset: int, records: list[Record], attributes: int = 0) -> bytes:
    payload = compress(encode_records(records), attributes & 7) if attributes & 7 else None
    marks = (
        {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0} if attributes & TRANSACTIONAL_BIT else {}
    )
    batch = build_batch(records, base_offset=base_offset, attributes=attributes, payload=payload, **marks)
    assign_offset(batch, 0, base_offset, 3)
    return bytes(batch)


RECORDS = [Record(0, 50, b"a", b"1", (("h", b"x"),)), Record(0, 51, None, b"2"), Record(0, 40, b"b", None)]


def down(
    data: bytes, magic: int = 1, at: int = 0, limit: int = MANY, *, first: int = 0, cuts_first: bool = False
) -> Down:
    return _converted(
        message_set_of(memoryview(data), magic, at, limit, first_bytes_max=first, cuts_first=cuts_first)
    )


def _converted(steps: Generator[None, None, Down]) -> Down:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Down = end.value
            return found


@pytest.mark.parametrize("codec", [*CODECS.values(), CODEC_ZSTD])
def test_batches_become_messages(codec: int) -> None:
    found = down(batch_at(100, RECORDS, codec) + batch_at(103, RECORDS[:1], codec))
    assert read_old(found.messages) == [
        (100, 50, b"a", b"1"),
        (101, 51, None, b"2"),
        (102, 40, b"b", None),
        (103, 50, b"a", b"1"),
    ]
    assert found.next_offset == 104


def test_format_v0_has_no_timestamps() -> None:
    assert read_old(down(batch_at(0, RECORDS[:1]), magic=0).messages) == [(0, None, b"a", b"1")]


def test_log_append_time_stays_what_it_is() -> None:
    batch = bytearray(batch_at(0, RECORDS))
    stamp_log_append_time(batch, 0, parse_header(batch), 777)
    messages = down(bytes(batch)).messages
    assert [row[1] for row in read_old(messages)] == [777, 777, 777]
    assert messages[17] & LOG_APPEND_TIME_BIT


def test_reading_on_within_a_batch() -> None:
    data = batch_at(100, RECORDS)
    one = down(data, limit=40)
    assert [row[0] for row in read_old(one.messages)] == [100]
    assert one.next_offset == 101
    assert [row[0] for row in read_old(down(data, at=one.next_offset).messages)] == [101, 102]


def test_control_batches_have_no_form_here() -> None:
    marker = Record(0, 60, b"\0\0\0\1", b"\0\0\0\0\0\0")
    commit = batch_at(103, [marker], CONTROL_BIT | TRANSACTIONAL_BIT)
    assert down(commit, at=103) == Down(b"", 104)
    data = batch_at(100, RECORDS, TRANSACTIONAL_BIT) + commit + batch_at(104, RECORDS[:1])
    found = down(data)
    assert [row[0] for row in read_old(found.messages)] == [100, 101, 102, 104]
    assert found.next_offset == 105


def test_what_compaction_left_empty_is_skipped() -> None:
    empty = bytearray(batch_at(100, RECORDS))[:HEADER_SIZE]
    empty[8:12] = (HEADER_SIZE - 12).to_bytes(4, "big")
    empty[57:61] = bytes(4)
    assert down(bytes(empty), at=100) == Down(b"", 103)


def test_a_message_that_does_not_fit() -> None:
    data = batch_at(0, [Record(0, 1, b"k", bytes(500))])
    whole = down(data).messages
    assert down(data, limit=100) == Down(b"", 0)
    cut = down(data, limit=100, first=100, cuts_first=True)
    assert cut == Down(whole[:100], 0), "its size says what it needs"
    assert down(data, limit=100, first=200) == Down(b"", 0), "another time, when there is room"
    assert down(data, limit=100, first=MANY) == Down(whole, 1)
    assert down(data, limit=100, first=len(whole), cuts_first=True) == Down(whole, 1)
    assert down(data, limit=0) == Down(b"", 0)
    two = batch_at(0, [Record(0, 1, b"k", b"v"), Record(0, 1, b"k", bytes(500))])
    assert down(two, limit=100, first=100, cuts_first=True).next_offset == 1, "only the first is ever cut"


def test_a_batch_that_is_cut_off_is_left_for_later() -> None:
    data = batch_at(0, RECORDS) + batch_at(3, RECORDS)
    assert down(data[:-1]).next_offset == 3
    assert down(data[:40]) == Down(b"", 0)


def test_records_that_cannot_be_read() -> None:
    rubbish = bytearray(batch_at(0, RECORDS))
    rubbish[HEADER_SIZE] = 0x7F
    with pytest.raises(BatchError) as caught:
        down(bytes(rubbish))
    assert caught.value.error_code is ErrorCode.corrupt_message
    rubbish[22] = 1
    with pytest.raises(BatchError, match="decompressed"):
        down(bytes(rubbish))


NULLABLE = st.none() | st.binary(max_size=20)
MESSAGES = st.lists(st.tuples(st.integers(-1, 2**40), NULLABLE, NULLABLE), min_size=1, max_size=8)


@given(MESSAGES, st.sampled_from(sorted(CODECS.values())))
def test_there_and_back_is_the_same(
    messages: list[tuple[int, bytes | None, bytes | None]], codec: int
) -> None:
    rows = [(offset, *message) for offset, message in enumerate(messages)]
    batch = bytes(record_batch_of(wrapped(1, rows, codec) if codec else plain(1, rows)))
    assert read_old(down(batch).messages) == rows


@given(MESSAGES, st.integers(20, 120))
def test_old_consumers_always_get_on(
    messages: list[tuple[int, bytes | None, bytes | None]], limit: int
) -> None:
    rows = [(offset, *message) for offset, message in enumerate(messages)]
    batch = bytes(record_batch_of(plain(1, rows)))
    seen: list[Row] = []
    while len(seen) < len(rows):
        found = down(batch, at=len(seen), limit=limit, first=MANY)
        assert found.messages
        seen += read_old(found.messages)
    assert seen == rows


@pytest.mark.parametrize("at", [0, 990])
def test_no_step_converts_or_passes_many(at: int) -> None:
    """Records of one batch, and batches of one record."""
    rows = [Record(0, 0, None, b"v")] * 1_000
    one = batch_at(0, rows)
    many = b"".join(batch_at(number, rows[:1]) for number in range(1_000))
    for batches in (one, many):
        steps = message_set_of(memoryview(batches), 1, at, MANY)
        assert sum(1 for _ in steps) >= (1_000 if batches is one else 1_000 - at) // RECORDS_PER_STEP


@pytest.mark.parametrize(("count", "value_bytes"), [(RECORDS_DOWN_MAX + 1, 0), (10, PAYLOAD_DOWN_MAX // 9)])
def test_what_takes_long_to_convert_is_refused(count: int, value_bytes: int) -> None:
    rows = [Record(0, 0, None, bytes(value_bytes))] * count
    batch = build_batch(rows, attributes=4, payload=compress(encode_records(rows), 4))
    with pytest.raises(BatchError) as refused:
        _converted(message_set_of(memoryview(batch), 1, count - 1, 1_000))
    assert refused.value.error_code is ErrorCode.corrupt_message
