"""What pipeline jobs tell the console, and where the tables lie that it reads."""

from enum import StrEnum
from typing import Annotated, Final

import msgspec

PIPELINE_DIR: Final = "pipeline"
"""Below the data directory: everything that jobs keep."""
TABLES_DIR: Final = "tables"
"""Below `DATA/pipeline`: one folder per Delta table that the console shows."""

Figure = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
Time = Annotated[int, msgspec.Meta(ge=0, le=253_402_300_799_999)]
"""Epoch ms until the end of the year 9999: later times cannot be shown."""


FIGURES_MAX: Final = 32
"""Figures of a run."""


class JobState(StrEnum):
    """How one run stands."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    """Ended by who started it, with Ctrl-C or SIGTERM: no failure, and no success either."""


class JobStatus(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run of a job, told with `PUT /v1/pipeline/jobs/{id}` each second while it runs and at its end."""

    id: Annotated[str, msgspec.Meta(min_length=8, max_length=64, pattern=r"^[A-Za-z0-9-]+$")]
    job: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    """The name that starts it: `load`, `meter`, `mirror` ..."""
    subject: Annotated[str, msgspec.Meta(max_length=300)] = ""
    """What it works on, for people: an instance and topics."""
    state: JobState
    started_at_ms: Time
    updated_at_ms: Time
    planned: Figure = 0
    """Units of work that are planned; 0: not known yet, or a job without an end."""
    done: Figure = 0
    unit: Annotated[str, msgspec.Meta(max_length=32)] = "records"
    figures: Annotated[
        dict[Annotated[str, msgspec.Meta(max_length=64)], Figure], msgspec.Meta(max_length=FIGURES_MAX)
    ] = {}
    """Totals of this run by name: `rows`, `bytes`, `dead_letters`, `lag_records` ... and `cpu_ms`, of the
    job's process and all that it started."""
    error: Annotated[str, msgspec.Meta(max_length=2000)] = ""
    """One sentence; empty unless failed."""
