"""The producer of usage records, against librdkafka's own stand-in for brokers."""

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from contracts.names import SYSTEM_INSTANCE_ID, physical_name
from contracts.usage_batches import RECORDS_MAX, decoded
from contracts.usage_records import USAGE_TOPIC, UsageRecord
from master import usage_writer
from master.usage_writer import UsageWriter
from tests.pipeline.usage_topic import a_record

_TOPIC = physical_name(SYSTEM_INSTANCE_ID, USAGE_TOPIC)
_PATIENCE_S = 30.0


@pytest.fixture
def bootstrap() -> Iterator[str]:
    producer = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    [broker] = producer.list_topics(timeout=10).brokers.values()
    yield f"{broker.host}:{broker.port}"
    producer.flush(0)


def _records(points: int, count: int) -> list[UsageRecord]:
    return [
        a_record(0, number, number, boot_id=f"boot-{point}", instance_id=f"i{number:011}", point=f"p-{point}")
        for point in range(points)
        for number in range(count)
    ]


def _written(writer: UsageWriter, count: int) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while writer.counts["written"] < count:
        assert time.monotonic() < deadline, writer.counts
        writer.write([])
        time.sleep(0.02)


def _read(bootstrap: str) -> dict[bytes, list[list[UsageRecord]]]:
    """Messages by their keys."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "test", "enable.partition.eof": True})
    partitions = consumer.list_topics(_TOPIC, timeout=10).topics[_TOPIC].partitions
    consumer.assign([TopicPartition(_TOPIC, each, 0) for each in partitions])
    found: dict[bytes, list[list[UsageRecord]]] = {}
    ended = 0
    while ended < len(partitions):
        message = consumer.poll(10)
        assert message is not None
        if message.error() is not None:
            ended += 1
        else:
            found.setdefault(message.key(), []).append([*decoded(message.value()).records()])
    consumer.close()
    return found


def test_records_go_in_messages_of_their_points(bootstrap: str) -> None:
    writer = UsageWriter(lambda: (bootstrap,), dict, lambda _: pytest.fail("nothing is lost"))
    records = _records(points=2, count=RECORDS_MAX + 5)
    writer.write(records[:3])
    assert writer.pending == records[:3]
    writer.write(records[3:])
    _written(writer, len(records))
    assert writer.pending == []
    messages = _read(bootstrap)
    assert {key: [len(each) for each in found] for key, found in messages.items()} == {
        b"p-0": [3, RECORDS_MAX, 2],
        b"p-1": [RECORDS_MAX, 5],
    }
    assert (
        sorted((one for found in messages.values() for each in found for one in each), key=_place) == records
    )
    writer.close()


def _place(record: UsageRecord) -> tuple[str, str]:
    return record.boot_id, record.instance_id


def test_without_brokers_records_wait_and_the_oldest_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_writer, "PENDING_MAX", 10)
    lost: list[UsageRecord] = []
    writer = UsageWriter(tuple, dict, lost.extend)
    records = _records(points=1, count=14)
    writer.write(records[:6])
    writer.write(records[6:])
    assert (lost, writer.pending) == (records[:4], records[4:])
    assert writer.counts["failed"] == 4


def test_a_producer_whose_brokers_are_silent_holds_a_bounded_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_writer, "PENDING_MAX", 10)
    monkeypatch.setattr(usage_writer, "_CLOSE_S", 0.0)
    lost: list[UsageRecord] = []
    writer = UsageWriter(lambda: ("127.0.0.1:1",), dict, lost.extend)
    records = _records(points=1, count=40)
    for number in range(0, 40, 5):
        writer.write(records[number : number + 5])
    assert len(writer.pending) == 20 and len(lost) == 20, "10 under way, 10 that wait"
    assert sorted([*writer.pending, *lost], key=_place) == records
    writer.close()
