"""What pipeline jobs tell of their runs, and what operators see of them."""

from dataclasses import dataclass
from typing import Final

import msgspec

from contracts.pipeline import JobStatus
from runtime.clock import epoch_ms
from tenants.rules.errors import Invalid, NotFound
from tenants.rules.pipeline_runs import JobTotals, Run, RunState, fault_of, with_end, with_told
from tenants.store import pipeline_runs
from tenants.store.engine import Store

_NUL: Final = "\0"
"""Postgres does not store it."""


@dataclass(frozen=True, slots=True)
class JobOverview:
    """A job for metrics: its totals, and the runs whose figures count now."""

    totals: JobTotals
    current: tuple[Run, ...]
    """Runs that go on; the newest one where none does."""


class PipelineRuns:
    """The use cases. Calls block."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def tell(self, run_id: str, told: JobStatus) -> Run:
        """Store a status; the run as it is then. Raises: Invalid."""
        told = _storable(told)
        with self._store.write() as connection:
            known = pipeline_runs.run(connection, run_id)
            fault = fault_of(told, run_id, known)
            if fault is not None:
                raise Invalid([fault])
            after = with_told(known, told, epoch_ms())
            if after is not known:
                counted = pipeline_runs.totals(connection, told.job)
                totals = with_end(counted or JobTotals(told.job), known, after)
                pipeline_runs.save_totals(connection, totals, known=counted is not None)
                pipeline_runs.save(connection, after, known=known is not None)
        return after

    def get(self, run_id: str) -> Run:
        """Raises: NotFound."""
        with self._store.read() as connection:
            found = pipeline_runs.run(connection, run_id) if run_id.isprintable() else None
        if found is None:
            raise NotFound(f"there is no run '{run_id[:80]}'")
        return found

    def page(
        self, job: str | None, state: RunState | None, before: tuple[int, str] | None, limit: int
    ) -> list[Run]:
        """Runs, newest first."""
        if job is not None and _NUL in job:
            return []
        with self._store.read() as connection:
            return pipeline_runs.page(connection, job, state, before, limit, epoch_ms())

    def overview(self) -> list[JobOverview]:
        """Every job, by name."""
        with self._store.read() as connection:
            running = pipeline_runs.running(connection)
            found = []
            for totals in pipeline_runs.all_totals(connection):
                current = [one for one in running if one.status.job == totals.job]
                if not current:
                    last = pipeline_runs.newest(connection, totals.job)
                    current = [] if last is None else [last]
                found.append(JobOverview(totals, tuple(current)))
        return found


def _storable(told: JobStatus) -> JobStatus:
    texts = ("job", "subject", "unit", "error")
    return msgspec.structs.replace(
        told,
        figures={name.replace(_NUL, "?"): value for name, value in told.figures.items()},
        **{name: getattr(told, name).replace(_NUL, "?") for name in texts},
    )
