"""From records to events: typed columns, or the error for which a record is a dead letter. Pure."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from pipeline.activity import topics
from pipeline.activity.tables import at

AHEAD_MS_MAX: Final = 3_600_000
"""A time that far after the record's own moves the watermark for everybody: it is an error instead."""
TEXT_LENGTH_MAX: Final = 1000


class Lane(StrEnum):
    """Where an event went when its batch was read."""

    ON_TIME = "on_time"
    LATE = "late"
    """Older than the watermark."""
    DEAD = "dead"
    """No event: its bytes and what is wrong with them."""


class Kind(NamedTuple):
    """What a topic's events look like."""

    topic: str
    fields: Mapping[str, str]
    """Spark's type by name; `id` and `ts` are in every event."""
    optional: frozenset[str] = frozenset()
    wrong: Mapping[str, str] = {}
    """What no event may be: a sentence, and the SQL that finds it."""


PAGE_VIEW: Final = Kind(
    topics.PAGE_VIEWS,
    {"user": "string", "session": "string", "page": "string", "kind": "string", "query": "string"},
    frozenset({"query"}),
    {"field `kind` is neither view nor search": "kind not in ('view', 'search')"},
)
POST: Final = Kind(topics.POSTS, {"author": "string", "text": "string"})
FOLLOW: Final = Kind(
    topics.FOLLOWS,
    {"follower": "string", "followee": "string", "action": "string"},
    wrong={"field `action` is neither follow nor unfollow": "action not in ('follow', 'unfollow')"},
)
LOGIN: Final = Kind(topics.LOGINS, {"account": "string", "ip": "string", "ok": "boolean"})
SERVICE_METRIC: Final = Kind(
    topics.SERVICE_METRICS,
    {
        "service": "string",
        "host": "string",
        "requests": "bigint",
        "errors": "bigint",
        "latency_ms": "array<double>",
    },
    wrong={
        "`errors` is not between 0 and `requests`": "errors < 0 or errors > requests",
        "a latency is no number of ms": (
            "exists(latency_ms, one -> one is null or isnan(one) or one < 0) or size(latency_ms) > 10000"
        ),
    },
)


def events(records: DataFrame, kinds: Sequence[Kind]) -> DataFrame:
    """From columns of Spark's Kafka source: event (hash of the id), ts and the kinds' fields, or for a record
    that is no event `error` and its `raw` bytes; always topic, partition, offset and when it arrived.
    """
    types = {name: kind.fields[name] for kind in kinds for name in kind.fields}
    schema = ", ".join(f"`{name}` {of}" for name, of in {"id": "string", "ts": "bigint", **types}.items())
    read = records.select(
        F.from_json(F.col("value").cast("string"), schema).alias("json"),
        *("value", "topic", "partition", "offset"),
        F.col("timestamp").alias("arrived"),
    ).select("json.*", "value", "topic", "partition", "offset", "arrived")
    checked = read.withColumn("error", _error(kinds))
    is_event = F.col("error").isNull()
    return checked.select(
        F.when(is_event, F.xxhash64("topic", "id"))
        .otherwise(F.xxhash64("topic", "partition", "offset"))
        .alias("event"),
        F.when(is_event, F.timestamp_millis("ts")).alias("ts"),
        *(F.when(is_event, F.col(name)).alias(name) for name in types),
        "error",
        F.when(~is_event, F.col("value")).alias("raw"),
        *("topic", "partition", "offset", "arrived"),
    )


def _error(kinds: Sequence[Kind]) -> Column:
    """The first thing that is wrong with a record; null when it is an event."""
    found: Column = F.when(F.col("value").isNull(), F.lit("the record has no value"))
    found = found.when(~F.is_valid_utf8(F.col("value").cast("string")), F.lit("the value is not UTF-8"))
    names = {name for kind in kinds for name in kind.fields}
    nothing = F.coalesce(*(F.col(name).cast("string") for name in sorted({"id", "ts", *names}))).isNull()
    found = found.when(nothing, F.lit("the value is no JSON object of this topic's events"))
    for name, of in (("id", "string"), ("ts", "bigint")):
        found = found.when(F.col(name).isNull(), F.lit(f"field `{name}` is missing or no {of}"))
    arrived_ms = F.unix_millis("arrived")
    found = found.when(F.col("ts") < 0, F.lit("field `ts` is before 1970"))
    found = found.when(
        F.col("ts") > arrived_ms + AHEAD_MS_MAX,
        F.lit("field `ts` is more than an hour after the record's own time"),
    )
    for kind in kinds:
        of_kind = F.col("topic") == kind.topic
        for name, of in kind.fields.items():
            field = F.col(name)
            if name not in kind.optional:
                found = found.when(of_kind & field.isNull(), F.lit(f"field `{name}` is missing or no {of}"))
            if of == "string":
                longest = F.lit(f"field `{name}` is longer than {TEXT_LENGTH_MAX}")
                found = found.when(of_kind & (F.length(field) > TEXT_LENGTH_MAX), longest)
        for sentence, condition in kind.wrong.items():
            found = found.when(of_kind & F.expr(condition), F.lit(sentence))
    return found


def with_lanes(found: DataFrame, watermark_us: int | None) -> DataFrame:
    """Adds `lane`. The watermark is the newest event of all batches before, less what is waited for."""
    lane = F.when(F.col("error").isNotNull(), F.lit(Lane.DEAD.value))
    if watermark_us is not None:
        lane = lane.when(F.col("ts") < F.expr(at(watermark_us)), F.lit(Lane.LATE.value))
    return found.withColumn("lane", lane.otherwise(F.lit(Lane.ON_TIME.value)))


def unseen(found: DataFrame, seen: DataFrame | None, watermark_us: int | None) -> DataFrame:
    """Each event once: neither twice in the batch nor, when on time, already in the table.

    Late ones are looked for when they are counted (`views.late_views`): the look-up reads no further back
    than the watermark.
    """
    same = Window.partitionBy("ts", "event").orderBy("topic", "partition", "offset")
    once = found.withColumn("nth", F.row_number().over(same)).where("nth = 1").drop("nth")
    if seen is None:
        return once
    recent = seen.where(F.col("lane") == Lane.ON_TIME.value)
    if watermark_us is not None:
        recent = recent.where(F.col("ts") >= F.expr(at(watermark_us)))
    return once.join(recent.select("ts", "event"), ["ts", "event"], "left_anti")
