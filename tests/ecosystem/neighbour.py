"""The second tenant beside: topics and groups of the same names, and nothing that it notices."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

_PAUSE_S: Final = 0.05
_DRAIN_S: Final = 60.0
_WAIT_S: Final = 30.0


class Neighbour:
    """Produces numbers and consumes them, over and over, until it is asked what it saw."""

    def __init__(self, bootstrap: str, topics: Sequence[str], group: str) -> None:
        self._bootstrap, self._topics, self._group = bootstrap, topics, group
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._stopping = threading.Event()
        self._sent = 0
        self._read: list[int] = []
        self._noticed: list[str] = []
        self._thread = threading.Thread(target=self._live, name="neighbour")

    def start(self) -> None:
        """Its topics are there before its records."""
        made = self._admin.create_topics([NewTopic(one, 1) for one in self._topics])
        for each in made.values():
            each.result(_WAIT_S)
        self._thread.start()

    def stop(self) -> None:
        """Ends it, whatever it saw."""
        self._stopping.set()
        self._thread.join()

    def saw_nothing(self) -> None:
        """Fails unless it read what it wrote, once and in order, and lists what is its own."""
        assert self._noticed == []
        assert self._sent > 0, "it wrote nothing, so it could notice nothing"
        assert self._read == list(range(self._sent))
        listed = set(self._admin.list_topics(timeout=_WAIT_S).topics)
        assert listed == set(self._topics), f"its topics are {sorted(listed)}"
        groups = {one.group_id for one in self._admin.list_consumer_groups().result(_WAIT_S).valid}
        assert groups == {self._group}, f"its groups are {sorted(groups)}"

    def _live(self) -> None:
        try:
            self._produce_and_consume()
        except (
            KafkaException,
            AssertionError,
            ValueError,
        ) as error:  # reported by `saw_nothing`, in the test's own thread
            self._noticed.append(repr(error))

    def _produce_and_consume(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "enable.idempotence": True,
                "linger.ms": 0,
                "error_cb": self._on_error,
            }
        )
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": self._group,
                "auto.offset.reset": "earliest",
                "error_cb": self._on_error,
            }
        )
        consumer.subscribe([self._topics[0]])
        try:
            while not self._stopping.is_set():
                producer.produce(self._topics[0], str(self._sent), on_delivery=self._on_delivery)
                self._sent += 1
                producer.poll(0)
                self._take(consumer.poll(_PAUSE_S))
            assert producer.flush(_DRAIN_S) == 0
            deadline = time.monotonic() + _DRAIN_S
            while len(self._read) < self._sent and time.monotonic() < deadline:
                self._take(consumer.poll(_PAUSE_S))
        finally:
            consumer.close()

    def _take(self, message: Message | None) -> None:
        if message is None:
            return
        error = message.error()
        if error is not None:
            self._noticed.append(f"consumed: {error}")
        else:
            self._read.append(int(message.value() or b""))

    def _on_error(self, error: KafkaError) -> None:
        self._noticed.append(f"client: {error}")

    def _on_delivery(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._noticed.append(f"produced: {error}")


@contextmanager
def beside(bootstrap: str, topics: Sequence[str], group: str) -> Iterator[None]:
    """While this lasts a neighbour lives in another instance; at the end it must have noticed nothing."""
    neighbour = Neighbour(bootstrap, topics, group)
    neighbour.start()
    try:
        yield
    finally:
        neighbour.stop()
    neighbour.saw_nothing()
