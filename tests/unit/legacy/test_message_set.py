"""Reading what old producers send: every codec, and no byte taken on trust."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.legacy_records import LegacyRecordBatchBuilder
from kio.schema.errors import ErrorCode

from tests.unit.legacy.sets import CODECS, Row, plain, read_old, resealed, wrapped, wrapper
from wire.batch import CODEC_GZIP, CODEC_LZ4, CODEC_SNAPPY, CODEC_ZSTD, BatchError
from wire.compression import compress
from wire.legacy import message_set
from wire.legacy.lz4_frame import with_right_checksum, xxh32_short
from wire.legacy.message_set import Message, read_message_set, write_message

ROWS: list[Row] = [(0, 1000, b"k", b"v"), (1, 1001, None, b"w"), (2, 999, b"k", None), (3, 5, b"", b"")]
CONTENT = [Message(*row[1:]) for row in ROWS]
UNTIMED = [Message(-1, *row[2:]) for row in ROWS]


def test_the_layout_of_a_message() -> None:
    covered = b"\x01\x00" + struct.pack(">q", 77) + struct.pack(">i", 1) + b"k" + struct.pack(">i", -1)
    written = write_message(1, 9, 77, b"k", None)
    assert written[:12] == struct.pack(">qi", 9, len(covered) + 4)
    assert written[16:] == covered


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_every_format_and_codec_is_read(magic: int, codec: int) -> None:
    data = wrapped(magic, ROWS, codec) if codec else plain(magic, ROWS)
    assert read_message_set(data) == (CONTENT if magic else UNTIMED, codec)


@pytest.mark.parametrize("codec", [0, CODEC_GZIP])
@pytest.mark.parametrize("magic", [0, 1])
def test_another_writer_is_understood(magic: int, codec: int) -> None:
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 20)
    for offset, timestamp_ms, key, value in ROWS:
        builder.append(offset, timestamp=timestamp_ms, key=key, value=value)
    assert read_message_set(bytes(builder.build())) == (CONTENT if magic else UNTIMED, codec)


def test_another_reader_understands_us() -> None:
    assert read_old(plain(1, ROWS)) == ROWS
    assert read_old(plain(0, ROWS)) == [(offset, None, key, value) for offset, _, key, value in ROWS]


def test_plain_and_compressed_messages_side_by_side() -> None:
    data = plain(1, ROWS[:1]) + wrapped(1, ROWS[1:3], CODEC_GZIP) + wrapped(1, ROWS[3:], CODEC_SNAPPY)
    assert read_message_set(data) == (CONTENT, CODEC_GZIP)


def test_lz4_frames_with_the_checksum_of_old_clients() -> None:
    frame = compress(plain(0, ROWS), CODEC_LZ4)
    wrong = xxh32_short(frame[:6]) >> 8 & 0xFF
    assert wrong != frame[6], "or the test shows nothing"
    broken = frame[:6] + bytes([wrong]) + frame[7:]
    assert read_message_set(wrapper(0, broken, CODEC_LZ4)).messages == UNTIMED
    with pytest.raises(BatchError, match="cannot be read"):
        read_message_set(wrapper(1, broken, CODEC_LZ4))


def test_xxh32_of_short_inputs() -> None:
    """The reference implementation's values (xxhsum -H0)."""
    assert xxh32_short(b"") == 0x02CC5D05
    assert xxh32_short(b"a") == 0x550D7456
    assert xxh32_short(b"abc") == 0x32D153FF
    assert xxh32_short(b"\x60\x40") >> 8 & 0xFF == 0x82


def test_a_content_size_in_the_frame_moves_its_checksum() -> None:
    descriptor = b"\x68\x40" + (1000).to_bytes(8, "little")
    frame = b"\x04\x22\x4d\x18" + descriptor + b"\x00rest"
    fixed = with_right_checksum(frame)
    assert fixed[14] == xxh32_short(descriptor) >> 8 & 0xFF
    assert fixed[:14] + b"\x00" + fixed[15:] == frame
    for short in (b"", b"\x04\x22\x4d\x18", frame[:12], b"no frame at all"):
        assert with_right_checksum(short) == short


def fault(data: bytes) -> ErrorCode:
    with pytest.raises(BatchError) as caught:
        read_message_set(data)
    return caught.value.error_code


def test_what_is_refused() -> None:
    message = write_message(1, 0, 5, b"k", b"v")
    batch = b"\0" * 16 + b"\x02" + b"\0" * 60
    assert fault(b"") is ErrorCode.corrupt_message
    assert fault(message[:-1]) is ErrorCode.corrupt_message
    assert fault(message + b"\0") is ErrorCode.corrupt_message
    assert fault(message[:-1] + b"x") is ErrorCode.corrupt_message, "the CRC"
    assert fault(batch) is ErrorCode.invalid_record
    assert fault(b"\0" * 16 + b"\x07" + b"\0" * 60) is ErrorCode.corrupt_message


def test_what_is_refused_of_compressed_messages() -> None:
    assert fault(wrapper(1, None, CODEC_GZIP)) is ErrorCode.corrupt_message
    assert fault(wrapper(1, b"rubbish", CODEC_GZIP)) is ErrorCode.corrupt_message
    assert fault(wrapped(1, [], CODEC_GZIP)) is ErrorCode.corrupt_message
    assert fault(wrapped(1, ROWS, CODEC_ZSTD)) is ErrorCode.unsupported_compression_type
    assert fault(wrapper(1, b"", 7)) is ErrorCode.unsupported_compression_type
    nested = wrapped(1, ROWS, CODEC_GZIP)
    assert fault(wrapper(1, compress(nested, CODEC_GZIP), CODEC_GZIP)) is ErrorCode.corrupt_message
    assert fault(wrapper(1, compress(plain(0, ROWS), CODEC_GZIP), CODEC_GZIP)) is ErrorCode.corrupt_message


def test_producers_do_not_set_log_append_time() -> None:
    assert fault(write_message(1, 0, 5, b"k", b"v", log_append_time=True)) is ErrorCode.invalid_timestamp


@pytest.mark.parametrize("field", [18, 27])
@pytest.mark.parametrize("size", [-2, 2, 2**31 - 1, -(2**31)])
def test_impossible_lengths(field: int, size: int) -> None:
    message = bytearray(write_message(0, 0, -1, b"kkkkk", b"vvvvv"))
    message[field : field + 4] = struct.pack(">i", size)
    assert fault(resealed(message)) is ErrorCode.corrupt_message


@pytest.mark.parametrize("size", [-1, 0, 13, 2**31 - 1])
def test_impossible_message_sizes(size: int) -> None:
    message = bytearray(write_message(0, 0, -1, b"k", b"v"))
    message[8:12] = struct.pack(">i", size)
    assert fault(bytes(message)) is ErrorCode.corrupt_message


def test_counts_and_sizes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_set, "MESSAGES_MAX", 3)
    assert fault(plain(1, ROWS)) is ErrorCode.record_list_too_large
    assert fault(wrapped(1, ROWS, CODEC_GZIP)) is ErrorCode.record_list_too_large


def test_a_bomb_is_not_unpacked() -> None:
    bomb = compress(bytes(40 * 1024 * 1024), CODEC_GZIP)
    assert fault(wrapper(1, bomb, CODEC_GZIP)) is ErrorCode.corrupt_message


@given(st.binary(max_size=80))
def test_any_bytes_are_messages_or_refused(data: bytes) -> None:
    try:
        read_message_set(data)
    except BatchError:
        return


@given(st.data())
def test_damaged_sets_are_refused_or_whole(data: st.DataObject) -> None:
    good = data.draw(st.sampled_from([plain(0, ROWS), plain(1, ROWS), wrapped(1, ROWS, CODEC_LZ4)]))
    at = data.draw(st.integers(0, len(good) - 1))
    bad = bytearray(good)
    bad[at] ^= 1 << data.draw(st.integers(0, 7))
    try:
        found = read_message_set(bytes(bad))
    except BatchError:
        return
    assert found == read_message_set(good), "only the offsets, which mean nothing, may differ unnoticed"
