"""Operations: GET /v1/operations, and how the answer to a change names its operation.

A change of an instance is stored at once; what takes its time is that gateways and brokers follow. Who sends
`Prefer: respond-async` (RFC 7240) is answered 202 with the operation; others get the instance as it is now,
and `Operation-Location`.
"""

import asyncio
import re
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import Depends, Header, Path, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import Field

from tenants.api import views
from tenants.api.context import Asker, Paging, Plane, Tenant, after_key, at, home_or_all
from tenants.api.models import InstanceView, ViewModel
from tenants.api.routers import api_router
from tenants.console import Console
from tenants.rules.model import Instance
from tenants.rules.operations import PURGE, Operation, OperationState

router = api_router("/v1/operations", "operations")
_RETRY_S: Final = "1"
_ASYNC: Final = re.compile(r"(^|,)\s*respond-async\s*(;|,|$)", re.IGNORECASE)


class ProgressView(ViewModel):
    """How far an operation is: those that follow of those that shall."""

    done: int = Field(description="gateways and brokers that have applied the change", examples=[3])
    total: int = Field(description="gateways and brokers that live now", examples=[4])


class OperationLinks(ViewModel):
    """Where to look."""

    self_: str = Field(alias="self", description="this operation", examples=["/v1/operations/op3f1c9a0b7d2e"])
    instance: str = Field(description="the instance that it changes", examples=["/v1/instances/iabcdefghijk"])


class OperationView(ViewModel):
    """What takes until gateways and brokers follow, or until data is purged."""

    id: str = Field(description="its id", examples=["op3f1c9a0b7d2e"])
    kind: str = Field(description="what is done, as in the audit log", examples=["instance.create"])
    state: OperationState = Field(
        description="`running`, then `succeeded` or `failed`", examples=["succeeded"]
    )
    progress: ProgressView | None = Field(description="while it runs; null: it has ended, or nobody counts")
    waits_for: str | None = Field(
        description="what a purge waits for; null: nothing is known", examples=[None]
    )
    error: str | None = Field(description="why it failed, in one sentence", examples=[None])
    tenant: str
    instance_id: str
    started_at: datetime
    ended_at: datetime | None
    links: OperationLinks = Field(description="paths of this API")


class OperationList(ViewModel):
    """GET /v1/operations, newest first, one page."""

    items: list[OperationView]
    next_cursor: str | None


@router.get("")
async def operations(
    plane: Plane,
    caller: Asker,
    page: Paging,
    tenant: Tenant = None,
    instance: Annotated[
        str | None,
        Query(max_length=64, description="only of the instance with this id", examples=["iabcdefghijk"]),
    ] = None,
) -> OperationList:
    """The last 1,000 operations of a tenant, newest first. Operators: of all tenants with `?tenant=*`."""
    home = await home_or_all(plane, caller, tenant)
    before = after_key(page, int, str)
    found = await asyncio.to_thread(plane.operations.page, home, instance, before, page.limit)
    cursor = page.next_cursor(len(found), [found[-1].started_at_ms, found[-1].id] if found else None)
    return OperationList(items=[operation_view(plane, one) for one in found], next_cursor=cursor)


@router.get("/{operation}")
async def operation(
    plane: Plane,
    caller: Asker,
    response: Response,
    operation: Annotated[str, Path(max_length=24, description="its id", examples=["op3f1c9a0b7d2e"])],
) -> OperationView:
    """One operation. While it runs, Retry-After says when to look again."""
    found = await asyncio.to_thread(plane.operations.get, caller, operation)
    if found.state is OperationState.RUNNING:
        response.headers["Retry-After"] = _RETRY_S
    return operation_view(plane, found)


def operation_view(plane: Console, found: Operation) -> OperationView:
    """An operation with what is known of its way."""
    progress = None
    if found.state is OperationState.RUNNING and found.kind != PURGE:
        reached = plane.operations.reached(found)
        progress = ProgressView(done=reached.done, total=reached.total)
    return OperationView(
        id=found.id,
        kind=found.kind,
        state=found.state,
        progress=progress,
        waits_for=plane.purge.waiting.get(found.instance_id) if found.kind == PURGE else None,
        error=found.error,
        tenant=found.tenant,
        instance_id=found.instance_id,
        started_at=at(found.started_at_ms),
        ended_at=None if found.ended_at_ms is None else at(found.ended_at_ms),
        links=OperationLinks(
            self=f"/v1/operations/{found.id}", instance=f"/v1/instances/{found.instance_id}"
        ),
    )


_TOLD: Final = {
    "Location": {"description": "of the operation", "schema": {"type": "string"}},
    "Retry-After": {"description": "seconds until it is worth a look", "schema": {"type": "string"}},
}
_BEGUN: Final = "with `Prefer: respond-async`: the operation that was begun"
_AS_IS: Final = "the instance as it is now; Location names the operation"
CHANGES: Final[dict[str, Any]] = {
    "response_model": InstanceView,
    "responses": {202: {"model": OperationView, "description": _BEGUN, "headers": _TOLD}},
}
"""Answers of a route that changes an instance, for OpenAPI."""
LASTS: Final[dict[str, Any]] = {
    "status_code": 202,
    "response_model": InstanceView,
    "responses": {202: {"description": _AS_IS, "headers": _TOLD}},
}
"""The answer of a route whose effect always comes later."""


@dataclass(frozen=True, slots=True)
class Following:
    """How a caller wants to be told of what follows a change."""

    plane: Console
    response: Response
    is_async: bool
    is_later: bool
    """The route answers 202 in any case."""

    async def told(self, changed: Instance) -> InstanceView | Response:
        """The answer to a change. What changed nothing has no operation, and is answered as it is."""
        change = (changed.id, changed.revision)
        begun = await asyncio.to_thread(self.plane.operations.of_change, *change)
        if begun is None:
            return await views.instance_view(self.plane, changed)
        place = f"/v1/operations/{begun.id}"
        if self.is_async:
            headers = {
                **{name: value for name, value in self.response.headers.items() if name == "etag"},
                "Location": place,
                "Preference-Applied": "respond-async",
                "Retry-After": _RETRY_S,
            }
            view = operation_view(self.plane, begun).model_dump(mode="json", by_alias=True)
            return JSONResponse(view, HTTPStatus.ACCEPTED, headers)
        if self.is_later:
            self.response.headers["Location"] = place
            self.response.headers["Retry-After"] = _RETRY_S
        self.response.headers["Operation-Location"] = place
        return await views.instance_view(self.plane, changed)


async def following(
    plane: Plane,
    request: Request,
    response: Response,
    prefer: Annotated[
        str | None,
        Header(
            max_length=200,
            description="`respond-async`: answer 202 with the operation (RFC 7240)",
            examples=["respond-async"],
        ),
    ] = None,
) -> Following:
    """What a route needs to answer a change."""
    is_later = getattr(request.scope.get("route"), "status_code", None) == HTTPStatus.ACCEPTED
    return Following(plane, response, prefer is not None and bool(_ASYNC.search(prefer)), is_later)


Followed = Annotated[Following, Depends(following)]
