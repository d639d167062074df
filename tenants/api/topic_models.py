"""What the REST API takes and answers with for topics and groups."""

import re

from pydantic import ConfigDict, Field

from contracts.topic_policy import CONFIG_SHAPES
from tenants.api.models import Count, RequestModel, ViewModel
from tenants.api.shapes import NULL, Schema, TopicName, by, of
from tenants.api.times import Time
from tenants.rules.offset_reset import ResetTo


def _configs(*others: str) -> Schema:
    """Which configs there are, and what their values look like; `others` are further types of theirs."""
    shapes = {
        f"^{re.escape(name)}$": {"type": ["string", *others], "pattern": shape}
        for name, shape in CONFIG_SHAPES.items()
    }
    return {"propertyNames": {"enum": list(CONFIG_SHAPES)}, "patternProperties": shapes}


# --- topics ----------------------------------------------------------------------------------------


class TopicCreate(RequestModel):
    """POST a topic. Without partitions it has as many as the instance gives where none are asked for."""

    name: TopicName = Field(examples=["orders"])
    partitions: int | None = Field(default=None, ge=1, le=2**31 - 1, examples=[3])
    configs: dict[str, str] = Field(
        default={}, examples=[{"retention.ms": "86400000"}], json_schema_extra=_configs()
    )


class TopicChange(RequestModel):
    """PATCH a topic: configs to set (null: back to the default), a larger number of partitions."""

    partitions: int | None = Field(default=None, ge=1, le=2**31 - 1)
    configs: dict[str, str | None] = Field(default_factory=dict, json_schema_extra=_configs("null"))


class TopicSummary(ViewModel):
    """A topic in a listing."""

    name: str
    partitions: int
    replication_factor: int
    stored_bytes: int | None
    has_whitelist: bool


class TopicList(ViewModel):
    """GET topics, one page."""

    items: list[TopicSummary]
    next_cursor: str | None


class PartitionView(ViewModel):
    """One partition; offsets are null while it has no leader."""

    partition: int
    leader: int | None
    replicas: list[int]
    isr: list[int]
    log_start_offset: int | None
    high_watermark: int | None
    size_bytes: int | None


class ConfigView(ViewModel):
    """One config of a topic. `about` and `editable` come from the table of what tenants may set."""

    name: str
    value: str | None
    is_default: bool
    editable: bool
    about: str | None


class TopicView(ViewModel):
    """GET a topic."""

    name: str
    partitions: list[PartitionView]
    configs: list[ConfigView]
    stored_bytes: int | None
    whitelist: list[str] | None = Field(description="null: inherits the instance's")


class DeleteBefore(RequestModel):
    """Delete records of one partition before an offset; null: all of them."""

    partition: Count
    before_offset: int | None = Field(default=None, ge=0, le=2**63 - 1)


class DeleteRecordsRequest(RequestModel):
    """POST delete-records. `{}` deletes every record of every partition."""

    partitions: list[DeleteBefore] | None = Field(
        default=None, min_length=1, max_length=10_000, description="named twice: the later offset counts"
    )


class PartitionStart(ViewModel):
    """Where a partition's log starts after a deletion, or why it was refused."""

    partition: int
    log_start_offset: int | None
    error: str | None


class DeleteRecordsResult(ViewModel):
    """The outcome per partition."""

    partitions: list[PartitionStart]


# --- groups ----------------------------------------------------------------------------------------


class GroupSummary(ViewModel):
    """A consumer group in a listing."""

    group: str
    state: str
    protocol_type: str
    members: int | None
    topics: list[str] | None
    lag: int | None = Field(description="sum of the known lags; null: it was not looked at", examples=[120])
    lag_seconds: float | None


class GroupList(ViewModel):
    """GET groups, one page."""

    items: list[GroupSummary]
    next_cursor: str | None


class AssignedPartitions(ViewModel):
    """What a member was assigned of one topic."""

    topic: str
    partitions: list[int]


class MemberView(ViewModel):
    """A member of a group."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    assignment: list[AssignedPartitions]


class CommittedOffset(ViewModel):
    """A committed offset and how far the group is behind; null where the log end is unknown."""

    topic: str
    partition: int
    committed_offset: int
    log_end_offset: int | None
    lag: int | None
    lag_seconds: float | None
    metadata: str | None


class GroupView(ViewModel):
    """GET a group."""

    group: str
    state: str
    protocol_type: str
    protocol: str = Field(description="the assignor the members agreed on")
    members: list[MemberView]
    offsets: list[CommittedOffset]
    lag: int = Field(description="sum of the known lags")
    lag_seconds: float | None


class ResetTopic(RequestModel):
    """A topic whose committed offsets are reset; without `partitions` all of it."""

    topic: TopicName
    partitions: list[Count] | None = Field(default=None, max_length=1_000)


class GivenOffset(RequestModel):
    """One partition's new offset."""

    topic: TopicName
    partition: Count
    offset: int = Field(ge=0, le=2**63 - 1)


def _taking(*fields: str, **more: Schema) -> Schema:
    """What goes with one way of resetting, and nothing else."""
    others = {name: NULL for name in ("at", "offset", "shift", "offsets") if name not in fields}
    return of(*fields, **{name: {"not": NULL} for name in fields}, **others, **more)


class ResetOffsetsRequest(RequestModel):
    """POST reset-offsets: a plan, carried out only with `execute`. The group may not have members."""

    model_config = ConfigDict(
        json_schema_extra=by(
            "to",
            {
                "earliest": _taking(),
                "latest": _taking(),
                "datetime": _taking("at"),
                "offset": _taking("offset"),
                "shift": _taking("shift"),
                "offsets": _taking("offsets", topics=NULL),
            },
        )
    )

    to: ResetTo = Field(strict=False)
    at: Time | None = Field(default=None, strict=False, description="with `to: datetime`")
    offset: int | None = Field(default=None, ge=0, le=2**63 - 1, description="with `to: offset`")
    shift: int | None = Field(default=None, ge=-(2**63) + 1, le=2**63 - 1, description="with `to: shift`")
    offsets: list[GivenOffset] | None = Field(
        default=None, min_length=1, max_length=10_000, description="with `to: offsets`"
    )
    topics: list[ResetTopic] | None = Field(
        default=None, max_length=1_000, description="left out: where the group has committed"
    )
    execute: bool = False


class ResetOffset(ViewModel):
    """One partition of a plan; `note` says why there is no new offset, or what it would have been."""

    topic: str
    partition: int
    committed_offset: int | None
    new_offset: int | None
    note: str | None


class ResetOffsetsResult(ViewModel):
    """The plan, and whether it was carried out."""

    group: str
    executed: bool
    partitions: list[ResetOffset]
