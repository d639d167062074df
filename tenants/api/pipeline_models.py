"""What operators are shown of the pipeline's runs."""

from datetime import datetime

from pydantic import Field

from tenants.api.models import ViewModel
from tenants.rules.pipeline_runs import RunState


class RunView(ViewModel):
    """One run of a pipeline job, as it told last."""

    id: str = Field(examples=["0b0a6f3e-5b1c-4a57-9f0a-3f6a2f9f4c11"])
    job: str = Field(examples=["load"])
    subject: str = Field(description="what it works on", examples=["shop orders"])
    state: RunState = Field(description="`lost`: it runs, but told nothing for 60 s", examples=["running"])
    started_at: datetime
    updated_at: datetime = Field(description="of what it told last, by its own clock")
    heard_at: datetime = Field(description="when the console heard of it last")
    planned: int = Field(
        description="units planned; 0: not known, or a job without an end", examples=[2000000]
    )
    done: int = Field(examples=[1250000])
    unit: str = Field(examples=["records"])
    rate_per_s: float = Field(description="units done per second since it started", examples=[83333.3])
    figures: dict[str, int] = Field(
        description="totals of this run by name", examples=[{"rows": 1250000, "lag_records": 750000}]
    )
    error: str = Field(description="one sentence; empty unless it failed", examples=[""])


class RunList(ViewModel):
    """GET /v1/pipeline/jobs, newest first, one page."""

    items: list[RunView]
    next_cursor: str | None
