"""Access-key pairs of a tenant, which sign requests of the CKafka-compatible endpoint."""

import asyncio
from typing import Annotated

from fastapi import Path

from tenants.api import models, views
from tenants.api.context import Asker, Paging, Plane, Tenant, after_key
from tenants.api.routers import api_router

router = api_router("/v1/access-keys", "accounts")


@router.get("")
async def access_keys(
    plane: Plane, caller: Asker, page: Paging, tenant: Tenant = None
) -> models.AccessKeyList:
    """The access-key pairs of a tenant, without their secret keys."""
    home = await asyncio.to_thread(plane.accounts.tenant_for, caller, tenant)
    found = await asyncio.to_thread(plane.access_keys.page, home, after_key(page, str), page.limit)
    cursor = page.next_cursor(len(found), [found[-1].secret_id] if found else None)
    return models.AccessKeyList(items=[views.access_key_view(one) for one in found], next_cursor=cursor)


@router.post("", status_code=201)
async def create_access_key(
    plane: Plane, caller: Asker, body: models.AccessKeyCreate, tenant: Tenant = None
) -> models.AccessKeyCreated:
    """Make an access-key pair. Its secret key is in this answer and nowhere else."""
    home = await asyncio.to_thread(plane.accounts.tenant_for, caller, tenant)
    made = await asyncio.to_thread(plane.access_keys.create, caller, home, body.name, body.role)
    view = views.access_key_view(made.key)
    return models.AccessKeyCreated(**view.model_dump(), secret_key=made.secret_key)


@router.delete("/{secret_id}", status_code=204)
async def delete_access_key(
    plane: Plane,
    caller: Asker,
    secret_id: Annotated[str, Path(max_length=64, description="the public half of the pair")],
) -> None:
    """Revoke an access-key pair at once."""
    await asyncio.to_thread(plane.access_keys.delete, caller, secret_id)
