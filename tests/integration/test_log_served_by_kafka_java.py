"""An Apache Kafka broker serves a partition directory that our log wrote, and our log one that it wrote."""

import os
import shutil
import signal
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from broker.log.log_config import LogConfig
from broker.log.partition_log import PartitionLog
from broker.log.payload import records_of
from broker.log.results import AppendOrigin
from broker.storage.manager import LogManager
from ctl.bench.apache_kafka import kafka_cluster
from ctl.kafka.cluster import Wish
from tests.integration.kafka_jars import VERSION
from tests.unit.broker_log.builders import NOW_MS, append, batch, idempotent, read_all, values
from wire.batch import TRANSACTIONAL_BIT, Record, build_batch, iterate_batches
from wire.control import EndMarker, build_marker

pytestmark = pytest.mark.java

TOPIC = "orders"
CONFIG = LogConfig(segment_bytes=1024 * 1024, message_timestamp_after_max_ms=10**15)
_FEW_PARTITIONS = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}


class Kafka:
    """One KRaft node of Apache Kafka on loopback."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "kafka"
        self.logs = self.directory / "kafka-1" / "logs"

    @contextmanager
    def running(self) -> Iterator[str]:
        """Its bootstrap address; stopped cleanly at the end."""
        with kafka_cluster(self.directory, Wish(1, VERSION), _FEW_PARTITIONS, "512m") as [broker]:
            yield f"127.0.0.1:{broker.port}"
            os.kill(broker.pid, signal.SIGTERM)
            broker.until_ended()


def produce(address: str, prefix: str, count: int) -> list[str]:
    sent = [f"{prefix}-{number}" for number in range(count)]
    for share, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        producer = Producer(
            {
                "bootstrap.servers": address,
                "enable.idempotence": True,
                "compression.type": codec,
                "linger.ms": 20,
            }
        )
        for text in sent[share * count // 5 : (share + 1) * count // 5]:
            producer.produce(TOPIC, text.encode(), key=b"k")
        assert producer.flush(60) == 0
    return sent


def transact(address: str, prefix: str, count: int) -> list[str]:
    """Transactions of a few records, every third aborted; what was committed."""
    producer = Producer(
        {"bootstrap.servers": address, "transactional.id": prefix, "compression.type": "lz4", "linger.ms": 5}
    )
    producer.init_transactions(60)
    committed = []
    for number in range(count):
        producer.begin_transaction()
        texts = [f"{prefix}-{number}-{row}" for row in range(3)]
        for text in texts:
            producer.produce(TOPIC, text.encode(), key=text.encode())
        if number % 3 == 1:
            assert producer.flush(60) == 0
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)
            committed += texts
    return committed


def consume(address: str, count: int) -> list[tuple[int, str]]:
    """From the start, the default isolation level of librdkafka: read_committed."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "g", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: list[tuple[int, str]] = []
    deadline = time.monotonic() + 60
    while len(found) < count and time.monotonic() < deadline:
        for message in consumer.consume(500, 1.0):
            assert message.error() is None, message.error()
            found.append((message.offset(), (message.value() or b"").decode()))
    consumer.close()
    return found


def open_copy(source: Path, directory: Path) -> tuple[LogManager, PartitionLog]:
    """Our log over a copy of a partition directory."""
    shutil.copytree(source, directory / f"{TOPIC}-0")
    manager = LogManager([directory], cluster_id="copy", node_id=1)
    report = manager.load(lambda _: CONFIG, NOW_MS)
    assert report.failures == {} and report.truncated_bytes == 0
    log = manager.logs[TOPIC, 0]
    log.advance_high_watermark()
    return manager, log


def write_ours(log: PartitionLog) -> list[str]:
    texts = [f"ours-{number}" for number in range(300)]
    for text in texts:
        append(log, batch(text), leader_epoch=log.leader_epoch)
    append(log, idempotent(4711, 0, 2), leader_epoch=log.leader_epoch)
    return [*texts, "p4711s0", "p4711s1"]


@pytest.mark.timeout(400)
@pytest.mark.parametrize("clean", [True, False])
def test_there_and_back(tmp_path: Path, clean: bool) -> None:
    kafka = Kafka(tmp_path)
    with kafka.running() as address:
        admin = AdminClient({"bootstrap.servers": address})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)
        expected = produce(address, "theirs", 1000)
    served = kafka.logs / f"{TOPIC}-0"

    copy = tmp_path / "copy"
    copy.mkdir()
    manager, log = open_copy(served, copy)
    assert values(read_all(log, max_bytes=100_000)) == expected
    assert log.topic_id != uuid.UUID(int=0)
    assert len(log.producers) == 5
    expected += write_ours(log)
    assert manager.close() == []

    shutil.rmtree(served)
    shutil.copytree(copy / f"{TOPIC}-0", served)
    if not clean:
        (kafka.logs / ".kafka_cleanshutdown").unlink()
    with kafka.running() as address:
        assert consume(address, len(expected)) == list(enumerate(expected))
        expected += produce(address, "more", 50)
        assert consume(address, len(expected)) == list(enumerate(expected))


def transact_ours(log: PartitionLog, sequence: int, prefix: str) -> list[str]:
    """Two transactions of one producer, the second aborted, over what another one commits in between."""
    epoch = log.leader_epoch

    def add(producer_id: int, sequence: int, text: str) -> None:
        data = build_batch(
            [Record(0, NOW_MS, text.encode(), text.encode())],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            attributes=TRANSACTIONAL_BIT,
        )
        guard = log.producers.begin_verification(producer_id, 0, sequence, NOW_MS)
        log.append(data, now_ms=NOW_MS, leader_epoch=epoch, origin=AppendOrigin.CLIENT, verification=guard)

    def end(producer_id: int, *, commit: bool) -> None:
        marker = build_marker(producer_id, 0, EndMarker(commit, 0), now_ms=NOW_MS)
        log.append(marker, now_ms=NOW_MS, leader_epoch=epoch, origin=AppendOrigin.COORDINATOR)

    add(900_001, sequence, f"{prefix}-first")
    end(900_001, commit=True)
    add(900_001, sequence + 1, f"{prefix}-aborted")
    add(900_002, sequence // 2, f"{prefix}-second")
    end(900_002, commit=True)
    end(900_001, commit=False)
    log.advance_high_watermark()
    return [f"{prefix}-first", f"{prefix}-second"]


def committed_values(log: PartitionLog) -> list[str]:
    """What a read_committed consumer gets, by the index of aborted transactions."""
    aborted = log.reading.aborted(0, log.log_end_offset)
    found: list[str] = []
    data = b"".join(path.read_bytes() for path in sorted(log.directory.glob("*.log")))
    for at, header in iterate_batches(data):
        gone = any(
            entry.producer_id == header.producer_id
            and entry.first_offset <= header.base_offset <= entry.last_offset
            for entry in aborted
        )
        if not header.is_control and not (gone and header.is_transactional):
            batch_records = records_of(data[at : at + header.size_bytes], header)
            found += [(record.value or b"").decode() for record in batch_records]
    return found


@pytest.mark.timeout(400)
@pytest.mark.parametrize("clean", [True, False])
def test_transactions_there_and_back(tmp_path: Path, clean: bool) -> None:
    kafka = Kafka(tmp_path)
    with kafka.running() as address:
        admin = AdminClient({"bootstrap.servers": address})
        config = {"segment.bytes": "6000", "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1.0"}
        admin.create_topics([NewTopic(TOPIC, 1, 1, config=config)])[TOPIC].result(30)
        expected = transact(address, "theirs", 60)
        expected += produce(address, "plain", 300)[-1:]
    served = kafka.logs / f"{TOPIC}-0"
    assert len(list(served.glob("*.log"))) > 1

    copy = tmp_path / "copy"
    copy.mkdir()
    manager, log = open_copy(served, copy)
    assert log.last_stable_offset == log.log_end_offset
    assert len(log.reading.aborted(0, log.log_end_offset)) == 20
    assert [text for text in committed_values(log) if text.startswith("theirs")] == expected[:-1]
    log.reconfigure(replace(CONFIG, cleanup_policy=frozenset({"compact"}), segment_bytes=20_000))
    expected += transact_ours(log, 0, "ours")
    log.rolling.roll(log.log_end_offset, NOW_MS)
    log.durability.flush()
    job = log.compaction.begin(NOW_MS)
    assert job is not None
    job.run()
    assert log.compaction.complete(job) is not None
    assert log.segment_count <= 3
    expected += transact_ours(log, 2, "again")
    assert committed_values(log) == expected
    log.truncation.truncate_to(log.log_end_offset - 1)
    end_marker = build_marker(900_001, 0, EndMarker(False, 0), now_ms=NOW_MS)
    append(log, end_marker, leader_epoch=log.leader_epoch, origin=AppendOrigin.COORDINATOR)
    assert manager.close() == []

    shutil.rmtree(served)
    shutil.copytree(copy / f"{TOPIC}-0", served)
    if not clean:
        (kafka.logs / ".kafka_cleanshutdown").unlink()
    with kafka.running() as address:
        assert [text for _, text in consume(address, len(expected))] == expected
        expected += transact(address, "more", 4)
        assert [text for _, text in consume(address, len(expected))] == expected
