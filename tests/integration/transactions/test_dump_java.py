"""Apache Kafka's DumpLogSegments reads the transaction log, and offsets and markers of transactions."""

import re
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kio.schema.errors import ErrorCode

from tests.integration.broker.process import running_broker
from tests.integration.broker.raw import RawClient, create_topic
from tests.integration.cluster.brokers import eventually
from tests.integration.test_log_dump_java import dump
from tests.integration.transactions.clients import TIMEOUT_S, producer, write
from tests.integration.transactions.own_epochs import Writer

pytestmark = pytest.mark.java


def test_kafka_decodes_what_coordinators_wrote(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        config = {"bootstrap.servers": broker.address}
        admin = AdminClient(config)
        for future in admin.create_topics([NewTopic("t", 2, 1)]).values():
            future.result(TIMEOUT_S)
        writer = producer(config, "dumped")
        write(writer, "t", ["a", "b"], commit=True)
        write(writer, "t", ["c"], commit=False)
        writer.begin_transaction()
        reader = Consumer({**config, "group.id": "dumped-group"})
        offsets = [TopicPartition("t", 0, 7)]
        writer.send_offsets_to_transaction(offsets, reader.consumer_group_metadata(), TIMEOUT_S)
        writer.commit_transaction(TIMEOUT_S)
        reader.close()
    logs = tmp_path / "data" / "logs"
    states = _decoded(logs, "__transaction_state-*", "--transaction-log-decoder")
    assert re.findall(r"transactionalId=dumped payload: \S*state=(\w+)", states) == [
        *("Empty", "Ongoing", "PrepareCommit", "CompleteCommit"),
        *("Ongoing", "PrepareAbort", "CompleteAbort"),
        *("Ongoing", "PrepareCommit", "CompleteCommit"),
    ]
    offsets_log = _decoded(logs, "__consumer_offsets-*", "--offsets-decoder")
    assert "dumped-group" in offsets_log
    assert "endTxnMarker: COMMIT" in offsets_log


def test_kafka_decodes_transactions_of_version_2(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker, RawClient(broker.port) as raw:
        create_topic(raw, "t", 2)
        writer = Writer(raw, "own-epochs")
        writer.begin()
        writer.write("t", b"a", indexes=(0, 1))
        writer.end(commit=True)
        writer.write("t", b"b")
        writer.end(commit=False)
        eventually(lambda: writer.end_once(commit=True)[0] is ErrorCode.invalid_txn_state)
    dumped = _decoded(tmp_path / "data" / "logs", "__transaction_state-*", "--transaction-log-decoder")
    payload = r"transactionalId=own-epochs payload: \S*producerEpoch[:=](\d+)\S*state=(\w+)"
    assert re.findall(payload, dumped) == [
        *(("0", "Empty"), ("0", "Ongoing"), ("1", "PrepareCommit"), ("1", "CompleteCommit")),
        *(("1", "Ongoing"), ("2", "PrepareAbort"), ("2", "CompleteAbort")),
    ]


def _decoded(logs: Path, pattern: str, decoder: str) -> str:
    """The dump of every partition that holds anything."""
    filled = [
        each for each in sorted(logs.glob(pattern)) if any(log.stat().st_size for log in each.glob("*.log"))
    ]
    assert filled
    return "".join(dump(each, "--deep-iteration", decoder, suffixes=(".log",)) for each in filled)
