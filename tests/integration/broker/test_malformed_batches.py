"""Batches whose records are not what their header declares, as Apache answers them, next to real clients."""

import time

import kafka
import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.integration.broker.process import BrokerProcess
from tests.integration.broker.raw import RawClient, batch, create_topic, fetch, produce
from tests.unit.wire.malformed import NOW_MS, batch_of, malformed_batches, record
from wire.batch import Record, build_batch, encode_records


def _read_with_kafka_python(broker: BrokerProcess, topic: str, count: int) -> list[tuple[int, bytes]]:
    consumer = kafka.KafkaConsumer(bootstrap_servers=broker.address, auto_offset_reset="earliest")
    partition = kafka.TopicPartition(topic, 0)
    consumer.assign([partition])
    found: list[tuple[int, bytes]] = []
    deadline = time.monotonic() + 60
    while len(found) < count and time.monotonic() < deadline:
        for rows in consumer.poll(timeout_ms=500).values():
            found += [(row.offset, row.value) for row in rows]
    assert consumer.position(partition) == count
    consumer.close()
    return found


def _read_with_librdkafka(broker: BrokerProcess, topic: str, count: int) -> list[tuple[int, bytes]]:
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": topic, "check.crcs": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[tuple[int, bytes]] = []
    deadline = time.monotonic() + 60
    while len(found) < count and time.monotonic() < deadline:
        for message in consumer.consume(100, timeout=0.5):
            assert message.error() is None, message.error()
            found.append((message.offset(), message.value()))
    consumer.close()
    return found


@pytest.mark.parametrize("version", [3, 8])
def test_they_are_invalid_and_consumers_get_what_is_around_them(
    broker: BrokerProcess, raw: RawClient, version: int
) -> None:
    topic = f"malformed.{version}"
    create_topic(raw, topic)
    for number, (name, malformed) in enumerate(malformed_batches().items()):
        answer = produce(raw, topic, malformed, version=version)
        assert (answer.error_code.name, answer.base_offset) == ("invalid_record", -1), name
        assert produce(raw, topic, batch(b"good %d" % number), version=version).base_offset == number
    expected = [(number, b"good %d" % number) for number in range(len(malformed_batches()))]
    assert fetch(raw, topic, 0).high_watermark == len(expected)
    assert _read_with_kafka_python(broker, topic, len(expected)) == expected
    assert _read_with_librdkafka(broker, topic, len(expected)) == expected


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_a_compacted_topic_counts_in_every_codec(broker: BrokerProcess, raw: RawClient, codec: int) -> None:
    topic = f"malformed.compacted.{codec}"
    create_topic(raw, topic, cleanup_policy="compact")
    for name, malformed in malformed_batches(codec).items():
        assert produce(raw, topic, malformed).error_code.name == "invalid_record", name
    assert produce(raw, topic, batch_of(record(0), 1, codec=codec)).base_offset == 0
    assert _read_with_librdkafka(broker, topic, 1) == [(0, b"v")]


def test_records_without_a_key_are_named_to_clients_that_understand(raw: RawClient) -> None:
    create_topic(raw, "keyless", cleanup_policy="compact")
    rows = [Record(0, NOW_MS, None if number in (1, 3) else b"k", b"v") for number in range(5)]
    answer = produce(raw, "keyless", bytes(build_batch(rows)))
    assert answer.error_code.name == "invalid_record"
    assert "without key" in answer.error_message
    assert [error.batch_index for error in answer.record_errors] == [1, 3]
    assert {error.batch_index_error_message for error in answer.record_errors} == {answer.error_message}
    assert produce(raw, "keyless", bytes(build_batch(rows)), version=7).error_code.name == "invalid_record"


def test_a_header_with_what_only_brokers_write(raw: RawClient) -> None:
    create_topic(raw, "brokers.write")
    rows = [Record(0, NOW_MS, b"k", b"v")]
    for changes in (
        {"attributes": 0x20},
        {"attributes": 0x40},
        {"base_offset": 5},
        {"producer_id": 7, "producer_epoch": 0},
        {"producer_id": 7, "base_sequence": 0},
        {"attributes": 0x10},
    ):
        answer = produce(raw, "brokers.write", bytes(build_batch(rows, **changes)))  # type: ignore[arg-type]
        assert answer.error_code.name == "invalid_record", changes
    assert produce(raw, "brokers.write", bytes(build_batch(rows, attributes=0x08))).error_code.name == (
        "invalid_timestamp"
    )
    unknown = bytes(build_batch(rows, attributes=5, payload=encode_records(rows)))
    assert produce(raw, "brokers.write", unknown).error_code.name == "unsupported_compression_type"
