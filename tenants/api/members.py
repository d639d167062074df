"""Members of a tenant, and invitations."""

import asyncio
from datetime import datetime
from typing import Annotated

from fastapi import Path
from pydantic import Field

from tenants.api import models, views
from tenants.api.context import Asker, Paging, Plane, Tenant, after_key, at
from tenants.api.models import RequestModel, ViewModel
from tenants.api.routers import api_router
from tenants.api.shapes import Name
from tenants.rules.members import INVITATION_HOURS, INVITATION_HOURS_MAX
from tenants.rules.model import Caller
from tenants.rules.permissions import Role
from tenants.store.members import Invitation, Member

router = api_router("/v1", "accounts")
MemberName = Annotated[
    str,
    Path(max_length=160, description="what the member logs in with, or the name alone", examples=["ann"]),
]
_USER = Field(description="what one logs in with", examples=["ann@acme"])


class TenantMember(ViewModel):
    """A person of a tenant."""

    user: str = _USER
    tenant: str
    role: Role
    created_at: datetime
    last_login_at: datetime | None = Field(description="when the member logged in last; null: never")
    by_groups: bool = Field(
        description="whether the groups of the identity provider say the role, and no password is taken",
        examples=[False],
    )


class TenantMemberList(ViewModel):
    """GET /v1/members, by name."""

    items: list[TenantMember]
    next_cursor: str | None = None


class MemberChange(RequestModel):
    """PATCH /v1/members/{member}."""

    role: Role = Field(strict=False)


class InvitationCreate(RequestModel):
    """POST /v1/invitations."""

    name: Name = Field(description="letters, digits, '.', '_' and '-'", examples=["ann"])
    role: Role = Field(strict=False, default=Role.DEVELOPER)
    valid_hours: int = Field(
        default=INVITATION_HOURS, ge=1, le=INVITATION_HOURS_MAX, description="how long the link is good"
    )


class InvitationView(ViewModel):
    """A member to be, without the link."""

    id: str = Field(description="its id, to withdraw it by", examples=["v0b7c1d2e3f40"])
    user: str = _USER
    tenant: str
    role: Role
    invited_by: str = Field(description="who has invited", examples=["session:eve@acme"])
    created_at: datetime
    expires_at: datetime


class InvitationCreated(InvitationView):
    """A new invitation: the only time that its secret is shown."""

    secret: str = Field(
        description="the link is CONSOLE/#/invitation/SECRET; it is shown this once", examples=["Jq0w"]
    )


class InvitationList(ViewModel):
    """GET /v1/invitations, by name."""

    items: list[InvitationView]


@router.get("/members")
async def members(plane: Plane, caller: Asker, page: Paging, tenant: Tenant = None) -> TenantMemberList:
    """The people of a tenant."""
    home = await asyncio.to_thread(plane.accounts.tenant_for, caller, tenant)
    found = await asyncio.to_thread(plane.members.page, caller, home, after_key(page, str), page.limit)
    cursor = page.next_cursor(len(found), [found[-1].name] if found else None)
    return TenantMemberList(items=[_member(one) for one in found], next_cursor=cursor)


@router.patch("/members/{member}")
async def change_member(
    plane: Plane, caller: Asker, member: MemberName, body: MemberChange, tenant: Tenant = None
) -> TenantMember:
    """Give a member another role, from the next request on."""
    home = await asyncio.to_thread(plane.accounts.tenant_for, caller, tenant)
    return _member(await asyncio.to_thread(plane.members.set_role, caller, home, member, body.role))


@router.delete("/members/{member}", status_code=204)
async def remove_member(plane: Plane, caller: Asker, member: MemberName, tenant: Tenant = None) -> None:
    """Remove a member at once. Keys that the member has made are the tenant's, and stay."""
    home = await asyncio.to_thread(plane.accounts.tenant_for, caller, tenant)
    await asyncio.to_thread(plane.members.remove, caller, home, member)


@router.post("/members/{member}/reset-password")
async def reset_password(
    plane: Plane, caller: Asker, member: MemberName, tenant: Tenant = None
) -> models.PasswordReset:
    """Give a member a new random password, shown once; all sessions of the member end."""
    home = await asyncio.to_thread(plane.accounts.tenant_for, caller, tenant)
    async with plane.hashing.turn():
        user, password = await asyncio.to_thread(plane.members.reset_password, caller, home, member)
    return models.PasswordReset(user=user, password=password)


@router.get("/invitations")
async def invitations(plane: Plane, caller: Asker, tenant: Tenant = None) -> InvitationList:
    """Invitations that nobody has accepted yet."""
    home = await asyncio.to_thread(plane.accounts.tenant_for, caller, tenant)
    found = await asyncio.to_thread(plane.members.invitations, caller, home)
    return InvitationList(items=[_invitation(caller, one) for one in found])


@router.post("/invitations", status_code=201)
async def invite(
    plane: Plane, caller: Asker, body: InvitationCreate, tenant: Tenant = None
) -> InvitationCreated:
    """Invite somebody by a link that is good once. An invitation of the same name before ends."""
    home = await asyncio.to_thread(plane.accounts.tenant_for, caller, tenant)
    made = await asyncio.to_thread(plane.members.invite, caller, home, body.name, body.role, body.valid_hours)
    return InvitationCreated(**_invitation(caller, made.invitation).model_dump(), secret=made.secret)


@router.delete("/invitations/{invitation}", status_code=204)
async def withdraw_invitation(
    plane: Plane,
    caller: Asker,
    invitation: Annotated[str, Path(max_length=64, description="the id of the invitation")],
) -> None:
    """Withdraw an invitation: its link lets nobody in any more."""
    await asyncio.to_thread(plane.members.withdraw, caller, invitation)


def _member(one: Member) -> TenantMember:
    return TenantMember(
        user=one.name,
        tenant=one.tenant,
        role=Role(one.role),
        created_at=at(one.created_at_ms),
        last_login_at=None if one.last_login_at_ms is None else at(one.last_login_at_ms),
        by_groups=one.is_managed,
    )


def _invitation(caller: Caller, one: Invitation) -> InvitationView:
    return InvitationView(
        id=one.id,
        user=one.user_name,
        tenant=one.tenant,
        role=Role(one.role),
        invited_by=views.actor_for(caller, one.invited_by),
        created_at=at(one.created_at_ms),
        expires_at=at(one.expires_at_ms),
    )
