"""Reading offsets of topics once, piece by piece where Spark's source refuses a record's time."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from pyspark.sql import DataFrame, SparkSession

from pipeline.errors import PipelineError
from pipeline.ingest.admin import Topic
from pipeline.ingest.failures import UnreadableTime, is_from_spark, reason, unreadable_time
from pipeline.ingest.kafka import read_ranges
from pipeline.ingest.offsets import SourceOffsets
from pipeline.ingest.ranges import RECORD_BYTES_GUESS, PartitionRange, pack
from pipeline.ingest.records import read_by_client
from pipeline.ingest.watch import TopicWatch, gone
from pipeline.spark_at import tasks_at_once

_BY_CLIENT_MIN: Final = 1_000
_BY_CLIENT_MAX: Final = 64_000
Ranges = Mapping[str, Sequence[PartitionRange]]
"""By topic; one for a partition."""
T = TypeVar("T")


class Piece(NamedTuple):
    """Ranges that are read together: by Spark, or the only one by a client of our own."""

    ranges: Ranges
    by_client: bool = False


def around(piece: Piece, record: UnreadableTime, client_offsets: int) -> list[Piece]:
    """What to read in place of a piece in which Spark's source cannot read a record. Pure."""
    of_topic = piece.ranges[record.topic]
    [hit] = [each for each in of_topic if each.partition == record.partition]
    after = min(record.offset + client_offsets, hit.end)
    others = [each for each in of_topic if each is not hit]
    first = [each for each in (*others, hit._replace(end=record.offset)) if each.offsets]
    rest = {name: found for name, found in {**piece.ranges, record.topic: first}.items() if found}
    client = hit._replace(start=record.offset, end=after)
    last = hit._replace(start=after)
    return [
        *([Piece(rest)] if rest else []),
        Piece({record.topic: [client]}, by_client=True),
        *([Piece({record.topic: [last]})] if last.offsets else []),
    ]


def read_pieces(
    spark: SparkSession,
    offsets: SourceOffsets,
    topics: Mapping[str, Topic],
    ranges: Ranges,
    use: Callable[[DataFrame], T],
    record_bytes: Mapping[str, float] | None = None,
) -> list[T]:
    """`use` acts on the records of every piece (columns as of `ingest.kafka.read_ranges`).

    Raises: Spark's exceptions; PipelineError where our own client cannot read.
    """
    waiting = deque([Piece(dict(ranges))])
    found = []
    client_offsets = _BY_CLIENT_MIN
    while waiting:
        piece = waiting.popleft()
        try:
            with TopicWatch(spark, offsets, topics):
                found.append(use(_records(spark, offsets, topics, piece, record_bytes or {})))
        except Exception as error:
            record = unreadable_time(error) if is_from_spark(error) else None
            if record is None:
                raise
            waiting.extendleft(reversed(around(piece, record, client_offsets)))
            client_offsets = min(2 * client_offsets, _BY_CLIENT_MAX)
    return found


def _records(
    spark: SparkSession,
    offsets: SourceOffsets,
    topics: Mapping[str, Topic],
    piece: Piece,
    record_bytes: Mapping[str, float],
) -> DataFrame:
    if piece.by_client:
        [(topic, [part])] = piece.ranges.items()
        return read_by_client(spark, offsets, topics[topic], part)
    units = (
        (each, record_bytes.get(topic, float(RECORD_BYTES_GUESS)))
        for topic, found in piece.ranges.items()
        for each in found
    )
    packing = pack(units, tasks_at_once(spark))
    return read_ranges(spark, offsets.source, piece.ranges, packing)


def read_topic(
    spark: SparkSession,
    offsets: SourceOffsets,
    topic: Topic,
    ranges: Sequence[PartitionRange],
    use: Callable[[DataFrame], T],
) -> list[T]:
    """The same of one topic. Raises: PipelineError, also where it is gone: then what was read is not its."""
    failure = ""
    found: list[T] = []
    try:
        found = read_pieces(spark, offsets, {topic.name: topic}, {topic.name: ranges}, use)
    except Exception as error:
        if not is_from_spark(error):
            raise
        failure = reason(error)
    if gone(offsets, {topic.name: topic}):
        raise PipelineError(
            f"topic {topic.name} was deleted while it was read: start again, and if it was made again, that "
            "is another topic with a table of its own"
        )
    if failure:
        raise PipelineError(f"topic {topic.name} could not be read: {failure}")
    return found
