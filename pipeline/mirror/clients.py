"""librdkafka's clients as the mirror uses them: a reader of one partition, a writer of one unit."""

import time
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from pipeline.mirror.planning.address import BOOTSTRAP, Address
from pipeline.mirror.planning.errors import Paused, Unreachable, failure_of, is_lasting
from pipeline.mirror.planning.tracks import Track

_COMMON: Final = {"client.id": "portico-mirror", "log_level": 0, "enable.metrics.push": False}
_BATCH_BYTES: Final = 1024 * 1024
"""Larger batches bring nothing; smaller ones where the target takes no more."""
_MESSAGE_BYTES_MAX: Final = 1_000_000_000
"""librdkafka's own bound must not decide: the target knows what it takes."""
_CODEC: Final = "lz4"
TRANSACTION_TIMEOUT_S: Final = 120.0
REQUEST_TIMEOUT_S: Final = 60.0
_READ_MAX: Final = 2_000
_READ_S: Final = 0.05
_SILENT_S: Final = 5.0


def settings(address: Address, more: dict[str, Any]) -> dict[str, Any]:
    """Client properties: a file's go before the mirror's preferences, but it may not hold what must be."""
    return _COMMON | more | dict(address.config) | {BOOTSTRAP: address.bootstrap}


def _made(kind: Any, config: dict[str, Any]) -> Any:
    """A client. Raises: Paused, where a file's properties do not go with the mirror's."""
    try:
        return kind(config)
    except KafkaException as error:
        raise Paused(f"client properties: {error.args[0].str()}") from error


class PartitionReader:
    """Committed records of one partition from an offset on. Needs a `close`."""

    def __init__(self, address: Address, topic: str, partition: int, position: int) -> None:
        self.position = position
        """Everything committed below this offset has been given."""
        self.fault = ""
        """What was heard last of brokers that are away, until something comes again."""
        self._heard_at = time.monotonic()
        self._place = f"{topic}-{partition}"
        wanted = {
            "group.id": "portico-mirror",  # which librdkafka asks for; nothing is committed
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "check.crcs": True,
            "fetch.wait.max.ms": 50,
            "fetch.message.max.bytes": 4 * 1024 * 1024,
            "fetch.max.bytes": 8 * 1024 * 1024,
            "fetch.queue.backoff.ms": 5,
            "queued.max.messages.kbytes": 32 * 1024,
            "error_cb": self._failed,
            "throttle_cb": self._throttled,
        }
        self._consumer = _made(Consumer, settings(address, wanted))
        self._consumer.assign([TopicPartition(topic, partition, position)])

    def read(self) -> list[Any]:
        """The next messages; none where nothing comes for a moment. Raises: what an error means."""
        messages = self._consumer.consume(_READ_MAX, _READ_S)
        if not messages:
            return []
        self._heard_at, self.fault = max(self._heard_at, time.monotonic()), ""
        last = messages[-1]
        position = last.offset() + (last.error() is None)
        records = [message for message in messages if message.error() is None or self._is_record(message)]
        self.position = max(self.position, position)
        return records

    def _is_record(self, message: Any) -> bool:
        error = message.error()
        if error.code() != KafkaError._PARTITION_EOF:
            raise failure_of(error, f"reading {self._place}")
        return False

    @property
    def is_silent(self) -> bool:
        """Whether neither records nor the partition's end came for some seconds, nor word of throttling."""
        return time.monotonic() - self._heard_at > _SILENT_S

    def _failed(self, error: Any) -> None:
        self.fault = str(error.str())
        if is_lasting(error.code()):
            raise failure_of(error, f"reading {self._place}")

    def _throttled(self, event: Any) -> None:
        self._heard_at = time.monotonic() + float(event.throttle_time)

    def close(self) -> None:
        """End its connections."""
        self._consumer.close()


class UnitWriter:
    """The one producer of a unit: who opens it last is the only one that writes on.

    What an earlier one left open is aborted. Raises, in all methods: what an error means for the unit.
    """

    def __init__(self, address: Address, track: Track) -> None:
        wanted = {
            "transactional.id": track.unit.key,
            "transaction.timeout.ms": int(TRANSACTION_TIMEOUT_S * 1000),
            "message.timeout.ms": int(REQUEST_TIMEOUT_S * 1000),
            "message.max.bytes": _MESSAGE_BYTES_MAX,
            "batch.size": min(track.batch_bytes_max, _BATCH_BYTES),
            "batch.num.messages": 20_000,
            "linger.ms": 50,
            "compression.type": track.codec or _CODEC,
            "queue.buffering.max.kbytes": 32 * 1024,
            "queue.buffering.max.messages": 500_000,
        }
        self._producer = _made(Producer, settings(address, wanted))
        self._is_open = False
        # With a broker at hand; without, librdkafka looks for one again after half a second only.
        self._call("reaching the target", self._producer.list_topics, "__none", REQUEST_TIMEOUT_S)
        within_s = TRANSACTION_TIMEOUT_S + 10  # what is open elsewhere is being completed meanwhile
        self._call("taking over the partition", self._producer.init_transactions, within_s)

    def begin(self) -> None:
        """Open a transaction, unless one is."""
        if not self._is_open:
            self._call("beginning a transaction", self._producer.begin_transaction)
            self._is_open = True

    @property
    def produce(self) -> Any:
        """librdkafka's own, for the loop over records: see `failure`, and `produce_later` for BufferError."""
        return self._producer.produce

    def produce_later(self, *record: Any) -> None:
        """Produce when some of what waits has left."""
        deadline = time.monotonic() + 2 * REQUEST_TIMEOUT_S
        while time.monotonic() < deadline:
            self._call("writing", self._producer.poll, 0.05)
            try:
                return self._call("writing", self._producer.produce, *record)
            except BufferError:
                continue
        raise Unreachable("writing: the target takes nothing")

    def failure(self, error: KafkaException) -> Exception:
        """Why librdkafka refuses: after a failed delivery it says only that, and why when asked to commit."""
        if error.args[0].code() == KafkaError._STATE:
            try:
                self._producer.commit_transaction(REQUEST_TIMEOUT_S)
            except KafkaException as cause:
                error = cause
        return failure_of(error.args[0], "writing")

    def serve(self) -> None:
        """Let go of what was delivered: until then it takes room."""
        self._producer.poll(0)

    def flush(self) -> None:
        """Until everything is acknowledged or refused, which the commit tells."""
        self._call("writing", self._producer.flush, 2 * REQUEST_TIMEOUT_S)

    def commit(self) -> None:
        """All of the open transaction, or nothing where it raises."""
        self._call("committing", self._producer.commit_transaction, REQUEST_TIMEOUT_S)
        self._is_open = False

    def abort(self) -> None:
        """Give up what is open, so that readers need not wait for its timeout."""
        if self._is_open:
            self._is_open = False
            self._call("aborting", self._producer.abort_transaction, REQUEST_TIMEOUT_S)

    def _call(self, doing: str, method: Any, *arguments: Any) -> None:
        try:
            method(*arguments)
        except KafkaException as error:
            raise failure_of(error.args[0], doing) from error
