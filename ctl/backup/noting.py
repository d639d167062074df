"""A backup is a job like those of the pipeline: the console shows its runs, an alert looks at the last good.

It is written into the store that the backup was taken of, since a console need not be within reach, or run.
"""

import secrets
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from contracts.pipeline import JobState, JobStatus
from ctl.backup.manifest import Manifest
from ctl.backup.places import Places
from tenants.store.engine import Store, StoreFault, sentence
from tenants.usecases.pipeline_runs import PipelineRuns

JOB: Final = "backup"
_ERROR_CHARACTERS_MAX: Final = 2000


class Run:
    """One backup into a file."""

    def __init__(self, places: Places, file: str, started_at_ms: int) -> None:
        self._places = places
        self._file = file[-300:]
        self._started_at_ms = started_at_ms

    def succeeded(self, manifest: Manifest, now_ms: int) -> str | None:
        """Note it; what kept it from being noted: the backup is as good without."""
        figures = {
            "entries": sum(part.entries for part in manifest.parts),
            "bytes": sum(part.size_bytes for part in manifest.parts),
        }
        return self._note(JobState.SUCCEEDED, now_ms, figures, "")

    def failed(self, reason: str, now_ms: int) -> str | None:
        """Note it, as far as there is a store."""
        return self._note(JobState.FAILED, now_ms, {}, reason[:_ERROR_CHARACTERS_MAX])

    def _note(self, state: JobState, now_ms: int, figures: dict[str, int], error: str) -> str | None:
        if not self._places.has_postgres and not self._places.database_file.exists():
            return "there is no database of a console"
        status = JobStatus(
            id=secrets.token_hex(16),
            job=JOB,
            subject=self._file,
            state=state,
            started_at_ms=self._started_at_ms,
            updated_at_ms=max(self._started_at_ms, now_ms),
            done=figures.get("entries", 0),
            unit="entries",
            figures=figures,
            error=error,
        )
        store = Store.attach(self._places.database_url)
        try:
            PipelineRuns(store).tell(status.id, status)
        except (StoreFault, SQLAlchemyError) as fault:
            return fault.reason if isinstance(fault, StoreFault) else sentence(fault)
        finally:
            store.close()
        return None
