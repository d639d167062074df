"""Batches for the target hold the source's records and their lineage; wire's codec says so."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.mirror.columns import read_varints, record_starts, records_in, varints
from pipeline.mirror.planning.rebatch import LINEAGE_HEADER, Draft, Rebatcher
from pipeline.mirror.writers import NOBODY, Producer, seal
from wire.batch import (
    HEADER_SIZE,
    LOG_APPEND_TIME_BIT,
    BatchHeader,
    Record,
    build_batch,
    check_client_header,
    check_crc,
    decode_records,
    parse_header,
)
from wire.compression import decompress
from wire.varint import write_varint

LINEAGE = b"here/AAAA/3/"
NAME = LINEAGE_HEADER.decode()

nullable = st.one_of(st.none(), st.binary(max_size=300))
headers = st.lists(st.tuples(st.text(max_size=5), nullable), max_size=3).map(tuple)
record = st.builds(
    Record, st.just(0), st.integers(min_value=-1, max_value=2**45), nullable, nullable, headers
)
batches = st.lists(st.lists(record, min_size=1, max_size=12), min_size=1, max_size=6)


def source_batches(groups: list[list[Record]], **attributes: int) -> Iterator[tuple[BatchHeader, bytes]]:
    offset = 5
    for records in groups:
        batch = bytes(build_batch(records, base_offset=offset, **attributes))
        yield parse_header(batch), batch
        offset += len(records) + 3  # a gap, as markers and compaction leave them


def rebatched(
    rebatcher: Rebatcher, source: Iterator[tuple[BatchHeader, bytes]], from_offset: int = 0
) -> list[Draft]:
    drafts = []
    for header, batch in source:
        drafts += rebatcher.add(header, batch, HEADER_SIZE, len(batch), from_offset)
    return [*drafts, *rebatcher.cut()]


def held(drafts: list[Draft]) -> list[Record]:
    """What a reader of the sealed batches gets; everything that brokers check is checked."""
    records: list[Record] = []
    for draft in drafts:
        sealed = seal(draft, Producer(7, 1), 0)
        header = parse_header(sealed)
        check_client_header(header)
        check_crc(sealed, 0, header)
        payload = decompress(bytes(sealed[HEADER_SIZE:]), header.codec)
        found = list(decode_records(header, payload))
        assert max(each.timestamp_ms for each in found) <= header.max_timestamp_ms
        records += found
    return records


@given(batches, st.integers(min_value=600, max_value=4000))
def test_records_keep_everything_and_get_their_lineage(groups: list[list[Record]], bytes_max: int) -> None:
    source = list(source_batches(groups))
    found = held(rebatched(Rebatcher(LINEAGE, "there", bytes_max), iter(source)))

    expected = [each for header, batch in source for each in decode_records(header, batch[HEADER_SIZE:])]
    assert len(found) == len(expected)
    for original, copy in zip(expected, found, strict=True):
        assert copy[1:4] == original[1:4]
        lineage = (NAME, LINEAGE + b"%d" % original.offset)
        assert copy.headers == (*original.headers, lineage)


def test_batches_are_merged_up_to_the_limit() -> None:
    groups = [[Record(0, 1000 + each, None, b"x" * 100)] for each in range(100)]
    drafts = rebatched(Rebatcher(LINEAGE, "there", 4000), source_batches(groups))
    assert sum(draft.record_count for draft in drafts) == 100
    assert all(len(seal(draft, NOBODY, -1)) <= 4000 for draft in drafts)
    assert len(drafts) < 10


def test_a_record_larger_than_the_limit_is_a_batch_of_its_own() -> None:
    groups = [[Record(0, 1, None, b"a"), Record(0, 1, None, b"b" * 9000), Record(0, 1, None, b"c")]]
    drafts = rebatched(Rebatcher(LINEAGE, "there", 4000), source_batches(groups))
    assert [draft.record_count for draft in drafts] == [1, 1, 1]
    assert [draft.first_offset for draft in drafts] == [5, 6, 7]


def test_records_below_the_position_are_left_out() -> None:
    groups = [[Record(0, 1, b"%d" % each, None) for each in range(10)]]
    found = held(rebatched(Rebatcher(LINEAGE, "there", 4000), source_batches(groups), from_offset=12))
    assert [each.key for each in found] == [b"7", b"8", b"9"]


def test_records_that_came_from_the_target_are_left_out() -> None:
    def came(*places: bytes) -> Record:
        return Record(0, 1, places[-1] if places else None, b"v", tuple((NAME, each) for each in places))

    groups = [
        [
            came(),
            came(b"there/T/0/1"),
            came(b"elsewhere/T/0/1"),
            came(b"there/T/0/2", b"elsewhere/T/0/2"),
            came(b"thereabouts/T/0/1"),
        ]
    ]
    rebatcher = Rebatcher(LINEAGE, "there", 4000)
    found = held(rebatched(rebatcher, source_batches(groups)))
    assert [each.key for each in found] == [None, b"elsewhere/T/0/1", b"thereabouts/T/0/1"]
    assert rebatcher.filtered == 2
    assert [name for name, _ in found[1].headers] == [NAME, NAME]


def test_log_append_time_becomes_the_records_own_time() -> None:
    groups = [[Record(0, 1000 + each, None, b"v") for each in range(3)]]
    source = source_batches(groups, attributes=LOG_APPEND_TIME_BIT)
    found = held(rebatched(Rebatcher(LINEAGE, "there", 4000), source))
    assert [each.timestamp_ms for each in found] == [1002, 1002, 1002]


@given(st.binary(max_size=200))
@example(b"\x10\x00\x00\x00\x00\x81\x80\x80\x00")  # ends behind a null value, without headers
def test_hostile_bytes_are_refused_with_a_value_error(data: bytes) -> None:
    try:
        found = records_in(data, 0, len(data))
    except ValueError:
        return
    assert (found.key_at >= 0).all() and (found.key_at <= found.headers_at).all()
    assert (found.headers_at < found.end).all() and (found.end <= len(data)).all()


@given(batches, st.data())
def test_damage_is_told_with_the_offset_of_its_batch(groups: list[list[Record]], data: st.DataObject) -> None:
    source = list(source_batches(groups))
    header, batch = data.draw(st.sampled_from(source))
    cut = batch[: data.draw(st.integers(HEADER_SIZE + 1, len(batch) - 1))]
    starts: set[int] = set()
    record_starts(batch, HEADER_SIZE, len(batch), 0, starts.add)
    damaged = [(each, cut if each is header else whole) for each, whole in source]
    if len(cut) in starts:
        assert sum(draft.record_count for draft in rebatched(Rebatcher(LINEAGE, "there", 600), iter(damaged)))
        return
    with pytest.raises(ValueError, match=f"the batch at offset {header.base_offset} cannot be read"):
        rebatched(Rebatcher(LINEAGE, "there", 600), iter(damaged))


def test_damage_inside_a_record_is_told_with_the_offset_of_its_batch() -> None:
    first, second = source_batches([[Record(0, 1, b"k", b"v")], [Record(0, 1, b"k", b"v")]])
    damaged = bytearray(second[1])
    damaged[HEADER_SIZE + 4] = 60  # the key's length: it runs past the record
    with pytest.raises(ValueError, match="the batch at offset 9 cannot be read: a"):
        rebatched(Rebatcher(LINEAGE, "there", 4000), iter([first, (second[0], bytes(damaged))]))


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-200, 200)))
def test_varints_are_those_of_the_codec(values: list[int]) -> None:
    column = np.array(values, np.int64)
    written = varints(column).to_pylist()
    assert written == [varint_of(value) for value in values]
    data = b"".join(written)
    ends = np.cumsum([len(each) for each in written], dtype=np.int64)
    starts = np.append(0, ends)[: len(values)]
    read, behind = read_varints(np.frombuffer(data, np.uint8), starts, ends)
    assert read.tolist() == values and behind.tolist() == ends.tolist()


def varint_of(value: int) -> bytes:
    out = bytearray()
    write_varint(out, value)
    return bytes(out)


@pytest.mark.parametrize("codec", range(5))
def test_the_sources_codec_is_kept(codec: int) -> None:
    draft = Draft(bytearray(HEADER_SIZE) + b"\0" * 500, 1, codec, 1, 1, 1)
    sealed = seal(draft, NOBODY, -1)
    header = parse_header(sealed)
    assert header.codec == codec
    assert bytes(decompress(bytes(sealed[HEADER_SIZE:]), codec)) == b"\0" * 500
