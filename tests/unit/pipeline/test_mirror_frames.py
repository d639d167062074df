"""The frames that are read and written by hand say what kio's classes say; aborted data is left out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from pipeline.mirror.frames import FetchedPartition, parse_fetch
from pipeline.mirror.kafka import _entity
from pipeline.mirror.source import committed_batches
from wire.batch import CONTROL_BIT, TRANSACTIONAL_BIT, Record, build_batch, parse_header
from wire.codec import encode, framed_response, request_class, response_class
from wire.control import EndMarker, build_marker
from wire.faults import MalformedFrame
from wire.hot.produce import request_head

PRODUCE, FETCH = 0, 1


def fetch_reply(version: int, records: bytes | None, aborted: list[tuple[int, int]] | None) -> bytes:
    partition = {
        "partition_index": 3,
        "error_code": ErrorCode.none,
        "high_watermark": 77,
        "last_stable_offset": 70,
        "log_start_offset": 1,
        "aborted_transactions": None
        if aborted is None
        else [{"producer_id": each, "first_offset": first} for each, first in aborted],
        "preferred_read_replica": -1,
        "records": records,
    }
    entity = _entity(
        response_class(FETCH, version),
        {
            "throttle_time": 12,
            "error_code": ErrorCode.none,
            "session_id": 0,
            "responses": [{"topic": "orders", "partitions": [partition]}],
        },
    )
    return framed_response(entity, 9)[4:]


@pytest.mark.parametrize("version", range(4, 12))
@pytest.mark.parametrize("aborted", [None, [], [(5, 10), (6, 11)]])
@pytest.mark.parametrize("records", [None, b"", b"some bytes"])
def test_fetch_replies_are_read_as_they_were_written(
    version: int, aborted: list[tuple[int, int]] | None, records: bytes | None
) -> None:
    part = parse_fetch(fetch_reply(version, records, aborted), version)
    assert part.frame[part.records_at : part.records_end] == (records or b"")
    assert (part.high_watermark, part.throttle_ms, part.aborted) == (77, 12, aborted or [])


@given(st.binary(max_size=120), st.integers(min_value=4, max_value=11))
def test_hostile_replies_are_malformed(frame: bytes, version: int) -> None:
    try:
        part = parse_fetch(frame, version)
    except MalformedFrame:
        return
    assert 0 <= part.records_at <= part.records_end <= max(len(frame), part.records_at)


@pytest.mark.parametrize("version", range(3, 9))
@pytest.mark.parametrize("transactional_id", [None, "mirror/a/b/0/orders"])
def test_produce_requests_are_kafkas(version: int, transactional_id: str | None) -> None:
    records = b"a whole batch"
    entity = _entity(
        request_class(PRODUCE, version),
        {
            "transactional_id": transactional_id,
            "acks": -1,
            "timeout": 20_000,
            "topic_data": [{"name": "orders", "partition_data": [{"index": 3, "records": records}]}],
        },
    )
    assert request_head(transactional_id, 20_000, "orders", 3, len(records)) + records == encode(entity)


def transactional(offset: int, producer_id: int) -> bytes:
    record = Record(0, 1, b"%d" % producer_id, b"%d" % offset)
    return bytes(
        build_batch(
            [record],
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            attributes=TRANSACTIONAL_BIT,
        )
    )


def marker(offset: int, producer_id: int, *, is_commit: bool) -> bytes:
    batch = build_marker(producer_id, 0, EndMarker(is_commit, 0), now_ms=1)
    batch[:8] = offset.to_bytes(8, "big")
    assert parse_header(batch).attributes & CONTROL_BIT
    return bytes(batch)


def test_aborted_transactions_are_left_out_and_those_after_them_are_not() -> None:
    log = b"".join(
        [
            transactional(10, 1),
            transactional(11, 2),
            marker(12, 1, is_commit=False),
            transactional(13, 1),
            marker(14, 2, is_commit=True),
            marker(15, 1, is_commit=True),
            transactional(16, 1)[:40],  # cut off, as replies may end
        ]
    )
    part = FetchedPartition(ErrorCode.none, 17, 0, [(1, 10)], log, 0, len(log))
    assert [header.base_offset for _, header in committed_batches(part)] == [11, 13]
