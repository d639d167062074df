"""Instances: list, create, show, change, suspend, resume, delete."""

import asyncio
from typing import Final

from fastapi import APIRouter, Response

from tenants.api import models, views
from tenants.api.context import Asker, Found, Paging, Plane, Tenant, after_key
from tenants.api.following import CHANGES, LASTS, Followed
from tenants.api.versions import Versioned
from tenants.usecases.instances import Change, NewInstance

router = APIRouter(prefix="/v1/instances", tags=["instances"])
EVERYBODY: Final = "*"


@router.get("")
async def instances(plane: Plane, caller: Asker, page: Paging, tenant: Tenant = None) -> models.InstanceList:
    """The instances of a tenant, by name. Operators: of all tenants with `?tenant=*`."""
    home: str | None = None
    if not (tenant == EVERYBODY and caller.is_operator):
        home = await asyncio.to_thread(plane.accounts.tenant_for, caller, tenant)
    after = after_key(page, str, str)
    found = await asyncio.to_thread(plane.instances.page, home, after, page.limit)
    cursor = page.next_cursor(len(found), [found[-1].tenant, found[-1].name] if found else None)
    return models.InstanceList(items=await views.instance_views(plane, found), next_cursor=cursor)


@router.post("", status_code=201, response_model=models.InstanceView, responses=CHANGES)
async def create_instance(
    plane: Plane,
    caller: Asker,
    response: Response,
    version: Versioned,
    followed: Followed,
    body: models.InstanceCreate,
    tenant: Tenant = None,
) -> models.InstanceView | Response:
    """Order an instance. It is `creating` until every gateway serves it: poll it, or its operation."""
    home = await asyncio.to_thread(plane.accounts.tenant_for, caller, tenant)
    order = NewInstance(
        name=body.name,
        produce_rate_bytes_per_s=body.produce_rate_bytes_per_s,
        consume_rate_bytes_per_s=body.consume_rate_bytes_per_s,
        capacity_bytes=body.capacity_bytes,
        request_percent=body.request_percent,
        whitelist=body.whitelist,
        allow_all=body.allow_all,
        limits=body.limits.model_dump(exclude_none=True),
        full_behaviour=body.full_behaviour,
        auto_create_topics=body.auto_create_topics,
        legacy_clients=body.legacy_clients,
    )
    created = await asyncio.to_thread(plane.instances.create, caller, home, order)
    version.tell(created)
    response.headers["Location"] = f"/v1/instances/{created.id}"
    return await followed.told(created)


@router.get("/{instance}")
async def instance(plane: Plane, found: Found, version: Versioned) -> models.InstanceView:
    """One instance."""
    version.tell(found)
    return await views.instance_view(plane, found)


@router.patch("/{instance}", response_model=models.InstanceView, responses=CHANGES)
async def change_instance(
    plane: Plane,
    caller: Asker,
    found: Found,
    version: Versioned,
    followed: Followed,
    body: models.InstanceChange,
) -> models.InstanceView | Response:
    """Resize, rename, limits and switches. Rates and capacity take effect within two periods, and nobody
    is disconnected. Less capacity than is stored is refused: it would block every producer at once."""
    wanted = Change(
        name=body.name,
        produce_rate_bytes_per_s=body.produce_rate_bytes_per_s,
        consume_rate_bytes_per_s=body.consume_rate_bytes_per_s,
        capacity_bytes=body.capacity_bytes,
        request_percent=body.request_percent,
        limits=body.limits.model_dump(exclude_none=True),
        full_behaviour=body.full_behaviour,
        auto_create_topics=body.auto_create_topics,
        legacy_clients=body.legacy_clients,
    )
    usage = await plane.quota.usage_of(found.id)
    changed = await asyncio.to_thread(
        plane.instances.expecting(version.expected).change, caller, found.id, None, wanted, usage
    )
    version.tell(changed)
    return await followed.told(changed)


@router.delete("/{instance}", status_code=202, response_model=models.InstanceView, responses=LASTS)
async def delete_instance(
    plane: Plane, caller: Asker, found: Found, version: Versioned, followed: Followed
) -> models.InstanceView | Response:
    """Delete it: gone for everybody at once and its name free; its data is purged in the background."""
    deleted = await asyncio.to_thread(
        plane.instances.expecting(version.expected).delete, caller, found.id, None
    )
    version.tell(deleted)
    return await followed.told(deleted)


@router.post("/{instance}/suspend", response_model=models.InstanceView, responses=CHANGES)
async def suspend_instance(
    plane: Plane, caller: Asker, found: Found, version: Versioned, followed: Followed
) -> models.InstanceView | Response:
    """Cut its clients and admit none. Its address stays its own; data and retention go on."""
    suspended = await asyncio.to_thread(
        plane.instances.expecting(version.expected).suspend, caller, found.id, None
    )
    version.tell(suspended)
    return await followed.told(suspended)


@router.post("/{instance}/resume", response_model=models.InstanceView, responses=CHANGES)
async def resume_instance(
    plane: Plane, caller: Asker, found: Found, version: Versioned, followed: Followed
) -> models.InstanceView | Response:
    """Serve a suspended instance again: `creating` until every gateway does."""
    resumed = await asyncio.to_thread(
        plane.instances.expecting(version.expected).resume, caller, found.id, None
    )
    version.tell(resumed)
    return await followed.told(resumed)
