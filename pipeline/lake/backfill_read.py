"""Reading offsets of a topic once more, piece by piece where Spark's source refuses a record's time."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from pyspark.sql import DataFrame, SparkSession

from pipeline.errors import PipelineError
from pipeline.ingest.failures import UnreadableTime, is_from_spark, reason, unreadable_time
from pipeline.ingest.kafka import read_ranges
from pipeline.ingest.offsets import SourceOffsets, Topic
from pipeline.ingest.ranges import RECORD_BYTES_GUESS, PartitionRange, pack
from pipeline.ingest.records import read_by_client
from pipeline.ingest.watch import TopicWatch, gone
from pipeline.spark_at import tasks_at_once

_BY_CLIENT: Final = 4000
T = TypeVar("T")


class Piece(NamedTuple):
    """Ranges that are read together: by Spark, or the only one by a client of our own."""

    ranges: tuple[PartitionRange, ...]
    by_client: bool = False


def around(piece: Piece, record: UnreadableTime, client_offsets: int = _BY_CLIENT) -> list[Piece]:
    """What to read in place of a piece in which Spark's source cannot read a record. Pure."""
    [hit] = [each for each in piece.ranges if each.partition == record.partition]
    after = min(record.offset + client_offsets, hit.end)
    others = [each for each in piece.ranges if each is not hit]
    first = tuple(each for each in (*others, hit._replace(end=record.offset)) if each.offsets)
    last = hit._replace(start=after)
    found = [Piece(first)] if first else []
    found.append(Piece((hit._replace(start=record.offset, end=after),), by_client=True))
    return [*found, Piece((last,))] if last.offsets else found


def read_pieces(
    spark: SparkSession,
    offsets: SourceOffsets,
    topic: Topic,
    ranges: Sequence[PartitionRange],
    use: Callable[[DataFrame], T],
) -> list[T]:
    """`use` acts on the records of every piece (columns as of `ingest.kafka.read_ranges`).

    Raises: PipelineError, also where the topic is gone meanwhile: then nothing that was read is its.
    """
    waiting = deque([Piece(tuple(ranges))])
    found = []
    while waiting:
        piece = waiting.popleft()
        try:
            with TopicWatch(spark, offsets, {topic.name: topic}):
                found.append(use(_frame(spark, offsets, topic, piece)))
        except Exception as error:
            if not is_from_spark(error):
                raise
            record = unreadable_time(error)
            if record is None:
                _must_be_there(offsets, topic)
                raise PipelineError(f"topic {topic.name} could not be read: {reason(error)}") from error
            waiting.extendleft(reversed(around(piece, record)))
    _must_be_there(offsets, topic)
    return found


def _frame(spark: SparkSession, offsets: SourceOffsets, topic: Topic, piece: Piece) -> DataFrame:
    if piece.by_client:
        return read_by_client(spark, offsets, topic, piece.ranges[0])
    units = ((each, float(RECORD_BYTES_GUESS)) for each in piece.ranges)
    packing = pack(units, tasks_at_once(spark))
    return read_ranges(spark, offsets.source, {topic.name: piece.ranges}, packing)


def _must_be_there(offsets: SourceOffsets, topic: Topic) -> None:
    if gone(offsets, {topic.name: topic}):
        raise PipelineError(
            f"topic {topic.name} was deleted while it was read: start again, and if it was made again, that "
            "is another topic with a table of its own"
        )
