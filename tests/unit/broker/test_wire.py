"""The scanned forms of Produce and Fetch against kio's codec, for every version."""

import datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.static.primitive import i32Timedelta

from broker.log.txn_index import AbortedTransaction
from tests.integration.broker.raw import request
from wire.build import build
from wire.codec import MalformedFrame, decode_response, encode, framed_request, request_class
from wire.hot import fetch as fetch_wire
from wire.hot.fetch import FetchPartition, scan_fetch
from wire.hot.produce import PartitionAnswer, produce_response, scan_produce

_names = st.text("abc.-_é", min_size=1, max_size=12)
_records = st.none() | st.binary(max_size=40)
_i32 = st.integers(-(2**31), 2**31 - 1)
_i64 = st.integers(-(2**63), 2**63 - 1)
_partitions = st.lists(st.tuples(_i32, _records), max_size=3)
_topics = st.lists(st.tuples(_names, _partitions), max_size=3)


def _ms(value: int) -> Any:
    return i32Timedelta.parse(datetime.timedelta(milliseconds=value))


@settings(max_examples=60, deadline=None)
@given(
    version=st.integers(3, 12),
    transactional_id=st.none() | _names,
    acks=st.sampled_from([-1, 0, 1]),
    topics=_topics,
)
def test_a_scanned_produce_is_what_was_encoded(
    version: int, transactional_id: str | None, acks: int, topics: Any
) -> None:
    body = encode(
        request(
            0,
            version,
            transactional_id=transactional_id,
            acks=acks,
            timeout=_ms(1234),
            topic_data=[
                {
                    "name": name,
                    "partition_data": [{"index": index, "records": records} for index, records in parts],
                }
                for name, parts in topics
            ],
        )
    )
    frame = memoryview(bytearray(b"head" + body))
    scan = scan_produce(frame, 4, version)
    assert (scan.transactional_id, scan.acks, scan.timeout_ms) == (transactional_id, acks, 1234)
    found = [
        (
            name,
            [
                (each.partition, None if each.end < 0 else bytes(frame[each.start : each.end]))
                for each in parts
            ],
        )
        for name, parts in scan.topics
    ]
    assert found == topics
    for end in range(4, len(frame)):
        with pytest.raises(MalformedFrame):
            scan_produce(frame[:end], 4, version)


@settings(max_examples=60, deadline=None)
@given(
    topics=st.lists(
        st.tuples(st.uuids(), st.lists(st.tuples(_i32, st.none() | st.binary(max_size=9)), max_size=3)),
        max_size=3,
    )
)
def test_a_scanned_produce_by_id_is_what_was_encoded(topics: Any) -> None:
    entity = request(
        0,
        13,
        transactional_id="t",
        acks=1,
        timeout=_ms(7),
        topic_data=[
            {
                "topic_id": topic_id,
                "partition_data": [{"index": index, "records": records} for index, records in parts],
            }
            for topic_id, parts in topics
        ],
    )
    frame = memoryview(encode(entity))
    scan = scan_produce(frame, 0, 13)
    assert (scan.transactional_id, scan.acks, scan.timeout_ms) == ("t", 1, 7)
    assert [
        (
            key,
            [(one.partition, None if one.end < 0 else bytes(frame[one.start : one.end])) for one in found],
        )
        for key, found in scan.topics
    ] == [(topic_id.bytes, parts) for topic_id, parts in topics]
    answers = [(topic_id.bytes, [PartitionAnswer(3, 100)]) for topic_id, _ in topics]
    _, response = decode_response(produce_response(77, 13, answers, 5)[4:], 0, 13)
    told = [(each.topic_id or UUID(int=0), each.partition_responses[0].index) for each in response.responses]
    assert told == [(topic_id, 3) for topic_id, _ in topics]
    for end in range(len(frame)):
        with pytest.raises(MalformedFrame):
            scan_produce(frame[:end], 0, 13)


@settings(max_examples=100, deadline=None)
@given(
    version=st.integers(3, 12),
    topics=st.lists(
        st.tuples(
            _names,
            st.lists(
                st.builds(
                    PartitionAnswer,
                    _i32,
                    st.sampled_from([0, 2, 44]),
                    _i64,
                    st.just(-1),
                    _i64,
                    st.none() | st.text(max_size=20),
                    st.lists(st.integers(0, 2**31 - 1), max_size=3).map(tuple),
                ),
                max_size=3,
            ),
        ),
        max_size=3,
    ),
)
def test_kio_reads_a_produce_response(version: int, topics: Any) -> None:
    framed = produce_response(77, version, topics, 4321)
    assert int.from_bytes(framed[:4], "big") == len(framed) - 4
    correlation_id, response = decode_response(framed[4:], 0, version)
    assert correlation_id == 77
    assert response.throttle_time == datetime.timedelta(milliseconds=4321)
    assert [each.name for each in response.responses] == [name for name, _ in topics]
    for topic, (_, answers) in zip(response.responses, topics, strict=True):
        for found, answer in zip(topic.partition_responses, answers, strict=True):
            assert (found.index, found.error_code.value) == answer[:2]
            assert found.base_offset == answer.base_offset
            if version >= 8 and answer.error_message is not None:
                told = [(each.batch_index, each.batch_index_error_message) for each in found.record_errors]
                assert told == [(index, answer.error_message) for index in answer.record_indexes]
            if version >= 5:
                assert found.log_start_offset == answer.log_start_offset
            if version >= 8:
                assert found.error_message == answer.error_message


@settings(max_examples=60, deadline=None)
@given(
    version=st.integers(4, 12),
    numbers=st.tuples(_i32, _i32, _i32),
    topics=st.lists(st.tuples(_names, st.lists(st.tuples(_i32, _i32, _i64, _i32), max_size=3)), max_size=3),
    forgotten=st.lists(st.tuples(_names, st.lists(_i32, max_size=3)), max_size=2),
)
def test_a_scanned_fetch_is_what_was_encoded(version: int, numbers: Any, topics: Any, forgotten: Any) -> None:
    min_bytes, max_bytes, session_id = numbers
    entity = request(
        1,
        version,
        replica_id=3,
        max_wait=_ms(500),
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=1,
        session_id=session_id,
        session_epoch=3,
        topics=[
            {
                "topic": name,
                "partitions": [
                    {
                        "partition": partition,
                        "current_leader_epoch": epoch,
                        "fetch_offset": offset,
                        "log_start_offset": 7,
                        "partition_max_bytes": size,
                    }
                    for partition, epoch, offset, size in parts
                ],
            }
            for name, parts in topics
        ],
        forgotten_topics_data=[{"topic": name, "partitions": parts} for name, parts in forgotten],
        rack_id="rack",
    )
    frame = memoryview(encode(entity))
    scan = scan_fetch(frame, 0, version)
    assert (scan.max_wait_ms, scan.min_bytes, scan.max_bytes, scan.isolation_level) == (
        500,
        min_bytes,
        max_bytes,
        1,
    )
    assert scan.replica_id == 3
    assert (scan.session_id, scan.session_epoch) == ((session_id, 3) if version >= 7 else (0, -1))
    expected = [
        (name, partition, epoch if version >= 9 else -1, offset, size, 7 if version >= 5 else -1)
        for name, parts in topics
        for partition, epoch, offset, size in parts
    ]
    assert [tuple(each) for each in scan.partitions] == [(*each, b"") for each in expected]
    if version >= 7:
        assert scan.forgotten == [(name, partition) for name, parts in forgotten for partition in parts]
    for end in range(len(frame)):
        with pytest.raises(MalformedFrame):
            scan_fetch(frame[:end], 0, version)


@settings(max_examples=60, deadline=None)
@given(
    version=st.integers(13, 18),
    topics=st.lists(
        st.tuples(st.uuids(), st.lists(st.tuples(_i32, _i32, _i64, _i32), max_size=3)), max_size=3
    ),
    forgotten=st.lists(st.tuples(st.uuids(), st.lists(_i32, max_size=3)), max_size=2),
)
def test_a_scanned_fetch_by_id_is_what_was_encoded(version: int, topics: Any, forgotten: Any) -> None:
    entity = request(
        1,
        version,
        max_wait=_ms(500),
        min_bytes=1,
        session_id=5,
        session_epoch=3,
        topics=[
            {
                "topic_id": topic_id,
                "partitions": [
                    {
                        "partition": partition,
                        "current_leader_epoch": epoch,
                        "fetch_offset": offset,
                        "log_start_offset": 7,
                        "partition_max_bytes": size,
                        "replica_directory_id": UUID(int=9),
                        "high_watermark": 77,
                    }
                    for partition, epoch, offset, size in parts
                ],
            }
            for topic_id, parts in topics
        ],
        forgotten_topics_data=[{"topic_id": topic_id, "partitions": parts} for topic_id, parts in forgotten],
    )
    frame = memoryview(encode(entity))
    scan = scan_fetch(frame, 0, version)
    assert (scan.replica_id, scan.max_wait_ms, scan.session_id, scan.session_epoch) == (-1, 500, 5, 3)
    assert scan.partitions == [
        FetchPartition("", partition, epoch, offset, size, 7, topic_id.bytes)
        for topic_id, parts in topics
        for partition, epoch, offset, size in parts
    ]
    assert scan.forgotten == [(topic_id.bytes, index) for topic_id, parts in forgotten for index in parts]
    for end in range(len(frame)):
        with pytest.raises(MalformedFrame):
            scan_fetch(frame[:end], 0, version)


@pytest.mark.parametrize("version", range(15, 19))
def test_no_replica_fetches_by_a_tagged_field(version: int) -> None:
    state = {"replica_id": 2, "replica_epoch": 1}
    frame = encode(build(request_class(1, version), {"replica_state": state}))
    with pytest.raises(MalformedFrame):
        scan_fetch(memoryview(frame), 0, version)


@settings(max_examples=100, deadline=None)
@given(
    version=st.integers(4, 18),
    records=st.binary(max_size=50),
    offsets=st.tuples(_i64, _i64, _i64),
    aborted=st.none() | st.lists(st.builds(AbortedTransaction, _i64, _i64, _i64, _i64), max_size=3),
)
def test_kio_reads_a_fetch_response(version: int, records: bytes, offsets: Any, aborted: Any) -> None:
    form = fetch_wire.form_of(version)
    body = (
        fetch_wire.response_head(version, 99, 0, 5)
        + form.packed_count(1)
        + form.topic_head("topic" if version < 13 else UUID(int=4).bytes, 1)
        + fetch_wire.partition_head(version, 3, 0, *offsets, len(records), aborted=aborted)
        + records
        + 3 * form.end
    )
    framed = fetch_wire.frame_head(len(body), 12) + body
    assert int.from_bytes(framed[:4], "big") == len(framed) - 4
    correlation_id, response = decode_response(framed[4:], 1, version)
    assert correlation_id == 12
    topic = response.responses[0]
    assert topic.topic == "topic" if version < 13 else topic.topic_id == UUID(int=4)
    (partition,) = topic.partitions
    assert bytes(partition.records or b"") == records
    assert (partition.high_watermark, partition.last_stable_offset) == offsets[:2]
    if version >= 5:
        assert partition.log_start_offset == offsets[2]
    told = partition.aborted_transactions
    assert (told is None) is (aborted is None)
    assert [(each.producer_id, each.first_offset) for each in told or ()] == [
        each[:2] for each in aborted or ()
    ]


def test_framed_request_of_the_tests_is_what_the_broker_parses() -> None:
    framed = framed_request(request(18, 0), 1, "raw")
    assert int.from_bytes(framed[:4], "big") == len(framed) - 4
