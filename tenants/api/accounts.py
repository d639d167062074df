"""Session, tenants, keys, passwords, audit log."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from tenants.api import models, views
from tenants.api.context import Asker, Operator, Paging, Plane, Tenant, after_key, at
from tenants.api.middleware import COOKIE, client_address, session_token
from tenants.rules.errors import Unauthenticated
from tenants.usecases.accounts import SESSION_MS

router = APIRouter(prefix="/v1", tags=["accounts"])


@router.post("/session", status_code=201)
async def log_in(
    request: Request, response: Response, plane: Plane, body: models.LoginRequest
) -> models.SessionView:
    """Log in: sets the session cookie and answers with the CSRF token."""
    async with plane.hashing.turn():
        session = await asyncio.to_thread(
            plane.accounts.log_in, body.user, body.password, client_address(request.scope)
        )
    response.set_cookie(
        COOKIE,
        session.token,
        max_age=SESSION_MS // 1000,
        httponly=True,
        samesite="lax",
        secure=request.url.scheme == "https",
    )
    return views.session_view(session.user, session.token)


@router.get("/session")
async def session(request: Request, caller: Asker) -> models.SessionView:
    """The session of the cookie."""
    token = session_token(request.headers)
    if caller.kind != "session" or token is None:
        raise Unauthenticated("this is for browsers: an API key has no session, see /v1/me")
    return views.session_view(caller, token)


@router.delete("/session", status_code=204)
async def log_out(request: Request, response: Response, plane: Plane, caller: Asker) -> None:
    """End the session of the cookie."""
    token = session_token(request.headers)
    if caller.kind == "session" and token is not None:
        await asyncio.to_thread(plane.accounts.log_out, token)
    response.delete_cookie(COOKIE, httponly=True, samesite="lax")


@router.get("/me")
async def me(caller: Asker) -> models.Me:
    """Who the caller is."""
    return models.Me(
        kind=caller.kind,
        name=caller.name,
        role=caller.role,
        tenant=caller.tenant,
        address=caller.address,
    )


@router.get("/tenants")
async def tenants(plane: Plane, _operator: Operator, page: Paging) -> models.TenantList:
    """All tenants, by name."""
    rows = await asyncio.to_thread(plane.accounts.tenants, after_key(page, str), page.limit)
    items = [
        models.TenantView(name=name, instances=count, created_at=at(created_at_ms))
        for name, count, created_at_ms in rows
    ]
    cursor = page.next_cursor(len(items), [items[-1].name] if items else None)
    return models.TenantList(items=items, next_cursor=cursor)


@router.post("/tenants", status_code=201)
async def create_tenant(plane: Plane, operator: Operator, body: models.TenantCreate) -> models.TenantView:
    """Add a tenant."""
    name, created_at_ms = await asyncio.to_thread(plane.accounts.create_tenant, operator, body.name)
    return models.TenantView(name=name, instances=0, created_at=at(created_at_ms))


@router.get("/keys")
async def keys(plane: Plane, caller: Asker, page: Paging, tenant: Tenant = None) -> models.KeyList:
    """The API keys of a tenant, without their secrets."""
    home = await asyncio.to_thread(plane.accounts.tenant_for, caller, tenant)
    found = await asyncio.to_thread(plane.accounts.keys, home, after_key(page, str), page.limit)
    cursor = page.next_cursor(len(found), [found[-1].id] if found else None)
    return models.KeyList(items=[views.key_view(one) for one in found], next_cursor=cursor)


@router.post("/keys", status_code=201)
async def create_key(
    plane: Plane, caller: Asker, body: models.KeyCreate, tenant: Tenant = None
) -> models.KeyCreated:
    """Make an API key. Its secret is in this answer and nowhere else."""
    home = await asyncio.to_thread(plane.accounts.tenant_for, caller, tenant)
    key, secret = await asyncio.to_thread(plane.accounts.create_key, caller, home, body.name, body.role)
    return models.KeyCreated(**views.key_view(key).model_dump(), secret=secret)


@router.delete("/keys/{key}", status_code=204)
async def delete_key(
    plane: Plane, caller: Asker, key: Annotated[str, Path(max_length=64, description="the id of the key")]
) -> None:
    """Revoke an API key at once."""
    await asyncio.to_thread(plane.accounts.delete_key, caller, key)


@router.post("/users/{user}/reset-password")
async def reset_password(
    plane: Plane,
    operator: Operator,
    user: Annotated[str, Path(max_length=128, description="the name of the user")],
) -> models.PasswordReset:
    """Give a user a new random password, shown once; all sessions of the user end."""
    async with plane.hashing.turn():
        password = await asyncio.to_thread(
            plane.accounts.reset_password, operator.actor, user, operator.address
        )
    return models.PasswordReset(user=user, password=password)


@router.get("/audit")
async def audit(plane: Plane, operator: Operator, page: Paging, tenant: Tenant = None) -> models.AuditList:
    """Who changed what, newest first; of all tenants unless one is named."""
    if tenant is not None:
        await asyncio.to_thread(plane.accounts.tenant_for, operator, tenant)
    rows = await asyncio.to_thread(plane.accounts.audit_page, tenant, after_key(page, int), page.limit)
    items = [views.audit_view(one) for one in rows]
    cursor = page.next_cursor(len(items), [items[-1].id] if items else None)
    return models.AuditList(items=items, next_cursor=cursor)
