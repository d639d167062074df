"""What tests read back of activity: tables as plain values, topics as a stranger reads them."""

import json
from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, TopicPartition
from deltalake import DeltaTable

from pipeline.activity.records import Truth
from pipeline.layout import PipelineLayout

RESULTS = (
    "views_minute",
    "views_late",
    "views_sessions",
    "views_top",
    "following",
    "feed",
    "abuse_alerts",
    "ops_minute",
    "ops_alerts",
)
JOBS = ("views", "feed", "abuse", "ops")


def rows_of(layout: PipelineLayout, instance_id: str, table: str) -> list[tuple[Any, ...]]:
    """A table's rows in one order, columns by name, times as epoch ms. Without Spark, which is slow at it."""
    path = str(layout.activity(instance_id) / table)
    if not DeltaTable.is_deltatable(path):
        return []
    read = pa.table(DeltaTable(path).to_pyarrow_table())
    columns = [
        pc.cast(read[name], pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())
        if pa.types.is_timestamp(read[name].type)
        else read[name]
        for name in sorted(read.column_names)
    ]
    return sorted(zip(*(column.to_pylist() for column in columns), strict=True), key=repr)


def results_of(layout: PipelineLayout, instance_id: str) -> dict[str, list[tuple[Any, ...]]]:
    """All results and dead letters."""
    names = [*RESULTS, *(f"{job}_dead_letters" for job in JOBS)]
    return {name: rows_of(layout, instance_id, name) for name in names}


def views_of(*truths: Truth) -> Counter[tuple[int, str]]:
    """(minute, page) of all that was sent."""
    found: Counter[tuple[int, str]] = Counter()
    for truth in truths:
        for page, minutes in truth.views.items():
            found.update({(minute, page): views for minute, views in minutes.items()})
    return found


def counted(rows: list[tuple[Any, ...]]) -> Counter[tuple[int, str]]:
    """Rows (minute, page, views) of a table of counts; no pair twice."""
    assert len({row[:2] for row in rows}) == len(rows)
    return Counter({(minute, page): views for minute, page, views in rows})


def read_topic(bootstrap: str, topic: str) -> list[tuple[str, bytes]]:
    """Every record's key and value, by a standard client."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "test", "enable.auto.commit": False})
    found = []
    for partition in consumer.list_topics(topic, timeout=10).topics[topic].partitions:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)
        consumer.assign([TopicPartition(topic, partition, low)])
        while low < high:
            for message in consumer.consume(10_000, 1.0):
                assert message.error() is None, message.error()
                low = message.offset() + 1
                found.append(((message.key() or b"").decode(), message.value()))
    consumer.close()
    return found


def distinct_events(bootstrap: str, topic: str) -> dict[str, dict[str, Any]]:
    """The intact events of a topic by id."""
    found = {}
    for _, value in read_topic(bootstrap, topic):
        try:
            event = json.loads(value)
        except ValueError:
            continue
        if "id" in event and isinstance(event["ts"], int) and event["ts"] < 4_000_000_000_000:
            found[event["id"]] = event
    return found


def feeds_of(bootstrap: str) -> set[tuple[str, int, str, int]]:
    """(user, rank, author, ts) of every feed, from the topics."""
    edges: dict[tuple[str, str], str] = {}
    for event in sorted(distinct_events(bootstrap, "follows").values(), key=lambda each: each["ts"]):
        edges[event["follower"], event["followee"]] = event["action"]
    posts: dict[str, list[dict[str, Any]]] = {}
    for event in distinct_events(bootstrap, "posts").values():
        posts.setdefault(event["author"], []).append(event)
    following: dict[str, list[dict[str, Any]]] = {}
    for (follower, followee), action in edges.items():
        if action == "follow":
            following.setdefault(follower, []).extend(posts.get(followee, []))
    return {
        (user, rank, post["author"], post["ts"])
        for user, seen in following.items()
        for rank, post in enumerate(sorted(seen, key=lambda each: -each["ts"])[:20], 1)
    }
