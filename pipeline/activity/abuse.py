"""Abuse of the login: attempts per source in sliding windows, and an alert for each window with too many.

An alert is named by (rule, source, window), as key in Kafka and in the table: telling it twice does no harm.
"""

from datetime import timedelta
from typing import Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from pipeline.activity.alerts import send_alerts
from pipeline.activity.events import LOGIN
from pipeline.activity.intake import Fold, Job, Output
from pipeline.activity.ranges import at, between, floor, us_of
from pipeline.activity.topics import ABUSE_ALERTS

WINDOW: Final = timedelta(minutes=5)
SLIDE: Final = timedelta(minutes=1)


class Rule(NamedTuple):
    """More than so many attempts of one source in a window are abuse."""

    name: str
    source: str
    """The column that names the source."""
    attempts: int
    """From which number on."""
    only_failed: bool


RULES: Final = (
    Rule("ip", "ip", 60, only_failed=False),
    Rule("account", "account", 20, only_failed=True),
)
TABLE: Final = "abuse_alerts"


def attempts(logins: DataFrame, since: int, rules: tuple[Rule, ...] = RULES) -> DataFrame:
    """rule, source, slot (start of its slide), attempts, fresh (those of batches after `since`)."""
    slot = F.window("ts", _interval(SLIDE)).start.alias("slot")
    sources = F.array(
        *(
            F.struct(
                F.lit(rule.name).alias("rule"),
                F.when(~F.col("ok") if rule.only_failed else F.lit(True), F.col(rule.source)).alias("source"),
            )
            for rule in rules
        )
    )
    one_each = logins.select(slot, "batch", F.explode(sources).alias("of")).select("slot", "batch", "of.*")
    fresh = F.sum((F.col("batch") > since).cast("long"))
    return (
        one_each.where(F.col("source").isNotNull())
        .groupBy("rule", "source", "slot")
        .agg(F.count("*").alias("attempts"), fresh.alias("fresh"))
    )


def windows(slots: DataFrame) -> DataFrame:
    """Slots summed up in sliding windows: rule, source, window_start, window_end, attempts, fresh."""
    steps = WINDOW // SLIDE
    starts = F.array(*(F.col("slot") - F.lit(SLIDE * step) for step in range(steps)))
    return (
        slots.withColumn("window_start", F.explode(starts))
        .groupBy("rule", "source", "window_start")
        .agg(F.sum("attempts").alias("attempts"), F.sum("fresh").alias("fresh"))
        .withColumn("window_end", F.col("window_start") + F.lit(WINDOW))
    )


def abusive(counted: DataFrame, rules: tuple[Rule, ...] = RULES) -> DataFrame:
    """The windows with too many attempts, their threshold, and whether these batches made them so."""
    threshold = F.lit(None).cast("long")
    for rule in rules:
        threshold = F.when(F.col("rule") == rule.name, F.lit(rule.attempts).cast("long")).otherwise(threshold)
    found = counted.withColumn("threshold", threshold).where(F.col("attempts") >= F.col("threshold"))
    return found.withColumn("is_new", F.col("attempts") - F.col("fresh") < F.col("threshold"))


def alert_records(alerts: DataFrame) -> DataFrame:
    """key and value as they go to Kafka."""
    start_ms = F.unix_millis("window_start").alias("window_start_ms")
    value = F.struct(
        "rule",
        "source",
        start_ms,
        F.unix_millis("window_end").alias("window_end_ms"),
        "attempts",
        "threshold",
    )
    return alerts.select(
        F.concat_ws("/", "rule", "source", start_ms.cast("string")).alias("key"),
        F.to_json(value).alias("value"),
    )


def _interval(length: timedelta) -> str:
    return f"{int(length.total_seconds())} seconds"


def _fold(step: Fold, table: str) -> None:
    reach = step.reach()
    if reach is None:
        return
    first = floor(reach.first_us, SLIDE) - us_of(WINDOW) + us_of(SLIDE)
    last = floor(reach.last_us, SLIDE)
    near = step.on_time().where(f"ts >= {at(first)} and ts < {at(last + us_of(WINDOW))}")
    counted = windows(attempts(near, step.since)).where(between("window_start", first, last))
    alerts = abusive(counted).persist()
    send_alerts(alert_records(alerts.where("is_new")), step.source, ABUSE_ALERTS)
    step.tables.replace(
        table, alerts.drop("fresh", "is_new"), table, step.upto, between("window_start", first, last)
    )
    alerts.unpersist()


JOB: Final = Job(
    name="abuse",
    kinds=(LOGIN,),
    waits_for=timedelta(minutes=5),
    outputs=(Output(TABLE, _fold),),
    every_s=0.2,
    fold_every_s=0.0,
)
