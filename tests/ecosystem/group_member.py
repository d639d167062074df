"""A librdkafka member of a consumer group that tells what it read and what it committed, a line each:
`read PARTITION OFFSET NANOSECONDS`, `committed PARTITION OFFSET NANOSECONDS`.

    python -m tests.ecosystem.group_member BOOTSTRAP GROUP TOPIC

It leaves when it is told to end.
"""

import signal
import sys
import threading
import time

from confluent_kafka import Consumer, KafkaError, KafkaException

_LATER = (
    KafkaError.STALE_MEMBER_EPOCH,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.REBALANCE_IN_PROGRESS,
)


def _tell(what: str, partition: int, offset: int) -> None:
    print(what, partition, offset, time.time_ns(), flush=True)


def _read(consumer: Consumer) -> None:
    following = {}
    for message in consumer.consume(50, 0.2):
        error = message.error()
        if error is not None:
            print(f"not read: {error}", file=sys.stderr, flush=True)
            continue
        _tell("read", message.partition(), message.offset())
        following[message.partition()] = message.offset() + 1
    if not following:
        return
    try:
        done = consumer.commit(asynchronous=False)
    except KafkaException as refused:
        error = refused.args[0]
        print(f"not committed: {error}", file=sys.stderr, flush=True)
        assert error.retriable() or error.code() in _LATER, str(error)
        return
    for one in done:
        if one.error is None and one.partition in following:
            _tell("committed", one.partition, one.offset)


def main(bootstrap: str, group: str, topic: str) -> None:
    """Until SIGTERM."""
    leaving = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: leaving.set())
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": "consumer",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    while not leaving.is_set():
        _read(consumer)
    consumer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
