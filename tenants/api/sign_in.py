"""Signing in by an identity provider (OpenID Connect), and which of its groups are let in where."""

import asyncio
from datetime import datetime
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Path, Request, Response
from pydantic import Field

from tenants.api import models
from tenants.api.context import Asker, Plane, at
from tenants.api.middleware import session_token
from tenants.api.models import RequestModel, ViewModel
from tenants.api.routers import api_router
from tenants.api.sessions import browser_of, session_begun, session_token_of
from tenants.rules.errors import Unavailable
from tenants.rules.oidc import ATTEMPT_MS_MAX
from tenants.rules.oidc_settings import GROUP_CHARS_MAX, GROUP_SHAPE
from tenants.rules.permissions import Role
from tenants.store.identities import GroupRole
from tenants.usecases.sign_in import Answer, SignIn

router = api_router("/v1", "accounts")
_COOKIE = "portico_sign_in"
_GROUP = Field(
    min_length=1,
    max_length=GROUP_CHARS_MAX,
    description="as the provider tells it",
    examples=["kafka-admins"],
)


_GIVEN_GROUP = Annotated[str, Field(json_schema_extra={"pattern": GROUP_SHAPE})]


class SignInOffer(ViewModel):
    """Whether people sign in by an identity provider."""

    provider: str | None = Field(
        description="the host of the identity provider; null: people log in with passwords alone",
        examples=["id.example.com"],
    )
    end_session_url: str | None = Field(
        description="where one ends the session at the provider too; null: not told",
        examples=["https://id.example.com/logout?client_id=portico"],
    )
    trouble: str | None = Field(
        description="why the provider cannot be used now; null: it can", examples=[None]
    )


class SignInBegun(ViewModel):
    """A sign-in on its way: the cookie that belongs to it was set."""

    url: str = Field(
        description="where the browser goes now; it comes back to the console's page with `code` and `state`",
        examples=["https://id.example.com/authorize?response_type=code&client_id=portico"],
    )


class SignInAnswer(RequestModel):
    """What the browser brought back from the provider."""

    state: str = Field(max_length=200, description="as in the address that the browser came back to")
    code: str | None = Field(default=None, max_length=4096, description="likewise", examples=["SplxlOBeZQQY"])
    error: str | None = Field(
        default=None, max_length=200, description="likewise", examples=["access_denied"]
    )
    iss: str | None = Field(
        default=None, max_length=2048, description="likewise (RFC 9207)", examples=["https://id.example.com"]
    )


class SignInLink(ViewModel):
    """An account of the identity provider that the caller signs in with."""

    issuer: str = Field(description="the provider", examples=["https://id.example.com"])
    linked_at: datetime = Field(description="when it was linked, or the first sign-in was")


class SignInLinkList(ViewModel):
    """GET /v1/session/links."""

    items: list[SignInLink]


class GroupRoleCreate(RequestModel):
    """POST /v1/group-roles."""

    group: _GIVEN_GROUP = _GROUP
    tenant: str = Field(
        min_length=1, max_length=64, description="where its people are members", examples=["acme"]
    )
    role: Role = Field(strict=False, description="as what")


class GroupRoleView(ViewModel):
    """A group of the identity provider that is let in."""

    id: str = Field(description="its id, to take it away by", examples=["g0b7c1d2e3f40"])
    group: str = _GROUP
    tenant: str
    role: Role
    created_by: str = Field(description="who let it in", examples=["session:admin"])
    created_at: datetime


class GroupRoleList(ViewModel):
    """GET /v1/group-roles, by group."""

    items: list[GroupRoleView]


@router.get("/sign-in")
async def sign_in_offer(plane: Plane) -> SignInOffer:
    """Whether people sign in by an identity provider. Asked without credentials, by the login page."""
    issuer = plane.sign_in.issuer
    if issuer is None:
        return SignInOffer(provider=None, end_session_url=None, trouble=None)
    host = urlsplit(issuer).netloc
    try:
        url = await plane.sign_in.end_url()
    except Unavailable as fault:
        return SignInOffer(provider=host, end_session_url=None, trouble=fault.detail)
    return SignInOffer(provider=host, end_session_url=url, trouble=None)


@router.post("/sign-in", status_code=201)
async def begin_sign_in(response: Response, plane: Plane) -> SignInBegun:
    """Begin to sign in by the identity provider: sets a cookie, and says where the browser goes."""
    begun = await plane.sign_in.begin()
    response.set_cookie(
        _cookie_of(plane.sign_in),
        begun.cookie,
        max_age=ATTEMPT_MS_MAX // 1000,
        httponly=True,
        samesite="strict",
        secure=plane.sign_in.is_secure,
    )
    return SignInBegun(url=begun.url)


@router.post("/sign-in/answer", status_code=201)
async def finish_sign_in(
    request: Request, response: Response, plane: Plane, body: SignInAnswer
) -> models.SessionView:
    """Be logged in by what the provider answered, in the browser that began: sets the session cookie.

    The session that the browser had ends."""
    sign_in, browser = plane.sign_in, browser_of(request)
    person = await sign_in.person(_answer(request, sign_in, body), browser)
    old = session_token(request.headers)
    session = await asyncio.to_thread(sign_in.enter, person, browser, old)
    response.delete_cookie(_cookie_of(sign_in), httponly=True, samesite="strict", secure=sign_in.is_secure)
    return session_begun(request, response, session)


@router.get("/session/links")
async def sign_in_links(request: Request, plane: Plane, caller: Asker) -> SignInLinkList:
    """With which accounts of the identity provider the caller signs in."""
    session_token_of(request, caller)
    found = await asyncio.to_thread(plane.sign_in.links, caller)
    items = [SignInLink(issuer=one.issuer, linked_at=at(one.linked_at_ms)) for one in found]
    return SignInLinkList(items=items)


@router.post("/session/links", status_code=204)
async def link_sign_in(request: Request, plane: Plane, caller: Asker, body: SignInAnswer) -> None:
    """Sign in with this account of the provider from now on, as who the caller is; the role stays."""
    session_token_of(request, caller)
    person = await plane.sign_in.person(_answer(request, plane.sign_in, body), browser_of(request))
    await asyncio.to_thread(plane.sign_in.link, caller, person)


@router.delete("/session/links", status_code=204)
async def unlink_sign_in(request: Request, plane: Plane, caller: Asker) -> None:
    """Log in by password alone again."""
    session_token_of(request, caller)
    await asyncio.to_thread(plane.sign_in.unlink, caller)


@router.get("/group-roles")
async def group_roles(plane: Plane) -> GroupRoleList:
    """Which groups of the identity provider are let in, where, and as what."""
    found = await asyncio.to_thread(plane.sign_in.group_roles)
    return GroupRoleList(items=[_view(one) for one in found])


@router.post("/group-roles", status_code=201)
async def create_group_role(plane: Plane, caller: Asker, body: GroupRoleCreate) -> GroupRoleView:
    """Let a group in. Who is of several groups gets the strongest role in one tenant."""
    made = await asyncio.to_thread(plane.sign_in.add_group_role, caller, body.group, body.tenant, body.role)
    return _view(made)


@router.delete("/group-roles/{group_role}", status_code=204)
async def delete_group_role(
    plane: Plane,
    caller: Asker,
    group_role: Annotated[str, Path(max_length=64, description="the id of the group's role")],
) -> None:
    """Let a group in no more: who is in by it alone is logged out at once."""
    await asyncio.to_thread(plane.sign_in.remove_group_role, caller, group_role)


def _cookie_of(sign_in: SignIn) -> str:
    """By https under a name that no other host of the domain can set (RFC 6265bis, section 4.1.3.2)."""
    return f"__Host-{_COOKIE}" if sign_in.is_secure else _COOKIE


def _answer(request: Request, sign_in: SignIn, body: SignInAnswer) -> Answer:
    cookie = request.cookies.get(_cookie_of(sign_in))
    return Answer(cookie, body.state, body.code, body.error, body.iss)


def _view(one: GroupRole) -> GroupRoleView:
    return GroupRoleView(
        id=one.id,
        group=one.group_name,
        tenant=one.tenant,
        role=Role(one.role),
        created_by=one.created_by,
        created_at=at(one.created_at_ms),
    )
