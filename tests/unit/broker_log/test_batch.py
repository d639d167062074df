"""wire.batch: the header view, its rules, the record codec."""

import struct
from contextlib import suppress

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from wire.batch import (
    HEADER_SIZE,
    BatchError,
    Record,
    assign_offset,
    build_batch,
    check_client_header,
    check_crc,
    check_magic,
    decode_records,
    iterate_batches,
    parse_header,
    stamp_log_append_time,
)
from wire.varint import read_varint, write_varint

ONE = Record(0, 1_700_000_000_123, b"key", b"value", (("h", b"1"), ("h", None)))


def test_the_bytes_are_kafkas() -> None:
    data = build_batch(
        [ONE, ONE._replace(timestamp_ms=1_700_000_000_120)],
        base_offset=7,
        partition_leader_epoch=3,
        producer_id=9,
        producer_epoch=2,
        base_sequence=5,
    )
    assert struct.unpack_from(">qii", data) == (7, len(data) - 12, 3)
    assert data[16] == 2
    assert struct.unpack_from(">I", data, 17)[0] == crc32c(bytes(data[21:]))
    assert struct.unpack_from(">hiqqqhii", data, 21) == (
        0, 1, 1_700_000_000_123, 1_700_000_000_123, 9, 2, 5, 2,
    )  # fmt: skip
    # length 21, attributes, timestamp delta 0, offset delta 0, "key", "value", two headers
    assert data[61:83] == b"\x2a\0\0\0\x06key\x0avalue\x04\x02h\x021\x02h\x01"
    # the second record: 3 ms before the first (zigzag 5), offset delta 1 (zigzag 2)
    assert data[83:87] == b"\x2a\0\x05\x02"


def test_setting_the_offset_leaves_the_crc_valid() -> None:
    data = build_batch([ONE])
    assign_offset(data, 0, 2**40, 12)
    header = parse_header(data)
    check_crc(data, 0, header)
    assert (header.base_offset, header.partition_leader_epoch) == (2**40, 12)
    assert header.next_offset == 2**40 + 1


def test_log_append_time_rewrites_timestamp_and_crc() -> None:
    data = build_batch([ONE, ONE])
    stamped = stamp_log_append_time(data, 0, parse_header(data), 42)
    assert stamped == parse_header(data)
    check_crc(data, 0, stamped)
    assert stamped.is_log_append_time
    assert [r.timestamp_ms for r in decode_records(stamped, data[HEADER_SIZE:])] == [42, 42]


def test_every_flipped_bit_behind_the_crc_is_noticed() -> None:
    data = build_batch([ONE])
    for at in range(21, len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 0x10
        with pytest.raises(BatchError) as raised:
            check_crc(damaged, 0, parse_header(damaged))
        assert raised.value.error_code is ErrorCode.corrupt_message


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"base_offset": 1}, ErrorCode.invalid_record),
        ({"last_offset_delta": -1}, ErrorCode.invalid_record),
        ({"last_offset_delta": 1}, ErrorCode.invalid_record),
        ({"record_count": 0}, ErrorCode.invalid_record),
        ({"record_count": -1, "last_offset_delta": -2}, ErrorCode.invalid_record),
        ({"attributes": 0x20}, ErrorCode.invalid_record),
        ({"attributes": 0x10}, ErrorCode.invalid_record),
        ({"producer_id": 1}, ErrorCode.invalid_record),
        ({"producer_id": 1, "base_sequence": 0, "producer_epoch": -1}, ErrorCode.invalid_record),
        ({"attributes": 5}, ErrorCode.unsupported_compression_type),
        ({"attributes": 7}, ErrorCode.unsupported_compression_type),
    ],
)
def test_a_client_may_not(changes: dict[str, int], code: ErrorCode) -> None:
    header = parse_header(build_batch([ONE]))
    check_client_header(header)
    with pytest.raises(BatchError) as raised:
        check_client_header(header._replace(**changes))
    assert raised.value.error_code is code


@pytest.mark.parametrize(
    ("magic", "code"),
    [
        (0, ErrorCode.invalid_record),
        (1, ErrorCode.invalid_record),
        (3, ErrorCode.corrupt_message),
        (-1, ErrorCode.corrupt_message),
    ],
)
def test_other_magics_are_refused(magic: int, code: ErrorCode) -> None:
    with pytest.raises(BatchError) as raised:
        check_magic(parse_header(build_batch([ONE]))._replace(magic=magic))
    assert raised.value.error_code is code


def test_batches_are_walked_and_must_fill_the_buffer() -> None:
    first, second = build_batch([ONE]), build_batch([ONE, ONE])
    both = first + second
    assert [at for at, _ in iterate_batches(both)] == [0, len(first)]
    for cut in (1, 30, 61, len(second) - 1):
        with pytest.raises(BatchError):
            list(iterate_batches(both[: len(first) + cut]))


@pytest.mark.parametrize("length", [-(2**31), -13, -12, 0, 48, 2**31 - 1])
def test_absurd_batch_lengths_are_refused(length: int) -> None:
    data = build_batch([ONE])
    struct.pack_into(">i", data, 8, length)
    with pytest.raises(BatchError):
        list(iterate_batches(data))


def test_sequences_wrap_around() -> None:
    header = parse_header(build_batch([ONE, ONE, ONE], producer_id=1, base_sequence=2**31 - 2))
    assert header.last_sequence == 0


headers = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3).map(tuple)
some_records = st.lists(
    st.builds(
        Record,
        st.just(0),
        st.integers(-1, 2**45),
        st.none() | st.binary(max_size=20),
        st.none() | st.binary(max_size=200),
        headers,
    ),
    min_size=1,
    max_size=20,
)


@given(some_records, st.integers(0, 2**40))
@settings(max_examples=50)
def test_records_come_back(records: list[Record], base_offset: int) -> None:
    data = build_batch(records, base_offset=base_offset)
    header = parse_header(data)
    decoded = list(decode_records(header, data[HEADER_SIZE:]))
    assert decoded == [r._replace(offset=base_offset + n) for n, r in enumerate(records)]
    assert header.max_timestamp_ms == max(r.timestamp_ms for r in records)


@given(some_records, st.data())
@settings(max_examples=100)
def test_damaged_records_are_refused_not_crashed_on(records: list[Record], data: st.DataObject) -> None:
    payload = bytearray(build_batch(records)[HEADER_SIZE:])
    header = parse_header(build_batch(records))
    for _ in range(data.draw(st.integers(1, 4))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(payload)))
    with suppress(BatchError):  # anything else fails the test
        list(decode_records(header, payload[:cut]))


@given(st.integers(-(2**63), 2**63 - 1))
@settings(max_examples=50)
def test_varints_come_back(value: int) -> None:
    out = bytearray()
    write_varint(out, value)
    assert read_varint(out, 0) == (value, len(out))


def test_a_varint_without_end_is_refused() -> None:
    with pytest.raises(ValueError, match="longer than 10"):
        read_varint(b"\xff" * 20, 0)
