"""`python -m tests.e2e.copier BOOTSTRAP SEED`: copies topic `input` to `output`, exactly once, until killed.

One transaction per batch; some are aborted on purpose. A fenced or failed producer ends the process: whoever
started it starts another.
"""

import random
import sys
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

_ABORTED_SHARE = 0.15
_TIMEOUT_S = 30.0


def _clients(bootstrap: str) -> tuple[Consumer, Producer]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "copier",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 6000,
        }
    )
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": "copier",
            "transaction.timeout.ms": 20_000,
            "reconnect.backoff.max.ms": 500,
        }
    )
    producer.init_transactions(_TIMEOUT_S)
    consumer.subscribe(["input"])
    return consumer, producer


def _rewind(consumer: Consumer, first: dict[int, int]) -> None:
    for partition, offset in first.items():
        consumer.seek(TopicPartition("input", partition, offset))


def _copy(consumer: Consumer, producer: Producer, messages: list[Any], aborts: bool) -> None:
    """One transaction. Raises: KafkaException."""
    producer.begin_transaction()
    first: dict[int, int] = {}
    for message in messages:
        first.setdefault(message.partition(), message.offset())
        producer.produce("output", message.value(), partition=message.partition())
    if aborts:
        producer.flush(1.0)  # some of it is in the log when the transaction is aborted
        producer.abort_transaction(_TIMEOUT_S)
        _rewind(consumer, first)
        return
    positions = [each for each in consumer.position(consumer.assignment()) if each.offset >= 0]
    producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), _TIMEOUT_S)
    try:
        producer.commit_transaction(_TIMEOUT_S)
    except KafkaException as error:
        if not error.args[0].txn_requires_abort():
            raise
        producer.abort_transaction(_TIMEOUT_S)
        _rewind(consumer, first)


def main() -> None:
    bootstrap, seed = sys.argv[1], int(sys.argv[2])
    chance = random.Random(seed)
    consumer, producer = _clients(bootstrap)
    while True:
        messages = [each for each in consumer.consume(200, 0.2) if each.error() is None]
        if messages:
            _copy(consumer, producer, messages, chance.random() < _ABORTED_SHARE)


if __name__ == "__main__":
    main()
