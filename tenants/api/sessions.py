"""People and their browsers: log in, out, elsewhere; one's own password; an invitation that is accepted."""

import asyncio
from datetime import datetime
from typing import Annotated

from fastapi import Path, Request, Response
from pydantic import Field

from tenants.api import models, views
from tenants.api.context import Asker, Plane, at
from tenants.api.middleware import COOKIE, client_address, session_token
from tenants.api.models import RequestModel, ViewModel
from tenants.api.routers import api_router
from tenants.rules.errors import Unauthenticated
from tenants.rules.members import PASSWORD_SHAPE
from tenants.rules.model import Caller
from tenants.rules.permissions import Role
from tenants.usecases.accounts import SESSION_MS, Browser, Session

router = api_router("/v1", "accounts")
Secret = Annotated[str, Field(min_length=1, max_length=200, description="what stands behind the link's #")]


class PasswordChange(RequestModel):
    """POST /v1/session/password."""

    password: str = Field(max_length=1024, description="the password until now")
    new_password: str = Field(
        max_length=1024,
        description="10 to 256 characters",
        examples=["correct horse battery staple"],
        json_schema_extra={"pattern": PASSWORD_SHAPE},
    )


class InvitationLook(RequestModel):
    """POST /v1/invitation."""

    secret: Secret


class InvitationAccept(RequestModel):
    """POST /v1/invitation/accept."""

    secret: Secret
    password: str = Field(
        max_length=1024,
        description="the password to log in with: 10 to 256 characters",
        json_schema_extra={"pattern": PASSWORD_SHAPE},
    )


class InvitationShown(ViewModel):
    """What a link invites to."""

    user: str = Field(description="what one logs in with", examples=["ann@acme"])
    tenant: str
    role: Role
    expires_at: datetime


class SessionSummary(ViewModel):
    """One login."""

    id: str = Field(description="its id, to end it by", examples=["s0b7c1d2e3f405162"])
    created_at: datetime
    expires_at: datetime
    last_used_at: datetime | None
    address: str | None
    agent: str | None = Field(description="how the browser calls itself", examples=["Mozilla/5.0"])
    current: bool = Field(description="whether it is the one that asks", examples=[True])


class SessionList(ViewModel):
    """GET /v1/sessions, the newest first."""

    items: list[SessionSummary]


@router.post("/session", status_code=201)
async def log_in(
    request: Request, response: Response, plane: Plane, body: models.LoginRequest
) -> models.SessionView:
    """Log in: sets the session cookie and answers with the CSRF token."""
    async with plane.hashing.turn():
        session = await asyncio.to_thread(
            plane.accounts.log_in, body.user, body.password, browser_of(request)
        )
    return session_begun(request, response, session)


@router.get("/session")
async def session(request: Request, caller: Asker) -> models.SessionView:
    """The session of the cookie."""
    return views.session_view(caller, session_token_of(request, caller))


@router.delete("/session", status_code=204)
async def log_out(request: Request, response: Response, plane: Plane, caller: Asker) -> None:
    """End the session of the cookie."""
    token = session_token(request.headers)
    if caller.kind == "session" and token is not None:
        await asyncio.to_thread(plane.accounts.log_out, token)
    response.delete_cookie(COOKIE, httponly=True, samesite="lax")


@router.post("/session/password", status_code=204)
async def change_password(request: Request, plane: Plane, caller: Asker, body: PasswordChange) -> None:
    """Change one's own password. All other sessions end."""
    token = session_token_of(request, caller)
    async with plane.hashing.turn():
        await asyncio.to_thread(
            plane.members.change_password, caller, token, body.password, body.new_password
        )


@router.get("/sessions")
async def sessions(request: Request, plane: Plane, caller: Asker) -> SessionList:
    """Where the caller is logged in."""
    token = session_token_of(request, caller)
    own = plane.members.session_id(token)
    found = await asyncio.to_thread(plane.members.sessions, caller)
    items = [
        SessionSummary(
            id=one.id,
            created_at=at(one.created_at_ms),
            expires_at=at(one.expires_at_ms),
            last_used_at=None if one.last_used_at_ms is None else at(one.last_used_at_ms),
            address=one.address,
            agent=one.agent,
            current=one.id == own,
        )
        for one in found
    ]
    return SessionList(items=items)


@router.delete("/sessions", status_code=204)
async def end_other_sessions(request: Request, plane: Plane, caller: Asker) -> None:
    """Log out everywhere else."""
    await asyncio.to_thread(plane.members.end_others, caller, session_token_of(request, caller))


@router.delete("/sessions/{session}", status_code=204)
async def end_session(
    request: Request,
    plane: Plane,
    caller: Asker,
    session: Annotated[str, Path(max_length=64, description="the id of the session")],
) -> None:
    """Log out somewhere else."""
    session_token_of(request, caller)
    await asyncio.to_thread(plane.members.end_session, caller, session)


@router.post("/invitation")
async def look_at_invitation(request: Request, plane: Plane, body: InvitationLook) -> InvitationShown:
    """What a link invites to. It is good until it is accepted."""
    found = await asyncio.to_thread(plane.members.invited, body.secret, browser_of(request))
    return InvitationShown(
        user=found.user_name,
        tenant=found.tenant,
        role=Role(found.role),
        expires_at=at(found.expires_at_ms),
    )


@router.post("/invitation/accept", status_code=201)
async def accept_invitation(
    request: Request, response: Response, plane: Plane, body: InvitationAccept
) -> models.SessionView:
    """Become a member with a password of one's own, and be logged in. The link is used up."""
    async with plane.hashing.turn():
        session = await asyncio.to_thread(
            plane.members.accept, body.secret, body.password, browser_of(request)
        )
    return session_begun(request, response, session)


def session_begun(request: Request, response: Response, session: Session) -> models.SessionView:
    """Set the cookie of a session that begins."""
    response.set_cookie(
        COOKIE,
        session.token,
        max_age=SESSION_MS // 1000,
        httponly=True,
        samesite="lax",
        secure=request.url.scheme == "https",
    )
    return views.session_view(session.user, session.token)


def browser_of(request: Request) -> Browser:
    """Where a request comes from."""
    return Browser(client_address(request.scope), request.headers.get("user-agent", ""))


def session_token_of(request: Request, caller: Caller) -> str:
    """Of the caller's session. Raises: Unauthenticated."""
    token = session_token(request.headers)
    if caller.kind != "session" or token is None:
        raise Unauthenticated("this is for browsers: an API key has no session, see /v1/me")
    return token
