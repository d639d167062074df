"""What followers write and read against kio's codec."""

from typing import Any

import pytest

from broker.log.txn_index import AbortedTransaction
from broker.replication.epoch_frames import (
    EPOCHS_VERSION,
    EpochAsked,
    epochs_request,
    read_epochs_answer,
)
from wire.codec import MalformedFrame, decode, parse_request_header, request_class
from wire.hot.fetch import (
    FOLLOWER_VERSION,
    FetchPartition,
    fetch_request,
    form_of,
    partition_head,
    read_answer,
    response_head,
    scan_fetch,
)
from wire.hot.values import packed_string

CLIENT_ID = packed_string("broker-2")


def _fetch() -> bytes:
    wanted = [FetchPartition("a", 3, 5, 100, 1000, 7), FetchPartition("b", 0, 6, 0, 1000, 0)]
    return fetch_request(
        9,
        CLIENT_ID,
        replica_id=2,
        max_wait_ms=500,
        max_bytes=10**6,
        session=(77, 4),
        wanted=wanted,
        forgotten=[("c", 1), ("c", 2)],
    )


def test_a_fetch_is_read_by_kio_and_by_the_broker() -> None:
    framed = _fetch()
    assert int.from_bytes(framed[:4], "big") == len(framed) - 4
    frame = memoryview(framed)[4:]
    header = parse_request_header(frame, False)
    assert (header.correlation_id, header.client_id) == (9, "broker-2")
    entity: Any = decode(request_class(1, FOLLOWER_VERSION), bytes(frame), header.body_at)
    assert (entity.replica_id, entity.session_id, entity.session_epoch) == (2, 77, 4)
    scan = scan_fetch(frame, header.body_at, FOLLOWER_VERSION)
    assert [(each.topic, each.partition) for each in scan.partitions] == [("a", 3), ("b", 0)]
    assert scan.partitions[0] == FetchPartition("a", 3, 5, 100, 1000, 7)
    assert scan.forgotten == [("c", 1), ("c", 2)]


def test_epochs_are_asked_as_kio_reads_it() -> None:
    framed = epochs_request(9, CLIENT_ID, 2, [EpochAsked("a", 1, 7, 6), EpochAsked("a", 2, 7, 5)])
    frame = memoryview(framed)[4:]
    header = parse_request_header(frame, False)
    entity: Any = decode(request_class(23, EPOCHS_VERSION), bytes(frame), header.body_at)
    assert entity.replica_id == 2
    (topic,) = entity.topics
    assert [(each.partition, each.current_leader_epoch, each.leader_epoch) for each in topic.partitions] == [
        (1, 7, 6),
        (2, 7, 5),
    ]


def _answer(records: bytes = b"records") -> bytes:
    head = partition_head(11, 3, 0, 50, 40, 7, len(records), aborted=[AbortedTransaction(5, 6, 7, 8)])
    body = response_head(11, 0, 0, 77) + b"\0\0\0\1" + form_of(11).topic_head("a", 1) + head + records
    return b"\0\0\0\x09" + body


def test_an_answer_is_read() -> None:
    frame = memoryview(_answer())
    _, error_code, session_id, (found,) = read_answer(frame, FOLLOWER_VERSION)
    assert (error_code, session_id) == (0, 77)
    assert found[:5] == ("a", 3, 0, 50, 7)
    assert bytes(frame[found.start : found.end]) == b"records"


def test_answers_that_end_early_are_refused() -> None:
    whole = _answer()
    for end in range(len(whole)):
        with pytest.raises(MalformedFrame):
            read_answer(memoryview(whole[:end]), FOLLOWER_VERSION)
    with pytest.raises(MalformedFrame):
        read_epochs_answer(memoryview(b"\0" * 11))
