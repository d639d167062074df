"""Ranges of offsets by librdkafka: each record once, in bounds, whatever comes between."""

import itertools
from collections.abc import Iterable, Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import PipelineError
from pipeline.ingest.admin import Topic
from pipeline.ingest.consume import MESSAGES, Consumed, Reading, Watch, consume
from pipeline.ingest.kafka import POLL_TIMEOUT_MS
from pipeline.ingest.offsets import KafkaSource, RefusedError, SourceOffsets, UnreachableError
from pipeline.ingest.ranges import PartitionRange
from pipeline.ingest.watch import REFUSED_MAX_S, UNREACHABLE_MAX_S

USAGE = Topic("usage", "ab" * 16, (0, 1))
MADE_AGAIN = USAGE._replace(id="cd" * 16)


def record(offset: int, partition: int = 0, value: bytes | None = b"v", key: bytes | None = b"k") -> Message:
    return Message(topic="usage", partition=partition, offset=offset, key=key, value=value, timestamp=(0, 7))


def event(code: int, offset: int = 0, partition: int = 0) -> Message:
    return Message(topic="usage", partition=partition, offset=offset, error=KafkaError(code))


def end(offset: int, partition: int = 0) -> Message:
    """A consumer has come to a partition's last stable offset."""
    return event(KafkaError._PARTITION_EOF, offset, partition)


def places(batch: Consumed) -> list[tuple[int, int]]:
    columns = (batch.messages[name].to_pylist() for name in ("kafka_partition", "kafka_offset"))
    return [*zip(*columns, strict=True)]


def batches(reading: Reading, turns: Iterable[list[Message]]) -> Iterator[Consumed]:
    coming, turn = iter(turns), list[Message]()
    while reading.waiting:
        while not reading.is_ready:
            turn = turn or [*next(coming)]
            taken, turn = turn[: reading.room], turn[reading.room :]
            reading.take(taken)
        yield reading.batch()


Log = tuple[list[PartitionRange], list[list[Message]], set[tuple[int, int]]]


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Ranges, what a consumer is given turn by turn, and what of it are records of the ranges."""
    ranges, streams, seen = [], [], set()
    for partition in range(draw(st.integers(1, 3))):
        start, length = draw(st.integers(0, 50)), draw(st.integers(1, 20))
        shown = sorted(draw(st.sets(st.integers(start, start + length + 4))))  # the others are markers
        stream = [record(each, partition) for each in shown]
        again = draw(st.integers(0, len(stream)))  # a fetch that is made again after its leader moved
        stream[again:again] = [event(KafkaError._TRANSPORT), *stream[max(0, again - 3) : again]]
        streams.append([*stream, end(start + length + 5, partition)])
        ranges.append(PartitionRange(partition, start, start + length))
        seen |= {(partition, each) for each in shown if each < start + length}
    order = draw(st.permutations([index for index, each in enumerate(streams) for _ in each]))
    queues = [iter(each) for each in streams]
    given = [next(queues[index]) for index in order]
    size = draw(st.integers(1, 12))
    return ranges, [given[at : at + size] for at in range(0, len(given), size)], seen


@settings(deadline=None, max_examples=50)
@given(logs(), st.integers(1, 40))
def test_every_record_of_the_ranges_comes_once_and_batches_follow_one_another(
    log: Log, records_max: int
) -> None:
    ranges, turns, seen = log
    found: list[tuple[int, int]] = []
    reached = {each.partition: each.start for each in ranges}
    for batch in batches(Reading(ranges, records_max), turns):
        assert len(batch.messages) <= records_max
        bounds = {each.partition: each for each in batch.ranges}
        for partition, offset in places(batch):
            assert bounds[partition].start <= offset < bounds[partition].end
        for each in batch.ranges:
            assert each.start == reached[each.partition] < each.end
            reached[each.partition] = each.end
        found += places(batch)
    assert len(found) == len(set(found)) and set(found) == seen
    assert reached == {each.partition: each.end for each in ranges}


def test_markers_at_a_range_s_end_are_passed_by_what_is_behind_them() -> None:
    for behind in (end(12), record(12), record(40)):
        reading = Reading([PartitionRange(0, 5, 12)], 100)
        reading.take([record(5), record(6)])
        assert not reading.is_ready, "nobody has said that 7 to 11 are markers"
        reading.take([behind])
        batch = reading.batch()
        assert (places(batch), batch.ranges) == ([(0, 5), (0, 6)], (PartitionRange(0, 5, 12),))
    only_aborted = Reading([PartitionRange(0, 5, 12)], 100)
    only_aborted.take([end(12)])
    assert only_aborted.is_ready
    assert only_aborted.batch().ranges == (PartitionRange(0, 5, 12),)


def test_a_batch_is_bounded_in_records_and_bytes() -> None:
    big = [record(each, value=bytes(1000)) for each in range(10)]
    by_bytes = Reading([PartitionRange(0, 0, 10)], 100, bytes_max=3000)
    sizes = [len(each.messages) for each in batches(by_bytes, ([each] for each in big))]
    assert sizes == [3, 3, 3, 1]
    by_records = Reading([PartitionRange(0, 0, 10)], 4)
    assert [len(each.messages) for each in batches(by_records, [big])] == [4, 4, 2]


def test_bytes_come_through_as_they_are() -> None:
    garbage = [(None, None), (b"", b""), (b"\xff\x00{", b"\x80"), (bytes(2_000_000), None)]
    reading = Reading([PartitionRange(1, 0, len(garbage))], 100)
    reading.take([record(at, 1, value, key) for at, (value, key) in enumerate(garbage)])
    rows = reading.batch().messages
    assert rows.schema == MESSAGES
    assert [*zip(rows["value"].to_pylist(), rows["key"].to_pylist(), strict=True)] == garbage
    assert rows["kafka_timestamp_ms"].to_pylist() == [7] * len(garbage)


@pytest.mark.parametrize(
    "code", [KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._RESOLVE]
)
def test_brokers_that_go_and_come_again_end_nothing(code: int) -> None:
    reading = Reading([PartitionRange(0, 0, 2)], 100)
    assert [reading.take(each) for each in ([record(0)], [event(code)], [record(1)])] == [1, 0, 1]
    assert places(reading.batch()) == [(0, 0), (0, 1)]


@pytest.mark.parametrize(
    "code",
    [KafkaError._AUTO_OFFSET_RESET, KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError._BAD_MSG],
)
def test_records_that_nobody_gives_us_end_it(code: int) -> None:
    reading = Reading([PartitionRange(0, 0, 2)], 100)
    with pytest.raises(KafkaException):
        reading.take([record(0), event(code)])


class Told(SourceOffsets):
    """A Kafka that says what a test says."""

    def __init__(self, topic: Topic | None, error: PipelineError | None = None, bootstrap: str = "") -> None:
        super().__init__(KafkaSource(bootstrap or "127.0.0.1:1"))
        self.topic, self.error = topic, error

    def topics(self, names: Iterable[str] | None = None) -> dict[str, Topic]:
        return {self.topic.name: self.topic} if self.topic else {}

    def must_answer(self) -> None:
        if self.error is not None:
            raise self.error


class Seconds:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def silent_for(told: Told, seconds_max: float) -> tuple[float, str]:
    """How long a watch of it is patient, and what it says then."""
    clock = Seconds()
    watch = Watch(told, USAGE, clock)
    for waited in itertools.count(0, 0.5):
        clock.now = 1000 + waited
        if waited > seconds_max:
            return waited, "patient"
        try:
            watch.silence()
        except PipelineError as error:
            return waited, str(error)
    raise AssertionError


def test_silence_is_borne_as_long_as_somebody_may_come_back() -> None:
    waited, said = silent_for(Told(USAGE, UnreachableError("nobody there")), 900)
    assert UNREACHABLE_MAX_S < waited < UNREACHABLE_MAX_S + 5 and said == "nobody there"
    waited, said = silent_for(Told(USAGE, RefusedError("closed at once")), 900)
    assert REFUSED_MAX_S < waited < REFUSED_MAX_S + 5 and said == "closed at once"
    # Who answers may throttle us for minutes, not for ever.
    waited, said = silent_for(Told(USAGE), 900)
    assert waited > POLL_TIMEOUT_MS / 1000 and "no record within" in said


@pytest.mark.parametrize("now", [None, MADE_AGAIN])
def test_a_topic_that_is_gone_is_noticed_within_seconds(now: Topic | None) -> None:
    waited, said = silent_for(Told(now), 900)
    assert waited < 5 and "was deleted while it was read" in said


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[Producer, str]]:
    """librdkafka's own two brokers, within this process; partitions 0 and 1 of `usage` have 50 records."""
    producer = Producer({"test.mock.num.brokers": 2, "log_level": 0})
    for offset in range(50):
        for partition in USAGE.partitions:
            producer.produce("usage", f"{partition}/{offset}".encode(), b"k", partition)
        producer.flush(10)
    brokers = producer.list_topics(timeout=10).brokers.values()
    yield producer, ",".join(f"{each.host}:{each.port}" for each in brokers)
    del producer


def test_a_topic_s_ranges_are_read_in_batches(cluster: tuple[Producer, str]) -> None:
    ranges = [PartitionRange(0, 7, 50), PartitionRange(1, 0, 31)]
    found = list(consume(Told(USAGE, bootstrap=cluster[1]), USAGE, ranges, 20))
    assert [len(each.messages) for each in found] == [20, 20, 20, 14]
    values = [value.decode() for each in found for value in each.messages["value"].to_pylist()]
    assert sorted(values) == sorted([f"0/{at}" for at in range(7, 50)] + [f"1/{at}" for at in range(31)])


def test_nothing_is_given_out_of_a_topic_that_was_made_again(cluster: tuple[Producer, str]) -> None:
    with pytest.raises(PipelineError, match="was deleted while it was read"):
        next(consume(Told(MADE_AGAIN, bootstrap=cluster[1]), USAGE, [PartitionRange(0, 0, 50)], 20))


def test_offsets_that_the_broker_has_not_are_no_records(cluster: tuple[Producer, str]) -> None:
    """As where retention, or an election of a replica that lost its end, was faster than we."""
    with pytest.raises(PipelineError, match=r"topic usage: .*[Oo]ffset.*: start again"):
        next(consume(Told(USAGE, bootstrap=cluster[1]), USAGE, [PartitionRange(0, 70, 90)], 20))
