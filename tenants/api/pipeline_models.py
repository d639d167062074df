"""What operators are shown of the pipeline's runs."""

from datetime import datetime

from pydantic import ConfigDict, Field

from contracts.pipeline import JobState
from tenants.api.models import RequestModel, ViewModel
from tenants.api.shapes import NULL, of
from tenants.api.times import Time
from tenants.rules.pipeline_runs import RunState
from tenants.rules.pipeline_schedules import CRON_SHAPE, OF_AN_INSTANCE, ScheduledJob


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


class LastRunView(ViewModel):
    """The last run of a schedule."""

    state: RunState = Field(
        description="how it ended, or that it runs; `lost`: its runner told nothing for 30 s",
        examples=["succeeded"],
    )
    started_at: datetime
    ended_at: datetime | None
    error: str = Field(description="one sentence; empty unless it failed", examples=[""])


class ScheduleView(ViewModel):
    """A job that runs by itself."""

    name: str = Field(description="its name", examples=["meter"])
    job: ScheduledJob = Field(examples=["meter"])
    instance_id: str | None = Field(description="what it works on; null: this job is not of an instance")
    cron: str = Field(description="minute, hour, day, month, weekday, of UTC", examples=["*/5 * * * *"])
    paused: bool = Field(description="whether it runs only when it is asked to", examples=[False])
    due_at: datetime | None = Field(description="since when it should run; null: it is not due")
    next_at: datetime | None = Field(description="when it comes next; null: it is paused")
    last: LastRunView | None = Field(description="null: it has not run yet")


class ScheduleList(ViewModel):
    """GET /v1/pipeline/schedules."""

    items: list[ScheduleView]


class ScheduleOrder(RequestModel):
    """PUT /v1/pipeline/schedules/NAME."""

    model_config = ConfigDict(
        json_schema_extra={
            "if": of(job={"enum": sorted(OF_AN_INSTANCE)}),
            "then": of("instance_id", instance_id={"type": "string"}),
            "else": of(instance_id=NULL),
        }
    )

    job: ScheduledJob = Field(strict=False, description="what runs", examples=["load"])
    instance_id: str | None = Field(
        default=None, max_length=64, description="for jobs of an instance: load, compact, audit"
    )
    cron: str = Field(
        max_length=100,
        description="minute, hour, day, month, weekday, of UTC",
        examples=["*/10 * * * *"],
        json_schema_extra={"pattern": CRON_SHAPE},
    )
    paused: bool = Field(default=False, description="whether it runs only when it is asked to")


class ScheduledRunOrder(RequestModel):
    """PUT /v1/pipeline/schedules/NAME/last."""

    due_at: Time = Field(
        strict=False, description="what was due, as the list told", examples=["2026-11-22T10:15:00Z"]
    )
    state: JobState = Field(
        strict=False, description="`running` when it begins and while it goes on", examples=["succeeded"]
    )
    runner: str = Field(
        pattern=r"^[A-Za-z0-9-]{8,64}$",
        description="a name that each runner draws",
        examples=["0b0a6f3e-5b1c"],
    )
    error: str = Field(
        default="", max_length=2000, description="one sentence; empty unless it failed", examples=[""]
    )
