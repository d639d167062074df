"""Writes usage records to the system instance's topic, straight to the brokers.

An idempotent producer waits for all replicas and never for us: what does not fit its buffer or is not taken
in time is counted, logged once, and recovered from the totals of later records. Callbacks run in `poll`, on
the caller's thread.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from contracts.names import SYSTEM_INSTANCE_ID, physical_name
from contracts.usage_batches import by_message, encoded
from contracts.usage_records import USAGE_TOPIC, UsageRecord
from runtime.logs import get_logger

_log = get_logger(__name__)
PENDING_MAX: Final = 100_000
"""Records that wait to be acknowledged: 3,000 meters for half an hour."""
_TIMEOUT_MS: Final = 300_000
_CLOSE_S: Final = 2.0

Addresses = Callable[[], tuple[str, ...]]
ClientOptions = Callable[[], dict[str, str]]


class UsageWriter:
    """The producer, made when brokers are known; made anew if it fails for good or all brokers moved."""

    def __init__(
        self, brokers: Addresses, login: ClientOptions, lost: Callable[[list[UsageRecord]], None]
    ) -> None:
        """`brokers` answers HOST:PORT of the topic's cluster, `login` how to enter it in librdkafka's words;
        `lost` is told what could not be written."""
        self._brokers = brokers
        self._login = login
        self._lost = lost
        self._topic = physical_name(SYSTEM_INSTANCE_ID, USAGE_TOPIC)
        self._producer: Producer | None = None
        self._known: tuple[str, ...] = ()
        self._has_failed_for_good = False
        self._is_failing = False
        self._waiting: list[UsageRecord] = []
        self._pending: dict[int, list[UsageRecord]] = {}
        """By the number of their message."""
        self._messages = 0
        self.counts: Counter[str] = Counter(written=0, failed=0)
        """Records by outcome; read from the metrics thread."""

    @property
    def pending(self) -> list[UsageRecord]:
        """What is not known to be written yet."""
        return [*chain.from_iterable(self._pending.values()), *self._waiting]

    def write(self, records: Iterable[UsageRecord]) -> None:
        """Give records to the producer, and take what it has to say. Call it once a period at least."""
        self._waiting.extend(records)
        self._take_brokers()
        if self._producer is not None:
            left = deque(by_message(self._waiting))
            under_way = sum(map(len, self._pending.values()))
            while left and under_way < PENDING_MAX and self._produce(self._producer, left[0]):
                under_way += len(left.popleft())
            self._waiting = [*chain.from_iterable(left)]
            self._producer.poll(0)
        if len(self._waiting) > PENDING_MAX:
            dropped = self._waiting[:-PENDING_MAX]
            del self._waiting[:-PENDING_MAX]
            self._fail(dropped, "too many wait for the brokers")

    def close(self) -> None:
        """Wait a moment for what is under way. Blocks: call it from a worker thread."""
        if self._producer is not None:
            self._producer.flush(_CLOSE_S)
            self._producer = None

    def _take_brokers(self) -> None:
        addresses = self._brokers()
        has_moved = not set(addresses) & set(self._known)
        if not addresses or not (has_moved or self._has_failed_for_good):
            return
        if self._producer is not None:
            self._waiting = self.pending  # ids are the same, so what was written already is not counted twice
            self._pending = {}
        self._has_failed_for_good = False
        self._known = addresses
        self._producer = Producer(self._config(addresses))

    def _config(self, addresses: tuple[str, ...]) -> dict[str, Any]:
        return {
            "bootstrap.servers": ",".join(addresses),
            "client.id": "portico-usage",
            "enable.idempotence": True,
            "acks": "all",
            "compression.type": "lz4",
            "linger.ms": 50,
            "message.timeout.ms": _TIMEOUT_MS,
            # The control plane makes the topic once there are brokers: until then it is not an error.
            "topic.metadata.propagation.max.ms": _TIMEOUT_MS,
            "topic.metadata.refresh.interval.ms": 60_000,
            "reconnect.backoff.max.ms": 10_000,
            "queue.buffering.max.messages": PENDING_MAX,
            "error_cb": self._on_error,
            "log_level": 2,
            **self._login(),
        }

    def _produce(self, producer: Producer, records: list[UsageRecord]) -> bool:
        """Whether the producer took what one message holds; it does not when so many wait in it that it is
        full, or when it has failed for good.
        """
        number = self._messages
        try:
            producer.produce(
                self._topic,
                encoded(records),
                key=records[0].point,
                on_delivery=partial(self._delivered, producer, number),
            )
        except BufferError:
            return False
        except KafkaException as error:
            self._on_error(error.args[0])
            return False
        self._pending[number] = records
        self._messages += 1
        return True

    def _delivered(self, producer: Producer, number: int, error: KafkaError | None, _: Message) -> None:
        if producer is not self._producer:
            return  # of one that was given up: its records go out again
        records = self._pending.pop(number)
        if error is not None:
            self._fail(records, str(error))
            return
        self.counts["written"] += len(records)
        if self._is_failing:
            self._is_failing = False
            _log.info("usage records are written again")

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._has_failed_for_good = True
            _log.warning("the producer of usage records has failed and is made anew", error=str(error))

    def _fail(self, records: list[UsageRecord], reason: str) -> None:
        self.counts["failed"] += len(records)
        self._lost(records)
        if not self._is_failing:
            self._is_failing = True
            _log.warning(
                "usage records are not written; later ones tell the totals",
                error=reason,
                records=len(records),
            )
