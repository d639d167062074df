"""Operations: error rate and p99 latency of every service and minute, and incidents that open and resolve.

A minute is judged when it is final: when the watermark has passed its end, so that nothing can change it.
"""

from datetime import timedelta
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812

from pipeline.activity.events import SERVICE_METRIC
from pipeline.activity.intake import Fold, Job, Output
from pipeline.activity.tables import MINUTE, at, span_of, span_of_files, us_of
from pipeline.activity.topics import OPS_ALERTS

OPS_MINUTE: Final = "ops_minute"
OPS_INCIDENTS: Final = "ops_alerts"
WAITS_FOR: Final = timedelta(minutes=2)
REQUESTS_MIN: Final = 20
"""A minute with fewer is not judged."""
BAD_TO_OPEN: Final = 2
GOOD_TO_RESOLVE: Final = 3
REACH: Final = timedelta(minutes=10)
"""Judged minutes further apart than this are not in a row."""
_LOOK_BACK: Final = 15 * MINUTE


class Rule(NamedTuple):
    """When a minute is bad."""

    name: str
    value: str
    """A column of a minute."""
    limit: float


RULES: Final = (Rule("error_rate", "error_rate", 0.05), Rule("latency_p99", "p99_ms", 1000.0))


def per_minute(metrics: DataFrame) -> DataFrame:
    """service, minute, requests, errors, error_rate, p50_ms, p99_ms (nearest rank over all latencies)."""
    minute = F.date_trunc("minute", F.col("ts")).alias("minute")
    of_minute = metrics.groupBy("service", minute).agg(
        F.sum("requests").alias("requests"),
        F.sum("errors").alias("errors"),
        F.sort_array(F.flatten(F.collect_list("latency_ms"))).alias("latencies"),
    )
    return of_minute.select(
        "service",
        "minute",
        "requests",
        "errors",
        F.try_divide(F.col("errors"), F.col("requests")).alias("error_rate"),
        _percentile(50).alias("p50_ms"),
        _percentile(99).alias("p99_ms"),
    )


def _percentile(percent: int) -> Column:
    """Nearest rank: the smallest latency that is not below so many percent of them."""
    rank = F.expr(f"cast((size(latencies) * {percent} + 99) div 100 as int)")
    return F.when(F.size("latencies") > 0, F.element_at("latencies", rank))


def judged(minutes: DataFrame, rules: tuple[Rule, ...] = RULES) -> DataFrame:
    """rule, service, minute, value, limit, bad: every minute with enough requests by every rule."""
    verdicts = F.array(
        *(
            F.struct(
                F.lit(rule.name).alias("rule"),
                F.col(rule.value).cast("double").alias("value"),
                F.lit(rule.limit).alias("limit"),
            )
            for rule in rules
        )
    )
    enough = minutes.where(F.col("requests") >= REQUESTS_MIN)
    each = enough.select("service", "minute", F.explode(verdicts).alias("of")).select(
        "service", "minute", "of.*"
    )
    return each.where(F.col("value").isNotNull()).withColumn("bad", F.col("value") > F.col("limit"))


def incidents(verdicts: DataFrame) -> DataFrame:
    """rule, service, opened_at, resolved_at, worst, limit.

    BAD_TO_OPEN bad minutes in a row open one, at the first of them; GOOD_TO_RESOLVE good ones in a row
    resolve it, at the first of them; null while it is open.
    """
    by_time = Window.partitionBy("rule", "service").orderBy("minute")
    rows = verdicts.select(
        "*",
        _in_a_row(F.col("bad"), BAD_TO_OPEN, by_time).alias("opens"),
        _in_a_row(~F.col("bad"), GOOD_TO_RESOLVE, by_time).alias("resolves"),
        F.lag("minute", BAD_TO_OPEN - 1).over(by_time).alias("first_bad"),
        F.lag("minute", GOOD_TO_RESOLVE - 1).over(by_time).alias("first_good"),
        F.max("value").over(by_time.rowsBetween(1 - BAD_TO_OPEN, 0)).alias("lately"),
    )
    turn = F.when(F.col("opens"), F.lit(True)).when(F.col("resolves"), F.lit(False))
    state = F.coalesce(F.last(turn, ignorenulls=True).over(by_time), F.lit(False))
    rows = rows.withColumn("open", state)
    before = F.coalesce(F.lag("open").over(by_time), F.lit(False))
    rows = rows.withColumn("opened", F.col("open") & ~before).withColumn("resolved", ~F.col("open") & before)
    rows = rows.withColumn("number", F.sum(F.col("opened").cast("int")).over(by_time))
    return (
        rows.where(F.col("open") | F.col("resolved"))
        .groupBy("rule", "service", "number")
        .agg(
            F.min(F.when(F.col("opened"), F.col("first_bad"))).alias("opened_at"),
            F.min(F.when(F.col("resolved"), F.col("first_good"))).alias("resolved_at"),
            F.max("lately").alias("worst"),
            F.max("limit").alias("limit"),
        )
        .drop("number")
    )


def _in_a_row(holds: Column, count: int, by_time: WindowSpec) -> Column:
    """Whether it holds for the last `count` judged minutes, all within reach of one another."""
    found = F.col("minute") - F.lag("minute", count - 1).over(by_time) <= F.lit(REACH)
    for back in range(count):
        found = found & (F.lag(holds, back).over(by_time) if back else holds)
    return F.coalesce(found, F.lit(False))


def changes(now: DataFrame, before: DataFrame | None) -> DataFrame:
    """Incidents that opened or were resolved: the rows of `now` that `before` has not, with their `state`."""
    state = F.when(F.col("resolved_at").isNull(), "open").otherwise("resolved").alias("state")
    stated = now.select("rule", "service", state, "opened_at", "resolved_at", "worst", "limit")
    if before is None:
        return stated
    return stated.join(
        before.withColumn("state", state), ["rule", "service", "opened_at", "state"], "left_anti"
    )


def _fold_minutes(step: Fold) -> None:
    if touched := step.touched():
        step.replace(per_minute(step.on_time(touched)), touched.of("minute"))


def _fold_incidents(step: Fold) -> None:
    minutes, known = step.tables.read(OPS_MINUTE), step.known()
    if minutes is None or step.watermark_us is None:
        return
    begin_us = _judge_from(step, known)
    final = minutes.where(f"minute >= {at(begin_us)} and minute <= {at(step.watermark_us - us_of(MINUTE))}")
    now = incidents(judged(final)).persist()
    where = f"opened_at >= {at(begin_us)}"
    told = changes(now, None if known is None else known.where(where))
    step.alert(told, OPS_ALERTS, "rule", "service", "opened_at")
    step.replace(now, where)
    now.unpersist()


def _judge_from(step: Fold, known: DataFrame | None) -> int:
    """From where incidents are found again: well before the first minute not yet final, and within none."""
    before = span_of_files(file for file in step.files if file.first_batch <= step.since)
    if known is None or before is None:
        return 0
    begin_us = before.until_us - us_of(WAITS_FOR + _LOOK_BACK)
    while True:
        at_begin = f"opened_at < {at(begin_us)} and (resolved_at is null or resolved_at >= {at(begin_us)})"
        opened = span_of(known.where(at_begin), "opened_at")
        if opened is None:
            return begin_us
        begin_us = opened.first_us


JOB: Final = Job(
    name="ops",
    kinds=(SERVICE_METRIC,),
    waits_for=WAITS_FOR,
    outputs=(Output(OPS_MINUTE, _fold_minutes), Output(OPS_INCIDENTS, _fold_incidents)),
    every_s=1.0,
    fold_every_s=0.0,
)
