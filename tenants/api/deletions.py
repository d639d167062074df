"""Deleted instances, for their tenants; absent ones, for operators (ADR-0015)."""

import asyncio
from datetime import datetime
from typing import Annotated, Final

from fastapi import Path, Response
from pydantic import Field

from runtime.clock import monotonic_ms
from tenants.api import models
from tenants.api.context import Asker, Paging, Plane, Tenant, after_key, at, home_or_all
from tenants.api.following import CHANGES, LASTS, Followed
from tenants.api.models import RequestModel, ViewModel
from tenants.api.routers import api_router
from tenants.api.shapes import Capacity, Name, Rate
from tenants.console import Console
from tenants.found import Found
from tenants.rules.errors import NotFound
from tenants.rules.lifecycle import State
from tenants.rules.model import Instance
from tenants.usecases.deletions import Adoption

router = api_router("/v1", "deletions")
Reference = Annotated[
    str, Path(description="id, or the name it had", max_length=64, examples=["iabcdefghijk"])
]


class DeletedView(ViewModel):
    """A deleted instance that waits for its purge."""

    id: str
    name: str = Field(description="the name it had; another instance may have it by now")
    tenant: str
    state: models.ConsoleState
    deleted_at: datetime
    purge_after: datetime = Field(description="until then it can be taken back")
    stored_bytes: int | None = Field(description="null while no broker has told")
    waits_for: str | None = Field(description="why it is not purged although its time is over")


class DeletedList(ViewModel):
    """GET /v1/deleted-instances, one page."""

    items: list[DeletedView]
    next_cursor: str | None


class Undelete(RequestModel):
    """POST .../undelete."""

    name: Name | None = Field(
        default=None, description="another name, where its own is taken", examples=["shop-2"]
    )


_AS_IT_WAS: Final = Undelete()


class AbsentView(ViewModel):
    """Data or a spec of an instance that this control plane does not know."""

    id: str
    tenant: str | None = Field(description="as it was served last, null when nobody knows")
    name: str | None
    cluster_id: str | None
    absent_since: datetime | None
    stored_bytes: int
    partitions: int
    holders: list[str] = Field(description="the brokers and gateways that told of it")
    purged: bool = Field(description="it was purged once, and this is left on a broker that was away")


class AbsentList(ViewModel):
    """GET /v1/absent-instances."""

    items: list[AbsentView]


class Adopt(RequestModel):
    """POST .../adopt: the owner, and what nobody knows any more."""

    tenant: str = Field(min_length=1, max_length=64, examples=["acme"])
    name: Name | None = None
    produce_rate_bytes_per_s: Rate | None = None
    consume_rate_bytes_per_s: Rate | None = None
    capacity_bytes: Capacity | None = None


@router.get("/deleted-instances")
async def deleted_instances(plane: Plane, caller: Asker, page: Paging, tenant: Tenant = None) -> DeletedList:
    """What a tenant deleted and can take back, or waits for its purge. Operators: of all with `?tenant=*`."""
    home = await home_or_all(plane, caller, tenant)
    after = after_key(page, str, str)
    found = await asyncio.to_thread(plane.deletions.page, home, after, page.limit)
    lineage = await asyncio.to_thread(plane.deletions.lineage)
    holdings = plane.found.found(monotonic_ms())
    cursor = page.next_cursor(len(found), [found[-1].tenant, found[-1].id] if found else None)
    items = [_deleted_view(plane, one, holdings.get(one.id), lineage) for one in found]
    return DeletedList(items=items, next_cursor=cursor)


def _deleted_view(plane: Console, instance: Instance, found: Found | None, lineage: str) -> DeletedView:
    deletion = instance.deletion
    assert deletion is not None, "deleted by somebody"
    waits_for = plane.purge.waiting.get(instance.id)
    if deletion.lineage != lineage:
        waits_for = (
            "an operator: it was deleted before the control plane's database was restored or exchanged"
        )
    return DeletedView(
        id=instance.id,
        name=instance.name,
        tenant=instance.tenant,
        state=models.ConsoleState(instance.state.value),
        deleted_at=at(deletion.deleted_at_ms),
        purge_after=at(deletion.purge_after_ms),
        stored_bytes=None if found is None else found.stored_bytes,
        waits_for=waits_for,
    )


@router.post("/deleted-instances/{instance}/undelete", **CHANGES)
async def undelete_instance(
    plane: Plane,
    caller: Asker,
    instance: Reference,
    followed: Followed,
    body: Undelete = _AS_IT_WAS,
    tenant: Tenant = None,
) -> models.InstanceView | Response:
    """Bring it back with its id, topics, vports and offsets: `creating` until every gateway serves it."""
    home = await asyncio.to_thread(plane.accounts.tenant_for, caller, tenant)
    back = await asyncio.to_thread(plane.deletions.undelete, caller, home, instance, body.name)
    return await followed.told(back)


@router.post("/deleted-instances/{instance}/purge", **LASTS)
async def purge_instance(
    plane: Plane, operator: Asker, instance: Reference, followed: Followed
) -> models.InstanceView | Response:
    """Remove its data now, whatever is left of its grace. Nothing brings it back."""
    purged = await asyncio.to_thread(plane.deletions.purge, operator, instance)
    return await followed.told(purged)


@router.get("/absent-instances")
async def absent_instances(plane: Plane) -> AbsentList:
    """What brokers and gateways hold of instances that this database does not know: not served, kept."""
    absent = await asyncio.to_thread(plane.absent)
    return AbsentList(items=[_absent_view(found, state) for found, state in absent])


def _absent_view(found: Found, state: State | None) -> AbsentView:
    spec = found.spec
    return AbsentView(
        id=found.instance_id,
        tenant=None if spec is None else spec.tenant,
        name=None if spec is None else spec.name,
        cluster_id=found.cluster_id,
        absent_since=None if found.absent_since_ms is None else at(found.absent_since_ms),
        stored_bytes=found.stored_bytes,
        partitions=found.partitions,
        holders=list(found.holders),
        purged=state is State.PURGED,
    )


@router.post("/absent-instances/{instance}/adopt", status_code=201, **CHANGES)
async def adopt_instance(
    plane: Plane, operator: Asker, instance: Reference, followed: Followed, body: Adopt
) -> models.InstanceView | Response:
    """Make it anew for the data found: id, topics, offsets, and its vports where they are free."""
    home = await asyncio.to_thread(plane.accounts.tenant_for, operator, body.tenant)
    wanted = Adoption(**(body.model_dump() | {"tenant": home}))
    found = _found(plane, instance)
    adopted = await asyncio.to_thread(plane.deletions.adopt, operator, found, wanted)
    return await followed.told(adopted)


@router.post("/absent-instances/{instance}/discard", **LASTS)
async def discard_instance(
    plane: Plane, operator: Asker, instance: Reference, followed: Followed, tenant: Tenant = None
) -> models.InstanceView | Response:
    """Delete it: kept for its grace like anything that is deleted, then purged."""
    home = await asyncio.to_thread(plane.accounts.tenant_for, operator, tenant)
    found = _found(plane, instance)
    discarded = await asyncio.to_thread(plane.deletions.discard, operator, found, Adoption(tenant=home))
    return await followed.told(discarded)


def _found(plane: Console, instance_id: str) -> Found:
    found = plane.found.found(monotonic_ms()).get(instance_id)
    if found is None:
        raise NotFound(f"nobody has told of an absent instance '{instance_id}'")
    return found
