"""Records of ranges of offsets without Spark: by librdkafka into Arrow's tables, batch after batch."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from pipeline.errors import PipelineError
from pipeline.ingest.admin import Topic
from pipeline.ingest.kafka import POLL_TIMEOUT_MS
from pipeline.ingest.offsets import KafkaSource, SourceOffsets
from pipeline.ingest.ranges import PartitionRange
from pipeline.ingest.watch import EVERY_S, Patience

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


Rows = tuple[pa.Schema, Callable[[Sequence[Message]], Sequence[Sequence[Any]]]]
"""Columns, and their values of messages."""


class Consumed(NamedTuple):
    """A batch: what a reader of committed records sees of its ranges."""

    messages: pa.Table
    ranges: tuple[PartitionRange, ...]


def consume(
    offsets: SourceOffsets,
    topic: Topic,
    waiting: Sequence[PartitionRange],
    records_max: int,
    bytes_max: int = BYTES_MAX,
) -> Iterator[Consumed]:
    """Everything of one range per partition, in batches of at most so many records, of so many bytes about.

    A batch ends where its records do, and its ranges say where that is. Each is given out only after its
    topic was found to be the same one still.
    Raises: PipelineError where records are gone before they are read, the topic is gone, or nobody answers.
    """
    reading = Reading(waiting, records_max, bytes_max)
    watch = Watch(offsets, topic)
    with consuming(offsets.source, topic.name, waiting) as consumer:
        while reading.waiting:
            watch.heard()  # a batch may have taken its reader long
            reading.fill(consumer, watch)
            watch.must_be_same()
            yield reading.batch()


@contextmanager
def consuming(source: KafkaSource, topic: str, ranges: Sequence[PartitionRange]) -> Iterator[Consumer]:
    """A consumer that stands where these begin. Raises: PipelineError where it cannot go on."""
    consumer = Consumer(_SETTINGS | dict(source.settings) | {"bootstrap.servers": source.bootstrap})
    try:
        consumer.assign([TopicPartition(topic, each.partition, each.start) for each in ranges])
        yield consumer
    except KafkaException as error:
        raise PipelineError(f"topic {topic}: {error.args[0].str()}: start again") from error
    finally:
        consumer.close()


class Watch:
    """Looks at the topic while Kafka is silent."""

    def __init__(
        self, offsets: SourceOffsets, topic: Topic, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._name, self._clock_s = topic.name, clock_s
        self._patience = Patience(offsets, {topic.name: topic}, clock_s)
        self.must_be_same = self._patience.must_be_same
        self.heard()

    def heard(self) -> None:
        """A record came."""
        self._heard_s = self._looked_s = self._clock_s()

    def silence(self) -> None:
        """None came. Raises: PipelineError where waiting on is of no use."""
        now_s = self._clock_s()
        if now_s - self._heard_s > POLL_TIMEOUT_MS / 1000:
            raise PipelineError(f"topic {self._name}: no record within {POLL_TIMEOUT_MS // 1000} s")
        if now_s - self._looked_s >= EVERY_S:
            self._patience.must_last()
            self._looked_s = self._clock_s()


class Reading:
    """The way through ranges, by messages as a consumer gives them; waits for nothing.

    Invariant: of each partition batches have the offsets from its range's start on without a hole, each
    record once, whatever comes twice or from elsewhere.
    """

    def __init__(
        self,
        waiting: Sequence[PartitionRange],
        records_max: int,
        bytes_max: int = BYTES_MAX,
        rows: Rows | None = None,
    ) -> None:
        """`rows`: what is kept of a message, unless that is as of MESSAGES."""
        self.waiting = {each.partition: each for each in waiting}
        """What is left of each partition, by what was given out."""
        assert len(self.waiting) == len(waiting), "one range per partition"
        self._records_max, self._bytes_max = records_max, bytes_max
        self._schema, self._columns = rows or (MESSAGES, _columns)
        self._begin()

    def _begin(self) -> None:
        self._next = {each: one.start for each, one in self.waiting.items()}
        self._chunks: list[pa.Table] = [self._schema.empty_table()]
        self._rows = self._bytes = 0

    @property
    def is_ready(self) -> bool:
        """Whether `batch` has all that it can have."""
        return (
            self._rows >= self._records_max
            or self._bytes >= self._bytes_max
            or all(self._next[each] == one.end for each, one in self.waiting.items())
        )

    @property
    def room(self) -> int:
        """So many messages can be taken at once."""
        return min(_AT_ONCE, self._records_max - self._rows)

    def fill(self, consumer: Consumer, watch: Watch) -> None:
        """Until a batch is ready. Raises: PipelineError, KafkaException."""
        while not self.is_ready:
            if self.take(consumer.consume(self.room, _WAIT_S)):
                watch.heard()
            else:
                watch.silence()

    def take(self, messages: Sequence[Message]) -> int:
        """How many are records of this batch. Raises: KafkaException with an error that nothing follows."""
        assert len(messages) <= self.room, "more than was asked for"
        found = self._wanted(messages)
        if found:
            self._chunks.append(pa.Table.from_arrays([*self._columns(found)], schema=self._schema))
            self._rows += len(found)
            self._bytes += self._chunks[-1].nbytes
        return len(found)

    def batch(self) -> Consumed:
        """What was taken. The next one begins behind it."""
        messages = pa.concat_tables(self._chunks)
        ranges = [one._replace(end=self._next[each]) for each, one in self.waiting.items()]
        left = {each: one._replace(start=self._next[each]) for each, one in self.waiting.items()}
        self.waiting = {each: one for each, one in left.items() if one.offsets}
        self._begin()
        return Consumed(messages, tuple(one for one in ranges if one.offsets))

    def _wanted(self, messages: Sequence[Message]) -> list[Message]:
        """Records of what is left, which they then are no more.

        What is behind a range's end says that the range is read: its last offsets may be those of a
        transaction's marker, which no consumer sees.
        """
        found = []
        ends = {each: one.end for each, one in self.waiting.items()}
        for message in messages:
            error = message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                if error.retriable() or error.code() in _PASSING:
                    continue
                raise KafkaException(error)
            partition, offset = message.partition(), message.offset()
            assert partition is not None and offset is not None
            end = ends.get(partition, 0)
            if self._next.get(partition, end) <= offset:
                if error is None and offset < end:
                    found.append(message)
                    self._next[partition] = offset + 1
                elif partition in ends:
                    self._next[partition] = min(offset, end)
        return found


def _columns(messages: Sequence[Message]) -> list[list[Any]]:
    """Those of MESSAGES."""
    return [
        [each.partition() for each in messages],
        [each.offset() for each in messages],
        [each.timestamp()[1] for each in messages],
        [each.key() for each in messages],
        [each.value() for each in messages],
    ]
