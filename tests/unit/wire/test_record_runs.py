"""Keys and runs of records, against the plain decoder; batches that compaction writes again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.batch import (
    CODEC_GZIP,
    CODEC_LZ4,
    CODEC_SNAPPY,
    CODEC_ZSTD,
    DELETE_HORIZON_BIT,
    HEADER_SIZE,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    Record,
    build_batch,
    check_crc,
    decode_records,
    encode_records,
    parse_header,
)
from wire.compression import compress, decompress
from wire.record_runs import Runs, find_runs, map_key, note_latest
from wire.retained_batch import empty_batch, retained_batch

keys = (
    st.none()
    | st.binary(max_size=6)
    | st.sampled_from([b"k" * 31, b"k" * 32, b"k" * 33, b"k" * 70, b"l" * 5000])
)
rows = st.lists(
    st.builds(
        Record,
        st.just(0),
        st.integers(0, 2**40),
        keys,
        st.none() | st.binary(max_size=20) | st.just(b"v" * 9000),
        st.just(()) | st.just((("h", b"x"), ("h", None))),
    ),
    min_size=1,
    max_size=200,
)


@given(rows=rows, base=st.integers(0, 2**40), skip=st.integers(0, 250))
def test_the_latest_offset_of_each_key(rows: list[Record], base: int, skip: int) -> None:
    data = encode_records(rows)
    latest: dict[bytes, int] = {}
    note_latest(b"##" + data, 2, 2 + len(data), base, base + skip, latest)
    expected = {
        map_key(row.key): base + number
        for number, row in enumerate(rows)
        if row.key is not None and number >= skip
    }
    assert latest == expected


@given(rows=rows, up_to=st.integers(0, 250), drop=st.booleans(), newer=st.sets(st.binary(max_size=2)))
def test_what_stays_is_what_is_latest(rows: list[Record], up_to: int, drop: bool, newer: set[bytes]) -> None:
    data = encode_records(rows)
    latest: dict[bytes, int] = {}
    note_latest(data, 0, len(data), 0, 0, latest)
    latest.update(dict.fromkeys(newer, 1000))
    runs = find_runs(data, 0, len(data), 0, up_to, latest, drop_tombstones=drop)
    kept = []
    for number, row in enumerate(rows):
        is_latest = row.key is not None and latest[map_key(row.key)] <= number
        if number >= up_to or (is_latest and not (drop and row.value is None)):
            kept.append((number, row))
    header = parse_header(build_batch(rows))
    assert (runs.kept, runs.dropped) == (len(kept), len(rows) - len(kept))
    assert runs.keeps_tombstone == any(row.value is None for _, row in kept)
    joined = b"".join(data[start:end] for start, end in runs.spans)
    found = list(decode_records(header._replace(record_count=runs.kept), joined))
    assert [(record.offset, record.key, record.value) for record in found] == [
        (number, row.key, row.value) for number, row in kept
    ]
    if kept:
        _check_rewritten(rows, runs, data, kept)


def _check_rewritten(rows: list[Record], runs: Runs, data: bytes, kept: list[tuple[int, Record]]) -> None:
    header = parse_header(build_batch(rows))
    for horizon in (None, 5, 2**41):
        new, batch = retained_batch(header, data, runs, delete_horizon_ms=horizon)
        check_crc(batch, 0, new)
        assert parse_header(batch) == new
        records = list(decode_records(new, batch[HEADER_SIZE:]))
        assert [(r.offset, r.timestamp_ms, r.value, r.headers) for r in records] == [
            (number, row.timestamp_ms, row.value, row.headers) for number, row in kept
        ]
        if runs.dropped:
            assert new.max_timestamp_ms == max(row.timestamp_ms for _, row in kept)
        assert (new.last_offset_delta, new.base_sequence) == (len(rows) - 1, -1)
        assert bool(new.attributes & DELETE_HORIZON_BIT) == (horizon is not None)


@pytest.mark.parametrize("codec", [CODEC_GZIP, CODEC_SNAPPY, CODEC_LZ4, CODEC_ZSTD])
def test_the_codec_stays(codec: int) -> None:
    rows = [Record(0, 10 + number, b"k%d" % number, b"v" * 100) for number in range(10)]
    data = encode_records(rows)
    batch = build_batch(rows, attributes=codec | TRANSACTIONAL_BIT, payload=compress(data, codec))
    header = parse_header(batch)
    runs = find_runs(data, 0, len(data), 0, 10, {b"k3": 3, b"k4": 4, b"k9": 9}, drop_tombstones=False)
    assert (len(runs.spans), runs.kept) == (1, 10), "keys that the map does not know stay"
    runs = find_runs(
        data,
        0,
        len(data),
        0,
        10,
        {b"k%d" % n: 99 if n in (1, 2) else 0 for n in range(10)},
        drop_tombstones=False,
    )
    assert len(runs.spans) == 2
    new, kept = retained_batch(header, data, runs)
    assert (new.codec, new.is_transactional) == (codec, True)
    plain = decompress(bytes(kept[HEADER_SIZE:]), codec)
    assert [record.offset for record in decode_records(new, plain)] == [0, 3, 4, 5, 6, 7, 8, 9]


def test_log_append_time_stays() -> None:
    rows = [Record(0, 10, b"a", b"v"), Record(0, 20, b"b", b"v")]
    header = parse_header(build_batch(rows, attributes=LOG_APPEND_TIME_BIT))._replace(max_timestamp_ms=77)
    data = encode_records(rows)
    new, _ = retained_batch(
        header, data, find_runs(data, 0, len(data), 0, 2, {b"b": 9}, drop_tombstones=False)
    )
    assert (new.record_count, new.max_timestamp_ms) == (1, 77)


def test_an_empty_batch_is_kafkas() -> None:
    rows = [Record(0, 10, b"a", b"v"), Record(0, 20, b"b", b"v")]
    attributes = CODEC_ZSTD | TRANSACTIONAL_BIT | DELETE_HORIZON_BIT
    header = parse_header(
        build_batch(rows, base_offset=7, base_sequence=3, producer_id=1, attributes=attributes)
    )
    new, batch = empty_batch(header)
    check_crc(batch, 0, new)
    assert len(batch) == HEADER_SIZE
    assert (new.record_count, new.last_offset, new.base_sequence, new.last_sequence) == (0, 8, 3, 4)
    assert (new.base_timestamp_ms, new.max_timestamp_ms, new.attributes) == (-1, 20, TRANSACTIONAL_BIT)
    assert list(decode_records(new, b"")) == []


@given(data=st.binary(max_size=60))
def test_other_bytes_are_refused_or_read_to_their_end(data: bytes) -> None:
    for act in (
        lambda: note_latest(data, 0, len(data), 0, 0, {}),
        lambda: find_runs(data, 0, len(data), 0, 0, {}, drop_tombstones=False),
    ):
        try:
            act()
        except ValueError:
            continue


@pytest.mark.parametrize("cut", range(1, 15))
def test_records_that_are_cut_off_are_refused(cut: int) -> None:
    data = encode_records([Record(0, 10, b"key", b"value"), Record(0, 10, b"key", b"value")])
    with pytest.raises(ValueError, match=r"record"):
        note_latest(data[:-cut], 0, len(data) - cut, 0, 0, {})
