"""E-mail addresses that are told of alarms, and the links that their mails have (docs/alarms.md)."""

import asyncio
from datetime import datetime
from typing import Annotated

from fastapi import Path, Request, Response, status
from pydantic import Field

from tenants.api import views
from tenants.api.context import Asker, Plane, Tenant, at, home_or_all
from tenants.api.middleware import client_address
from tenants.api.models import RequestModel, ViewModel
from tenants.api.routers import api_router
from tenants.api.webhooks import DeliveryList, DeliveryView, delivery_view
from tenants.rules.mail_addresses import ADDRESS_CHARACTERS_MAX, ADDRESS_SHAPE, LONG_LOCAL_SHAPE
from tenants.rules.mails import AddressState, Purpose
from tenants.rules.model import Caller
from tenants.store.webhooks import OPERATORS
from tenants.usecases.mails import Email

router = api_router("/v1", "webhooks")
EmailId = Annotated[str, Path(max_length=16, description="the id of the address", examples=["e0a1b2c3d4e5f"])]
_ADDRESS = "where alarms are mailed to"
_ENABLED = "whether it is told; else what happens is never told to it, and what waits already waits on"


class EmailCreate(RequestModel):
    """POST /v1/emails."""

    address: str = Field(
        max_length=ADDRESS_CHARACTERS_MAX,
        description=_ADDRESS,
        examples=["ops@example.com"],
        json_schema_extra={"pattern": ADDRESS_SHAPE, "not": {"pattern": LONG_LOCAL_SHAPE}},
    )


class EmailChange(RequestModel):
    """PATCH /v1/emails/{email}."""

    enabled: bool = Field(description=_ENABLED, examples=[False])


class EmailView(ViewModel):
    """An e-mail address."""

    id: str
    address: str = Field(description=_ADDRESS, examples=["ops@example.com"])
    tenant: str | None = Field(description="whose alarms it is told of; null: everybody's and operators' own")
    state: AddressState = Field(
        description="`asked`: it was mailed the question whether it wants them, and nothing else is mailed; "
        "`confirmed`: it is told; `unanswered`: nobody opened the link within a day",
        examples=["confirmed"],
    )
    enabled: bool = Field(description=_ENABLED, examples=[True])
    created_at: datetime
    created_by: str = Field(description="who added it", examples=["session:ann"])
    trouble: str = Field(
        description="why the mail that was tried last was not taken; empty: it was", examples=[""]
    )
    trouble_at: datetime | None = Field(description="when that was; null: it was taken")


class EmailList(ViewModel):
    """GET /v1/emails, by address."""

    sender: str | None = Field(
        description="whom mails are from; null: operators have named no server, and nothing is mailed",
        examples=["portico@example.com"],
    )
    items: list[EmailView]


class LinkFollow(RequestModel):
    """POST /v1/email-links."""

    secret: str = Field(min_length=1, max_length=200, description="what stands behind the link's #/mail/")


class LinkFollowed(ViewModel):
    """What a link has done."""

    address: str = Field(description="whose", examples=["ops@example.com"])
    tenant: str | None = Field(description="whose alarms; null: everybody's and operators' own")
    done: Purpose = Field(
        description="`confirm`: alarms are mailed to it; `remove`: nothing is any more", examples=["confirm"]
    )


@router.get("/emails")
async def emails(plane: Plane, caller: Asker, tenant: Tenant = None) -> EmailList:
    """A tenant's addresses. Operators: with `?tenant=*` their own, which are told of everybody's alarms."""
    home = await home_or_all(plane, caller, tenant)
    found = await asyncio.to_thread(plane.mails.of_tenant, OPERATORS if home is None else home)
    settings = plane.mails.settings
    return EmailList(
        sender=None if settings is None else settings.sender, items=[_view(one, caller) for one in found]
    )


@router.post("/emails", status_code=status.HTTP_201_CREATED)
async def add_email(plane: Plane, caller: Asker, body: EmailCreate, tenant: Tenant = None) -> EmailView:
    """Ask an address whether it wants alarms: it is mailed a link, and nothing else before it was opened."""
    home = await home_or_all(plane, caller, tenant)
    scope = OPERATORS if home is None else home
    return _view(await asyncio.to_thread(plane.mails.add, caller, scope, body.address), caller)


@router.patch("/emails/{email}")
async def change_email(plane: Plane, caller: Asker, email: EmailId, body: EmailChange) -> EmailView:
    """Disable an address that was confirmed, or enable it again: nobody is asked anew."""
    changed = await asyncio.to_thread(plane.mails.switch, caller, email, enabled=body.enabled)
    return _view(changed, caller)


@router.delete("/emails/{email}", status_code=status.HTTP_204_NO_CONTENT)
async def remove_email(plane: Plane, caller: Asker, email: EmailId) -> Response:
    """Have it mailed no more; what waits is not sent."""
    await asyncio.to_thread(plane.mails.remove, caller, email)
    return Response(status_code=status.HTTP_204_NO_CONTENT)


@router.post("/emails/{email}/test", status_code=status.HTTP_202_ACCEPTED)
async def test_email(plane: Plane, caller: Asker, email: EmailId) -> DeliveryView:
    """Send a mail that says it is a test; the log tells how it went."""
    return delivery_view(await asyncio.to_thread(plane.mails.test, caller, email))


@router.get("/emails/{email}/deliveries")
async def email_deliveries(plane: Plane, caller: Asker, email: EmailId) -> DeliveryList:
    """What waits, and the last that was sent or given up; `http_status` has the mail server's code."""
    found = await asyncio.to_thread(plane.mails.log, caller, email)
    return DeliveryList(items=[delivery_view(one) for one in found])


@router.post("/email-links")
async def follow_email_link(request: Request, plane: Plane, body: LinkFollow) -> LinkFollowed:
    """Do what a mail's link is for: confirm its address, or have it mailed nothing more."""
    done = await asyncio.to_thread(plane.mails.follow, body.secret, client_address(request.scope))
    return LinkFollowed(address=done.address, tenant=done.tenant or None, done=done.purpose)


def _view(one: Email, caller: Caller) -> EmailView:
    trouble = one.trouble
    return EmailView(
        id=one.row.id,
        address=one.row.url,
        tenant=one.row.tenant or None,
        state=one.state,
        enabled=one.row.enabled,
        created_at=at(one.row.created_at_ms),
        created_by=views.actor_for(caller, one.row.created_by),
        trouble="" if trouble is None else trouble.error,
        trouble_at=None if trouble is None or trouble.tried_at_ms is None else at(trouble.tried_at_ms),
    )
