"""Records of ranges of offsets without Spark: by librdkafka into Arrow's tables, batch after batch."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from pipeline.errors import PipelineError
from pipeline.ingest.kafka import POLL_TIMEOUT_MS
from pipeline.ingest.offsets import RefusedError, SourceOffsets, Topic, UnreachableError
from pipeline.ingest.ranges import PartitionRange
from pipeline.ingest.watch import REFUSED_MAX_S, UNREACHABLE_MAX_S, gone

MESSAGES: Final = pa.schema(
    [
        ("kafka_partition", pa.int32()),
        ("kafka_offset", pa.int64()),
        ("kafka_timestamp_ms", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)
_AT_ONCE: Final = 10_000
BYTES_MAX: Final = 512 * 1024 * 1024
"""Of a batch: records of the largest size that a topic takes are no reason to fill the memory."""
_WAIT_S: Final = 0.2
_LOOK_EVERY_S: Final = 2.0
_SETTINGS: Final = {
    "group.id": "portico-pipeline",  # librdkafka wants one; nothing joins it
    "client.id": "portico-pipeline",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    "auto.offset.reset": "error",
    "check.crcs": True,  # librdkafka does not by itself, and these are bills
    "fetch.error.backoff.ms": 100,
    "log_level": 0,
}
_PASSING: Final = (
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT,
    KafkaError._RESOLVE,
)
"""librdkafka goes on by itself after these; how long we wait is the watch's business."""


class Consumed(NamedTuple):
    """A batch: what a reader of committed records sees of its ranges."""

    messages: pa.Table
    ranges: tuple[PartitionRange, ...]


def consume(
    offsets: SourceOffsets, topic: Topic, waiting: Sequence[PartitionRange], records_max: int
) -> Iterator[Consumed]:
    """Everything of one range per partition, in batches of at most so many records.

    A batch ends where its records do, and its ranges say where that is. Each is given out only after its
    topic was found to be the same one still.
    Raises: PipelineError where records are gone before they are read, the topic is gone, or nobody answers.
    """
    consumer = Consumer(
        _SETTINGS | dict(offsets.source.settings) | {"bootstrap.servers": offsets.source.bootstrap}
    )
    reading = Reading(waiting, records_max)
    watch = Watch(offsets, topic)
    try:
        consumer.assign([TopicPartition(topic.name, each.partition, each.start) for each in waiting])
        while reading.waiting:
            watch.heard()  # a batch may have taken its reader long
            while not reading.is_ready:
                if reading.take(consumer.consume(min(_AT_ONCE, records_max), _WAIT_S)):
                    watch.heard()
                else:
                    watch.silence()
            watch.must_be_same()
            yield reading.batch()
    except KafkaException as error:
        raise PipelineError(f"topic {topic.name}: {error.args[0].str()}: start again") from error
    finally:
        consumer.close()


class Watch:
    """Looks at the topic while Kafka is silent: a consumer would wait for one that is gone."""

    def __init__(
        self, offsets: SourceOffsets, topic: Topic, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._offsets, self._topic, self._clock_s = offsets, topic, clock_s
        self.heard()

    def heard(self) -> None:
        """A record came."""
        self._heard_s = self._looked_s = self._answered_s = self._clock_s()

    def silence(self) -> None:
        """None came. Raises: PipelineError where waiting on is of no use."""
        now_s = self._clock_s()
        if now_s - self._heard_s > POLL_TIMEOUT_MS / 1000:
            raise PipelineError(f"topic {self._topic.name}: no record within {POLL_TIMEOUT_MS // 1000} s")
        if now_s - self._looked_s < _LOOK_EVERY_S:
            return
        try:
            self._offsets.must_answer()
            self.must_be_same()
        except UnreachableError as error:
            is_refused = isinstance(error, RefusedError)
            if self._clock_s() - self._answered_s > (REFUSED_MAX_S if is_refused else UNREACHABLE_MAX_S):
                raise
        else:
            self._answered_s = self._clock_s()
        self._looked_s = self._clock_s()

    def must_be_same(self) -> None:
        """Raises: PipelineError."""
        name = self._topic.name
        if gone(self._offsets, {name: self._topic}):
            raise PipelineError(f"topic {name} was deleted while it was read: nothing of it was committed")


class Reading:
    """The way through ranges, by messages as a consumer gives them; waits for nothing.

    Invariant: of each partition batches have the offsets from its range's start on without a hole, each
    record once, whatever comes twice or from elsewhere.
    """

    def __init__(
        self, waiting: Sequence[PartitionRange], records_max: int, bytes_max: int = BYTES_MAX
    ) -> None:
        self.waiting = {each.partition: each for each in waiting}
        """What is left of each partition, by what was given out."""
        assert len(self.waiting) == len(waiting), "one range per partition"
        self._records_max, self._bytes_max = records_max, bytes_max
        self._held: list[Message] = []
        self._begin()

    def _begin(self) -> None:
        self._left = dict(self.waiting)
        self._chunks: list[pa.Table] = [MESSAGES.empty_table()]
        self._rows = self._bytes = 0
        self.take([])

    @property
    def is_ready(self) -> bool:
        """Whether `batch` has all that it can have."""
        return (
            self._rows >= self._records_max
            or self._bytes >= self._bytes_max
            or not any(each.offsets for each in self._left.values())
        )

    def take(self, messages: list[Message]) -> int:
        """How many are records of this batch; what is more than it holds is kept for the next one.

        Raises: KafkaException with an error after which nothing more comes.
        """
        coming = [*self._held, *messages]
        self._held = []
        found: list[tuple[Any, ...]] = []
        for at, message in enumerate(coming):
            if self._rows + len(found) >= self._records_max:
                self._held = coming[at:]
                break
            if self._is_wanted(message):
                found.append(_row(message))
        if found:
            self._chunks.append(pa.Table.from_arrays([*zip(*found, strict=True)], schema=MESSAGES))
            self._rows += len(found)
            self._bytes += self._chunks[-1].nbytes
        return len(found)

    def batch(self) -> Consumed:
        """What was taken. The next one begins behind it."""
        messages = pa.concat_tables(self._chunks)
        ranges = [one._replace(end=self._left[each].start) for each, one in self.waiting.items()]
        self.waiting = {each: left for each, left in self._left.items() if left.offsets}
        self._begin()
        return Consumed(messages, tuple(one for one in ranges if one.offsets))

    def _is_wanted(self, message: Message) -> bool:
        """Whether it is a record of what is left, which it then is no more.

        What is behind a range's end says that the range is read: its last offsets may be those of a
        transaction's marker, which no consumer sees.
        """
        partition, offset, error = message.partition(), message.offset(), message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            if error.retriable() or error.code() in _PASSING:
                return False
            raise KafkaException(error)
        assert partition is not None and offset is not None
        left = self._left.get(partition)
        if left is None or not left.start <= offset or not left.offsets:
            return False
        is_record = error is None and offset < left.end
        self._left[partition] = left._replace(start=min(offset + is_record, left.end))
        return is_record


def _row(message: Message) -> tuple[Any, ...]:
    """Its columns of MESSAGES."""
    return (message.partition(), message.offset(), message.timestamp()[1], message.key(), message.value())
