"""Batches as a client could have produced them: offsets stay, and nothing comes that was not committed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenants.rules.replays import Aborted, are_aborted, steps
from wire.batch import (
    CODEC_GZIP,
    CODEC_NONE,
    CODEC_ZSTD,
    DELETE_HORIZON_BIT,
    HEADER_SIZE,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Record,
    build_batch,
    check_client_header,
    check_crc,
    decode_records,
    encode_records,
    parse_header,
)
from wire.compression import compress, decompress
from wire.record_runs import Runs
from wire.retained_batch import empty_batch, retained_batch

BASE = 5_000


def record(number: int) -> Record:
    return Record(0, 1_000 + 7 * number, b"k%d" % number, b"v" * (number % 9), (("h", b"%d" % number),))


def batch(count: int, codec: int = CODEC_NONE, attributes: int = 0, base: int = BASE) -> bytearray:
    records = [record(number) for number in range(count)]
    return build_batch(
        records,
        base_offset=base,
        producer_id=7,
        producer_epoch=1,
        base_sequence=100,
        attributes=codec | attributes,
        payload=compress(encode_records(records), codec),
    )


def holed(whole: bytearray, kept: list[int]) -> tuple[BatchHeader, bytearray]:
    """As the cleaner leaves it."""
    header = parse_header(whole)
    payload = bytes(decompress(bytes(whole[HEADER_SIZE:]), header.codec))
    spans, at, places = [], 0, []
    while at < len(payload):
        length = (payload[at] >> 1) if payload[at] < 0x80 else None
        assert length is not None, "short records"
        places.append((at, at + 1 + length))
        at = places[-1][1]
    spans = [places[number] for number in kept]
    runs = Runs(spans, len(kept), header.record_count - len(kept), False)
    return retained_batch(header, payload, runs, delete_horizon_ms=77_000)


def read(header: BatchHeader, data: bytes | bytearray, base: int) -> list[tuple[int, Record]]:
    payload = decompress(bytes(data[HEADER_SIZE:]), header.codec)
    return [
        (base + one.offset - header.base_offset, one._replace(offset=0))
        for one in decode_records(header, payload)
    ]


def test_a_plain_batch_stays_as_it_is_and_keeps_its_producer() -> None:
    whole = batch(5, CODEC_ZSTD)
    (one,) = steps(parse_header(whole), memoryview(whole), is_aborted=False)
    assert (one.first, one.end) == (BASE, BASE + 5) and one.batch is not None
    assert one.batch[16:] == whole[16:], "but for what a broker writes itself"
    header = parse_header(one.batch)
    check_client_header(header)
    check_crc(one.batch, 0, header)
    assert header.crc == parse_header(whole).crc
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, 100)


@pytest.mark.parametrize("attributes", [TRANSACTIONAL_BIT, 0])
def test_a_batch_of_a_transaction_goes_without_its_producer(attributes: int) -> None:
    whole = batch(4, attributes=attributes)
    (one,) = steps(parse_header(whole), memoryview(whole), is_aborted=False, forgets_producer=not attributes)
    assert one.batch is not None
    header = parse_header(one.batch)
    check_client_header(header)
    check_crc(one.batch, 0, header)
    assert not header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    assert one.batch[HEADER_SIZE:] == whole[HEADER_SIZE:]


def test_what_is_aborted_and_markers_and_empty_batches_are_offsets_without_records() -> None:
    whole = batch(4, attributes=TRANSACTIONAL_BIT)
    header, empty = empty_batch(parse_header(batch(6)))
    for one, data, is_aborted in (
        (parse_header(whole), whole, True),
        (header, empty, False),
        (parse_header(batch(1, attributes=TRANSACTIONAL_BIT | 0x20)), batch(1), False),
    ):
        (step,) = steps(one, memoryview(data), is_aborted=is_aborted)
        assert step == (one.base_offset, one.next_offset, None)


@given(
    kept=st.lists(st.integers(0, 11), min_size=1, max_size=11, unique=True).map(sorted),
    codec=st.sampled_from([CODEC_NONE, CODEC_GZIP, CODEC_ZSTD]),
)
def test_holes_are_filled_and_records_keep_offsets_times_and_headers(kept: list[int], codec: int) -> None:
    header, data = holed(batch(12, codec), kept)
    assert header.attributes & DELETE_HORIZON_BIT
    found = steps(header, memoryview(data), is_aborted=False)
    at, records = BASE, []
    for step in found:
        assert step.first == at < step.end
        at = step.end
        if step.batch is None:
            continue
        made = parse_header(step.batch)
        check_client_header(made)
        check_crc(step.batch, 0, made)
        assert step.end - step.first == made.record_count
        inside = read(made, step.batch, step.first)
        assert made.max_timestamp_ms == max(one.timestamp_ms for _, one in inside)
        records += inside
    assert at == BASE + 12
    assert records == [(BASE + number, record(number)) for number in kept]


def test_records_that_are_not_there_are_an_error() -> None:
    header, data = holed(batch(12), [1, 5, 6])
    with pytest.raises(ValueError, match=r"2 records where|cut off|ends at"):
        steps(header, memoryview(data)[:-9], is_aborted=False)


def head(base: int, count: int, producer_id: int, attributes: int = TRANSACTIONAL_BIT) -> BatchHeader:
    return parse_header(batch(count, attributes=attributes, base=base))._replace(producer_id=producer_id)


def test_transactions_of_two_producers_that_overlap() -> None:
    marker = TRANSACTIONAL_BIT | 0x20
    log = [
        head(0, 2, 1),  # begun before what is told: aborted
        head(2, 2, 2),  # committed
        head(4, 1, 1, marker),
        head(5, 2, 1),  # the next one of the same producer: committed
        head(7, 1, 2, marker),
        head(8, 3, 2),  # aborted
        head(11, 2, 9, 0),  # of no transaction
        head(13, 1, 1, marker),
        head(14, 1, 2, marker),
        head(15, 1, 2),
    ]
    told = [Aborted(2, 8), Aborted(1, -5)]
    assert list(are_aborted(log, told)) == [
        *(True, False, False, False, False),
        *(True, False, False, False, False),
    ]
