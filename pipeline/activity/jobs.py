"""Runs the jobs of activity: one streaming query each, all of them side by side in one session."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import product
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pipeline.activity import abuse, feed, ops, views
from pipeline.activity.intake import Intake, Source
from pipeline.activity.topics import ABUSE_ALERTS, OPS_ALERTS, PARTITIONS
from pipeline.errors import PipelineError
from pipeline.ingest.offsets import SourceOffsets
from pipeline.ingest.staging import must_be_shared
from pipeline.layout import PipelineLayout
from pipeline.progress import Progress, Silent
from pipeline.store import AnyPath
from pipeline.streams import QueryRun, stopped

__all__ = ["JOBS", "Source", "run_activity"]

JOBS: Final = {job.name: job for job in (views.JOB, feed.JOB, abuse.JOB, ops.JOB)}
Totals = dict[str, int]


def moves(layout: PipelineLayout, source: Source, only: Sequence[str]) -> Iterator[tuple[str, AnyPath]]:
    """What jobs make of what: topics, and tables of results."""
    for job in map(JOBS.__getitem__, only):
        for kind, output in product(job.kinds, job.outputs):
            yield kind.topic, layout.activity(source.instance_id) / output.table


def run_activity(
    spark: SparkSession,
    source: Source,
    layout: PipelineLayout,
    progress_of: Callable[[str], Progress] = lambda _: Silent(),
    *,
    only: Sequence[str] = tuple(JOBS),
    available_now: bool = True,
    for_s: float | None = None,
) -> dict[str, Totals]:
    """Run jobs until they have read what is there now, or for so long; returns each one's totals.

    `progress_of` gives what a job tells of itself. Raises: PipelineError when a topic is missing, somebody
    else runs the same job, or a query dies: then all stop, and the next run goes on from their last batches.
    """
    if layout.is_elsewhere:
        must_be_shared(spark, layout.lake_staging)
    SourceOffsets(source.kafka).ensure((ABUSE_ALERTS, OPS_ALERTS), PARTITIONS)
    told = {name: progress_of(name) for name in only}
    intakes = [Intake(spark, source, layout, JOBS[name], progress) for name, progress in told.items()]
    by_query = {intake.query_name: intake for intake in intakes}

    def ended(query: StreamingQuery) -> None:
        by_query[query.name].fold()

    with ExitStack() as stack:
        for intake in intakes:
            stack.enter_context(intake.held())
        run = stack.enter_context(QueryRun())
        for intake in intakes:
            run.watch(intake.start(available_now=available_now), told[intake.job.name])
        try:
            run.wait(for_s, ended)
        except PipelineError:
            for one in intakes:
                if one.error is not None:
                    raise stopped(one.query_name, one.error) from one.error
            raise
        for intake in intakes:
            intake.tidy()
    return {intake.job.name: intake.counts for intake in intakes}
