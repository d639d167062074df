"""Transforms of activity against references that count in plain Python."""

import json
import math
import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from pipeline.activity import abuse, feed, ops, views
from pipeline.activity.events import (
    FOLLOW,
    LOGIN,
    PAGE_VIEW,
    POST,
    SERVICE_METRIC,
    Kind,
    events,
    unseen,
    with_lanes,
)

T0 = 1_700_000_040_000
MINUTE = 60_000


def records(spark: SparkSession, topic: str, values: Sequence[bytes | None]) -> DataFrame:
    """As Spark's Kafka source gives them, arrived a minute after T0."""
    rows = [
        (None if value is None else bytearray(value), topic, 0, offset) for offset, value in enumerate(values)
    ]
    frame = spark.createDataFrame(rows, "value binary, topic string, partition int, offset long")
    return frame.withColumn("timestamp", F.timestamp_millis(F.lit(T0 + MINUTE)))


def in_ms(column: str) -> Any:
    return F.unix_millis(column).alias(column)


def test_records_become_events_or_say_what_is_wrong(spark: SparkSession) -> None:
    good = {"id": "1", "ts": T0, "user": "u", "session": "s", "page": "/p", "kind": "view"}
    cases: list[tuple[bytes | None, str | None]] = [
        (json.dumps(good).encode(), None),
        (json.dumps(good | {"query": "x", "unknown": [1, {"a": 2}]}).encode(), None),
        (None, "no value"),
        (b"", "no JSON object"),
        (b'{"id":"1","ts":', "no JSON object"),
        (b"[1,2]", "no JSON object"),
        (b"null", "no JSON object"),
        (b"\xff\xfe{}", "not UTF-8"),
        (json.dumps({name: value for name, value in good.items() if name != "id"}).encode(), "`id`"),
        (json.dumps(good | {"ts": "yesterday"}).encode(), "`ts` is missing"),
        (json.dumps(good | {"ts": -1}).encode(), "before 1970"),
        (json.dumps(good | {"ts": 2**62}).encode(), "more than an hour after"),
        (json.dumps(good | {"ts": T0 + 2 * 60 * MINUTE}).encode(), "more than an hour after"),
        (json.dumps(good | {"ts": 10**30}).encode(), "`ts`"),
        (json.dumps(good | {"page": None}).encode(), "`page`"),
        (json.dumps(good | {"page": "x" * 1001}).encode(), "longer than 1000"),
        (json.dumps(good | {"kind": "hack"}).encode(), "`kind`"),
        (b'{"a":' * 5000, "no JSON object"),
    ]
    frame = events(records(spark, "page_views", [value for value, _ in cases]), [PAGE_VIEW])
    found = {row.offset: row for row in frame.select("*", in_ms("ts").alias("ms")).collect()}
    for offset, (value, error) in enumerate(cases):
        row = found[offset]
        if error is None:
            assert (row.error, row.raw, row.ms, row.page) == (None, None, T0, "/p")
        else:
            assert row.error is not None and error in row.error, (value, row.error)
            assert (row.ts, row.user) == (None, None)
            assert value is None or bytes(row.raw) == value
    assert len({row.event for row in found.values()}) == len(cases) - 1, (
        "one id, and one hash per dead letter"
    )


@pytest.mark.parametrize(
    ("kind", "event", "error"),
    [
        (
            SERVICE_METRIC,
            {"service": "s", "host": "h", "requests": 2, "errors": 1, "latency_ms": [1, 2.5]},
            None,
        ),
        (
            SERVICE_METRIC,
            {"service": "s", "host": "h", "requests": 2, "errors": 3, "latency_ms": []},
            "`errors`",
        ),
        (
            SERVICE_METRIC,
            {"service": "s", "host": "h", "requests": 2, "errors": 1, "latency_ms": [-1]},
            "latency",
        ),
        (
            SERVICE_METRIC,
            {"service": "s", "host": "h", "requests": 2, "errors": 1, "latency_ms": [None]},
            "latency",
        ),
        (LOGIN, {"account": "a", "ip": "1.2.3.4", "ok": False}, None),
        (LOGIN, {"account": "a", "ip": "1.2.3.4", "ok": "no"}, "`ok`"),
        (FOLLOW, {"follower": "a", "followee": "b", "action": "stalk"}, "`action`"),
        (POST, {"author": "a", "text": ""}, None),
    ],
)
def test_each_kind_has_its_own_rules(
    spark: SparkSession, kind: Kind, event: dict[str, Any], error: str | None
) -> None:
    value = json.dumps({"id": "1", "ts": T0} | event).encode()
    [row] = events(records(spark, kind.topic, [value]), [kind]).collect()
    assert (row.error is None) if error is None else (error in row.error)


def test_an_event_is_taken_once_and_lanes_follow_the_watermark(spark: SparkSession) -> None:
    def view(number: int, ts: int) -> bytes:
        event = {"id": str(number), "ts": ts, "user": "u", "session": "s", "page": "/p", "kind": "view"}
        return json.dumps(event).encode()

    watermark_us = (T0 - MINUTE) * 1000
    old = with_lanes(
        events(records(spark, "page_views", [view(1, T0), view(2, T0 - MINUTE)]), [PAGE_VIEW]), None
    )
    values = [view(1, T0), view(2, T0 - MINUTE), view(3, T0), view(3, T0), view(3, T0 + 1), b"x", b"x"]
    values += [view(4, T0 - MINUTE - 1), view(4, T0 - MINUTE - 1)]
    new = with_lanes(events(records(spark, "page_views", values), [PAGE_VIEW]), watermark_us)
    found = sorted((row.lane, row.offset) for row in unseen(new, old, watermark_us).collect())
    assert found == [("dead", 5), ("dead", 6), ("late", 7), ("on_time", 2), ("on_time", 4)]


def test_what_came_too_late_is_counted_once_and_not_when_it_was_there_in_time(spark: SparkSession) -> None:
    rows = [(1, "on_time"), (1, "late"), (2, "late"), (2, "late"), (3, "late"), (4, "on_time"), (5, "dead")]
    seen = [(number, lane, T0 + number * MINUTE, "/p") for number, lane in rows]
    frame = spark.createDataFrame(seen, "event long, lane string, ms long, page string")
    late = views.too_late(frame.withColumn("ts", F.timestamp_millis("ms")))
    assert sorted(row.event for row in late.collect()) == [2, 3]


def test_sessions_rankings_and_minutes(spark: SparkSession) -> None:
    rng = random.Random(5)
    clicks = [
        (f"u{rng.randrange(9)}", T0 + int(rng.random() * 600 * MINUTE), f"/p{int(rng.random() ** 2 * 30)}")
        for _ in range(1500)
    ]
    clicks += [("edge", T0, "/p0"), ("edge", T0 + 30 * MINUTE, "/p0"), ("edge", T0 + 60 * MINUTE + 1, "/p0")]
    frame = spark.createDataFrame(clicks, "user string, ms long, page string").withColumn(
        "ts", F.timestamp_millis("ms")
    )
    minutes = views.views_per_minute(frame)
    counted = {
        (row.minute, row.page): row.views
        for row in minutes.select(in_ms("minute"), "page", "views").collect()
    }
    assert counted == Counter((ms // MINUTE * MINUTE, page) for _, ms, page in clicks)

    found = (
        views.sessions(views.visits(frame))
        .select("user", in_ms("started"), in_ms("ended"), "views")
        .collect()
    )
    assert sorted(tuple(row) for row in found) == sorted(sessions_of([(user, ms) for user, ms, _ in clicks]))

    hours: dict[int, Counter[str]] = defaultdict(Counter)
    for _, ms, page in clicks:
        hours[ms // (60 * MINUTE) * 60 * MINUTE][page] += 1
    expected = {
        (hour, rank, page, views)
        for hour, pages in hours.items()
        for rank, (page, views) in enumerate(
            sorted(pages.items(), key=lambda each: (-each[1], each[0]))[:10], 1
        )
    }
    ranked = views.ranking(minutes).select(in_ms("window_start"), "rank", "page", "views").collect()
    assert {tuple(row) for row in ranked} == expected


def sessions_of(clicks: list[tuple[str, int]]) -> list[tuple[str, int, int, int]]:
    found: list[tuple[str, int, int, int]] = []
    for user, ms in sorted(clicks):
        if found and found[-1][0] == user and ms - found[-1][2] <= 30 * MINUTE:
            found[-1] = (user, found[-1][1], ms, found[-1][3] + 1)
        else:
            found.append((user, ms, ms, 1))
    return found


def test_a_feed_is_the_newest_posts_of_whom_one_follows_now(spark: SparkSession) -> None:
    rng = random.Random(6)
    people = [f"u{number}" for number in range(12)]
    follows = [
        (
            rng.choice(people),
            rng.choice(people),
            rng.choice(["follow", "follow", "unfollow"]),
            T0 + step,
            step,
        )
        for step in range(250)
    ]
    posts = [
        (people[int(rng.random() ** 2 * 12)], T0 + rng.randrange(500), step, f"text {step}")
        for step in range(400)
    ]
    state: dict[tuple[str, str], str] = {}
    for follower, followee, action, _, _ in follows:
        state[follower, followee] = action
    edges = {pair for pair, action in state.items() if action == "follow"}
    shuffled = rng.sample(follows, len(follows))
    graph = feed.following(
        spark.createDataFrame(
            shuffled, "follower string, followee string, action string, ms long, event long"
        ).withColumn("ts", F.timestamp_millis("ms"))
    )
    assert {tuple(row) for row in graph.collect()} == edges
    posted = spark.createDataFrame(posts, "author string, ms long, event long, text string")
    posted = posted.withColumn("ts", F.timestamp_millis("ms"))
    found: dict[str, list[int]] = defaultdict(list)
    for row in feed.feeds(graph, posted, 7).orderBy("user", "rank").collect():
        found[row.user].append(row.event)
    expected = {}
    for user in people:
        seen = [(ms, event) for author, ms, event, _ in posts if (user, author) in edges]
        if seen:
            expected[user] = [event for _, event in sorted(seen, reverse=True)[:7]]
    assert found == expected


def test_attempts_in_sliding_windows(spark: SparkSession) -> None:
    rng = random.Random(7)
    logins = [
        (
            T0 + int(rng.random() * 20 * MINUTE),
            f"10.0.0.{int(rng.random() ** 3 * 9)}",
            f"a{int(rng.random() ** 3 * 9)}",
            rng.random() < 0.5,
            rng.randrange(3),
        )
        for _ in range(1200)
    ]
    frame = spark.createDataFrame(logins, "ms long, ip string, account string, ok boolean, batch long")
    frame = frame.withColumn("ts", F.timestamp_millis("ms"))
    counted = abuse.abusive(abuse.attempts(frame, since=1))
    found = {
        (row.rule, row.source, row.start): (row.attempts, row.is_new)
        for row in counted.withColumn("start", F.unix_millis("window_start")).collect()
    }
    expected: dict[tuple[str, str, int], list[int]] = defaultdict(lambda: [0, 0])
    for ms, ip, account, ok, batch in logins:
        for start in range(ms // MINUTE * MINUTE - 4 * MINUTE, ms // MINUTE * MINUTE + 1, MINUTE):
            for rule, source in [("ip", ip)] + ([] if ok else [("account", account)]):
                expected[rule, source, start][0] += 1
                expected[rule, source, start][1] += batch > 1
    threshold = {"ip": 60, "account": 20}
    assert found == {
        key: (attempts, attempts - fresh < threshold[key[0]])
        for key, (attempts, fresh) in expected.items()
        if attempts >= threshold[key[0]]
    }


def test_percentiles_by_nearest_rank(spark: SparkSession) -> None:
    rng = random.Random(8)
    told = [
        (
            "s",
            T0 + rng.randrange(3) * MINUTE,
            rng.randrange(0, 3),
            [round(rng.random() * 900, 1) for _ in range(size)],
        )
        for size in (0, 1, 2, 7, 50, 99, 100, 101, 3)
    ]
    frame = spark.createDataFrame(told, "service string, ms long, errors long, latency_ms array<double>")
    frame = frame.withColumn("ts", F.timestamp_millis("ms")).withColumn("requests", F.lit(10).cast("long"))
    for row in ops.per_minute(frame).withColumn("ms", F.unix_millis("minute")).collect():
        of_minute = [each for each in told if each[1] // MINUTE * MINUTE == row.ms]
        latencies = sorted(one for each in of_minute for one in each[3])
        assert row.errors == sum(each[2] for each in of_minute)
        assert row.error_rate == pytest.approx(row.errors / (10 * len(of_minute)))
        assert row.p99_ms == (latencies[math.ceil(0.99 * len(latencies)) - 1] if latencies else None)
        assert row.p50_ms == (latencies[math.ceil(0.50 * len(latencies)) - 1] if latencies else None)


def test_incidents_open_and_resolve(spark: SparkSession) -> None:
    rng = random.Random(9)
    minutes: list[tuple[str, str, datetime, float, float, bool]] = []
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for service in ("a", "b", "c", "d"):
        moment, bad = start, False
        for _ in range(200):
            moment += timedelta(minutes=rng.choice([1, 1, 1, 1, 4, 13]))
            bad = bad if rng.random() < 0.7 else not bad
            minutes.append(("error_rate", service, moment, rng.random(), 0.5, bad))
    schema = "rule string, service string, minute timestamp, value double, limit double, bad boolean"
    found = ops.incidents(spark.createDataFrame(minutes, schema))
    shown = found.select("service", in_ms("opened_at"), in_ms("resolved_at"), "worst").collect()
    assert sorted((tuple(row) for row in shown), key=str) == sorted(incidents_of(minutes), key=str)


def incidents_of(minutes: list[Any]) -> list[tuple[str, int, int | None, float]]:
    found: list[tuple[str, int, int | None, float]] = []
    by_service: dict[str, list[Any]] = defaultdict(list)
    for row in minutes:
        by_service[row[1]].append(row)
    for service, rows in by_service.items():
        opened: tuple[int, float] | None = None
        for at in range(len(rows)):
            last = rows[max(0, at - 1) : at + 1]
            if opened is None and len(last) == 2 and all(row[5] for row in last) and near(last):
                opened = (ms_of(last[0]), max(row[3] for row in last))
            elif opened is not None:
                opened = (opened[0], max(opened[1], rows[at][3]))
            last = rows[max(0, at - 2) : at + 1]
            if opened is not None and len(last) == 3 and not any(row[5] for row in last) and near(last):
                found.append((service, opened[0], ms_of(last[0]), opened[1]))
                opened = None
        if opened is not None:
            found.append((service, opened[0], None, opened[1]))
    return found


def near(rows: list[Any]) -> bool:
    return bool(rows[-1][2] - rows[0][2] <= timedelta(minutes=10))


def ms_of(row: Any) -> int:
    return int(row[2].timestamp() * 1000)
