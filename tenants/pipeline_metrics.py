"""Prometheus metrics of pipeline jobs, made at scrape time from what the jobs told.

Labels are bounded: JOBS_MAX jobs, FIGURES_MAX figures of each. Gauges of a job are of the runs that run now,
added up; of its last run where none does.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from contracts.pipeline import FIGURES_MAX
from runtime.clock import epoch_ms
from tenants.rules.pipeline_runs import RunState
from tenants.store.engine import StoreFault
from tenants.usecases.pipeline_runs import JobOverview, PipelineRuns

_JOB: Final = ["job"]


class PipelineCollector(Collector):
    """Reads the store from the thread that scrapes."""

    def __init__(self, runs: PipelineRuns) -> None:
        self._runs = runs

    def describe(self) -> list[Metric]:
        """Nothing is read at registration."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Runs, progress and figures by job; none while the database does not answer."""
        try:
            jobs = self._runs.overview()
        except StoreFault:
            return
        now_ms = epoch_ms()
        yield _ends(jobs)
        yield from _progress(jobs, now_ms)
        yield _figures(jobs)
        since = GaugeMetricFamily(
            "portico_pipeline_since_success_seconds", "Seconds since a run succeeded", labels=_JOB
        )
        for one in jobs:
            if one.totals.last_success_ms is not None:
                since.add_metric([one.totals.job], max(0, now_ms - one.totals.last_success_ms) / 1000)
        yield since


def _ends(jobs: list[JobOverview]) -> Metric:
    ends = CounterMetricFamily("portico_pipeline_runs", "Runs that ended", labels=["job", "end"])
    for one in jobs:
        ends.add_metric([one.totals.job, "succeeded"], one.totals.succeeded)
        ends.add_metric([one.totals.job, "failed"], one.totals.failed)
    return ends


def _progress(jobs: list[JobOverview], now_ms: int) -> Iterator[Metric]:
    running = GaugeMetricFamily("portico_pipeline_running", "Runs that run", labels=_JOB)
    lost = GaugeMetricFamily("portico_pipeline_lost", "Runs that told nothing for a minute", labels=_JOB)
    planned = GaugeMetricFamily("portico_pipeline_planned", "Units of work planned", labels=_JOB)
    done = GaugeMetricFamily("portico_pipeline_done", "Units of work done", labels=_JOB)
    for one in jobs:
        name = [one.totals.job]
        states = Counter(each.state(now_ms) for each in one.current)
        running.add_metric(name, states[RunState.RUNNING])
        lost.add_metric(name, states[RunState.LOST])
        planned.add_metric(name, sum(each.status.planned for each in one.current))
        done.add_metric(name, sum(each.status.done for each in one.current))
    yield from (running, lost, planned, done)


def _figures(jobs: list[JobOverview]) -> Metric:
    figures = GaugeMetricFamily(
        "portico_pipeline_figure", "Totals of runs as their job names them", labels=["job", "name"]
    )
    for one in jobs:
        sums: Counter[str] = Counter()
        for each in one.current:
            sums.update(each.status.figures)
        for name, value in sorted(sums.items())[:FIGURES_MAX]:
            figures.add_metric([one.totals.job, name], value)
    return figures
