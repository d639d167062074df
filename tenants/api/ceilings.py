"""How much a tenant may have and a cluster may sell."""

import asyncio
from typing import Annotated

from fastapi import Path

from tenants.api.ceiling_models import AmountsView, CeilingsChange, CeilingsView, ClusterCeilingsList
from tenants.api.context import Asker, Plane
from tenants.api.routers import api_router
from tenants.api.versions import ContentVersion, ContentVersioned
from tenants.rules.ceilings import Amounts
from tenants.usecases.ceilings import Standing

router = api_router("/v1", "ceilings")
Name = Annotated[str, Path(max_length=64, description="the name of the tenant, or the id of the cluster")]


@router.get("/tenants/{name}/ceilings")
async def tenant_ceilings(plane: Plane, caller: Asker, version: ContentVersioned, name: Name) -> CeilingsView:
    """A tenant's own: what it may have, has, and may still order."""
    tenant = await asyncio.to_thread(plane.accounts.tenant_for, caller, name)
    return _told(await asyncio.to_thread(plane.ceilings.tenant, tenant), version)


@router.patch("/tenants/{name}/ceilings")
async def set_tenant_ceilings(
    plane: Plane, operator: Asker, version: ContentVersioned, name: Name, body: CeilingsChange
) -> CeilingsView:
    """Change what a tenant may have."""
    wanted = body.model_dump(exclude_unset=True)
    set_ = plane.ceilings.set_tenant
    changed = await asyncio.to_thread(set_, operator, name, wanted, expected=version.expected)
    return _told(changed, version)


@router.get("/clusters")
async def clusters(plane: Plane) -> ClusterCeilingsList:
    """What every cluster may sell, has sold, and has left."""
    found = await asyncio.to_thread(plane.ceilings.clusters)
    return ClusterCeilingsList(items=[_view(one) for one in found])


@router.patch("/clusters/{name}/ceilings")
async def set_cluster_ceilings(
    plane: Plane, operator: Asker, version: ContentVersioned, name: Name, body: CeilingsChange
) -> CeilingsView:
    """Change what a cluster may sell."""
    wanted = body.model_dump(exclude_unset=True)
    set_ = plane.ceilings.set_cluster
    changed = await asyncio.to_thread(set_, operator, name, wanted, expected=version.expected)
    return _told(changed, version)


def _told(standing: Standing, version: ContentVersion) -> CeilingsView:
    version.tell(standing.version)
    return _view(standing)


def _view(standing: Standing) -> CeilingsView:
    room = standing.room
    return CeilingsView(
        name=standing.name,
        ceilings=_amounts(room.ceilings),
        sold=_amounts(room.sold),
        left=_amounts(room.left),
        own=sorted(standing.own),
    )


def _amounts(amounts: Amounts) -> AmountsView:
    return AmountsView.model_validate(amounts, from_attributes=True)
