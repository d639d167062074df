"""kill -9 loses nothing that was acknowledged, keeps order, repeats nothing."""

import threading
import time

import pytest
from confluent_kafka import Producer

from tests.integration.broker.process import BrokerProcess, running_broker
from tests.integration.broker.raw import RawClient, batch, create_topic, fetch, produce, request
from wire.batch import iterate_batches


def test_idempotent_production_through_two_kills(tmp_path_factory: pytest.TempPathFactory) -> None:
    with running_broker(tmp_path_factory.mktemp("kill")) as broker:
        with RawClient(broker.port) as raw:
            create_topic(raw, "ordered", 1)
        stop = threading.Event()
        acknowledged: list[int] = []
        failed: list[object] = []
        killer = threading.Thread(target=_kill_twice, args=(broker, stop))
        killer.start()
        producer = Producer(
            {
                "bootstrap.servers": broker.address,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 1,
                "message.timeout.ms": 60_000,
                "reconnect.backoff.max.ms": 200,
            }
        )
        sent = 0
        while not stop.is_set():
            number = sent
            producer.produce(
                "ordered",
                b"%d" % number,
                on_delivery=lambda error, _, number=number: (
                    failed.append(error) if error else acknowledged.append(number)
                ),
            )
            sent += 1
            producer.poll(0)
            if sent % 20 == 0:
                time.sleep(0.002)
        assert producer.flush(60) == 0
        killer.join()
        assert not failed
        assert acknowledged == list(range(sent))
        assert _values(broker, "ordered") == [b"%d" % number for number in range(sent)]


def _kill_twice(broker: BrokerProcess, stop: threading.Event) -> None:
    try:
        for _ in range(2):
            time.sleep(1.0)
            broker.kill()
            broker.start()
        time.sleep(0.5)
    finally:
        stop.set()


def _values(broker: BrokerProcess, topic: str) -> list[bytes]:
    import kafka

    consumer = kafka.KafkaConsumer(
        topic, bootstrap_servers=broker.address, auto_offset_reset="earliest", consumer_timeout_ms=1_500
    )
    try:
        return [record.value for record in consumer]
    finally:
        consumer.close()


def test_producer_ids_are_never_used_again(tmp_path_factory: pytest.TempPathFactory) -> None:
    with running_broker(tmp_path_factory.mktemp("ids")) as broker:
        drawn = []
        for _ in range(3):
            with RawClient(broker.port) as raw:
                drawn += [_producer_id(raw) for _ in range(5)]
            broker.kill()
            broker.start()
        assert len(set(drawn)) == 15


def _producer_id(raw: RawClient) -> int:
    import datetime

    from kio.static.primitive import i32Timedelta

    timeout = i32Timedelta.parse(datetime.timedelta(seconds=5))
    answer = raw.call(
        request(22, 4, transactional_id=None, transaction_timeout=timeout, producer_id=-1, producer_epoch=-1)
    )
    return int(answer.producer_id)


def test_a_repeated_batch_gets_its_first_offset_also_after_a_kill(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with running_broker(tmp_path_factory.mktemp("repeat")) as broker:
        with RawClient(broker.port) as raw:
            create_topic(raw, "repeats")
            producer_id = _producer_id(raw)
            records = [
                batch(b"%d" % number, producer_id=producer_id, producer_epoch=0, base_sequence=number)
                for number in range(4)
            ]
            assert [produce(raw, "repeats", each).base_offset for each in records] == [0, 1, 2, 3]
            assert produce(raw, "repeats", records[2]).base_offset == 2
        broker.kill()
        broker.start()
        with RawClient(broker.port) as raw:
            assert produce(raw, "repeats", records[3]).base_offset == 3
            gap = batch(b"gap", producer_id=producer_id, producer_epoch=0, base_sequence=9)
            assert produce(raw, "repeats", gap).error_code.name == "out_of_order_sequence_number"
            assert fetch(raw, "repeats", 0).high_watermark == 4


def test_recovery_reads_only_what_came_after_the_flush(tmp_path_factory: pytest.TempPathFactory) -> None:
    arguments = ("--flush-interval-ms", "50", "--checkpoint-interval-ms", "100")
    with running_broker(tmp_path_factory.mktemp("bytes"), *arguments) as broker:
        with RawClient(broker.port) as raw:
            create_topic(raw, "flushed", segment_bytes="1048576", flush_ms="50")
            records = batch(b"x" * 100_000)
            for _ in range(100):
                produce(raw, "flushed", records)
            time.sleep(1.0)
            produce(raw, "flushed", records)
        broker.kill()
        broker.start()
        recovered = broker.metrics()["portico_broker_recovered_bytes_total"]
        assert recovered <= 2 * 1_048_576, "not the 10 MB that were stored"
        with RawClient(broker.port) as raw:
            assert fetch(raw, "flushed", 0).high_watermark == 101
            found = bytes(fetch(raw, "flushed", 100).records)
            assert [header.base_offset for _, header in iterate_batches(found)] == [100]


def test_acks_wait_for_the_disk_where_the_topic_says_so(broker: BrokerProcess) -> None:
    with RawClient(broker.port) as raw:
        create_topic(raw, "synced", 2, flush_messages="1")
        for partition in (0, 1, 0):
            assert produce(raw, "synced", batch(b"v"), partition=partition).error_code.value == 0
        assert fetch(raw, "synced", 0).high_watermark == 2


def test_a_second_broker_on_the_same_directory_refuses(broker: BrokerProcess) -> None:
    second = BrokerProcess(broker.directory)
    second._run_file = broker.directory / "second.json"
    with pytest.raises(AssertionError, match="in use by another broker"):
        second.start()
