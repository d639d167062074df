"""Abuse of the login: attempts per source in sliding windows, and an alert for each window with too many.

An alert is named by (rule, source, window), as key in Kafka and in the table: telling it twice does no harm.
"""

from datetime import timedelta
from typing import Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from pipeline.activity.events import LOGIN
from pipeline.activity.intake import Fold, Job, Output
from pipeline.activity.tables import Span, us_of
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
    """rule, source, window_start, window_end, attempts, fresh (those of batches after `since`)."""
    sources = F.array(
        *(
            F.struct(
                F.lit(rule.name).alias("rule"),
                F.when(~F.col("ok") if rule.only_failed else F.lit(True), F.col(rule.source)).alias("source"),
            )
            for rule in rules
        )
    )
    one_each = logins.select("ts", "batch", F.explode(sources).alias("of")).where("of.source is not null")
    window = F.window("ts", *(f"{length.total_seconds():.0f} seconds" for length in (WINDOW, SLIDE)))
    counted = one_each.groupBy("of.rule", "of.source", window.alias("window")).agg(
        F.count("*").alias("attempts"), F.count_if(F.col("batch") > since).alias("fresh")
    )
    ends = F.col("window.start").alias("window_start"), F.col("window.end").alias("window_end")
    return counted.select("rule", "source", *ends, "attempts", "fresh")


def abusive(counted: DataFrame, rules: tuple[Rule, ...] = RULES) -> DataFrame:
    """The windows with too many attempts, their threshold, and whether these batches made them so."""
    threshold = F.lit(None).cast("long")
    for rule in rules:
        threshold = F.when(F.col("rule") == rule.name, F.lit(rule.attempts).cast("long")).otherwise(threshold)
    found = counted.withColumn("threshold", threshold).where(F.col("attempts") >= F.col("threshold"))
    return found.withColumn("is_new", F.col("attempts") - F.col("fresh") < F.col("threshold"))


def _fold(step: Fold) -> None:
    touched = step.touched()
    if touched is None:
        return
    before = us_of(WINDOW - SLIDE)
    starts = Span(touched.first_us - before, touched.until_us)
    near = step.on_time(Span(starts.first_us, starts.until_us + before))
    counted = attempts(near, step.since).where(starts.of("window_start"))
    alerts = abusive(counted).persist()
    told = alerts.where("is_new").drop("fresh", "is_new")
    step.alert(told, ABUSE_ALERTS, "rule", "source", "window_start")
    step.replace(alerts.drop("fresh", "is_new"), starts.of("window_start"))
    alerts.unpersist()


JOB: Final = Job(
    name="abuse",
    kinds=(LOGIN,),
    waits_for=timedelta(minutes=5),
    outputs=(Output(TABLE, _fold),),
    every_s=0.2,
    fold_every_s=0.0,
)
