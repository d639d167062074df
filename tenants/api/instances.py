"""Instances: list, create, show, change, suspend, resume, delete."""

import asyncio
from typing import Any

from fastapi import Response

from tenants.api import models, views
from tenants.api.context import Asker, Found, Paging, Plane, Search, Tenant, after_key, home_or_all
from tenants.api.following import CHANGES, LASTS, Followed
from tenants.api.routers import api_router
from tenants.api.versions import Changing, Versioned
from tenants.usecases.instances import Change, Instances, NewInstance

router = api_router("/v1/instances", "instances")


@router.get("")
async def instances(
    plane: Plane, caller: Asker, page: Paging, tenant: Tenant = None, search: Search = ""
) -> models.InstanceList:
    """The instances of a tenant, by name. Operators: of all tenants with `?tenant=*`. A search also looks
    at ids and at tenants."""
    home = await home_or_all(plane, caller, tenant)
    after = after_key(page, str, str)
    found = await asyncio.to_thread(plane.instances.page, home, after, page.limit, search)
    cursor = page.next_cursor(len(found), [found[-1].tenant, found[-1].name] if found else None)
    return models.InstanceList(items=await views.instance_views(plane, found), next_cursor=cursor)


@router.post("", status_code=201, **CHANGES)
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
    created = await asyncio.to_thread(plane.instances.create, caller, home, NewInstance(**_fields(body)))
    version.tell(created)
    response.headers["Location"] = f"/v1/instances/{created.id}"
    return await followed.told(created)


@router.get("/{instance}")
async def instance(plane: Plane, found: Found, version: Versioned) -> models.InstanceView:
    """One instance."""
    version.tell(found)
    return await views.instance_view(plane, found)


@router.patch("/{instance}", **CHANGES)
async def change_instance(
    plane: Plane, change: Changing, followed: Followed, body: models.InstanceChange
) -> models.InstanceView | Response:
    """Resize, rename, limits and switches. Rates and capacity take effect within two periods, and nobody
    is disconnected. Less capacity than is stored is refused: it would block every producer at once."""
    usage = await plane.quota.usage_of(change.instance.id)
    return await followed.told(await change.make(Instances.change, Change(**_fields(body)), usage))


def _fields(body: models.InstanceCreate | models.InstanceChange) -> dict[str, Any]:
    return body.model_dump() | {"limits": body.limits.model_dump(exclude_none=True)}


@router.delete("/{instance}", **LASTS)
async def delete_instance(change: Changing, followed: Followed) -> models.InstanceView | Response:
    """Delete it: gone for everybody at once and its name free; its data is purged in the background."""
    return await followed.told(await change.make(Instances.delete))


@router.post("/{instance}/suspend", **CHANGES)
async def suspend_instance(change: Changing, followed: Followed) -> models.InstanceView | Response:
    """Cut its clients and admit none. Its address stays its own; data and retention go on."""
    return await followed.told(await change.make(Instances.suspend))


@router.post("/{instance}/resume", **CHANGES)
async def resume_instance(change: Changing, followed: Followed) -> models.InstanceView | Response:
    """Serve a suspended instance again: `creating` until every gateway does."""
    return await followed.told(await change.make(Instances.resume))
