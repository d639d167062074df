"""Injected faults as the API takes and shows them."""

from datetime import datetime
from typing import Annotated, Final

from pydantic import ConfigDict, Field

from contracts.injected_faults import DELAY_MS_MAX, DURATION_S_MAX, FaultKind
from tenants.api.models import RequestModel, ViewModel
from tenants.api.shapes import NULL, Schema, by, of, where
from tenants.rules.fault_orders import ABOVE_BYTES_MAX, APIS, DURATION_S_DEFAULT, PARAMETERS, REQUIRED

_KIND = "what clients are made to feel; docs/faults.md says what each kind does"
Share = Annotated[int, Field(ge=1, le=100)]
Delay = Annotated[int, Field(ge=1, le=DELAY_MS_MAX)]


_NAMED: Final = frozenset().union(*PARAMETERS.values())


def _taking(kind: FaultKind) -> Schema:
    """What goes with one kind of fault, and nothing else."""
    others: dict[str, Schema] = dict.fromkeys(sorted(_NAMED - PARAMETERS[kind]), NULL)
    required = REQUIRED.get(kind)
    if required is not None:
        return of(required, **{required: {"not": NULL}}, **others)
    alone = where("once", True, of(share_percent=NULL)) if "once" in PARAMETERS[kind] else {}
    return of(**others) | alone


class FaultStart(RequestModel):
    """POST .../faults: one fault of the instance that begins now. Parameters go with kinds."""

    model_config = ConfigDict(json_schema_extra=by("kind", {kind: _taking(kind) for kind in PARAMETERS}))

    kind: FaultKind = Field(strict=False, description=_KIND, examples=["latency"])
    duration_s: int = Field(
        default=DURATION_S_DEFAULT, ge=1, le=DURATION_S_MAX, description="then it ends by itself (s)"
    )
    share_percent: Share | None = Field(
        default=None, description="of requests that are hit, in % of all; 100 by default", examples=[None]
    )
    delay_ms: Delay | None = Field(
        default=None, description="of latency: how long requests wait (ms)", examples=[300]
    )
    throttle_time_ms: Delay | None = Field(
        default=None, description="of throttling: what answers say, and is waited (ms)", examples=[None]
    )
    apis: list[Annotated[str, Field(json_schema_extra={"enum": sorted(APIS)})]] | None = Field(
        default=None,
        max_length=50,
        description="of latency: only these APIs, by the names that metrics have; null: all",
        examples=[["produce"]],
    )
    above_bytes: Annotated[int, Field(ge=0, le=ABOVE_BYTES_MAX)] | None = Field(
        default=None,
        description="of message_too_large: batches up to this size pass (bytes)",
        examples=[None],
    )
    once: bool | None = Field(
        default=None, description="of connection_reset: every connection once, now", examples=[None]
    )


class FaultView(ViewModel):
    """An injected fault that acts, or has ended."""

    id: str = Field(examples=["f0a1b2c3d4e5f"])
    instance: str = Field(description="the id of the instance", examples=["iabcdefghijk"])
    kind: str = Field(description=_KIND, examples=["latency"])
    summary: str = Field(
        description="kind and parameters in one line", examples=["latency 300 ms of produce"]
    )
    share_percent: int = Field(description="of requests that are hit, in % of all", examples=[100])
    delay_ms: int | None = Field(description="of latency (ms); null: another kind", examples=[300])
    throttle_time_ms: int | None = Field(
        description="of throttling (ms); null: another kind", examples=[None]
    )
    apis: list[str] = Field(description="of latency; empty: all", examples=[["produce"]])
    above_bytes: int | None = Field(
        description="of message_too_large (bytes); null: another kind", examples=[None]
    )
    once: bool = Field(description="whether every connection was reset once", examples=[False])
    active: bool = Field(description="whether clients feel it", examples=[True])
    applied: bool
    started_at: datetime
    ends_at: datetime = Field(description="when it ends by itself", examples=["2026-11-22T10:16:00Z"])
    ended_at: datetime | None
    started_by: str = Field(description="kind and name of the credential", examples=["key:deploy"])
    ended_by: str | None = Field(description="the same; null while it goes on", examples=[None])


class FaultList(ViewModel):
    """GET .../faults: newest first, those that act and the last that have ended."""

    items: list[FaultView]


class ActiveFault(ViewModel):
    """A fault that acts, with its instance."""

    tenant: str
    instance_name: str = Field(description="the name of its instance", examples=["shop"])
    fault: FaultView = Field(description="the fault")


class ActiveFaultList(ViewModel):
    """GET /v1/faults."""

    items: list[ActiveFault]
