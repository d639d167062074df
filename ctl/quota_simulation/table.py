"""Runs many simulations and lays their figures out as a table, for people and for docs/quota.md."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Final

from ctl.quota_simulation.metrics import Metrics, Record
from ctl.quota_simulation.run import simulate
from ctl.quota_simulation.scenarios import SCENARIOS

COLUMNS: Final = (
    "scenario",
    "policy",
    "used",
    "over",
    "T·s",
    "sum(q)/T",
    "Jain",
    "rounds",
    "churn",
    "wrong",
)
_BY_NAME: Final = {scenario.name: scenario for scenario in SCENARIOS}


@dataclass(frozen=True, slots=True)
class Job:
    """One run, as a worker process gets it."""

    scenario: str
    policy: str
    seed: int
    rounds: int


@dataclass(frozen=True, slots=True)
class Line:
    """One scenario under one policy: figures over all seeds, and the record of the first."""

    scenario: str
    policy: str
    metrics: Metrics
    record: Record


def run_all(
    scenarios: Sequence[str],
    policies: Sequence[str],
    seeds: Sequence[int],
    rounds: int,
    progress: Callable[[str], None],
) -> list[Line]:
    """Every scenario under every policy, on all cores; the order of the result is that of the arguments."""
    jobs = [Job(s, p, seed, rounds) for s in scenarios for p in policies for seed in seeds]
    results: list[tuple[Metrics, Record]] = []
    workers = min(os.cpu_count() or 1, len(jobs))
    if workers == 1:
        for job in jobs:
            progress(f"{job.scenario} under {job.policy}")
            results.append(_run(job))
    else:
        with ProcessPoolExecutor(workers) as pool:
            for job, result in zip(jobs, pool.map(_run, jobs), strict=True):
                progress(f"{job.scenario} under {job.policy}")
                results.append(result)
    return list(_lines(jobs, results, len(seeds)))


def _run(job: Job) -> tuple[Metrics, Record]:
    result = simulate(_BY_NAME[job.scenario], job.policy, job.seed, job.rounds)
    return result.metrics, result.record


def _lines(jobs: Sequence[Job], results: Sequence[tuple[Metrics, Record]], seeds: int) -> Iterator[Line]:
    for start in range(0, len(jobs), seeds):
        job, runs = jobs[start], results[start : start + seeds]
        yield Line(job.scenario, job.policy, over_runs([metrics for metrics, _ in runs]), runs[0][1])


def over_runs(runs: Sequence[Metrics]) -> Metrics:
    """Peaks and convergence are the worst of the runs, the rest is their mean."""

    def mean(name: str) -> float:
        return float(sum(getattr(run, name) for run in runs)) / len(runs)

    taken = [run.convergence_rounds for run in runs]
    return Metrics(
        utilisation=mean("utilisation"),
        overshoot_peak=max(run.overshoot_peak for run in runs),
        overshoot_integral=mean("overshoot_integral"),
        over_issue_peak=max(run.over_issue_peak for run in runs),
        over_issue_mean=mean("over_issue_mean"),
        jain=mean("jain"),
        convergence_rounds=None if None in taken else max(each for each in taken if each is not None),
        churn=mean("churn"),
        wrongful=mean("wrongful"),
    )


def cells(line: Line) -> list[str]:
    """One row of the table."""
    metrics = line.metrics
    return [
        line.scenario,
        line.policy,
        f"{metrics.utilisation:.1%}",
        f"{metrics.overshoot_peak:.0%}",
        f"{metrics.overshoot_integral:.2f}",
        f"{metrics.over_issue_peak:.2f}/{metrics.over_issue_mean:.2f}",
        f"{metrics.jain:.3f}",
        "never" if metrics.convergence_rounds is None else str(metrics.convergence_rounds),
        f"{metrics.churn:.2f}",
        f"{metrics.wrongful:.0%}",
    ]


def as_json(line: Line) -> dict[str, object]:
    """One row with all digits."""
    names = Metrics.__dataclass_fields__
    return {
        "scenario": line.scenario,
        "policy": line.policy,
        **{name: getattr(line.metrics, name) for name in names},
    }


def markdown(lines: Sequence[Line]) -> str:
    """The table as it stands in the documentation; a scenario's name stands in its first row."""
    rows = ["| " + " | ".join(COLUMNS) + " |", "|---" * 2 + "|--:" * (len(COLUMNS) - 2) + "|"]
    before = ""
    for line in lines:
        row = cells(line)
        row[0] = "" if row[0] == before else f"`{row[0]}`"
        before = line.scenario
        rows.append("| " + " | ".join(row) + " |")
    return "\n".join(rows) + "\n"


BEGIN: Final = "<!-- portico quota simulate: begin -->"
END: Final = "<!-- portico quota simulate: end -->"


def replaced(text: str, table: str) -> str:
    """A document with the table between its two marks made anew.

    Raises: ValueError when it does not have both marks.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"it does not have the marks {BEGIN} and {END}")
    return f"{before}{begin}\n{table}{end}{after}"
