"""Produce 0-2, Fetch 0-3 and ListOffsets 0 at the broker, frame by frame."""

import datetime
import random
import struct
import time
from typing import Any

import pytest
from confluent_kafka import Producer
from kio.static.primitive import i32Timedelta

from tests.integration.broker.process import BrokerProcess
from tests.integration.broker.raw import (
    RawClient,
    batch,
    create_topic,
    fetch,
    fetch_request,
    produce,
    produce_body,
    request,
)
from tests.unit.legacy.sets import Row, plain, read_old, wrapped
from wire.batch import CODEC_GZIP, CODEC_SNAPPY, Record, build_batch
from wire.codec import decode_response
from wire.legacy.message_set import write_message

ROWS: list[Row] = [(0, 1000, b"a", b"1"), (0, 1001, None, b"2"), (0, 1002, b"c", None)]


def produce_old(client: RawClient, topic: str, records: bytes, version: int = 2, acks: int = -1) -> Any:
    """Produce one message set; the partition's answer."""
    client.send_frame(0, version, produce_body(topic, 0, records, acks=acks)[2:])
    _, response = decode_response(client.receive_frame(), 0, version)
    return response.responses[0].partition_responses[0]


def offsets_before(client: RawClient, topic: str, timestamp: int, count: int) -> tuple[int, ...]:
    partition = {"partition_index": 0, "timestamp": timestamp, "max_num_offsets": count}
    asked = [{"name": topic, "partitions": [partition]}]
    answer = client.call(request(2, 0, replica_id=-1, topics=asked))
    found: tuple[int, ...] = answer.topics[0].partitions[0].old_style_offsets
    return found


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("magic", [0, 1])
def test_what_comes_in_goes_out(raw: RawClient, version: int, magic: int) -> None:
    topic = f"in.out.{version}.{magic}"
    create_topic(raw, topic)
    assert produce_old(raw, topic, plain(magic, ROWS), version).base_offset == 0
    answer = produce_old(raw, topic, wrapped(magic, ROWS, CODEC_SNAPPY), version)
    assert answer.base_offset == 3 and getattr(answer, "log_append_time_ms", -1) == -1
    for fetch_version in range(4):
        rows = read_old(fetch(raw, topic, 0, version=fetch_version).records)
        assert [(row[0], *row[2:]) for row in rows] == [
            (number, *row[2:]) for number, row in enumerate(ROWS + ROWS)
        ]
        times = [1000, 1001, 1002] * 2 if magic else [-1] * 6
        assert [row[1] for row in rows] == (times if fetch_version >= 2 else [None] * 6)
    assert [row[0] for row in read_old(fetch(raw, topic, 4, version=3).records)] == [4, 5], "within a batch"


def test_log_append_time(raw: RawClient) -> None:
    create_topic(raw, "stamped", message_timestamp_type="LogAppendTime")
    answer = produce_old(raw, "stamped", plain(0, ROWS))
    assert abs(answer.log_append_time_ms - time.time() * 1000) < 60_000
    assert {row[1] for row in read_old(fetch(raw, "stamped", 0, version=2).records)} == {
        answer.log_append_time_ms
    }


def test_old_formats_in_newer_requests(raw: RawClient) -> None:
    create_topic(raw, "newer")
    for records in (plain(0, ROWS[:1]), plain(1, ROWS), wrapped(1, ROWS, CODEC_GZIP)):
        assert produce(raw, "newer", records, version=3).error_code.name == "invalid_record"
        assert produce(raw, "newer", records, version=8).error_code.name == "invalid_record"
    assert produce_old(raw, "newer", batch(b"v")).error_code.name == "invalid_record"
    assert fetch(raw, "newer", 0).high_watermark == 0


def test_refusals_of_a_topic_hold_for_old_clients_too(raw: RawClient) -> None:
    create_topic(raw, "compacted", cleanup_policy="compact")
    assert produce_old(raw, "compacted", plain(1, ROWS)).error_code.name == "invalid_record"
    assert produce_old(raw, "compacted", plain(1, ROWS[:1])).base_offset == 0
    create_topic(raw, "small", max_message_bytes="500")
    large = plain(1, [(0, 1, b"k", random.Random(1).randbytes(1000))])
    assert produce_old(raw, "small", large).error_code.name == "message_too_large"
    assert produce_old(raw, "small", plain(1, ROWS)[:-1]).error_code.name == "corrupt_message"
    assert produce_old(raw, "no.such", plain(1, ROWS)).error_code.name == "unknown_topic_or_partition"
    assert produce_old(raw, "small", plain(1, ROWS), acks=2).error_code.name == "invalid_required_acks"


def test_acks_0(raw: RawClient) -> None:
    create_topic(raw, "acks.none")
    raw.send_frame(0, 0, produce_body("acks.none", 0, plain(0, ROWS), acks=0)[2:])
    assert fetch(raw, "acks.none", 0, version=0).high_watermark == 3


def test_limits_and_what_does_not_fit(raw: RawClient) -> None:
    create_topic(raw, "limits")
    values = [b"a" * 10, b"b" * 10, b"c" * 2000, b"d"]
    records = tuple(Record(0, 7, None, value) for value in values)
    assert produce(raw, "limits", bytes(build_batch(records))).base_offset == 0
    third = write_message(1, 2, 7, None, values[2])
    assert [row[0] for row in read_old(fetch(raw, "limits", 0, version=2, max_bytes=200).records)] == [0, 1]
    assert fetch(raw, "limits", 2, version=2, max_bytes=200).records == third[:200], "cut: too small a limit"
    assert fetch(raw, "limits", 2, version=2, max_bytes=0).records == b""
    assert fetch(raw, "limits", 2, version=3, max_bytes=200).records == third, "the first comes whole"
    assert [row[0] for row in read_old(fetch(raw, "limits", 2, version=3, max_bytes=4000).records)] == [2, 3]
    assert fetch(raw, "limits", 9, version=1).error_code.name == "offset_out_of_range"
    assert fetch(raw, "limits", 4, version=1).records == b""


def test_several_partitions_take_turns(raw: RawClient) -> None:
    create_topic(raw, "turns", 3)
    for partition in range(3):
        records = batch(*(bytes([partition]) * 10_000 for _ in range(40)))
        assert produce(raw, "turns", records, partition=partition).base_offset == 0
    firsts = set()
    for _ in range(3):
        wanted = [{"partition": each, "fetch_offset": 0, "partition_max_bytes": 1 << 20} for each in range(3)]
        asked = {"max_wait": None, "topics": [{"topic": "turns", "partitions": wanted}]}
        answer = raw.call(request(1, 2, **_fetch_values(asked)))
        found = {each.partition_index: len(each.records) for each in answer.responses[0].partitions}
        assert len(found) == 3 and 0 < sum(found.values()) <= 600_000
        firsts.add(max(found, key=lambda index: found[index]))
    assert firsts == {0, 1, 2}


def _fetch_values(values: dict[str, Any]) -> dict[str, Any]:
    return {"replica_id": -1, "min_bytes": 1, **values, "max_wait": i32Timedelta.parse(datetime.timedelta(0))}


def test_a_long_poll_ends_when_messages_come(broker: BrokerProcess, raw: RawClient) -> None:
    create_topic(raw, "poll")
    with RawClient(broker.port) as waiting:
        waiting.send(fetch_request("poll", 0, version=1, max_wait_ms=60_000))
        time.sleep(0.1)
        produce_old(raw, "poll", plain(1, ROWS[:1]))
        assert len(read_old(waiting.receive().responses[0].partitions[0].records)) == 1


def test_markers_of_transactions_do_not_stop_old_consumers(broker: BrokerProcess, raw: RawClient) -> None:
    create_topic(raw, "transactions")
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": "old-and-new"})
    producer.init_transactions(20)
    for number, end in enumerate((producer.commit_transaction, producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce("transactions", f"{number}")
        producer.flush(10)
        end(10)
    producer.begin_transaction()
    producer.produce("transactions", "last")
    producer.commit_transaction(10)
    rows = read_old(fetch(raw, "transactions", 0, version=2).records)
    assert [(row[0], row[3]) for row in rows] == [(0, b"0"), (2, b"1"), (4, b"last")]
    assert [row[0] for row in read_old(fetch(raw, "transactions", 1, version=0).records)] == [2, 4]
    assert fetch(raw, "transactions", 5, version=2).records == b"", "a marker is the end of the log"


def test_old_offsets(raw: RawClient) -> None:
    create_topic(raw, "segments", segment_bytes="400")
    assert offsets_before(raw, "segments", -1, 5) == (0,)
    for number in range(4):
        produce_old(raw, "segments", plain(1, [(0, 1000 * number, b"k", b"v" * 200)]))
    every = offsets_before(raw, "segments", -1, 100)
    assert every[0] == 4 and every[-1] == 0 and list(every) == sorted(every, reverse=True)
    assert len(every) > 2
    assert offsets_before(raw, "segments", -1, 1) == (4,)
    assert offsets_before(raw, "segments", -2, 1) == (0,)
    assert offsets_before(raw, "segments", 500, 5) == (0,)
    assert offsets_before(raw, "segments", -1, 0) == ()
    assert offsets_before(raw, "segments", -1, -3) == ()


def test_hostile_frames(broker: BrokerProcess) -> None:
    draw = random.Random(11)
    bodies = [
        (0, 0, struct.pack(">hii", -1, 1000, 2**31 - 1)),
        (0, 2, struct.pack(">hii", -1, 1000, -7)),
        (1, 0, struct.pack(">iiii", -1, 0, 0, 2**31 - 1)),
        (1, 3, struct.pack(">iiiii", -1, 0, 0, 0, -5)),
        (2, 0, struct.pack(">ii", -1, 2**30)),
        *((key, version, draw.randbytes(40)) for key in (0, 1, 2) for version in range(4) for _ in range(5)),
    ]
    for api_key, version, body in bodies:
        with RawClient(broker.port) as client:
            client.send_frame(api_key, version, body)
            assert client.is_closed(), (api_key, version, body)
    assert broker.closed_by("internal_error") == 0
