"""The mirror through the gateway: what it keeps, what it leaves out, what it refuses, where it goes on."""

import os
import time
from typing import Any

import msgspec
import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, ResourceType
from pyspark.sql import SparkSession

from pipeline.errors import PipelineError
from pipeline.ingest import admin
from pipeline.mirror.planning.progress import PROGRESS_TOPIC, Position, progress_records
from tests.integration.stack import Stack
from tests.pipeline.mirroring import RECENT_MS, Mirrors, Side, contents


@pytest.fixture
def mirrors(spark: SparkSession) -> Mirrors:
    return Mirrors(spark)


@pytest.fixture(scope="module")
def sides(stack: Stack) -> tuple[Side, Side]:
    """Each test uses topics of its own."""
    return Side(stack, "west"), Side(stack, "east")


def produce_all_kinds(side: Side, topic: str, partitions: int, count: int) -> None:
    """Null and empty, keys and headers, compressed and not, old and equal timestamps, transactions."""
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = side.producer(**{"compression.type": codec, "batch.size": 20_000})
        for number in range(count):
            producer.produce(
                topic,
                key=(None, b"", b"k%d" % number)[number % 3],
                value=(None, b"", b"v%d" % number, b"x" * 3000)[number % 4],
                headers=[("a", b"1"), ("a", None), ("b", b"")] if number % 5 == 0 else None,
                partition=number % partitions,
                timestamp=RECENT_MS + (number * 7919) % 100_000,
            )
        assert producer.flush(30) == 0


def produce_aborted(side: Side, topic: str) -> None:
    producer = side.producer(**{"transactional.id": "loader"})
    producer.init_transactions(20)
    for value, commit in ((b"committed 1", True), (b"aborted", False), (b"committed 2", True)):
        producer.begin_transaction()
        for _ in range(50):
            producer.produce(topic, value=value, partition=0)
        if commit:
            producer.commit_transaction(20)
        else:
            producer.flush(20)
            producer.abort_transaction(20)


def test_everything_of_a_record_is_kept_in_order(sides: tuple[Side, Side], mirrors: Mirrors) -> None:
    west, east = sides
    topic = "kinds"
    west.create(topic, 3)
    produce_all_kinds(west, topic, 3, 300)
    produce_aborted(west, topic)

    assert not mirrors.run(west, east, topic).paused
    expected, found = west.read(topic, 3), east.read(f"{west.name}.{topic}", 3)
    assert contents(found) == contents(expected)
    assert b"aborted" not in {seen.value for seen in found[0]}
    for partition, (at_source, at_target) in enumerate(zip(expected, found, strict=True)):
        for original, copy in zip(at_source, at_target, strict=True):
            source_id, topic_id, said_partition, offset = copy.lineage[0].split("/")
            assert source_id == west.instance["id"] and len(topic_id) == 22
            assert (int(said_partition), int(offset)) == (partition, original.offset)


def test_a_second_run_goes_on_where_the_first_ended(sides: tuple[Side, Side], mirrors: Mirrors) -> None:
    west, east = sides
    topic = "again"
    west.create(topic, 2)
    west.produce(topic, 500, 2)
    first = mirrors.run(west, east, topic, rename="same")
    nothing = mirrors.run(west, east, topic, rename="same")
    west.produce(topic, 300, 2, first=500)
    second = mirrors.run(west, east, topic, rename="same")

    written = [sum(track.records for track in run.tracks) for run in (first, nothing, second)]
    assert written == [500, 0, 300]
    assert contents(east.read(topic, 2)) == contents(west.read(topic, 2))


def test_what_was_committed_behind_an_open_transaction_is_not_repeated(
    sides: tuple[Side, Side], mirrors: Mirrors
) -> None:
    """A killed mirror left one partition's transaction open, and behind it the progress of another one
    committed: it is read only when the first is fenced."""
    west, east = sides
    west.create("behind", 2)
    west.produce("behind", 100, 2)
    first, second = mirrors.run(west, east, "behind", rename="same").tracks
    west.produce("behind", 100, 2, first=100)
    assert (first.position, second.position) == (50, 50)

    opened = east.producer(**{"transactional.id": first.unit.key})
    opened.init_transactions(20)
    opened.begin_transaction()
    opened.produce(PROGRESS_TOPIC, key=b"never committed", value=b"{}")
    assert opened.flush(20) == 0
    committed = east.producer(**{"transactional.id": second.unit.key})
    committed.init_transactions(20)
    committed.begin_transaction()
    for number in range(101, 200, 2):
        committed.produce("behind", key=b"k%d" % number, value=b"value %d" % number, partition=1)
    position = Position(
        **msgspec.structs.asdict(second.unit),
        source=west.name,
        target_topic_id=second.target_topic_id,
        position=100,
        target_position=second.target_position + 50,
        timestamp_ms=-1,
    )
    for key, value in progress_records(position, None):
        committed.produce(PROGRESS_TOPIC, key=key, value=value)
    committed.commit_transaction(20)

    mirrors.run(west, east, "behind", rename="same")
    values = [[seen.value for seen in partition] for partition in east.read("behind", 2)]
    assert values == [[b"value %d" % number for number in range(odd, 200, 2)] for odd in (0, 1)]


def test_two_mirrors_both_ways_do_not_loop(sides: tuple[Side, Side], mirrors: Mirrors) -> None:
    west, east = sides
    for side in sides:
        side.create("both", 1)
        side.produce("both", 100)
    for _ in range(2):
        mirrors.run(west, east, "both", rename="same")
        mirrors.run(east, west, "both", rename="same")

    assert [len(side.read("both")[0]) for side in sides] == [200, 200]


def test_copies_that_came_from_the_target_are_not_topics_to_mirror(stack: Stack, mirrors: Mirrors) -> None:
    west, east = Side(stack, "north"), Side(stack, "south")
    west.create("orders")
    west.produce("orders", 10)
    mirrors.run(west, east)
    east.create("clicks")
    mirrors.run(east, west)

    assert {name for name in west.admin.list_topics(timeout=10).topics if not name.startswith("__")} == {
        "orders",
        f"{east.name}.clicks",
    }


def test_a_record_too_large_for_the_target_pauses_its_partition_only(
    sides: tuple[Side, Side], mirrors: Mirrors
) -> None:
    west, east = sides
    west.create("sizes", 2)
    east.create("sizes", 2, max_message_bytes="4000")
    west.produce("sizes", 40, 2)
    producer = west.producer()
    producer.produce("sizes", value=os.urandom(9000), partition=0)  # which no compression makes fit
    producer.produce("sizes", value=b"small", partition=1)
    producer.flush(20)
    west.produce("sizes", 20, 2)

    summary = mirrors.run(west, east, "sizes", rename="same")

    (sentence,) = summary.paused
    assert sentence.startswith("sizes-0: the record at offset 20 needs a batch of 9")
    assert sentence.endswith("target takes, which is 4000: raise max.message.bytes of the target topic")
    assert [len(partition) for partition in east.read("sizes", 2)] == [20, 31]

    entry = ConfigEntry("max.message.bytes", "1000000", incremental_operation=AlterConfigOpType.SET)
    raised = ConfigResource(ResourceType.TOPIC, "sizes", incremental_configs=[entry])
    (future,) = east.admin.incremental_alter_configs([raised]).values()
    future.result(20)
    assert not mirrors.run(west, east, "sizes", rename="same").paused
    assert contents(east.read("sizes", 2)) == contents(west.read("sizes", 2))


def test_a_target_with_fewer_partitions_is_refused(sides: tuple[Side, Side], mirrors: Mirrors) -> None:
    west, east = sides
    west.create("wide", 3)
    east.create("wide", 2)
    with pytest.raises(PipelineError, match="has 2 partitions, 'wide' at the source has 3"):
        mirrors.run(west, east, "wide", rename="same")


def test_partitions_added_at_the_source_are_added_at_the_target(
    sides: tuple[Side, Side], mirrors: Mirrors
) -> None:
    west, east = sides
    west.create("growing", 1)
    west.produce("growing", 20)
    mirrors.run(west, east, "growing", rename="same")
    west.admin.create_partitions([NewPartitions("growing", 3)])["growing"].result(20)
    west.produce("growing", 30, 3)

    mirrors.run(west, east, "growing", rename="same")

    assert contents(east.read("growing", 3)) == contents(west.read("growing", 3))


def test_a_topic_made_anew_at_the_source_stops_the_mirror(sides: tuple[Side, Side], mirrors: Mirrors) -> None:
    west, east = sides
    west.create("anew")
    west.produce("anew", 20)
    mirrors.run(west, east, "anew", rename="same")
    west.delete("anew")
    with pytest.raises(PipelineError, match="topic 'anew' is not at the source"):
        mirrors.run(west, east, "anew", rename="same")
    west.create("anew")
    west.produce("anew", 5)
    with pytest.raises(PipelineError, match="'anew' was deleted and created again at the source"):
        mirrors.run(west, east, "anew", rename="same")
    assert len(east.read("anew")[0]) == 20


def test_a_target_topic_made_anew_is_filled_from_the_beginning(
    sides: tuple[Side, Side], mirrors: Mirrors
) -> None:
    west, east = sides
    west.create("refilled")
    west.produce("refilled", 20)
    mirrors.run(west, east, "refilled", rename="same")
    east.delete("refilled")
    mirrors.run(west, east, "refilled", rename="same")
    assert contents(east.read("refilled")) == contents(west.read("refilled"))


def test_records_that_retention_took_first_fail_the_mirror_or_are_skipped(
    sides: tuple[Side, Side], mirrors: Mirrors
) -> None:
    west, east = sides
    west.create("short")
    west.produce("short", 20)
    mirrors.run(west, east, "short", rename="same")
    west.produce("short", 30, first=20)
    west.admin.delete_records([TopicPartition("short", 0, 40)])
    deadline = time.monotonic() + 10
    while len(west.read("short")[0]) > 10 and time.monotonic() < deadline:
        time.sleep(0.1)

    with pytest.raises(PipelineError, match=r"removed offsets 20..39 before they were mirrored"):
        mirrors.run(west, east, "short", rename="same")
    summary = mirrors.run(west, east, "short", rename="same", skip_lost=True)

    assert [track.lost for track in summary.tracks] == [20]
    assert [seen.key for seen in east.read("short")[0]] == [
        b"k%d" % number for number in (*range(20), *range(40, 50))
    ]


def committed(side: Side, group: str, topic: str, partitions: int) -> list[int]:
    (future,) = side.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    offsets = {place.partition: place.offset for place in future.result(20).topic_partitions}
    return [offsets.get(partition, -1) for partition in range(partitions)]


def commit(side: Side, group: str, places: list[TopicPartition]) -> None:
    consumer = Consumer({"bootstrap.servers": side.bootstrap, "group.id": group})
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()


def test_groups_go_on_at_the_target_where_they_were(sides: tuple[Side, Side], mirrors: Mirrors) -> None:
    west, east = sides
    west.create("jobs", 2)
    east.create("jobs", 2)
    east.produce("jobs", 14, 2)  # so that offsets differ
    west.produce("jobs", 200, 2)
    mirrors.run(west, east, "jobs", rename="same")
    west.produce("jobs", 200, 2, first=200)
    group: Any = [TopicPartition("jobs", 0, 130), TopicPartition("jobs", 1, 200)]
    commit(west, "workers", group)

    summary = mirrors.run(west, east, "jobs", rename="same", groups=("workers",))

    offsets = committed(east, "workers", "jobs", 2)
    assert [each.target_offset for each in summary.groups] == offsets
    first, second = east.read("jobs", 2)
    assert {seen.offset: seen.lineage for seen in first}[offsets[0]][0].endswith("/0/130")
    assert second[-1].offset == offsets[1] - 1

    commit(east, "workers", [TopicPartition("jobs", 0, 190)])  # consumers failed over and went on
    mirrors.run(west, east, "jobs", rename="same", groups=("workers",))
    assert committed(east, "workers", "jobs", 2)[0] == 190


def test_many_topics_are_made_at_the_rate_of_the_target(
    stack: Stack, mirrors: Mirrors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 30 a target takes 11 at once and one more each second; questions have room for a few of them."""
    monkeypatch.setattr(admin, "_ASKED_MAX", 4)
    monkeypatch.setattr(admin, "_CHANGED_MAX", 9)
    west = Side(stack, "many")
    east = Side(stack, "slow", limits={"controller_mutation_rate_max": 1})
    for number in range(30):
        west.create(f"topic-{number}", retention_ms=str(3_600_000 + number))
        west.produce(f"topic-{number}", 3)
    summary = mirrors.run(west, east, rename="same")
    assert (sum(track.records for track in summary.tracks), len(summary.tracks), summary.paused) == (
        90,
        30,
        [],
    )
    for number in range(30):
        assert len(east.read(f"topic-{number}")[0]) == 3
    resource = ConfigResource(ResourceType.TOPIC, "topic-29")
    assert east.admin.describe_configs([resource])[resource].result(20)["retention.ms"].value == "3600029"


def test_topics_that_the_target_refuses_stop_no_other(stack: Stack, mirrors: Mirrors) -> None:
    west = Side(stack, "roomy")
    east = Side(stack, "narrow", limits={"partitions_max": 6})
    for name, partitions in (("fits", 2), ("does-not", 9), ("fits-too", 3)):
        west.create(name, partitions)
        west.produce(name, 10, partitions)
    summary = mirrors.run(west, east, rename="same")
    assert sum(track.records for track in summary.tracks) == 20
    assert len(summary.paused) == 1 and "partitions" in summary.paused[0]
    assert [len(found) for found in east.read("fits-too", 3)] == [4, 3, 3]


def test_an_instance_is_not_mirrored_into_itself(sides: tuple[Side, Side], mirrors: Mirrors) -> None:
    west, _ = sides
    with pytest.raises(PipelineError, match="source and target are the same instance"):
        mirrors.run(west, west)


def test_a_topic_that_is_not_there_is_named(sides: tuple[Side, Side], mirrors: Mirrors) -> None:
    west, east = sides
    with pytest.raises(PipelineError, match="topic 'nowhere' is not at the source"):
        mirrors.run(west, east, "nowhere")
