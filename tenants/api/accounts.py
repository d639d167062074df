"""Who asks, roles, tenants, keys, the audit log."""

import asyncio
from typing import Annotated

from fastapi import Path

from tenants.api import models, views
from tenants.api.context import Asker, Paging, Plane, Tenant, after_key, at
from tenants.api.routers import api_router
from tenants.rules.permissions import MEANINGS, Role, grants

router = api_router("/v1", "accounts")
KeyId = Annotated[str, Path(max_length=64, description="the id of the key")]


@router.get("/me")
async def me(caller: Asker) -> models.Me:
    """Who the caller is."""
    return models.Me(
        kind=caller.kind,
        name=caller.name,
        role=caller.role,
        tenant=caller.tenant,
        permissions=views.permissions_of(caller.role),
        address=caller.address,
    )


@router.get("/roles")
async def roles() -> models.RoleList:
    """Which roles there are, and what each may do."""
    items = [
        models.RoleView(
            role=role,
            permissions=views.permissions_of(role),
            grants=[one for one in Role if one in grants(role)],
        )
        for role in Role
    ]
    meanings = [models.PermissionView(permission=one, meaning=text) for one, text in MEANINGS.items()]
    return models.RoleList(items=items, meanings=meanings)


@router.get("/tenants")
async def tenants(plane: Plane, page: Paging) -> models.TenantList:
    """All tenants, by name."""
    rows = await asyncio.to_thread(plane.accounts.tenants, after_key(page, str), page.limit)
    items = [
        models.TenantView(name=name, instances=count, created_at=at(created_at_ms))
        for name, count, created_at_ms in rows
    ]
    cursor = page.next_cursor(len(items), [items[-1].name] if items else None)
    return models.TenantList(items=items, next_cursor=cursor)


@router.post("/tenants", status_code=201)
async def create_tenant(plane: Plane, caller: Asker, body: models.TenantCreate) -> models.TenantView:
    """Add a tenant."""
    name, created_at_ms = await asyncio.to_thread(plane.accounts.create_tenant, caller, body.name)
    return models.TenantView(name=name, instances=0, created_at=at(created_at_ms))


@router.get("/keys")
async def keys(plane: Plane, caller: Asker, page: Paging, tenant: Tenant = None) -> models.KeyList:
    """The API keys of a tenant, without their secrets."""
    home = await asyncio.to_thread(plane.accounts.tenant_for, caller, tenant)
    found = await asyncio.to_thread(plane.accounts.keys, caller, home, after_key(page, str), page.limit)
    cursor = page.next_cursor(len(found), [found[-1].id] if found else None)
    return models.KeyList(items=[views.key_view(one) for one in found], next_cursor=cursor)


@router.post("/keys", status_code=201)
async def create_key(
    plane: Plane, caller: Asker, body: models.KeyCreate, tenant: Tenant = None
) -> models.KeyCreated:
    """Make an API key. Its secret is in this answer and nowhere else."""
    home = await asyncio.to_thread(plane.accounts.tenant_for, caller, tenant)
    key, secret = await asyncio.to_thread(
        plane.accounts.create_key, caller, home, body.name, body.role, body.valid_hours
    )
    return models.KeyCreated(**views.key_view(key).model_dump(), secret=secret)


@router.post("/keys/{key}/rotate")
async def rotate_key(plane: Plane, caller: Asker, key: KeyId, body: models.KeyRotate) -> models.KeyCreated:
    """Give an API key another secret. The one that it has is good for some hours more."""
    rotated, secret = await asyncio.to_thread(plane.accounts.rotate_key, caller, key, body.overlap_hours)
    return models.KeyCreated(**views.key_view(rotated).model_dump(), secret=secret)


@router.delete("/keys/{key}", status_code=204)
async def delete_key(plane: Plane, caller: Asker, key: KeyId) -> None:
    """Revoke an API key at once."""
    await asyncio.to_thread(plane.accounts.delete_key, caller, key)


@router.get("/audit")
async def audit(plane: Plane, caller: Asker, page: Paging, tenant: Tenant = None) -> models.AuditList:
    """Who changed what, newest first: of the caller's tenant; operators see all unless they name one."""
    home = caller.tenant if tenant is None and not caller.is_operator else tenant
    if home is not None:
        home = await asyncio.to_thread(plane.accounts.tenant_for, caller, home)
    rows = await asyncio.to_thread(plane.accounts.audit_page, home, after_key(page, int), page.limit)
    items = [views.audit_view(one, caller) for one in rows]
    cursor = page.next_cursor(len(items), [items[-1].id] if items else None)
    return models.AuditList(items=items, next_cursor=cursor)
