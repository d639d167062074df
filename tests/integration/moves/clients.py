"""Clients that go on while their instance moves, and what they saw."""

import threading
import time
from collections import defaultdict
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

PARTITIONS: Final = 3
_QUIET: Final = {"log_level": 2}
_PAYLOAD: Final = b"x" * 300
TABLE_RECORDS: Final = 11_000
TABLE: Final = {"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.01"}


def make_topics(bootstrap: str, *names: str, **configs: str) -> None:
    """Topics of three partitions."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **_QUIET})
    topics = [NewTopic(name, PARTITIONS, config=dict(configs)) for name in names]
    for future in admin.create_topics(topics).values():
        future.result(20)


class Worker:
    """A thread that works until it is stopped; what it raises is raised by `stop`."""

    def __init__(self) -> None:
        self._is_over = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> Any:
        """Begin."""
        self._thread.start()
        return self

    def _run(self) -> None:
        try:
            self.work()
        except BaseException as failure:  # noqa: BLE001 - raised in the test's thread
            self._failure = failure

    @property
    def goes_on(self) -> bool:
        return not self._is_over.is_set()

    def work(self) -> None:
        """What the thread does."""
        raise NotImplementedError

    def stop(self) -> None:
        """Wait for its end. Raises: what ended it."""
        self._is_over.set()
        self._thread.join(60)
        assert not self._thread.is_alive(), "it hangs"
        if self._failure is not None:
            raise self._failure


class Producing(Worker):
    """An idempotent producer: numbers in order, each partition its own."""

    def __init__(self, bootstrap: str, topic: str, *, pause_s: float = 0.002) -> None:
        super().__init__()
        self._bootstrap, self._topic, self._pause_s = bootstrap, topic, pause_s
        self.sent = 0
        self.acked: dict[int, list[tuple[int, int]]] = defaultdict(list)
        """By partition: (offset, number)."""
        self.longest_gap_s = 0.0
        """Without an acknowledgement, the first aside."""
        self._acked_s: float | None = None

    def work(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "reconnect.backoff.max.ms": 500,
                **_QUIET,
            }
        )
        while self.goes_on:
            value = f"{self.sent:010d}".encode() + _PAYLOAD
            producer.produce(self._topic, value, partition=self.sent % PARTITIONS, on_delivery=self._told)
            self.sent += 1
            producer.poll(self._pause_s)
        assert producer.flush(60) == 0, "some of it is never acknowledged"

    def _told(self, error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        now_s = time.monotonic()
        if self._acked_s is not None:
            self.longest_gap_s = max(self.longest_gap_s, now_s - self._acked_s)
        self._acked_s = now_s
        value, partition, offset = message.value(), message.partition(), message.offset()
        assert value is not None and partition is not None and offset is not None
        self.acked[partition].append((offset, int(value[:10])))


class Transacting(Worker):
    """A transactional producer: every third transaction is aborted."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__()
        self._bootstrap, self._topic = bootstrap, topic
        self.committed: list[int] = []
        self.aborted: set[int] = set()
        self.begun_anew = 0
        """Transactions that had to be aborted because of the cluster."""

    def work(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "transactional.id": f"of-{self._topic}",
                "reconnect.backoff.max.ms": 500,
                **_QUIET,
            }
        )
        producer.init_transactions(30)
        number = 0
        while self.goes_on:
            numbers = list(range(number, number + 10))
            number += 10
            producer.begin_transaction()
            for one in numbers:
                producer.produce(self._topic, f"{one:010d}".encode(), partition=0)
                producer.poll(0.002)
            is_aborted = number % 30 == 0
            producer.flush(60)  # neither end of a transaction takes delivery reports meanwhile
            try:
                if is_aborted:
                    producer.abort_transaction(30)
                else:
                    _until_committed(producer)
            except KafkaException as error:
                if not error.args[0].txn_requires_abort():
                    raise
                producer.abort_transaction(30)
                self.begun_anew += 1
                is_aborted = True
            if is_aborted:
                self.aborted.update(numbers)
            else:
                self.committed += numbers


def _until_committed(producer: Producer) -> None:
    while True:
        try:
            producer.commit_transaction(30)
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
        else:
            return


class Consuming(Worker):
    """A member of a group that commits what it has taken."""

    def __init__(self, bootstrap: str, topic: str, group: str, **configs: str) -> None:
        super().__init__()
        self._bootstrap, self._topic, self._group, self._configs = bootstrap, topic, group, configs
        self.taken: dict[int, list[tuple[int, int]]] = defaultdict(list)
        """By partition: (offset, number), repetitions included."""

    def work(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": self._group,
                "auto.offset.reset": "error",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "reconnect.backoff.max.ms": 500,
                "session.timeout.ms": 10_000,
                **self._configs,
                **_QUIET,
            }
        )
        consumer.subscribe([self._topic])
        uncommitted = 0
        while self.goes_on:
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                value, partition, offset = message.value(), message.partition(), message.offset()
                assert value is not None and partition is not None and offset is not None
                self.taken[partition].append((offset, int(value[:10])))
                uncommitted += 1
            elif message is not None:
                error = message.error()
                assert error is not None and error.code() != KafkaError._AUTO_OFFSET_RESET, error
            if uncommitted >= 100 or (message is None and uncommitted):
                try:
                    consumer.commit(asynchronous=False)
                    uncommitted = 0
                except KafkaException:
                    pass  # it is somebody else's group just now: what it took is taken again
        consumer.close()


def fill_table(bootstrap: str, topic: str) -> None:
    """Write a few keys many times to partition 0, and some once: three segments of 1 MiB and a little."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, **_QUIET})
    for number in range(TABLE_RECORDS):
        key = number % 7 if number % 50 else 1_000 + number  # holes between records that stay
        producer.produce(topic, b"%010d" % number + _PAYLOAD, key=b"%d" % key, partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0


def wait_until_compacted(bootstrap: str, topic: str, *, within_s: float = 90.0) -> None:
    """Until the cleaner has been over the segments that are full."""
    deadline = time.monotonic() + within_s
    while len(stored(bootstrap, topic)[0]) > TABLE_RECORDS // 2:
        assert time.monotonic() < deadline, "it is not compacted"
        time.sleep(0.5)


def delete_half(bootstrap: str, topic: str) -> dict[int, int]:
    """Delete the first half of each log; where each begins then."""
    look = Consumer({"bootstrap.servers": bootstrap, "group.id": "look", **_QUIET})
    ends = {index: look.get_watermark_offsets(TopicPartition(topic, index))[1] for index in range(PARTITIONS)}
    look.close()
    begins = {index: end // 2 for index, end in ends.items()}
    admin = AdminClient({"bootstrap.servers": bootstrap, **_QUIET})
    asked = [TopicPartition(topic, index, begin) for index, begin in begins.items()]
    for future in admin.delete_records(asked).values():
        future.result(20)
    return begins


def begin_group(bootstrap: str, topic: str, group: str, offsets: dict[int, int] | None = None) -> None:
    """Commit the beginning, or these offsets, so that nobody has to ask where to begin."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, **_QUIET})
    begin = [TopicPartition(topic, index, (offsets or {}).get(index, 0)) for index in range(PARTITIONS)]
    consumer.commit(offsets=begin, asynchronous=False)
    consumer.close()


def stored(bootstrap: str, topic: str, *, within_s: float = 60.0) -> dict[int, list[tuple[int, int]]]:
    """Everything that is committed in a topic, by partition: (offset, number)."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "look",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            **_QUIET,
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    found: dict[int, list[tuple[int, int]]] = {index: [] for index in range(PARTITIONS)}
    ended: set[int | None] = set()
    deadline = time.monotonic() + within_s
    while len(ended) < PARTITIONS:
        assert time.monotonic() < deadline, "the topic cannot be read to its end"
        message = consumer.poll(1)
        if message is None:
            continue
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
            continue
        value, partition, offset = message.value(), message.partition(), message.offset()
        assert value is not None and partition is not None and offset is not None
        found[partition].append((offset, int(value[:10])))
    consumer.close()
    return found
