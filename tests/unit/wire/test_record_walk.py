"""Records against what their header declares."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder
from kio.schema.errors import ErrorCode

from tests.unit.wire.malformed import batch_of, encoded, malformed_batches, record
from wire.batch import HEADER_SIZE, BatchError, Record, build_batch, decode_records, parse_header
from wire.record_lengths import check_lengths
from wire.record_walk import (
    COMPRESSED_COUNT_FREE,
    COMPRESSED_COUNT_PER_BYTE,
    COUNT_MAX,
    KeylessRecords,
    RecordScan,
    ScanTask,
    check_count,
)

_FIELD = st.none() | st.binary(max_size=300)
_HEADERS = st.lists(st.tuples(st.text("abc", max_size=4), _FIELD), max_size=3).map(tuple)
_RECORDS = st.lists(
    st.builds(Record, st.just(0), st.integers(0, 2**40), _FIELD, _FIELD, _HEADERS), min_size=1
)


def _check(batch: bytes) -> None:
    header = parse_header(batch)
    check_count(header)
    check_lengths(memoryview(batch), header)


def _scan(batch: bytes, *, needs_keys: bool = False, slices: Sequence[int] = (10**6,)) -> int:
    """Look at all records; in how many slices."""
    header = parse_header(batch)
    scan = RecordScan(batch, HEADER_SIZE, len(batch), ScanTask(header.record_count, needs_keys))
    steps = 1
    while not scan.step(slices[steps % len(slices)]):
        steps += 1
    return steps


@given(_RECORDS)
def test_what_we_build_is_right(records: list[Record]) -> None:
    batch = bytes(build_batch(records))
    _check(batch)
    _scan(batch)


@given(
    sizes=st.lists(st.sampled_from([0, 1, 30, 31, 32, 60, 100, 8_150, 8_180, 8_200, 20_000]), min_size=1),
    repeat=st.integers(1, 30),
    has_key=st.booleans(),
)
def test_what_kafka_python_builds_is_right(sizes: list[int], repeat: int, has_key: bool) -> None:
    """Also long runs of equally long records, which are passed in one leap."""
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 30)
    count = 0
    for size in sizes[:6]:
        for _ in range(repeat):
            builder.append(count, 1_000 + count, b"k" if has_key else None, b"v" * size, [])
            count += 1
    batch = bytes(builder.build())
    assert parse_header(batch).record_count == count
    _check(batch)
    _scan(batch)


def test_every_count_of_alike_records() -> None:
    """Offset deltas of one, two and three bytes, and no other count than the right one."""
    for count in (1, 2, 11, 12, 63, 64, 65, 300, 8_191, 8_192, 8_193, 20_000):
        payload = encoded([Record(0, 0, b"k", b"v")] * count)
        _check(batch_of(payload, count))
        _scan(batch_of(payload, count))
        for wrong in {count - 1, count + 1, count // 2, 2 * count} - {0, count}:
            for look in (_check, _scan):
                with pytest.raises(BatchError) as refused:
                    look(batch_of(payload, wrong))
                assert refused.value.error_code is ErrorCode.invalid_record


class _Touched(bytes):
    """Counts the bytes that are looked at."""

    count = 0

    def __getitem__(self, at: Any) -> Any:
        if not isinstance(at, slice):
            _Touched.count += 1
            return super().__getitem__(at)
        if at == slice(1, None):
            return _Touched(super().__getitem__(at))
        found = super().__getitem__(at)
        _Touched.count += len(found)
        return found


@pytest.mark.parametrize("run", [1, 2, 7, 8, 9, 63, 64, 65, 255, 1_100])
def test_work_grows_with_the_records_and_not_with_their_square(run: int) -> None:
    """Neighbours that are alike are passed in leaps; many short runs are not leapt over one by one."""
    touched = []
    for count in (10_000, 20_000):
        rows = [Record(0, 0, None, b"x" * ((number // run) % 2)) for number in range(count)]
        batch = _Touched(build_batch(rows))
        _Touched.count = 0
        check_lengths(batch, parse_header(batch))
        touched.append(_Touched.count)
    assert touched[0] < 8 * 10_000
    assert touched[1] < 3 * touched[0]


@pytest.mark.parametrize("name", malformed_batches())
def test_malformed_batches_are_invalid(name: str) -> None:
    batch = malformed_batches()[name]
    for look in (_check, _scan):
        if look is _scan and parse_header(batch).record_count > COUNT_MAX:
            continue  # never comes so far
        with pytest.raises(BatchError) as refused:
            look(batch)
        assert refused.value.error_code is ErrorCode.invalid_record


@settings(max_examples=400)
@given(records=_RECORDS, seed=st.integers(0, 2**32))
def test_the_scan_judges_as_the_decoder_does(records: list[Record], seed: int) -> None:
    """Of damaged bytes, too: what is let through can be decoded, with the offsets that are due."""
    draw = random.Random(seed)
    batch = bytearray(build_batch([each._replace(headers=()) for each in records]))
    for _ in range(draw.randrange(1, 4)):
        batch[draw.randrange(HEADER_SIZE, len(batch))] = draw.choice([0, 1, 2, 3, 0x7F, 0x80, 0xFF, 14, 16])
    header = parse_header(batch)
    try:
        found = [each.offset for each in decode_records(header, bytes(batch[HEADER_SIZE:]))]
        right = found == list(range(len(records)))
    except BatchError as error:
        assume("codec can't decode" not in error.message)  # names are not looked at
        right = False
    assert _is_accepted(_scan, bytes(batch)) == right
    assert _is_accepted(_check, bytes(batch)) or not right, "the cheap look refuses only what is wrong"


def _is_accepted(look: Callable[[bytes], object], batch: bytes) -> bool:
    try:
        look(batch)
    except BatchError as error:
        return error.error_code is not ErrorCode.invalid_record
    return True


@given(records=_RECORDS, slices=st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_slices_see_the_same(records: list[Record], slices: list[int]) -> None:
    batch = bytes(build_batch(records))
    steps = _scan(batch, slices=slices)
    assert steps <= len(records)
    if max(slices) < len(records):
        assert steps > 1


def test_records_without_a_key_are_named() -> None:
    rows = [Record(0, 0, None if number % 3 == 1 else b"k", b"v") for number in range(1_000)]
    with pytest.raises(KeylessRecords) as refused:
        _scan(bytes(build_batch(rows)), needs_keys=True, slices=(7,))
    assert refused.value.indexes == tuple(range(1, 300, 3))
    _scan(bytes(build_batch(rows)))


def test_keys_of_every_size_are_seen() -> None:
    rows = [Record(0, 0, b"k" * size, None) for size in (0, 1, 63, 64, 8_191, 8_192, 70_000)]
    _scan(bytes(build_batch(rows)), needs_keys=True)


def test_a_timestamp_of_eleven_bytes_is_no_varint() -> None:
    body = b"\0" + b"\x80" * 10 + b"\0" + b"\0\1\1\0"
    with pytest.raises(BatchError, match="varint"):
        _scan(batch_of(bytes([2 * len(body)]) + body, 1))


class TestPlausibleCounts:
    def _header(self, payload: bytes, count: int, codec: int) -> None:
        check_count(parse_header(batch_of(payload, count, codec=codec)))

    def test_an_uncompressed_record_has_seven_bytes(self) -> None:
        payload = record(0, key=None, value=None)
        assert len(payload) == 7
        self._header(payload * 10, 10, 0)
        with pytest.raises(BatchError):
            self._header(payload * 10, 11, 0)

    @pytest.mark.parametrize("codec", [1, 2, 3, 4])
    def test_a_compressed_byte_holds_few(self, codec: int) -> None:
        payload = record(0)
        header = parse_header(batch_of(payload, 1, codec=codec))
        most = COMPRESSED_COUNT_FREE + COMPRESSED_COUNT_PER_BYTE * (header.size_bytes - HEADER_SIZE)
        self._header(payload, most, codec)
        with pytest.raises(BatchError) as refused:
            self._header(payload, most + 1, codec)
        assert refused.value.error_code is ErrorCode.invalid_record

    @pytest.mark.parametrize("codec", [1, 2, 3, 4])
    def test_the_best_compression_of_right_records_is_plausible(self, codec: int) -> None:
        payload = encoded([Record(0, 0, None, None)] * 500_000)
        self._header(payload, 500_000, codec)

    def test_more_than_a_million_are_too_many(self) -> None:
        header = parse_header(batch_of(random.Random(1).randbytes(200_000), COUNT_MAX + 1, codec=4))
        with pytest.raises(BatchError) as refused:
            check_count(header)
        assert refused.value.error_code is ErrorCode.message_too_large
